/** The conformance kit for search engines: asks an engine as the gateway would, against a fake service on a local socket. */
import { ConfigError } from '../errors/errors.ts'
import { deepFrozen } from '../lifetime/frozen.ts'
import type {
  FailureClass,
  SearchEngine,
  SearchPlugin,
  SearchQuery,
  SearchResponse,
  SearchResult,
} from '../plugin.ts'
import {
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from './fake-upstream.ts'
import {
  describeError,
  kitDefaults,
  notFailure,
  toCheck,
  type Check,
  type KitOptions,
  type KitReport,
} from './fixture.ts'
import { IsolatedHost } from './hosts.ts'
import { within } from './provider-under-test.ts'
import { containsSecret, secretsIn } from './secrets.ts'

/** What a service answers, and what the engine is to make of it. */
export interface SearchCase {
  readonly name: string
  /** The service's answer as a JSON value. */
  readonly answer: unknown
  readonly expect: SearchResponse
}

/** How to test a search engine. */
export interface SearchTestOptions extends KitOptions {
  /** At least one, whose answer has two results or more. */
  readonly cases: readonly SearchCase[]
  /** Options of the plugin without the address; by default a key is tried. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Name of the option with the address; by default the first of `baseURL`, `url` and `endpoint` that works. */
  readonly addressOption?: string
}

/** The results of all checks of a search engine. */
export interface SearchReport extends KitReport {
  /** Name of the plugin. */
  readonly search: string
}

interface Fixture {
  readonly engine: SearchEngine
  readonly host: IsolatedHost
  readonly service: FakeUpstream
  readonly timeoutMs: number
  readonly thrown: unknown[]
}

const KEY = 'Kx7Qm2Vt9Lp4Zw8RfN3bT6yH'
const ADDRESS_OPTIONS = ['baseURL', 'url', 'endpoint']
const WORDS = 'What does "A & B" cost in Grüße #1? 👋'
const HOSTS = ['first.example', 'second.example'] as const
const FIELDS = ['url', 'title', 'content', 'publishedAt'] as const
const QUERY: SearchQuery = {
  text: (limit) => WORDS.slice(0, limit),
  maxResults: 7,
  maxCharacters: 1500,
  includeDomains: [],
  excludeDomains: [],
}

/** A fault of the service, and the classes of failures that describe it. */
type Fault = readonly [name: string, answer: FakeResponse, classes: readonly FailureClass[]]

const page = (status: number): FakeResponse => ({
  status,
  headers: { 'content-type': 'text/html' },
  pieces: ['<!DOCTYPE html><p>Bad gateway</p>'],
})

/**
 * Checks a search engine.
 * @throws ConfigError if the options are invalid; whatever `setup` throws
 */
export async function testSearch(
  plugin: SearchPlugin,
  options: SearchTestOptions,
): Promise<SearchReport> {
  const { seed, timeoutMs } = kitDefaults(options)
  const service = await startUpstream()
  const host = new IsolatedHost(service.url)
  const checks: Check[] = []
  try {
    const valid = await validOptions(plugin, options, service.url)
    const engine = await plugin.setup(valid, host.hostOf(plugin.name))
    const fixture: Fixture = { engine, host, service, timeoutMs, thrown: [] }
    if (typeof engine?.search === 'function') checks.push(...(await run(fixture, options.cases)))
    else checks.push(toCheck('set up', null, ['"setup" has to return an object with "search"']))
    checks.push(checkSecrets(fixture, [KEY, ...secretsIn(valid)]))
    checks.push(await checkClose(fixture))
  } finally {
    await host.close()
    await service.close()
  }
  return { search: plugin.name, seed, ok: checks.every((one) => one.result !== 'failed'), checks }
}

async function validOptions(
  { name, options: schema }: SearchPlugin,
  { options, addressOption }: SearchTestOptions,
  url: string,
): Promise<unknown> {
  let message = ''
  for (const address of addressOption === undefined ? ADDRESS_OPTIONS : [addressOption]) {
    for (const given of options ? [options] : [{ apiKey: KEY }, {}]) {
      const result = await schema['~standard'].validate({ ...given, [address]: url })
      if (!result.issues) return result.value
      message ||= result.issues[0]!.message
    }
  }
  throw new ConfigError(name, [{ path: 'options', message }])
}

async function run(fixture: Fixture, cases: readonly SearchCase[]): Promise<Check[]> {
  const [first] = cases
  if (!first) return [toCheck('results', null, ['there is no case; write one with two results'])]
  const checks: Check[] = []
  for (const one of cases) checks.push(await checkResults(fixture, one))
  const good = json(first.answer)
  checks.push(await checkQuery(fixture, good), await checkDomains(fixture, good))
  for (const fault of faultsOf(first)) checks.push(await checkFault(fixture, fault))
  checks.push(await checkCancel(fixture))
  return checks
}

/** One search, in bounded time. */
async function search(
  { engine, service, timeoutMs, thrown }: Fixture,
  answer: FakeResponse,
  query: Partial<SearchQuery> = {},
): Promise<{ found?: SearchResponse; error?: unknown; asked: readonly ReceivedRequest[] }> {
  service.answer(answer)
  const before = service.requests.length
  const client = new AbortController()
  const asked = () => service.requests.slice(before)
  try {
    // Called in a function: an engine may also throw before it gives a promise.
    const searching = (async () =>
      engine.search(deepFrozen({ ...QUERY, ...query }), client.signal))()
    return { found: await within(searching, 'no answer', timeoutMs), asked: asked() }
  } catch (error) {
    thrown.push(error)
    return { error: error ?? new Error('nothing was thrown'), asked: asked() }
  } finally {
    client.abort()
  }
}

async function checkResults(fixture: Fixture, { name, answer, expect }: SearchCase) {
  const sent = fixture.host.requests.length
  const { found, error, asked } = await search(fixture, json(answer))
  if (error !== undefined) return toCheck('results', name, [describeError(error)])
  const problems: string[] = []
  if (asked.length !== 1) problems.push(`it made ${asked.length} requests, expected one`)
  if (fixture.host.requests.length - sent < asked.length)
    problems.push('it made a request without host.request, which has no limits and no signal')
  if (!Array.isArray(found?.results)) return toCheck('results', name, ['"results" is no list'])
  const { results, vendorCost } = found
  if (results.length !== expect.results.length)
    problems.push(`expected ${expect.results.length} results, found ${results.length}`)
  for (const [i, wanted] of expect.results.entries()) {
    const given: Partial<SearchResult> = results[i] ?? {}
    for (const field of FIELDS) {
      if (given[field] === wanted[field]) continue
      const [is, not] = [given[field], wanted[field]].map((value) => JSON.stringify(value))
      problems.push(`results[${i}].${field}: expected ${not}, found ${is}`)
    }
  }
  if (vendorCost !== expect.vendorCost)
    problems.push(`vendorCost: expected ${expect.vendorCost}, found ${String(vendorCost)}`)
  return toCheck('results', name, problems)
}

async function checkQuery(fixture: Fixture, answer: FakeResponse): Promise<Check> {
  const problems: string[] = []
  const one = await search(fixture, answer)
  const more = await search(fixture, answer, { maxResults: 3 })
  const [request] = one.asked
  if (!request || !textsOf(request).some((text) => text.includes(WORDS)))
    problems.push(`the request does not have the words of the query as they are: ${WORDS}`)
  // Some services take no number; the gateway leaves out what is too much.
  const same = request && more.asked[0] && textOf(request) === textOf(more.asked[0])
  return toCheck('query', null, problems, same ? ['it does not ask for "maxResults" results'] : [])
}

async function checkDomains(fixture: Fixture, answer: FakeResponse): Promise<Check> {
  const problems: string[] = []
  const [first, second] = HOSTS
  const both = HOSTS.map((host) => ({ host }))
  const included = await search(fixture, answer, { includeDomains: both })
  const text = included.asked.map(textOf).join('\n')
  if (text.includes(first) !== text.includes(second))
    problems.push('of two hosts to include it names one: it searches less than was asked for')
  const domains = [{ host: first, path: '/deep' }]
  const excluded = await search(fixture, answer, { excludeDomains: domains })
  const said = excluded.asked.map(textOf).join('\n')
  if (said.includes(first) && !said.includes('/deep'))
    problems.push('it leaves out a whole host where one path was to be left out')
  for (const { error } of [included, excluded])
    if (error !== undefined) problems.push(describeError(error))
  return toCheck('domains', null, problems)
}

function faultsOf({ answer }: SearchCase): readonly Fault[] {
  const body = Buffer.from(JSON.stringify(answer))
  const refused = (status: number, headers = {}) => json({ error: { key: KEY } }, status, headers)
  const busy: readonly FailureClass[] = ['upstream_error', 'overloaded']
  return [
    ['400', refused(400), ['bad_request']],
    ['401', refused(401), ['upstream_auth']],
    ['402', refused(402), ['upstream_balance']],
    ['403', refused(403), ['upstream_auth']],
    ['404', refused(404), ['not_found', 'upstream_error']],
    ['429', refused(429, { 'retry-after': '7' }), ['upstream_rate', 'overloaded']],
    ['500', json(answer, 500), busy],
    ['503', refused(503), ['overloaded']],
    ['redirect', refused(302, { location: '/elsewhere' }), ['upstream_error']],
    ['HTML', page(200), ['upstream_error']],
    ['HTML, 502', page(502), busy],
    ['empty', { pieces: [] }, ['upstream_error']],
    ['cut JSON', { pieces: [body.subarray(0, body.length >> 1)] }, ['upstream_error']],
    [
      'cut off',
      { pieces: [body.subarray(0, body.length >> 1)], ending: 'cut' },
      ['upstream_error'],
    ],
    ['reset', { pieces: [], ending: 'refuse' }, ['upstream_error']],
  ]
}

async function checkFault(fixture: Fixture, [name, answer, classes]: Fault): Promise<Check> {
  const { error, asked } = await search(fixture, answer)
  const problem = notFailure(error, classes)
  const problems = problem === undefined ? [] : [problem]
  if (asked.length > 1) problems.push(`it asked ${asked.length} times; the gateway tries again`)
  return toCheck('errors', name, problems)
}

/** The search is given up while the service is silent. */
async function checkCancel({ engine, service, timeoutMs }: Fixture): Promise<Check> {
  const arrived = Promise.withResolvers<ReceivedRequest>()
  service.answer((request) => {
    arrived.resolve(request)
    return { pieces: [], ending: 'silent' }
  })
  const client = new AbortController()
  const searching = (async () => engine.search(QUERY, client.signal))()
  const ended = searching.then(
    () => 'it gave results for a search that was given up',
    () => undefined,
  )
  try {
    const request = await within(arrived.promise, 'no request', timeoutMs)
    client.abort(new Error('the client has left'))
    const problem = await within(ended, 'the search did not end', timeoutMs)
    const closed = within(request.aborted, 'the connection was not closed', timeoutMs)
    await closed
    return toCheck('cancel', null, problem === undefined ? [] : [problem])
  } catch (error) {
    return toCheck('cancel', null, [describeError(error)])
  }
}

function checkSecrets({ thrown, host }: Fixture, secrets: readonly string[]): Check {
  const problems: string[] = []
  const texts = thrown.map((error) => `${String(error)} ${String((error as Error)?.cause ?? '')}`)
  if (texts.some((text) => containsSecret(text, secrets))) problems.push('an error shows the key')
  if (host.logLines.some((line) => containsSecret(line, secrets)))
    problems.push('the log shows the key')
  return toCheck('secrets', null, problems)
}

async function checkClose({ engine, timeoutMs }: Fixture): Promise<Check> {
  const closing = (async () => engine.close?.())()
  const problem = await within(closing, 'it did not close', timeoutMs).then(
    () => undefined,
    describeError,
  )
  return toCheck('close', null, problem === undefined ? [] : [problem])
}

/** The texts of a request: parameters of its address, and all texts in a JSON body. */
function textsOf({ path, body }: ReceivedRequest): string[] {
  const parameters = [...new URL(path, 'http://localhost').searchParams.values()]
  const texts: string[] = []
  const collect = (value: unknown): void => {
    if (typeof value === 'string') texts.push(value)
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(collect)
  }
  try {
    collect(JSON.parse(body.toString()))
  } catch {
    // A body in another form, or none.
    texts.push(body.toString())
  }
  return [...parameters, ...texts]
}

function textOf(request: ReceivedRequest): string {
  const { searchParams } = new URL(request.path, 'http://localhost')
  return `${[...searchParams].join('\n')}\n${request.body.toString()}`
}
