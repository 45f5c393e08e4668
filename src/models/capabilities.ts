/** What models can do, as far as their entries say. */

/** Capabilities that a model can have. `CHOICES`: its upstream answers `n` above 1 in one request. */
export const CAPABILITIES = [
  'STREAMING',
  'TOOLS',
  'VISION',
  'STRUCTURED_OUTPUTS',
  'REASONING',
  'AUDIO_INPUT',
  'FILE_INPUT',
  'LOGPROBS',
  'TIMESTAMPS',
  'DIARIZATION',
  'REFERENCES',
  'CHOICES',
] as const

/** One of {@link CAPABILITIES}. */
export type Capability = (typeof CAPABILITIES)[number]

/** `undefined` where the entry does not say: then the provider decides. */
interface Able {
  readonly capabilities: ReadonlySet<Capability> | undefined
}

/** Decision: an image model that does not say that it edits images does not, because most models make them from words alone. */
const NEVER_ASSUMED: ReadonlySet<Capability> = new Set(['REFERENCES'])

/** Whether the gateway refuses what needs this capability. */
export function lacks({ capabilities }: Able, capability: Capability): boolean {
  return capabilities ? !capabilities.has(capability) : NEVER_ASSUMED.has(capability)
}

/** The reason of a refusal: the second half of a sentence about a model. */
export function lackOf(capability: Capability): string {
  return `it lacks the capability ${capability}, which its setting "capabilities" does not list`
}
