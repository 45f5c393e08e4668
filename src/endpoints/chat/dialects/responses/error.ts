/** Errors of the Responses API: OpenAI's error object, with paths of this API. */
import type { ErrorBody } from '../../../../errors/errors.ts'
import type { WireFormat } from '../../../../pipeline/pipeline.ts'
import { chatErrorWriter } from '../shared/errors.ts'
import { usageJson } from './usage.ts'

const write = chatErrorWriter(usageJson)

const NAMES: readonly (readonly [normal: RegExp, own: string])[] = [
  [/^messages\b.*$/, 'input'],
  [/^max_completion_tokens$/, 'max_output_tokens'],
  [/^response_format\b/, 'text.format'],
  [/^logprobs$/, 'include'],
]

export const writeError: WireFormat['writeError'] = (error, call, id) => {
  const written = write(error, call, id)
  const { error: errorBody } = written.body as ErrorBody
  // Some clients show no message of an error without a text here.
  errorBody.param = errorBody.param === null ? '' : ownName(errorBody.param)
  const seconds = OWN_LIMITS.has(error.code) ? Number(error.headers['retry-after']) : 0
  if (seconds > LONG_SECONDS) {
    const resets_at = Math.ceil(Date.now() / 1000) + seconds
    Object.assign(errorBody, { type: 'usage_limit_reached', resets_at })
  }
  return written
}

/**
 * Limits of the gateway's own. After a long one Codex would ask again, or wait for hours; of this type it stops at once and
 * prints the moment.
 */
const OWN_LIMITS: ReadonlySet<string> = new Set(['rate_limited', 'too_many_concurrent'])
const LONG_SECONDS = 60

function ownName(param: string): string {
  const name = NAMES.find(([normal]) => normal.test(param))
  return name ? param.replace(name[0], name[1]) : param
}
