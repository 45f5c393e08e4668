/** Client forms of chat: a dialect translates, and `chatFormat` makes a wire format of it. */
import type { Incoming } from '../../pipeline/http.ts'
import type { WireFormat } from '../../pipeline/pipeline.ts'
import type { RawJson } from '../../stream/raw-json.ts'
import { readRawJson, sessionOf } from '../shared/body.ts'
import type { BilledChunk } from './billing.ts'
import { signatureIn, type ChatRequest } from './request.ts'

/** The pure translation between one client form of chat and the normal form: no state, no money, no policy. */
interface Dialect {
  readonly name: 'chat' | 'messages' | 'responses'
  readonly path: string
  /**
   * Validates a parsed body.
   * @returns the request in the form of chat completions
   * @throws InvalidRequest
   */
  read(body: RawJson, header: Incoming['header']): { readonly input: ChatRequest }
  readonly write: WireFormat<ChatRequest, BilledChunk>['write']
  readonly writeError: WireFormat['writeError']
}

/** The wire format of a dialect: bounds the body and takes model, policy, session and affinity from the request. */
export function chatFormat(dialect: Dialect): WireFormat<ChatRequest, BilledChunk> {
  const { path, write, writeError } = dialect
  return {
    path,
    async read(incoming, limits) {
      const body = await readRawJson(incoming, limits.chat)
      const { input } = dialect.read(body, (name) => incoming.header(name))
      body.record('messages')
      return {
        input,
        model: input.model,
        stream: input.stream === true,
        policy: input.policy,
        session: sessionOf(incoming, input.session_id),
        affinityToken: signatureIn(input.messages),
        rawJson: body,
      }
    },
    write,
    writeError,
  }
}
