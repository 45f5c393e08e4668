/** Counts of prompts, by the vendor with the Responses API. */
import type { Host, Provider } from '../../src/plugin.ts'
import { httpFailure } from '../openai-compatible/errors.ts'
import { mayReason } from '../openai-compatible/rows.ts'
import { countOrNone, notAnAnswer, parseAnswer, send } from '../shared/http.ts'
import type { ResponsesTarget } from './chat.ts'
import { toBody } from './request.ts'

/** Members of a request that the vendor counts. */
const COUNTED: ReadonlySet<string> = new Set([
  'model',
  'input',
  'instructions',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'text',
  'reasoning',
])

/** The method `countTokens`; it is free of charge. @param target of answers */
export function createCounter(
  host: Host,
  { url, headers, format }: ResponsesTarget,
): Required<Pick<Provider, 'countTokens'>> {
  return {
    async countTokens({ input, model, options, signal }) {
      const profile = { ...options, format, reasons: mayReason(model), summaries: false }
      const { stream: _whole, ...asked } = input
      const whole = Object.entries(toBody(asked, model, profile, host.fail))
      const body = host.json(Object.fromEntries(whole.filter(([name]) => COUNTED.has(name))))
      const request = { url: `${url}/input_tokens`, headers, body, signal }
      const response = await send(host, request, httpFailure)
      const { input_tokens } = Object(parseAnswer(await response.text(), host.fail))
      const tokens = countOrNone(input_tokens)
      if (tokens === null) throw notAnAnswer(host.fail)
      return tokens
    },
  }
}
