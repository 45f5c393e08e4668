/** Messages of errors that clients of chat match by their text. */
import { UpstreamFailure, type ErrorBody, type GatewayError } from '../../../../errors/errors.ts'
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
  const vendorMessage = UpstreamFailure.is(error) ? error.originalMessage : message
  const contextLength = call?.made.target?.model.contextLength
  const { input, bodyBytes = 0 } = call?.request ?? {}
  const estimate = input ? promptTokensOf(input as ChatRequest, bodyBytes) : 0
  return fullContext({ vendorMessage, contextLength, estimate }, isAnthropics)
}

/** `writeError` for forms of chat whose errors are OpenAI's error object. */
export function chatErrorWriter(
  usageJson: (receipt: Receipt, call: Call) => object,
): WireFormat['writeError'] {
  const write = errorWriter(usageJson)
  return (error, call, id) => {
    const written = write(error, call, id)
    const { error: errorBody } = written.body as ErrorBody
    errorBody.message = messageFor(error, call)
    return written
  }
}

// Sentences by which clients know what has happened: they match the text, not the code.

/** What a vendor says of a full context, in tokens. */
interface ContextNumbers {
  readonly most?: number | undefined
  readonly requested?: number | undefined
}

const MOST: readonly RegExp[] = [
  /maximum (?:context|prompt|model) length (?:is|of) (?:only )?(\d+)/,
  /context length is only (\d+)/,
  />\s*(\d+)(?: maximum|\b)/,
  /tokens allowed \((\d+)\)/,
  /with (\d+) maximum context length/,
  /context size \((\d+) tokens\)/,
]
/** The input comes first: where a vendor names it apart from the answer, only the input counts. */
const ASKED: readonly RegExp[] = [
  /(\d+) in the messages(?:,? (?:and )?(\d+) in the functions)?/,
  /(\d+) of text input/,
  /(\d+) input tokens/,
  /context limit: (\d+) \+/,
  /(\d+) tokens > /,
  /input token count \((\d+)\)/,
  /request contains (\d+) tokens/,
  /prompt contains (\d+) tokens/,
  /request \((\d+) tokens\)/,
  /prompt \(length (\d+)\)/,
  /messages resulted in (\d+)/,
  /requested (?:about )?(\d+) tokens/,
]

/** @param message a vendor's */
function contextNumbers(message: string): ContextNumbers {
  const text = message.replace(/(\d),(?=\d{3}\b)/g, '$1').toLowerCase()
  const numberIn = (patterns: readonly RegExp[]) => {
    for (const pattern of patterns) {
      const digits = pattern.exec(text)?.slice(1)
      if (digits) return digits.reduce((sum, one) => sum + Number(one ?? 0), 0)
    }
    return undefined
  }
  return { most: numberIn(MOST), requested: numberIn(ASKED) }
}

interface FullContext {
  /** The vendor's message. */
  readonly vendorMessage: string
  /** The catalog's number. */
  readonly contextLength: number | undefined
  /** The tokens of the prompt as the gateway estimates them. */
  readonly estimate: number
}

/** The sentence for a full context. @param isAnthropics whether the client speaks Anthropic's form, else OpenAI's */
function fullContext(
  { vendorMessage, contextLength, estimate }: FullContext,
  isAnthropics: boolean,
): string {
  const numbers = contextNumbers(vendorMessage)
  const most = numbers.most ?? contextLength
  const window = 'your input exceeds the context window of this model'
  if (most === undefined) {
    return isAnthropics
      ? `prompt is too long: ${window}`
      : `The prompt is too long: ${window}. Please reduce the length of the messages.`
  }
  const requested = Math.max(numbers.requested ?? estimate, most + 1)
  if (isAnthropics) return `prompt is too long: ${requested} tokens > ${most} maximum`
  return `This model's maximum context length is ${most} tokens. However, your messages resulted in ${requested} tokens. Please reduce the length of the messages: the prompt is too long, ${window}.`
}
