import type { Host } from '../../src/plugin.ts'
import { joinUrl, parseAnswer, notAnAnswer, send } from '../shared/http.ts'
import { httpFailure } from './errors.ts'
import type { Service } from './service.ts'

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

/** Has the vendor count the tokens of a request. @param body of the answer that would be asked for */
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
