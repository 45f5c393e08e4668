/** Requests in the form of the Responses API, and its answers as they came. */
import { parseExactly, type Host, type Provider } from '../../src/plugin.ts'
import { httpFailure } from '../openai-compatible/errors.ts'
import { hasResponses } from '../openai-compatible/rows.ts'
import { asSequence, isEventStream, parseAnswer, send } from '../shared/http.ts'
import { withEvents, withWhole } from '../shared/native.ts'
import type { ResponsesTarget } from './chat.ts'
import { readEvents, readResponse } from './events.ts'
import type { ApiOptions } from './wire.ts'

/**
 * The method `responses`, for deployments with this API: those that are to use it, and by default those whose model has it by
 * its name.
 * @param targetOf called for every request
 */
export function nativeResponses<Options extends ApiOptions>(
  host: Host,
  targetOf: (model: string, options: Options) => ResponsesTarget,
): Required<Pick<Provider, 'responses' | 'takes'>> {
  return {
    async responses({ input: { body, stream }, model, options, signal }) {
      const { url, headers, format } = targetOf(model, options as Options)
      const response = await send(host, { url, headers, body, signal, stream }, httpFailure)
      const { fail } = host
      const profile = { format, fail, onRefusal: () => {} }
      if (isEventStream(response, stream)) {
        return host.sse(response.body).through(withEvents(readEvents(profile)))
      }
      const answer: unknown = parseAnswer(await response.text(), fail, parseExactly)
      return asSequence(withWhole('response', answer, readResponse(answer, profile)))
    },

    takes(form, { model, options }) {
      const { api } = options as Options
      return (
        form === 'responses' && (api === 'responses' || (api === 'auto' && hasResponses(model)))
      )
    },
  }
}
