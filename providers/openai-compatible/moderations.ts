/** Moderation by vendors with OpenAI's API. */
import type { Host, Provider } from '../../src/plugin.ts'
import { countOrNone, notAnAnswer, parseAnswer, send } from '../shared/http.ts'
import { httpFailure, inbandFailure } from './errors.ts'

/** URL and headers of requests. */
interface ModerationTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** The moderation method of a provider. */
export function createModerations(
  host: Host,
  { url, headers }: ModerationTarget,
): Required<Pick<Provider, 'moderate'>> {
  return {
    async moderate({ input, model, signal }) {
      const body = JSON.stringify({ model, ...input })
      const response = await send(host, { url, headers, body, signal }, httpFailure)
      const answer = Object(parseAnswer(await response.text(), host.fail))
      const { results, usage } = answer
      if (!Array.isArray(results)) {
        throw inbandFailure(host.fail, answer)?.error ?? notAnAnswer(host.fail)
      }
      const promptTokens = countOrNone(usage?.prompt_tokens)
      return { results, ...(promptTokens !== null && { usage: { promptTokens } }) }
    },
  }
}
