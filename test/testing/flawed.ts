/** A correct provider for a vendor in OpenAI's format, with configurable mistakes. */
import * as v from 'valibot'
import {
  defineProvider,
  type ChatInput,
  type ChatChunk,
  type Flow,
  type Host,
  type ProviderPlugin,
  type UpstreamResponse,
} from '../../src/plugin.ts'

export interface Flaws {
  /** Address that is used in place of the configured one. */
  readonly address?: string
  readonly signal?: (signal: AbortSignal) => AbortSignal
  readonly body?: (input: ChatInput, model: string) => object
  /** Replaces `host.sse`. */
  readonly read?: (body: Flow<Uint8Array>, host: Host) => AsyncIterable<any>
  /** Changes each chunk. */
  readonly chunk?: (chunk: any) => readonly ChatChunk[]
  /** Changes the stream of chunks. */
  readonly chunks?: (chunks: AsyncIterable<ChatChunk>) => AsyncIterable<ChatChunk>
  /** Replaces the error for an error status; undefined ignores the status. */
  readonly refuse?: (response: UpstreamResponse, host: Host, apiKey: string) => Promise<unknown>
  /** Replaces the error for an unreachable vendor. */
  readonly unreachable?: () => unknown
  /** Number of attempts after error statuses. */
  readonly attempts?: number
}

export function flawed(flaws: Flaws = {}): ProviderPlugin {
  const {
    address,
    attempts = 1,
    body = toBody,
    chunk = (one) => [one],
    chunks = (all) => all,
  } = flaws
  const {
    read = (bytes, host) => host.sse(bytes),
    refuse = refusal,
    signal: own = (one) => one,
  } = flaws
  const { unreachable } = flaws
  return defineProvider({
    name: 'flawed',
    options: v.strictObject({ baseURL: v.string(), apiKey: v.string() }),
    setup({ baseURL, apiKey }, host) {
      const url = `${address ?? baseURL}/chat/completions`
      const headers = { authorization: `Bearer ${apiKey}` }
      return {
        async chat({ input, model, signal }) {
          const request = { url, headers, body: JSON.stringify(body(input, model)), stream: true }
          let response: UpstreamResponse
          for (let attempt = 1; ; attempt++) {
            response = await host.request({ ...request, signal: own(signal) }).catch((error) => {
              throw unreachable?.() ?? error
            })
            if (response.status === 200) break
            const error = await refuse(response, host, apiKey)
            if (error && attempt >= attempts) throw error
            if (!error) break
          }
          if (response.headers['content-type'] === 'application/json') {
            const answer = parsed(await response.text(), host)
            if (!answer?.choices) throw host.fail('upstream_error', 'That is no answer.')
            return answer
          }
          return chunks(each(read(response.body, host), chunk))
        },
      }
    },
  }) as ProviderPlugin
}

function toBody(input: ChatInput, model: string): object {
  return { ...input, model }
}

async function* each(payloads: AsyncIterable<any>, change: (chunk: any) => readonly ChatChunk[]) {
  for await (const payload of payloads) yield* change(payload)
}

async function refusal(response: UpstreamResponse, host: Host): Promise<unknown> {
  return host.failure(response, { message: 'The model provider said no.' })
}

function parsed(text: string, host: Host): any {
  try {
    return JSON.parse(text)
  } catch {
    throw host.fail('upstream_error', 'That is no JSON.')
  }
}
