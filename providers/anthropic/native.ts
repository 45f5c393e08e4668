/** Requests in the vendor's own form, and its answers as they came. */
import type { ChatChunk, Host, Provider, Step } from '../../src/plugin.ts'
import { asSequence, isEventStream, parseAnswer, send } from '../shared/http.ts'
import { readEvents, readMessage } from './answer.ts'
import { httpFailure } from './errors.ts'
import { parseExactly } from '../shared/exact-json.ts'
import type { Service } from './service.ts'

const BETA = 'anthropic-beta'

/** The method `messages` of a provider. */
export function nativeMessages(service: Service, host: Host): NonNullable<Provider['messages']> {
  return async ({ input: { body, headers: given, stream }, model, signal }) => {
    const headers = headersOf(service.headers, given)
    const url = service.urlOf(model, stream)
    const response = await send(host, { url, headers, body, signal, stream }, httpFailure)
    if (isEventStream(response, stream)) {
      return host.sse(response.body).through(readNativeEvents(host.fail))
    }
    const message: unknown = parseAnswer(await response.text(), host.fail, parseExactly)
    return asSequence(readNativeMessage(message, host.fail))
  }
}

/** Headers of the operator and of the client: betas of both, otherwise the client's. */
function headersOf(
  operator: Readonly<Record<string, string>>,
  client: Readonly<Record<string, string>>,
): Record<string, string> {
  const betas = [operator[BETA], client[BETA]].filter(Boolean).join(',')
  return { ...operator, ...client, ...(betas && { [BETA]: betas }) }
}

/** The chunks of a stream, each event with what it says. @throws as `readEvents` */
function readNativeEvents(fail: Host['fail']): Step<any, ChatChunk> {
  const answer = readEvents({ answersByTool: false, fail })
  return {
    get done() {
      return answer.done === true
    },
    push(event, emit) {
      const said: ChatChunk[] = []
      try {
        answer.push!(event, (chunk) => said.push(chunk))
      } catch (error) {
        said.forEach(emit)
        throw error
      }
      withNative(said, event).forEach(emit)
    },
    end: (emit) => answer.end!(emit),
  }
}

/** The chunks of a whole message; the first one has the message. @throws as `readMessage` */
function readNativeMessage(message: any, fail: Host['fail']): ChatChunk[] {
  const said = readMessage(message, { answersByTool: false, fail })
  return [{ choices: [], native: { event: 'message', data: message } }, ...said]
}

/** The first chunk has the event. */
function withNative([first, ...said]: readonly ChatChunk[], data: any): ChatChunk[] {
  const native = { event: String(data?.type), data }
  return [{ ...(first ?? { choices: [] }), native }, ...said]
}
