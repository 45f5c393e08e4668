/** Checks that faults of a vendor become the right failure, without a retry and without secrets in messages. */
import { UpstreamFailure } from '../../errors/errors.ts'
import type { FailureClass, EmbeddingResult, ModerationResult, RerankResult } from '../../plugin.ts'
import { NO_UPSTREAM, type Fixture } from '../fixture.ts'
import {
  toCheck,
  describeError,
  notFailure,
  skipped,
  type Check,
  type CheckRun,
} from '../report.ts'
import { randomFrom } from '../splits.ts'
import { containsSecret } from '../secrets.ts'
import type { Outcome } from '../provider-under-test.ts'
import type { FakeResponse, ReceivedRequest } from '../fake-upstream.ts'
import { embeddingsOf } from '../../endpoints/embeddings/endpoint.ts'
import { resultsOf } from '../../endpoints/moderations/normal-form.ts'
import { rankedOf } from '../../endpoints/rerank/endpoint.ts'
import type { TestRequest } from '../requests.ts'
import type { Transcript } from '../transcripts.ts'

interface Fault {
  readonly name: string
  readonly answer: (request: ReceivedRequest, fixture: Fixture) => FakeResponse
  readonly classes: readonly FailureClass[]
  readonly retryAfterMs?: number
}

const WAIT_SECONDS = 7
/** The operator's account at the vendor, as vendors quote it in errors. */
const ACCOUNT = 'org-Kx7Qm2Vt9Lp4Zw8R'
const PAGE = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>'

const BUSY: readonly FailureClass[] = ['upstream_error', 'overloaded']

const FAULTS: readonly Fault[] = [
  {
    name: '400',
    answer: refusal(400),
    classes: ['bad_request', 'context_length', 'content_blocked'],
  },
  { name: '401', answer: refusal(401), classes: ['upstream_auth'] },
  { name: '402', answer: refusal(402), classes: ['upstream_balance'] },
  { name: '403', answer: refusal(403), classes: ['upstream_auth', 'upstream_balance'] },
  { name: '404', answer: refusal(404), classes: ['not_found'] },
  { name: '413', answer: refusal(413), classes: ['payload_too_large', 'context_length'] },
  {
    name: '429',
    answer: refusal(429, { 'retry-after': String(WAIT_SECONDS) }),
    classes: ['upstream_rate', 'overloaded'],
    retryAfterMs: WAIT_SECONDS * 1000,
  },
  { name: '500', answer: refusal(500), classes: BUSY },
  { name: '503', answer: refusal(503), classes: ['overloaded'] },
  { name: 'redirect', answer: refusal(302, { location: '/elsewhere' }), classes: BUSY },
  { name: 'garbage', answer: garbage, classes: ['upstream_error'] },
  { name: 'empty', answer: () => ({ pieces: [] }), classes: ['upstream_error'] },
  { name: 'no answer in it', answer: nothingSaid, classes: ['upstream_error'] },
  { name: 'HTML', answer: () => page(200), classes: ['upstream_error'] },
  { name: 'HTML, 502', answer: () => page(502), classes: BUSY },
  {
    name: 'reset',
    answer: () => ({ pieces: [], ending: 'refuse' }),
    classes: ['upstream_error'],
  },
]

/** Sends one request. Never throws: the provider's error is in the outcome. */
type Ask = () => Promise<Pick<Outcome, 'error'>>

/** @param asks requests, by their names in problems */
export async function checkFailures(
  fixture: Fixture,
  asks: Readonly<Record<string, Ask>>,
  run: CheckRun,
): Promise<void> {
  for (const fault of FAULTS) {
    await run.run('errors', fault.name, () => checkFault(fixture, fault, asks))
  }
}

async function checkFault(
  fixture: Fixture,
  fault: Fault,
  asks: Readonly<Record<string, Ask>>,
): Promise<Check> {
  const situations = new Map<string, string[]>()
  let requestCount = 0
  for (const [how, ask] of Object.entries(asks)) {
    const seen = await problemsOf(fixture, fault, ask)
    requestCount += seen.asked
    for (const one of seen.problems) situations.set(one, [...(situations.get(one) ?? []), how])
  }
  const everywhere = Object.keys(asks).length
  const problems = Array.from(situations, ([problem, hows]) =>
    hows.length === everywhere ? problem : `${hows.join(', ')}: ${problem}`,
  )
  const unasked = requestCount === 0 && problems.length === 0
  return unasked
    ? skipped('errors', fault.name, NO_UPSTREAM)
    : toCheck('errors', fault.name, problems)
}

/** Checks for secrets in errors and logs, and the vendor's account or address in messages. Runs last. */
export function checkSecrets(
  { provider, vendor }: Fixture,
  secrets: readonly string[],
  cases: readonly Transcript[],
): Check {
  const named = cases.flatMap(namesIn)
  const problems = new Set<string>()
  const check = (text: string, where: string, what: string, hidden: readonly string[]) => {
    if (containsSecret(text, hidden)) problems.add(`${where} shows ${what}`)
  }
  const { host } = new URL(vendor.url)
  for (const error of provider.thrown) {
    const message = error instanceof Error ? error.message : String(error)
    check(message, 'the message of an error', 'a key', secrets)
    if (UpstreamFailure.is(error)) {
      check(message, 'the message of an error', 'the account at the vendor', [ACCOUNT])
      check(message, 'the message of an error', "the vendor's address", [host])
      const quoted = named.find((name) => message.includes(name))
      if (quoted) problems.add(`the message of an error says ${quoted}, of the vendor's refusal`)
      check(causesOf(error), 'the cause of an error', 'a key', secrets)
    }
  }
  for (const line of provider.host.logLines) check(line, 'the log', 'a key', secrets)
  const seen = secrets.length === 0 ? ['no option has the name of a secret'] : []
  return toCheck('secrets', null, [...problems], seen)
}

/** What looks like the name of an account, a machine or a person in a refusal, and is not of the client's request. */
function namesIn({ request, answer, deployment, expect: { failure } }: Transcript): string[] {
  if (!failure || !answer) return []
  const requestText = JSON.stringify([request, deployment])
  const words =
    Buffer.from(answer.body)
      .toString()
      .match(/[\w.@-]{6,}/g) ?? []
  return words.filter(
    (word) =>
      /[a-z].*[-@]\w*\d|\w@\w+\.|^[a-z]+\d+[a-z]*$/i.test(word) && !requestText.includes(word),
  )
}

async function problemsOf(fixture: Fixture, fault: Fault, ask: Ask) {
  const { vendor } = fixture
  const before = vendor.requests.length
  vendor.answer((request) => fault.answer(request, fixture))
  const { error } = await ask()
  const requestCount = vendor.requests.length - before
  if (requestCount === 0 && error === undefined) return { asked: requestCount, problems: [] }
  const problems: string[] = []
  const problem = notFailure(error, fault.classes)
  if (problem) problems.push(problem)
  const { retryAfterMs } = fault
  if (
    !problem &&
    retryAfterMs &&
    UpstreamFailure.is(error) &&
    error.retryAfterMs !== retryAfterMs
  ) {
    const wait = error.retryAfterMs ?? 'none'
    problems.push(`${describeError(error)} with retryAfterMs ${wait}; expected ${retryAfterMs}`)
  }
  if (requestCount > 1)
    problems.push(`it sent ${requestCount} requests; retries are made by the gateway`)
  return { asked: requestCount, problems }
}

function refusal(status: number, headers: Readonly<Record<string, string>> = {}) {
  return ({ headers: sent, path }: ReceivedRequest): FakeResponse => {
    const quoted = Object.values(sent).join(' ')
    const message = `Refused for ${ACCOUNT}: ${path} with ${quoted}`
    return {
      status,
      headers: { 'content-type': 'application/json', ...headers },
      pieces: [JSON.stringify({ error: { message, type: 'error', code: null, param: null } })],
    }
  }
}

function garbage(_request: ReceivedRequest, { seed }: Fixture): FakeResponse {
  const random = randomFrom(seed)
  const noise = Uint8Array.from({ length: 512 }, () => random(256))
  return {
    headers: { 'content-type': 'text/event-stream' },
    pieces: [noise, '\n\ndata: {"choices": [{"del\n\n', noise],
  }
}

function nothingSaid(): FakeResponse {
  return { headers: { 'content-type': 'application/json' }, pieces: ['{"id":"none"}'] }
}

function page(status: number): FakeResponse {
  return { status, headers: { 'content-type': 'text/html' }, pieces: [PAGE] }
}

function causesOf(error: Error): string {
  const { cause } = error
  return cause instanceof Error ? `${cause.message} ${causesOf(cause)}` : ''
}

// Checks of the methods that work on texts, where a provider has them: `embed`, `rerank` and `moderate`.

interface TextMethod {
  readonly name: 'embed' | 'rerank' | 'moderate'
  readonly input: object
  readonly answer: object
  /** Reads the answer as the gateway does. @throws UpstreamFailure for an impossible one */
  read(answer: any): unknown
}

const TEXTS = ['Hello there', 'And good bye']
const QUERY = { query: 'Hello', documents: TEXTS }
const METHODS: readonly TextMethod[] = [
  {
    name: 'embed',
    input: { input: TEXTS, encoding_format: 'float' },
    answer: {
      object: 'list',
      data: TEXTS.map((_, index) => ({ object: 'embedding', index, embedding: [0.25, -0.5] })),
      usage: { prompt_tokens: 6, total_tokens: 6 },
    },
    read: (answer: EmbeddingResult) => embeddingsOf(answer, { count: 2, format: 'float' }),
  },
  {
    name: 'rerank',
    input: QUERY,
    answer: {
      results: TEXTS.map((_, index) => ({ index, relevance_score: 0.9 - index })),
      usage: { total_tokens: 9 },
    },
    read: (answer: RerankResult) => rankedOf(answer, QUERY, false),
  },
  {
    name: 'moderate',
    input: { input: TEXTS },
    answer: { results: TEXTS.map(() => ({ flagged: false, categories: {}, category_scores: {} })) },
    read: (answer: ModerationResult) => resultsOf(answer, { model: 'kit', count: 2 }),
  },
]

/** Checks these methods with a vendor of the common form. @param like has model and deployment options */
export async function checkTexts(
  fixture: Fixture,
  like: TestRequest,
  run: CheckRun,
): Promise<void> {
  for (const method of offeredBy(fixture)) {
    await run.run('texts', method.name, () => checkAnswer(fixture, method, like))
  }
}

export function textAsks(fixture: Fixture, like: TestRequest): Readonly<Record<string, Ask>> {
  return Object.fromEntries(
    offeredBy(fixture).map((method) => [method.name, () => ask(fixture, method, like)]),
  )
}

function offeredBy({ provider }: Fixture): readonly TextMethod[] {
  return METHODS.filter(({ name }) => provider.methods.includes(name))
}

async function ask({ provider }: Fixture, { name, input, read }: TextMethod, like: TestRequest) {
  return provider.whole(name, { ...like, input }, read)
}

async function checkAnswer(
  fixture: Fixture,
  method: TextMethod,
  like: TestRequest,
): Promise<Check> {
  const { vendor } = fixture
  const before = vendor.requests.length
  vendor.answer({
    headers: { 'content-type': 'application/json' },
    pieces: [JSON.stringify(method.answer)],
  })
  const { error, answer } = await ask(fixture, method, like)
  const requests = vendor.requests.length - before
  if (error === undefined) {
    return toCheck('texts', method.name, [], requests === 0 ? [NO_UPSTREAM] : [])
  }
  // It has refused the answer itself, or found no items in it.
  const { data, results = data } = (answer ?? {}) as { data?: unknown; results?: unknown }
  const hasNone = Array.isArray(results) && results.length === 0
  const isOtherForm = UpstreamFailure.is(error) && requests > 0 && (!answer || hasNone)
  return isOtherForm
    ? skipped('texts', method.name, 'it does not read the form of the sample')
    : toCheck('texts', method.name, [describeError(error)])
}
