/** Answers, from Google's form into the gateway's. */
import { randomUUID } from 'node:crypto'
import type {
  ChatChunk,
  ChatChunkChoice,
  ChatCompletion,
  Host,
  OpenAIUsage,
  Step,
} from '../../src/plugin.ts'
import { Candidate } from './candidate.ts'
import { notAnAnswer } from '../shared/http.ts'
import { blocked, inbandFailure } from './errors.ts'
import { toUsage } from './usage.ts'

type Fail = Host['fail']

/**
 * The chunks of a stream. Each event says what was used until then, and so does each chunk: whenever a stream breaks,
 * what it has cost is known.
 * @throws the failure an error inside the stream stands for; `upstream_error` when the stream was cut
 */
export function readChunks(fail: Fail): Step<any, ChatChunk> {
  const answer = new Answer(fail)
  return {
    push(payload, emit) {
      const chunk = answer.push(payload, emit)
      if (chunk) emit(chunk)
    },
    end(emit) {
      if (!answer.finished) {
        throw fail('upstream_error', 'The model provider closed the stream early.')
      }
      const rest = answer.rest()
      if (rest) emit(rest)
    },
  }
}

/** A whole answer. @throws the failure that an error in it stands for; `upstream_error` when it is no answer */
export function readCompletion(payload: any, fail: Fail): ChatCompletion {
  const answer = new Answer(fail)
  const chunk = answer.push(payload)
  if (!chunk || chunk.choices.length === 0) throw notAnAnswer(fail)
  const rest = answer.rest()
  const choices = chunk.choices.map(({ index, delta, finish_reason, logprobs }) => {
    const late = rest?.choices.find((choice) => choice.index === index)?.delta
    const message = { role: 'assistant', content: null, ...delta, ...late }
    return { index: index!, message, finish_reason: finish_reason ?? null, logprobs }
  })
  return { choices, usage: rest?.usage ?? chunk.usage ?? null }
}

/** What Google calls its reasons; those that are not here mean stop. */
const FINISH_REASONS: Readonly<Record<string, string>> = {
  MAX_TOKENS: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  LANGUAGE: 'content_filter',
  MODEL_ARMOR: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  IMAGE_PROHIBITED_CONTENT: 'content_filter',
  IMAGE_RECITATION: 'content_filter',
}
/** Reasons that say that this is no answer. */
const FAILED: ReadonlySet<unknown> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MISSING_THOUGHT_SIGNATURE',
  'MALFORMED_RESPONSE',
  'NO_IMAGE',
  'IMAGE_OTHER',
  'OTHER',
])

/** What is remembered of an answer while it arrives. */
class Answer {
  readonly #fail: Fail
  readonly #candidates = new Map<number, Candidate>()
  #usage: OpenAIUsage | undefined

  constructor(fail: Fail) {
    this.#fail = fail
  }

  /** Whether everything that was begun has ended. */
  get finished(): boolean {
    const candidates = [...this.#candidates.values()]
    return candidates.length > 0 && candidates.every(({ finished }) => finished)
  }

  /** One payload. @param emit takes in what was used before a failure is thrown */
  push(payload: any, emit: (chunk: ChatChunk) => void = () => {}): ChatChunk | undefined {
    if (typeof payload !== 'object' || payload === null) throw notAnAnswer(this.#fail)
    this.#usage = toUsage(payload.usageMetadata) ?? this.#usage
    const failure = this.#failureIn(payload)
    if (failure) {
      if (this.#usage) emit({ choices: [], usage: this.#usage })
      throw failure
    }
    const given: readonly any[] = payload.candidates ?? []
    const choices =
      given.length === 0 && payload.promptFeedback?.blockReason
        ? this.#withheld()
        : given.flatMap((one, position) => this.#read(one ?? {}, position, payload.responseId))
    const chunk: ChatChunk = { choices }
    if (this.#usage) chunk.usage = this.#usage
    return choices.length > 0 || chunk.usage ? chunk : undefined
  }

  /** What can be said only at the end. */
  rest(): ChatChunk | undefined {
    const choices: ChatChunkChoice[] = []
    let searches: number | undefined
    for (const [index, candidate] of this.#candidates) {
      const delta = candidate.end()
      if (delta) choices.push({ index, delta })
      if (candidate.searches) searches = (searches ?? 0) + candidate.searches
    }
    const usage = searches && this.#usage ? { ...this.#usage, searches } : undefined
    if (choices.length === 0 && !usage) return undefined
    return usage ? { choices, usage } : { choices }
  }

  #failureIn(payload: any): Error | undefined {
    const failure = inbandFailure(this.#fail, payload)
    if (failure) return failure
    const { candidates, promptFeedback } = payload
    if (candidates !== undefined && !Array.isArray(candidates)) return notAnAnswer(this.#fail)
    if (candidates?.some((candidate: any) => FAILED.has(candidate?.finishReason))) {
      return this.#fail('upstream_error', 'The model provider gave up on this answer.')
    }
    const asked = this.#candidates.size === 0 && !candidates?.length
    return asked && promptFeedback?.blockReason ? blocked(this.#fail) : undefined
  }

  /** Nothing for a candidate that says nothing: what has not begun can still be asked elsewhere. */
  #read(given: any, position: number, responseId: string | undefined): ChatChunkChoice[] {
    const index: number = given.index ?? position
    let candidate = this.#candidates.get(index)
    if (!candidate) {
      candidate = new Candidate(`${responseId ?? randomUUID()}:${index}`, this.#fail)
      this.#candidates.set(index, candidate)
    }
    const delta = candidate.read(given)
    const finish_reason = finishReasonOf(given)
    if (finish_reason) candidate.finished = true
    if (!delta && !finish_reason && !given.logprobsResult) return []
    const choice: ChatChunkChoice = { index, delta: delta ?? {}, finish_reason }
    if (given.logprobsResult) choice.logprobs = toLogprobs(given.logprobsResult)
    return [choice]
  }

  /** The filter thought better of it while the answer was under way. */
  #withheld(): ChatChunkChoice[] {
    return [...this.#candidates].map(([index, candidate]) => {
      candidate.finished = true
      return { index, delta: {}, finish_reason: 'content_filter' }
    })
  }
}

function finishReasonOf({ finishReason: reason }: any): string | null {
  if (typeof reason !== 'string' || reason === 'FINISH_REASON_UNSPECIFIED') return null
  return FINISH_REASONS[reason] ?? 'stop'
}

function toLogprobs({ chosenCandidates, topCandidates }: any): object {
  const chosen: readonly any[] = chosenCandidates ?? []
  const content = chosen.map((one, position) => ({
    ...toToken(one),
    top_logprobs: (topCandidates?.[position]?.candidates ?? []).map(toToken),
  }))
  return { content, refusal: null }
}

function toToken({ token = '', logProbability = 0 }: any): object {
  return { token, logprob: logProbability, bytes: [...Buffer.from(token)] }
}
