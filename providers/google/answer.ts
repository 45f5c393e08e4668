/** Turns Google's answers into chunks. */
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

/** What the request says about how to read its answer. */
interface AnswerContext {
  /** Name of the function whose arguments are the answer. */
  readonly answerTool: string | undefined
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream. Each chunk has the usage so far, so that a broken stream can be charged.
 * @throws the failure of an error in the stream; `upstream_error` for a truncated stream
 */
export function readChunks(context: AnswerContext): Step<any, ChatChunk> {
  const { fail } = context
  const answer = new AnswerState(context)
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

/**
 * A whole answer.
 * @throws the failure of an error in place of an answer; `upstream_error` when the payload is not an answer
 */
export function readCompletion(payload: any, context: AnswerContext): ChatCompletion {
  const { fail } = context
  const answer = new AnswerState(context)
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

/** Google's finish reasons in OpenAI's form. All others become `stop`. */
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
/** Finish reasons that mean that the answer failed. */
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

/** State of one answer while it arrives. */
class AnswerState {
  readonly #fail: Host['fail']
  readonly #answerTool: string | undefined
  readonly #candidates = new Map<number, Candidate>()
  #usage: OpenAIUsage | undefined

  constructor({ answerTool, fail }: AnswerContext) {
    this.#fail = fail
    this.#answerTool = answerTool
  }

  /** Whether all candidates have finished. */
  get finished(): boolean {
    const candidates = [...this.#candidates.values()]
    return candidates.length > 0 && candidates.every(({ finished }) => finished)
  }

  /** Reads one payload. @param emit receives the usage so far before a failure is thrown */
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
        ? this.#filtered()
        : given.flatMap((one, position) => this.#read(one ?? {}, position, payload.responseId))
    const chunk: ChatChunk = { choices }
    if (this.#usage) {
      chunk.usage = this.#usage
      chunk.usageIsRunning = true
    }
    return choices.length > 0 || chunk.usage ? chunk : undefined
  }

  /** What is only known at the end: citations and the number of searches. */
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
    const isStart = this.#candidates.size === 0 && !candidates?.length
    return isStart && promptFeedback?.blockReason ? blocked(this.#fail) : undefined
  }

  /** It is empty for a candidate without content, so that another deployment can still be tried. */
  #read(given: any, position: number, responseId: string | undefined): ChatChunkChoice[] {
    const index: number = given.index ?? position
    let candidate = this.#candidates.get(index)
    if (!candidate) {
      const seed = `${responseId ?? randomUUID()}:${index}`
      candidate = new Candidate(seed, this.#answerTool, this.#fail)
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

  /** A filter stopped the answer midway. */
  #filtered(): ChatChunkChoice[] {
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
