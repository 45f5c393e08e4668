/** Sets up a provider of speech or transcription on a real host, and calls it as the gateway does. */
import { createConsola } from 'consola'
import { SpeechAnswer } from '../../src/endpoints/speech/endpoint.ts'
import {
  isDone,
  TranscriptAnswer,
  type DonePart,
} from '../../src/endpoints/transcription/endpoint.ts'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import type { Model } from '../../src/models/catalog.ts'
import type { Provider, ProviderPlugin, SpeechInput, TranscriptionInput } from '../../src/plugin.ts'
import { createHost } from '../../src/upstream/host.ts'
import { partsOf } from '../_parts.ts'
import { wav } from '../endpoints/audio/_sounds.ts'

/** A plugin, set up. The test has to close it. */
export interface Setup extends AsyncDisposable {
  readonly provider: Provider
  /** The sound as the client gets it. */
  speak(input?: Partial<SpeechInput>, how?: RequestOptions): Promise<Buffer>
  /** The last part of the transcript, and the deltas before it. */
  hear(input?: Partial<TranscriptionInput>, how?: RequestOptions): Promise<TranscriptOutcome>
}

export interface RequestOptions {
  readonly model?: string
  readonly options?: Record<string, unknown>
  readonly signal?: AbortSignal
}

export interface TranscriptOutcome {
  readonly done: DonePart
  readonly deltas: readonly string[]
}

/** Two seconds. */
export const FILE = { bytes: wav(2), mediaType: 'audio/wav', filename: 'audio.wav' }

export async function setUp(plugin: ProviderPlugin, options: unknown): Promise<Setup> {
  const log = createConsola({ level: -999 })
  const ms = 10_000
  const settings = { timeoutMs: ms, firstPartTimeoutMs: ms, idleTimeoutMs: ms, connections: 8 }
  const { host, close } = createHost('test', settings, log)
  const provider = await plugin.setup(await valid(plugin.options, options), host)
  const toRequest = async <In>(
    input: In,
    { model = 'm', options: own = {}, signal }: RequestOptions,
  ) => ({
    input,
    model,
    options: (plugin.deploymentOptions
      ? await valid(plugin.deploymentOptions, own)
      : own) as Record<string, unknown>,
    requestId: 'req_1',
    signal: signal ?? new AbortController().signal,
    log,
  })
  return {
    provider,
    async speak(given = {}, how = {}) {
      const input: SpeechInput = { input: 'Hi.', voice: 'alloy', response_format: 'mp3', ...given }
      const sound = await provider.speech!(await toRequest(input, how))
      const parts = await partsOf(new SpeechAnswer(input), sound)
      return Buffer.concat(parts.map(({ bytes }) => bytes))
    },
    async hear(given = {}, how = {}) {
      const input: TranscriptionInput = { file: FILE, response_format: 'json', ...given }
      const answer = await provider.transcribe!(await toRequest(input, how))
      const asked = { model: 'm', include: ['logprobs'] as const, ...input }
      const parts = await partsOf(new TranscriptAnswer(asked, { prices: {} } as Model), answer)
      const deltas = parts.flatMap((part) => (part.type === 'delta' ? part.text : []))
      return { done: parts.find(isDone)!, deltas }
    },
    async [Symbol.asyncDispose]() {
      await provider.close?.()
      await close()
    },
  }
}

/** The failure that a promise was rejected with. */
export async function failureOf(promise: Promise<unknown>): Promise<UpstreamFailure> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (UpstreamFailure.is(error)) return error
  throw new Error(`expected a failure, got ${String(error)}`)
}

async function valid(schema: ProviderPlugin['options'], value: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(value)
  if (result.issues) throw new Error(result.issues.map(({ message }) => message).join('; '))
  return result.value
}

/** The parts of a sent form; files as their size. */
export function formIn(contentType: string | undefined, body: Buffer): Record<string, string> {
  const boundary = /boundary=(.+)$/.exec(contentType ?? '')![1]!
  const fields: Record<string, string> = {}
  for (const part of body.toString('latin1').split(`--${boundary}`).slice(1, -1)) {
    const [head, ...rest] = part.slice(2).split('\r\n\r\n')
    const value = rest.join('\r\n\r\n').slice(0, -2)
    const name = /name="([^"]*)"/.exec(head!)![1]!
    const filename = /filename="([^"]*)"/.exec(head!)?.[1]
    const type = /content-type: (.+)$/.exec(head!)?.[1]
    fields[name] = filename === undefined ? value : `${filename} ${type} ${value.length}`
  }
  return fields
}
