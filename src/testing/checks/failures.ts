/** Whether what goes wrong at a vendor becomes the right failure, once, and without a word that is nobody's business. */
import { UpstreamFailure } from '../../errors/errors.ts'
import type { FailureClass } from '../../plugin.ts'
import {
  ASKS_NOBODY,
  judged,
  named,
  notFailure,
  skipped,
  type Fixture,
  type Check,
} from '../fixture.ts'
import { randomFrom } from '../splits.ts'
import { shows } from '../secrets.ts'
import type { TestRequest } from '../requests.ts'
import type { FakeResponse, ReceivedRequest } from '../vendor.ts'

interface Trouble {
  readonly name: string
  readonly answer: (request: ReceivedRequest, bench: Fixture) => FakeResponse
  readonly classes: readonly FailureClass[]
  readonly retryAfterMs?: number
}

const WAIT_SECONDS = 7
/** An account of the operator at the vendor, as vendors mention it. */
const ACCOUNT = 'org-Kx7Qm2Vt9Lp4Zw8R'
const PAGE = '<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>'

const TROUBLES: readonly Trouble[] = [
  { name: '401', answer: refusal(401), classes: ['upstream_auth'] },
  {
    name: '429',
    answer: refusal(429, { 'retry-after': String(WAIT_SECONDS) }),
    classes: ['upstream_rate', 'overloaded'],
    retryAfterMs: WAIT_SECONDS * 1000,
  },
  { name: '500', answer: refusal(500), classes: ['upstream_error', 'overloaded'] },
  { name: 'garbage', answer: garbage, classes: ['upstream_error'] },
  { name: 'HTML', answer: () => page(200), classes: ['upstream_error'] },
  { name: 'HTML, 502', answer: () => page(502), classes: ['upstream_error', 'overloaded'] },
  {
    name: 'reset',
    answer: () => ({ pieces: [], ending: 'refuse' }),
    classes: ['upstream_error'],
  },
]

/** Each trouble, for an answer that is streamed and for one that comes whole. */
export async function checkFailures(
  bench: Fixture,
  questions: Readonly<Record<string, TestRequest>>,
): Promise<Check[]> {
  const checks: Check[] = []
  for (const trouble of TROUBLES) {
    const found = new Map<string, string[]>()
    let asked = 0
    for (const [how, question] of Object.entries(questions)) {
      const seen = await problemsOf(bench, trouble, question)
      asked += seen.asked
      for (const one of seen.problems) found.set(one, [...(found.get(one) ?? []), how])
    }
    const everywhere = Object.keys(questions).length
    const problems = Array.from(found, ([problem, hows]) =>
      hows.length === everywhere ? problem : `${hows.join(', ')}: ${problem}`,
    )
    const unasked = asked === 0 && problems.length === 0
    checks.push(
      unasked
        ? skipped('errors', trouble.name, ASKS_NOBODY)
        : judged('errors', trouble.name, problems),
    )
  }
  return checks
}

/** After all others: whether an error or the log has shown a secret, or an error what clients must not read. */
export function checkSecrets({ subject, vendor }: Fixture, secrets: readonly string[]): Check {
  const problems = new Set<string>()
  const look = (text: string, where: string, what: string, hidden: readonly string[]) => {
    if (shows(text, hidden)) problems.add(`${where} shows ${what}`)
  }
  const { host } = new URL(vendor.url)
  for (const error of subject.thrown) {
    const message = error instanceof Error ? error.message : String(error)
    look(message, 'the message of an error', 'a key', secrets)
    if (UpstreamFailure.is(error)) {
      look(message, 'the message of an error', 'the account at the vendor', [ACCOUNT])
      look(message, 'the message of an error', "the vendor's address", [host])
      look(causesOf(error), 'the cause of an error', 'a key', secrets)
    }
  }
  for (const line of subject.surroundings.logged) look(line, 'the log', 'a key', secrets)
  const seen = secrets.length === 0 ? ['no option has a name like that of a secret'] : []
  return judged('secrets', null, [...problems], seen)
}

async function problemsOf(bench: Fixture, trouble: Trouble, question: TestRequest) {
  const { subject, vendor } = bench
  const before = vendor.requests.length
  vendor.answer((request) => trouble.answer(request, bench))
  const { error } = await subject.outcome(question)
  const asked = vendor.requests.length - before
  if (asked === 0 && error === undefined) return { asked, problems: [] }
  const problems: string[] = []
  const problem = notFailure(error, trouble.classes)
  if (problem) problems.push(problem)
  const { retryAfterMs } = trouble
  if (
    !problem &&
    retryAfterMs &&
    UpstreamFailure.is(error) &&
    error.retryAfterMs !== retryAfterMs
  ) {
    const found = error.retryAfterMs ?? 'none'
    problems.push(`${named(error)} with retryAfterMs ${found}; expected ${retryAfterMs}`)
  }
  if (asked > 1)
    problems.push(`it asked ${asked} times; whether to retry is for the gateway to say`)
  return { asked, problems }
}

/** Says no, and tells everything it knows about who asked. */
function refusal(status: number, headers: Readonly<Record<string, string>> = {}) {
  return ({ headers: sent, path }: ReceivedRequest): FakeResponse => {
    const told = Object.values(sent).join(' ')
    const message = `Refused for ${ACCOUNT}: ${path} with ${told}`
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

function page(status: number): FakeResponse {
  return { status, headers: { 'content-type': 'text/html' }, pieces: [PAGE] }
}

function causesOf(error: Error): string {
  const { cause } = error
  return cause instanceof Error ? `${cause.message} ${causesOf(cause)}` : ''
}
