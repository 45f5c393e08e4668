/** Chat over the Responses API. */
import type { ChatChunk, Host, Provider } from '../../src/plugin.ts'
import { TOOL_NAMES } from '../openai-compatible/chat.ts'
import type { Effort } from '../openai-compatible/reasoning.ts'
import { problemOf, toFailure, type Problem } from '../openai-compatible/errors.ts'
import { withClientTools } from '../shared/functions-only.ts'
import {
  asSequence,
  isEventStream,
  parseAnswer,
  send,
  tryParse,
  type HttpFailure,
} from '../shared/http.ts'
import { readEvents, readResponse, type AnswerProfile } from './events.ts'
import { mayReason } from '../openai-compatible/rows.ts'
import type { Format } from './replay.ts'
import { toBody, type ResponsesBody, ENCRYPTED } from './request.ts'

/** Where requests go. */
export interface ResponsesTarget {
  /** The complete URL, with `/responses`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Marks reasoning of this vendor. */
  readonly format: Format
}

/** Options of a deployment that change its requests. */
interface RequestOptions {
  readonly replayReasoning?: boolean | undefined
  readonly omit?: readonly string[] | undefined
  readonly effort?: readonly Effort[] | undefined
}

/**
 * A chat method over this API. A request that is refused for what other models or organizations take is repeated
 * without it.
 * @param targetOf called for every request, so it should be cheap
 */
export function createResponses<Options extends RequestOptions>(
  host: Host,
  targetOf: (model: string, options: Options) => ResponsesTarget,
): NonNullable<Provider['chat']> {
  const remedies = new Remedies()
  const respond: NonNullable<Provider['chat']> = async ({ input, model, options, signal }) => {
    const deployment = options as Options
    const target = targetOf(model, deployment)
    const { replayReasoning, omit, effort } = deployment
    const { reasons = mayReason(model), summaries = true } = remedies.learned(model)
    const profile = { format: target.format, reasons, summaries, replayReasoning, omit, effort }
    const stream = input.stream === true

    const answer = async (body: ResponsesBody): Promise<AsyncIterable<ChatChunk>> => {
      let problem: Problem | undefined
      const request = { body, stream, signal, onProblem: (one: Problem) => (problem = one) }
      const repeat = (error: unknown) => {
        const rest = problem && remedies.find(problem, body)
        if (!rest) throw error
        return answer(rest)
      }
      try {
        const chunks = await ask(host, target, request)
        // Refused reasoning may be reported in the stream.
        return body.input.some(({ type }) => type === 'reasoning') ? orElse(chunks, repeat) : chunks
      } catch (error) {
        return repeat(error)
      }
    }

    return answer(toBody(input, model, profile, host.fail))
  }
  return withClientTools(respond, TOOL_NAMES, true)
}

interface Request {
  readonly body: ResponsesBody
  readonly stream: boolean
  readonly signal: AbortSignal
  /** Learns why a request is refused, before the failure is thrown. */
  readonly onProblem: (problem: Problem) => void
}

/** Sends one request. @throws the failure of an answer with an error status, or of a whole answer that failed */
async function ask(
  host: Host,
  { url, headers, format }: ResponsesTarget,
  { body, stream, signal, onProblem }: Request,
): Promise<AsyncIterable<ChatChunk>> {
  const httpFailure: HttpFailure = (fail, { status, headers: sent }, text) => {
    const problem = problemOf(tryParse(text))
    onProblem(problem)
    return toFailure(fail, problem, status, sent).error
  }
  const json = host.json(body)
  const response = await send(host, { url, headers, body: json, signal, stream }, httpFailure)
  const { fail } = host
  const profile: AnswerProfile = { format, fail, onRefusal: (one) => onProblem(one.problem) }
  if (isEventStream(response, stream)) return host.sse(response.body).through(readEvents(profile))
  return asSequence(readResponse(parseAnswer(await response.text(), fail), profile))
}

/** The chunks; after a failure those of a repeated request. @param repeat throws the error where a repeat is of no use */
async function* orElse(
  chunks: AsyncIterable<ChatChunk>,
  repeat: (error: unknown) => Promise<AsyncIterable<ChatChunk>>,
): AsyncGenerator<ChatChunk, void, undefined> {
  try {
    yield* chunks
  } catch (error) {
    yield* await repeat(error)
  }
}

// What a vendor refuses depends on the model and on the organization; it is learned from the refusals.

/** What was learned about a model. An absent member was not learned. */
interface Traits {
  readonly reasons?: boolean
  readonly summaries?: boolean
}

/** Finds what to leave out of a refused request. Remembers what every request to the model would be refused for. */
class Remedies {
  readonly #traits = new Map<string, Traits>()

  /** What was learned about a model. */
  learned(model: string): Traits {
    return this.#traits.get(model) ?? {}
  }

  /** The body without what was refused; undefined when nothing in it can be left out. */
  find({ code, param, message }: Problem, body: ResponsesBody): ResponsesBody | undefined {
    const { input, include = [], reasoning } = body
    // Encrypted for another organization, or by another family of models.
    if (code === 'invalid_encrypted_content') {
      const rest = input.filter(({ type }) => type !== 'reasoning')
      return rest.length < input.length ? { ...body, input: rest } : undefined
    }
    const about = `${param ?? ''} ${message}`
    // Only verified organizations get summaries.
    if (reasoning?.summary !== undefined && /reasoning\W{0,2}summar/i.test(about)) {
      this.#learn(body.model, { summaries: false })
      const { summary: _refused, ...rest } = reasoning
      return { ...body, reasoning: Object.keys(rest).length > 0 ? rest : undefined }
    }
    if (include.includes(ENCRYPTED) && /encrypted.content/i.test(about)) {
      this.#learn(body.model, { reasons: false })
      const rest = include.filter((name) => name !== ENCRYPTED)
      return { ...body, include: rest.length > 0 ? rest : undefined, reasoning: undefined }
    }
    return undefined
  }

  #learn(model: string, traits: Traits): void {
    this.#traits.set(model, { ...this.learned(model), ...traits })
  }
}
