/** What models can do, as far as their entries say. */

/**
 * Capabilities that a model can have. `CHOICES`: its upstream answers `n` above 1 in one request. `COMPLETIONS`: it goes on with
 * a text.
 */
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
  'COMPLETIONS',
] as const

/** One of {@link CAPABILITIES}. */
export type Capability = (typeof CAPABILITIES)[number]

/** `undefined` where the entry does not say: then the provider decides. */
interface Able {
  readonly capabilities: ReadonlySet<Capability> | undefined
  /** What the price list says of the model. */
  readonly listed?: { readonly capabilities?: readonly string[] | undefined }
}

/** Decision: an image model that does not say that it edits images does not, because most models make them from words alone;
 * and a chat model that does not say that it goes on with a text does not. The price list may say it. */
const NEVER_ASSUMED: ReadonlySet<Capability> = new Set(['REFERENCES', 'COMPLETIONS'])

/** Whether the gateway refuses what needs this capability. */
export function lacks({ capabilities, listed }: Able, capability: Capability): boolean {
  if (capabilities) return !capabilities.has(capability)
  return NEVER_ASSUMED.has(capability) && !listed?.capabilities?.includes(capability)
}

/** The reason of a refusal: the second half of a sentence about a model. */
export function lackOf(capability: Capability): string {
  return `it lacks the capability ${capability}, which its setting "capabilities" does not list`
}
