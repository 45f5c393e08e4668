/** Reads a body of OpenAI's Completions API, the older form with a `prompt`. */
import {
  boolean,
  either,
  filledText,
  inside,
  integer,
  list,
  object,
  problem,
  text,
  toInvalidRequest,
  wrong,
  type Check,
  type Members,
  type Problem,
  described,
  schemaOf,
} from '../../../../errors/checks.ts'
import { givenMembers } from '../../../shared/body.ts'
import type { CompletionRequest } from '../../completions.ts'
import type { DialectRequest } from '../../endpoint.ts'
import { isPassed, type ChatRequest } from '../../request.ts'
import { sampling, sessionId } from '../shared/fields.ts'

interface CompletionBody extends Members, Pick<ChatRequest, 'stream_options' | 'policy'> {
  readonly model: string
  readonly prompt: string | readonly string[]
  readonly suffix?: string
  readonly max_tokens?: number
  readonly n?: number
  readonly logprobs?: number
  readonly echo?: boolean
}

export interface TextOptions {
  /** The beginning of each choice, in their order; absent where prompts are not repeated. */
  readonly echo: readonly string[] | undefined
}

const MAX_PROMPTS = 20
const MAX_CHOICES = 128
/** OpenAI's default. */
const DEFAULT_TOKENS = 16

const promptText: Check = described(
  (value) =>
    typeof value === 'number' || Array.isArray(value)
      ? problem('unsupported_value', 'text', 'tokens')
      : text(value),
  () => schemaOf(text),
)

export const completionBody = object(
  {
    ...sampling,
    model: filledText,
    prompt: either('a string or an array of strings', {
      string: text,
      array: list(promptText, 1, MAX_PROMPTS),
    }),
    suffix: text,
    max_tokens: integer(1, Number.MAX_SAFE_INTEGER),
    n: integer(1, MAX_CHOICES),
    best_of: integer(),
    echo: boolean,
    logprobs: integer(0, 5),
    user: text,
    session_id: sessionId,
    prompt_cache_key: text,
  },
  ['model', 'prompt'],
)

const TRANSLATED: ReadonlySet<string> = new Set([
  'prompt',
  'suffix',
  'n',
  'best_of',
  'echo',
  'logprobs',
  'completion',
])

/** The request of a body: prompts as messages, unknown members as they are. @throws InvalidRequest */
export function readCompletionRequest(body: object): DialectRequest & {
  readonly input: CompletionRequest
} {
  const mistake = completionBody(body) ?? contradiction(body as CompletionBody)
  if (mistake) throw toInvalidRequest(mistake)
  const { policy, ...others } = body as CompletionBody
  const members = givenMembers(others) as CompletionBody
  const { model, suffix, n = 1, logprobs, echo } = members
  const prompts = promptsIn(members)
  const passed = Object.entries(members).filter(
    ([name, value]) => isPassed(name) && !TRANSLATED.has(name) && !isEmptyStop(name, value),
  )
  const input: CompletionRequest = {
    ...Object.fromEntries(passed),
    model,
    messages: prompts.map((content) => ({ role: 'user', content })),
    max_completion_tokens: members.max_tokens ?? DEFAULT_TOKENS,
    n: n * prompts.length,
    ...(logprobs !== undefined && { logprobs: true }),
    ...(members.stream_options !== undefined && { stream_options: members.stream_options }),
    ...(policy !== undefined && { policy }),
    completion: {
      n,
      ...(suffix !== undefined && { suffix }),
      ...(logprobs !== undefined && { logprobs }),
    },
  }
  const repeated =
    echo === true ? prompts.flatMap((one) => Array.from({ length: n }, () => one)) : undefined
  return { input, answerOptions: { echo: repeated } satisfies TextOptions }
}

function contradiction(body: CompletionBody): Problem | undefined {
  const { n, best_of } = body
  const each = n ?? 1
  if (best_of !== undefined && best_of !== null && best_of !== 1 && best_of !== each) {
    return inside('best_of', wrong('unsupported_value', best_of, 'to be left out, 1 or equal to n'))
  }
  const most = Math.floor(MAX_CHOICES / promptsIn(body).length)
  if (each <= most) return undefined
  const expected = `at most ${most} answers to each of so many prompts`
  return inside('n', wrong('integer_above_max_value', n, expected))
}

/** An empty `stop` means the same as none. */
function isEmptyStop(name: string, value: unknown): boolean {
  return name === 'stop' && Array.isArray(value) && value.length === 0
}

function promptsIn({ prompt }: CompletionBody): readonly string[] {
  return typeof prompt === 'string' ? [prompt] : prompt
}
