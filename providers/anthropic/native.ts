/** Requests in the vendor's own form, and its answers as they came. */
import { parseExactly, type Host, type Provider } from '../../src/plugin.ts'
import { asSequence, isEventStream, parseAnswer, send } from '../shared/http.ts'
import { readEvents, readMessage } from './answer.ts'
import { httpFailure } from './errors.ts'
import { withEvents, withWhole } from '../shared/native.ts'
import type { Service } from './service.ts'

const BETA = 'anthropic-beta'

/** The method `messages` of a provider. */
export function nativeMessages(
  service: Pick<Service, 'headers' | 'urlOf'>,
  host: Host,
): NonNullable<Provider['messages']> {
  const reading = { answersByTool: false, fail: host.fail }
  return async ({ input: { body, headers: given, stream }, model, signal }) => {
    const headers = headersOf(service.headers, given)
    const url = service.urlOf(model, stream)
    const response = await send(host, { url, headers, body, signal, stream }, httpFailure)
    if (isEventStream(response, stream)) {
      return host.sse(response.body).through(withEvents(readEvents(reading)))
    }
    const message: unknown = parseAnswer(await response.text(), host.fail, parseExactly)
    return asSequence(withWhole('message', message, readMessage(message, reading)))
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
