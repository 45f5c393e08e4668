/** Messages of errors that clients of chat match by their text. */
import { UpstreamFailure, type ErrorBody, type GatewayError } from '../../../../errors/errors.ts'
import { fullContext } from '../../../../errors/sentences.ts'
import type { Call, Receipt, WireFormat } from '../../../../pipeline/pipeline.ts'
import { errorWriter } from '../../../shared/write.ts'
import { promptTokensOf } from '../../billing.ts'
import type { ChatRequest } from '../../request.ts'

/**
 * The message of an error. A conversation that is too long is reported in words by which clients shorten it, and a filter of the
 * vendor's in those that no client takes for another failure.
 */
export function messageFor(
  error: GatewayError,
  call: Call | undefined,
  isAnthropics = false,
): string {
  const { code, message } = error
  if (code === 'content_policy_violation' && UpstreamFailure.is(error)) return error.ownWords
  if (code !== 'context_length_exceeded') return message
  const said = UpstreamFailure.is(error) ? error.said : message
  const contextLength = call?.made.target?.model.contextLength
  const { input, bodyBytes = 0 } = call?.request ?? {}
  const estimate = input ? promptTokensOf(input as ChatRequest, bodyBytes) : 0
  return fullContext({ said, contextLength, estimate }, isAnthropics)
}

/** `writeError` for forms of chat whose errors are OpenAI's error object. */
export function chatErrorWriter(
  usageJson: (receipt: Receipt, call: Call) => object,
): WireFormat['writeError'] {
  const write = errorWriter(usageJson)
  return (error, call, id) => {
    const written = write(error, call, id)
    const { error: told } = written.body as ErrorBody
    told.message = messageFor(error, call)
    return written
  }
}
