/** Checks of plugins that ask one service of their own: search engines and sinks. */
import type { Closable, FailureClass } from '../../plugin.ts'
import {
  type FakeUpstream,
  type ReceivedRequest,
  json,
  type FakeResponse,
} from '../fake-upstream.ts'
import type { IsolatedHost } from '../hosts.ts'
import { checkHeap } from '../measure.ts'
import {
  describeError,
  toCheck,
  type Check,
  type KitOptions,
  type Patience,
  notFailure,
} from '../report.ts'
import { containsSecret } from '../secrets.ts'
import { UpstreamFailure } from '../../errors/errors.ts'

export interface ServiceOptions extends KitOptions {
  /** Options of the plugin without the address; by default a key is tried. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Name of the option with the address; by default the first of `baseURL`, `url` and `endpoint` that works. */
  readonly addressOption?: string
}

export interface ServiceFixture {
  readonly host: IsolatedHost
  readonly service: FakeUpstream
  readonly patience: Patience
  readonly thrown: unknown[]
}

/** Work of a plugin that is aborted while the service is silent. */
interface AbortedWork {
  /** The check that it belongs to; by default one of its own. */
  readonly check?: string
  readonly on?: string
  /** The name in messages, such as `the search`. */
  readonly name: string
  readonly resolved: string
  start(signal: AbortSignal): Promise<unknown>
}

export const KEY = 'Kx7Qm2Vt9Lp4Zw8RfN3bT6yH'

export async function checkCancel(
  { service, patience }: Pick<ServiceFixture, 'service' | 'patience'>,
  work: AbortedWork,
): Promise<Check> {
  const { check = 'cancel', on = null } = work
  const arrived = Promise.withResolvers<ReceivedRequest>()
  service.answer((request) => {
    arrived.resolve(request)
    return { pieces: [], ending: 'silent' }
  })
  const client = new AbortController()
  // Called in a function: a plugin may also throw before it gives a promise.
  const started = (async () => work.start(client.signal))()
  const ended = started.then(
    () => work.resolved,
    () => undefined,
  )
  try {
    const request = await patience.waitOnce(arrived.promise, 'no request')
    client.abort(new Error(`${work.name} is given up`))
    const problem = await patience.waitOnce(ended, `${work.name} did not end`)
    await patience.waitOnce(request.aborted, 'the connection was not closed')
    return toCheck(check, on, problem === undefined ? [] : [problem])
  } catch (error) {
    return toCheck(check, on, [describeError(error)])
  }
}

export function checkSecrets({ thrown, host }: ServiceFixture, secrets: readonly string[]): Check {
  const problems: string[] = []
  const texts = thrown.map((error) => `${String(error)} ${String((error as Error)?.cause ?? '')}`)
  if (texts.some((text) => containsSecret(text, secrets))) problems.push('an error shows the key')
  if (host.logLines.some((line) => containsSecret(line, secrets)))
    problems.push('the log shows the key')
  return toCheck('secrets', null, problems)
}

export async function checkClose(instance: Closable, { patience }: ServiceFixture): Promise<Check> {
  const closing = (async () => instance.close?.())()
  const problem = await patience
    .wait(closing, 'it did not close')
    .then(() => undefined, describeError)
  return toCheck('close', null, problem === undefined ? [] : [problem])
}

/** Checks that many calls leave little behind. @param what their name, for messages */
export async function checkMemory(
  { host, service, thrown }: ServiceFixture,
  what: string,
  call: () => Promise<unknown>,
): Promise<Check> {
  const kept: unknown[][] = [service.requests as ReceivedRequest[], host.logLines, thrown]
  return checkHeap(what, null, async () => {
    await call()
    for (const list of kept) list.length = 0
  })
}

// Statuses with which services refuse, and the classes of failures that describe them.

export type Fault = readonly [name: string, answer: FakeResponse, classes: readonly FailureClass[]]

/** The wait of a 429. */
const WAIT_MS = 7000

/** Classes of a temporary failure. */
export const BUSY: readonly FailureClass[] = ['upstream_error', 'overloaded']

export const page = (status: number): FakeResponse => ({
  status,
  headers: { 'content-type': 'text/html' },
  pieces: ['<!DOCTYPE html><p>Bad gateway</p>'],
})

/** Refusals of every kind. @param key echoed in each of them, as part of the request */
export function refusals(key: string): readonly Fault[] {
  const refused = (status: number, headers = {}) => json({ error: { key } }, status, headers)
  return [
    ['400', refused(400), ['bad_request']],
    ['401', refused(401), ['upstream_auth']],
    ['402', refused(402), ['upstream_balance']],
    ['403', refused(403), ['upstream_auth']],
    ['404', refused(404), ['not_found', 'upstream_error']],
    ['408', refused(408), ['timeout']],
    ['413', refused(413), ['payload_too_large', 'bad_request']],
    ['422', refused(422), ['bad_request']],
    ['429', refused(429, { 'retry-after': '7' }), ['upstream_rate', 'overloaded']],
    ['500', refused(500), BUSY],
    ['503', refused(503), ['overloaded']],
    ['529', refused(529), ['overloaded']],
    ['redirect', refused(302, { location: '/elsewhere' }), ['upstream_error']],
    ['HTML, 502', page(502), BUSY],
    ['reset', { pieces: [], ending: 'refuse' }, ['upstream_error']],
  ]
}

/** Checks that an error states the failure, its wait included, after one request. */
export function checkRefusal(
  [name, , classes]: Fault,
  { error, asked }: { readonly error?: unknown; readonly asked: readonly ReceivedRequest[] },
): Check {
  const problem = notFailure(error, classes)
  const problems = problem === undefined ? [] : [problem]
  const wait = UpstreamFailure.is(error) ? error.retryAfterMs : undefined
  if (!problem && name === '429' && wait !== WAIT_MS)
    problems.push(`retryAfterMs is ${wait ?? 'none'}, expected ${WAIT_MS}`)
  if (asked.length > 1) problems.push(`it asked ${asked.length} times; the gateway tries again`)
  return toCheck('errors', name, problems)
}
