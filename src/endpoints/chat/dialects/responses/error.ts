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
  const { error: told } = written.body as ErrorBody
  if (told.param !== null) told.param = ownName(told.param)
  return written
}

function ownName(param: string): string {
  const name = NAMES.find(([normal]) => normal.test(param))
  return name ? param.replace(name[0], name[1]) : param
}
