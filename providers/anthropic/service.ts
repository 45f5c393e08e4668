/** The services that have Claude: Anthropic's own API, and Vertex AI, which takes the same bodies but for a few members. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import { vertexAddress, type VertexOption } from '../shared/cloud/google.ts'
import { withFetchedFiles } from '../shared/files.ts'
import { joinUrl, mergeHeaders, parseAnswer, notAnAnswer, send } from '../shared/http.ts'
import type { Traits } from './models.ts'
import { httpFailure } from './errors.ts'

/** Where requests go, and what they look like there. */
export interface Service {
  readonly headers: Readonly<Record<string, string>>
  /** What models cannot do there, whatever they can elsewhere. */
  readonly lacks: Partial<Traits>
  urlOf(model: string, stream: boolean): string
  /** The messages in a form that the service takes. */
  prepare(messages: ChatInput['messages'], signal: AbortSignal): Promise<ChatInput['messages']>
  toBody(body: Readonly<Record<string, unknown>>): object
}

type Headers = Readonly<Record<string, string>>

const COMMON = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
}

const OWN_API = 'https://api.anthropic.com/v1'

/** Anthropic's own API, or another with its addresses. @param headers win over the others */
export function messagesApi(apiKey: string, headers: Headers, base = OWN_API): Service {
  const url = joinUrl(base, 'messages')
  const own = { ...COMMON, 'anthropic-version': '2023-06-01', 'x-api-key': apiKey }
  return {
    headers: mergeHeaders(own, headers),
    lacks: {},
    urlOf: () => url,
    prepare: async (messages) => messages,
    toBody: (body) => body,
  }
}

/** Claude on Vertex AI: no structured output, no system turns, no addresses of files, no service tiers. */
export function vertexAi(
  vertex: VertexOption,
  headers: Headers,
  host: Host,
  base?: string,
): Service {
  const models = `${vertexAddress(vertex, base)}/publishers/anthropic/models`
  return {
    headers: mergeHeaders(COMMON, headers),
    lacks: { schemas: false, systemTurns: false },
    urlOf(model, stream) {
      return `${models}/${encodeURI(model)}:${stream ? 'streamRawPredict' : 'rawPredict'}`
    },
    prepare: async (messages, signal) =>
      withFetchedFiles(messages, { host, signal, parts: ['image_url', 'file'] }),
    toBody({ model: _model, service_tier: _tier, ...body }) {
      return { anthropic_version: 'vertex-2023-10-16', ...body }
    },
  }
}

/** Members of a request that the vendor counts. */
const COUNTED = [
  'model',
  'system',
  'messages',
  'tools',
  'tool_choice',
  'thinking',
  'output_config',
  'cache_control',
]

/** Has the vendor count the tokens of a request. @param body the body of the answer that would be asked for */
export async function countTokens(
  body: Readonly<Record<string, unknown>>,
  service: Service,
  host: Host,
  signal: AbortSignal,
): Promise<number> {
  const counted = Object.fromEntries(
    Object.entries(body).filter(([name]) => COUNTED.includes(name)),
  )
  const url = joinUrl(service.urlOf(String(body.model), false), 'count_tokens')
  const request = { url, headers: service.headers, body: JSON.stringify(counted), signal }
  const response = await send(host, request, httpFailure)
  const { input_tokens } = parseAnswer(await response.text(), host.fail)
  if (typeof input_tokens !== 'number') throw notAnAnswer(host.fail)
  return input_tokens
}
