/** OpenAI's Completions API: answers are texts. */
import type { Outgoing, Call, Reply } from '../../../../pipeline/pipeline.ts'
import type { ChatChunk } from '../../../../plugin.ts'
import {
  billedJson,
  errorWriter,
  writeEvents,
  writeJson,
  type EventFormat,
} from '../../../shared/write.ts'
import type { BilledChunk } from '../../billing.ts'
import { chatFormat } from '../../endpoint.ts'
import { wantsUsageChunk } from '../../request.ts'
import { chatUsageJson, wholeOf } from '../chat/write.ts'
import { textLogprobs } from './logprobs.ts'
import { completionBody, readCompletionRequest, type TextOptions } from './read.ts'

const MIB = 1024 * 1024

/** `POST /v1/completions`. */
export const textCompletions = chatFormat({
  path: '/v1/completions',
  body: completionBody,
  limitBytes: MIB,
  read: ({ value }) => readCompletionRequest(value),
  write: writeTexts,
  writeError: errorWriter(chatUsageJson),
})

/** Writes a stream of events, or one completion built from the chunks. */
async function writeTexts(call: Call, reply: Reply<BilledChunk>, out: Outgoing): Promise<void> {
  const { stream, input, answerOptions } = call.request
  const { echo } = answerOptions as TextOptions
  if (stream) return writeEvents(call, reply, out, new TextEvents(wantsUsageChunk(input), echo))
  const { completion: built, receipt } = await wholeOf(reply)
  const { choices, ...completion } = built
  const texts = choices.map(({ index = 0, message, logprobs, finish_reason }) => {
    const begin = echo?.[index] ?? ''
    const text = begin + (message?.content || message?.refusal || '')
    return { text, index, logprobs: textLogprobs(logprobs, begin.length), finish_reason }
  })
  const billed = billedJson(receipt, chatUsageJson(receipt))
  await writeJson(
    call,
    out,
    JSON.stringify({ ...envelopeOf(completion), choices: texts, ...billed }),
  )
}

/** Chunks of one answer as server-sent events. */
class TextEvents implements EventFormat<BilledChunk> {
  readonly last = 'data: [DONE]\n\n'
  readonly #usageChunk: boolean
  readonly #echo: readonly string[] | undefined
  /** Characters of each choice that have gone out. */
  readonly #written: number[] = []

  /**
   * @param usageChunk whether usage has a last event of its own
   * @param echo what each choice begins with
   */
  constructor(usageChunk: boolean, echo: readonly string[] | undefined) {
    this.#usageChunk = usageChunk
    this.#echo = echo
  }

  encode({ receipt, choices, ...chunk }: BilledChunk): string {
    const envelope = envelopeOf(chunk)
    const texts = choices.flatMap((choice) => this.#textOf(choice))
    const event = (some: readonly object[], billed: object = {}) =>
      `data: ${JSON.stringify({ ...envelope, choices: some, ...billed })}\n\n`
    if (!receipt) return texts.length > 0 ? event(texts) : ''
    const billed = billedJson(receipt, chatUsageJson(receipt))
    return this.#usageChunk ? event(texts) + event([], billed) : event(texts, billed)
  }

  /** Nothing for a chunk that says nothing. */
  #textOf({ index = 0, delta, logprobs, finish_reason }: ChatChunk['choices'][number]): object[] {
    const before = this.#written[index]
    const text = before === undefined ? (this.#echo?.[index] ?? '') : textIn(delta)
    if (text === '' && !finish_reason && !logprobs) {
      this.#written[index] = before ?? 0
      return []
    }
    this.#written[index] = (before ?? 0) + text.length
    return [
      {
        text,
        index,
        logprobs: textLogprobs(logprobs, before ?? 0),
        finish_reason: finish_reason ?? null,
      },
    ]
  }
}

function textIn(delta: ChatChunk['choices'][number]['delta']): string {
  return delta?.content || delta?.refusal || ''
}

/** Common members of an answer and of its events. */
function envelopeOf({ id, ...others }: Record<string, unknown>): object {
  return { id: String(id).replace(/^chatcmpl-/, 'cmpl-'), object: 'text_completion', ...others }
}
