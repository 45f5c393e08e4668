/** OpenAI's Completions API: answers are texts. */
import type { Call, Done, Writer } from '../../../../pipeline/pipeline.ts'
import type { Outgoing } from '../../../../pipeline/http.ts'
import type { ChatChunk } from '../../../../plugin.ts'
import { chatErrorWriter } from '../shared/errors.ts'
import { billedJson, EventWriter, WholeWriter, type EventFormat } from '../../../shared/write.ts'
import type { AnswerChunk } from '../../billing.ts'
import { collect } from '../../chunks.ts'
import { chatFormat } from '../../endpoint.ts'
import { wantsUsageChunk, type ChatRequest } from '../../request.ts'
import { chatUsageJson } from '../chat/write.ts'
import { completionBody, readCompletionRequest, type TextOptions } from './read.ts'

const MIB = 1024 * 1024

export const textCompletions = chatFormat({
  path: '/v1/completions',
  body: completionBody,
  limitBytes: MIB,
  read: ({ value }) => readCompletionRequest(value),
  write: writeTexts,
  writeError: chatErrorWriter(chatUsageJson),
})

function writeTexts(call: Call, out: Outgoing, done: Done): Writer<AnswerChunk> {
  const { stream, input, answerOptions } = call.request
  const { echo } = answerOptions as TextOptions
  if (stream) {
    const format = new TextEvents(wantsUsageChunk(input as ChatRequest), echo)
    return new EventWriter(call, out, done, format)
  }
  return new WholeWriter<AnswerChunk>(call, out, done, (chunks) => {
    const { choices, ...completion } = collect(chunks)
    const { receipt } = chunks.at(-1)!
    const texts = choices.map(({ index = 0, message, logprobs, finish_reason }) => {
      const begin = echo?.[index] ?? ''
      const text = begin + (message?.content || message?.refusal || '')
      return { text, index, logprobs: textLogprobs(logprobs, begin.length), finish_reason }
    })
    const billed = billedJson(receipt!, chatUsageJson(receipt!))
    return { text: JSON.stringify({ ...envelopeOf(completion), choices: texts, ...billed }) }
  })
}

class TextEvents implements EventFormat<AnswerChunk> {
  readonly last = 'data: [DONE]\n\n'
  readonly #usageChunk: boolean
  readonly #echo: readonly string[] | undefined
  readonly #written: number[] = []

  /** @param usageChunk whether usage has a last event of its own @param echo the beginning of each choice */
  constructor(usageChunk: boolean, echo: readonly string[] | undefined) {
    this.#usageChunk = usageChunk
    this.#echo = echo
  }

  encode({ receipt, choices, head }: AnswerChunk): string {
    const envelope = envelopeOf({ ...head })
    const texts = choices.flatMap((choice) => this.#textOf(choice))
    // With a usage chunk every other chunk says that it has no usage.
    const none = this.#usageChunk ? { usage: null } : {}
    const event = (some: readonly object[], billed: object = none) =>
      `data: ${JSON.stringify({ ...envelope, choices: some, ...billed })}\n\n`
    if (!receipt) return texts.length > 0 ? event(texts) : ''
    const billed = billedJson(receipt, chatUsageJson(receipt))
    return this.#usageChunk ? event(texts) + event([], billed) : event(texts, billed)
  }

  /** It is undefined for an empty chunk. */
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

function envelopeOf({ id, ...others }: Record<string, unknown>): object {
  return { id: String(id).replace(/^chatcmpl-/, 'cmpl-'), object: 'text_completion', ...others }
}

interface Token {
  readonly token: string
  readonly logprob: number | null
  readonly top_logprobs?: readonly Token[] | null
}

/**
 * The log probabilities of a text in the older form; null without any.
 * @param logprobs those of a choice or of a chunk, in the form of chat
 * @param offset where in the text they begin, in UTF-16 units
 */
function textLogprobs(logprobs: unknown, offset: number): object | null {
  const { content } = (logprobs ?? {}) as { readonly content?: readonly Token[] | null }
  if (!content) return null
  let next = offset
  return {
    tokens: content.map(({ token }) => token),
    token_logprobs: content.map(({ logprob }) => logprob),
    top_logprobs: content.map(({ top_logprobs: others }) =>
      Object.fromEntries((others ?? []).map(({ token, logprob }) => [token, logprob])),
    ),
    text_offset: content.map(({ token }) => {
      const begins = next
      next += token.length
      return begins
    }),
  }
}
