/** The conformance kit for search engines: asks an engine as the gateway would, against a fake service on a local socket. */
import { isDeepStrictEqual } from 'node:util'
import type { SearchPlugin, DomainFilter, SearchEngine, SearchResponse } from '../plugin.ts'
import {
  checkCancel,
  checkClose,
  checkMemory,
  checkSecrets,
  KEY,
  type ServiceOptions,
  BUSY,
  checkRefusal,
  page,
  refusals,
  type Fault,
  type ServiceFixture,
} from './checks/service.ts'
import { startUpstream, json, type FakeResponse, type ReceivedRequest } from './fake-upstream.ts'
import { IsolatedHost } from './hosts.ts'
import {
  CheckRun,
  kitDefaults,
  reportOf,
  toCheck,
  type KitReport,
  describeError,
  type Check,
  failureProblems,
} from './report.ts'
import { queryOf, type SearchCase, differencesOf, WORDS } from './search-cases.ts'
import { secretsIn } from './secrets.ts'
import { optionsWithAddress } from './set-up.ts'
import { deepFrozen } from '../lifetime/scope.ts'
import { missingMembers } from './compare.ts'
import type { RecordedResponse } from './transcripts.ts'

export type { SearchCase }

export interface SearchTestOptions extends ServiceOptions {
  /** The cases, at least one, whose answer has two results or more. */
  readonly cases: readonly SearchCase[]
}

/** Checks a search engine. @throws ConfigError for invalid options; whatever `setup` throws */
export async function testSearch(
  plugin: SearchPlugin,
  options: SearchTestOptions,
): Promise<KitReport> {
  const { seed, patience } = kitDefaults(options)
  const service = await startUpstream()
  const host = new IsolatedHost(service.url)
  const run = new CheckRun(options, patience)
  try {
    const { value: valid } = await optionsWithAddress(plugin, options, service.url, KEY)
    const engine = await plugin.setup(valid, host.hostOf(plugin.name))
    const fixture: SearchFixture = { plugin, engine, host, service, patience, thrown: [] }
    const secrets = [KEY, ...secretsIn(valid)]
    const usable = typeof engine?.search === 'function'
    const problems = usable ? [] : ['"setup" has to return an object with "search"']
    await run.run('set up', null, () => toCheck('set up', null, problems))
    if (usable) await runChecks(fixture, options, run)
    await run.run('secrets', null, () => checkSecrets(fixture, secrets))
    await run.run('close', null, () => checkClose(engine, fixture))
    const cases = options.cases.map(({ name }) => name)
    return reportOf(plugin, { seed, cases }, run.checks, secrets)
  } finally {
    await host.close()
    await service.close()
  }
}

async function runChecks(
  fixture: SearchFixture,
  { cases, thorough = false }: SearchTestOptions,
  run: CheckRun,
): Promise<void> {
  const count = ({ expect }: SearchCase) => expect.results?.length ?? 0
  const [first] = cases.toSorted((one, other) => count(other) - count(one))
  const isUsable = first && count(first) > 0
  const missing = 'there is no case with results; write one with two, such as two.json and two.http'
  await run.run('cases', null, () => toCheck('cases', null, isUsable ? [] : [missing]))
  if (!isUsable) return
  const searched = new Map<SearchCase, Searched>()
  for (const one of cases) {
    await run.run('results', one.name, () => checkResults(fixture, one, searched))
  }
  await run.run('fields', null, () => checkFields(fixture, cases))
  await run.run('query', null, () => checkQuery(fixture, first))
  await run.run('domains', null, () => checkDomains(fixture, first))
  await run.run('repeat', null, () => checkRepeat(fixture, cases, searched))
  for (const fault of faultsOf(first)) {
    await run.run('errors', fault[0], async () =>
      checkRefusal(fault, await search(fixture, fault[1])),
    )
  }
  await run.run('errors', '{}', async () => checkNothing(await search(fixture, json({}))))
  await run.run('cancel', null, () =>
    checkCancel(fixture, {
      name: 'the search',
      resolved: 'it gave results for a search that was given up',
      start: (signal) => fixture.engine.search(queryOf({}), signal),
    }),
  )
  if (!thorough) return
  await run.run('memory', null, () =>
    checkMemory(fixture, 'searches', () => search(fixture, responseOf(first), first.query)),
  )
}

function faultsOf(first: SearchCase): readonly Fault[] {
  const body = Buffer.from(answerText(first))
  const half = [body.subarray(0, body.length >> 1)]
  return [
    ...refusals(KEY),
    ['500 with an answer', { status: 500, pieces: [body] }, BUSY],
    ['HTML', page(200), ['upstream_error']],
    ['empty', { pieces: [] }, ['upstream_error']],
    ['cut JSON', { pieces: half }, ['upstream_error']],
    ['cut off', { pieces: half, ending: 'cut' }, ['upstream_error']],
  ]
}

/** An answer without results is one that failed, or found nothing. */
function checkNothing({ found, error, asked }: Searched): Check {
  if (error !== undefined)
    return checkRefusal(['{}', json({}), ['upstream_error']], { error, asked })
  const isEmpty = Array.isArray(found?.results) && found.results.length === 0
  const expectation =
    'the service answered {}: it has to fail with upstream_error, or give no results'
  return toCheck('errors', '{}', isEmpty ? [] : [expectation])
}

// Checks of search engines: their questions, and their reading of the answer.

const HOSTS = ['first.example', 'second.example'] as const
const PATH = '/deep'
const MARKUP = /<\/?[a-z][^<>]*>|&(?:[a-z]{2,8}|#\d{1,6});/i
const COST = /^\d+(?:\.\d+)?$/
const AT_ONCE = 6

/** Checks that addresses are those of the answer, texts are without markup, the cost is decimal text. */
async function checkFields(fixture: SearchFixture, cases: readonly SearchCase[]): Promise<Check> {
  const problems: string[] = []
  for (const one of cases) {
    const { found } = await search(fixture, responseOf(one), one.query)
    const answer = answerText(one).replaceAll('\\/', '/')
    for (const [i, result] of (found?.results ?? []).entries()) {
      const at = `${one.name}: results[${i}]`
      const { url, title, content } = result
      if (!/^https?:\/\//.test(url) || !URL.canParse(url))
        problems.push(`${at}.url is not an absolute http(s) address: ${url}`)
      else if (!answer.includes(url)) problems.push(`${at}.url is not in the answer: ${url}`)
      for (const [name, text] of Object.entries({ title, content })) {
        if (typeof text !== 'string') problems.push(`${at}.${name} is no text`)
        else if (MARKUP.test(text)) problems.push(`${at}.${name} has HTML in it`)
      }
    }
    const { vendorCost } = found ?? {}
    if (vendorCost !== undefined && !COST.test(String(vendorCost)))
      problems.push(`${one.name}: vendorCost is no decimal text`)
  }
  return toCheck('fields', null, problems)
}

/** Checks that the words arrive unchanged, once, and no longer than wanted, and that the number counts. */
async function checkQuery(fixture: SearchFixture, first: SearchCase): Promise<Check> {
  const problems: string[] = []
  const answer = responseOf(first)
  const one = await search(fixture, answer)
  const fewer = await search(fixture, answer, { maxResults: 1 })
  const [request] = one.asked
  const arrives = request && textsOf(request).some((text) => text.includes(WORDS))
  if (!arrives)
    problems.push(`the request does not have the words of the query as they are: ${WORDS}`)
  const long = await search(fixture, answer, { text: `${'word '.repeat(2000)}zqend` })
  if (long.asked.some((received) => textOf(received).includes('zqend')))
    problems.push('a query of 10,000 characters is sent whole; give text() a limit')
  // Some services take no number; the gateway leaves out what is too much.
  const same = request && fewer.asked[0] && textOf(request) === textOf(fewer.asked[0])
  const fits = (fewer.found?.results.length ?? 0) <= 1
  const notes = same && !fits ? ['it does not ask for "maxResults" results'] : []
  return toCheck('query', null, problems, notes)
}

/** Checks that domains have the influence that `narrows` promises, and no other one. */
async function checkDomains(fixture: SearchFixture, first: SearchCase): Promise<Check> {
  const { include, exclude } = fixture.plugin.narrows ?? {}
  const answer = responseOf(first)
  const problems: string[] = []
  const sent = async (query: SearchCase['query']) => {
    const { asked, error } = await search(fixture, answer, query)
    if (error !== undefined) problems.push(describeError(error))
    return asked.map(textOf).join('\n')
  }
  const [one, other] = HOSTS
  const hosts = HOSTS.map((host) => ({ host }))
  const deep: DomainFilter[] = [{ host: one, path: PATH }]
  const plain = await sent({})
  const included = await sent({ includeDomains: hosts })
  const excluded = await sent({ excludeDomains: hosts })
  const excludedPath = await sent({ excludeDomains: deep })
  if (included.includes(one) !== included.includes(other))
    problems.push('of two hosts to include it names one: it searches less than was asked for')
  if (excludedPath.includes(one) && !excludedPath.includes(PATH))
    problems.push('it leaves out a whole host where one path was to be left out')
  if (include && included === plain)
    problems.push(`"narrows" promises to include ${include}, which has no influence`)
  if (exclude && excluded === plain)
    problems.push(`"narrows" promises to exclude ${exclude}, which has no influence`)
  if (include === 'paths' && !(await sent({ includeDomains: deep })).includes(PATH))
    problems.push('"narrows" promises to include paths, and it names hosts alone')
  if (exclude === 'paths' && !excludedPath.includes(PATH))
    problems.push('"narrows" promises to exclude paths, and it leaves them out')
  if (fixture.plugin.narrows) {
    if (!include && included !== plain) problems.push('it includes domains; say so in "narrows"')
    if (!exclude && excluded !== plain) problems.push('it excludes domains; say so in "narrows"')
  }
  return toCheck('domains', null, problems)
}

async function checkRepeat(
  fixture: SearchFixture,
  cases: readonly SearchCase[],
  searched: ReadonlyMap<SearchCase, Searched>,
): Promise<Check> {
  const good = cases.filter(({ expect }) => !expect.failure)
  const one = good[0]!
  const alone = await search(fixture, responseOf(one), one.query)
  const problems: string[] = []
  // What another search leaves behind must not come back.
  for (const other of good.slice(1)) await search(fixture, responseOf(other), other.query)
  await search(fixture, responseOf(one), { text: 'Something else?', maxResults: 2 })
  const again = await search(fixture, responseOf(one), one.query)
  // What the case expects is compared by the check "results".
  const { found: first } = searched.get(one) ?? alone
  const same = ({ found }: Searched) =>
    found && first ? differencesOf(first, found).length === 0 : found === first
  if (!same(again)) problems.push('the same search later has other results')
  if (!isDeepStrictEqual(again.asked.map(textOf), alone.asked.map(textOf)))
    problems.push('the same search later is asked in another way')
  const together = await Promise.all(
    Array.from({ length: AT_ONCE }, () => search(fixture, responseOf(one), one.query)),
  )
  if (!together.every(same))
    problems.push('searches at the same time have other results than one alone')
  return toCheck('repeat', null, problems)
}

interface SearchFixture extends ServiceFixture {
  readonly plugin: SearchPlugin
  readonly engine: SearchEngine
}

interface Searched {
  readonly found?: SearchResponse
  readonly error?: unknown
  readonly asked: readonly ReceivedRequest[]
}

/** One search, in bounded time. Never throws. */
async function search(
  { engine, service, patience, thrown }: SearchFixture,
  answer: FakeResponse,
  query: SearchCase['query'] = {},
): Promise<Searched> {
  service.answer(answer)
  const before = service.requests.length
  const client = new AbortController()
  const received = () => service.requests.slice(before)
  try {
    // Called in a function: an engine may also throw before it gives a promise.
    const searching = (async () => engine.search(deepFrozen(queryOf(query)), client.signal))()
    return { found: await patience.wait(searching, 'no answer'), asked: received() }
  } catch (error) {
    thrown.push(error)
    return { error: error ?? new Error('nothing was thrown'), asked: received() }
  } finally {
    client.abort()
  }
}

function responseOf({ answer }: SearchCase): FakeResponse {
  if (!isRecorded(answer)) return json(answer)
  const { status, headers, body } = answer
  return { status, headers, pieces: [body] }
}

function answerText({ answer }: SearchCase): string {
  return isRecorded(answer) ? Buffer.from(answer.body).toString() : JSON.stringify(answer)
}

async function checkResults(
  fixture: SearchFixture,
  one: SearchCase,
  searched: Map<SearchCase, Searched>,
): Promise<Check> {
  const { name, expect, query } = one
  const sent = fixture.host.requestCount
  const outcome = await search(fixture, responseOf(one), query)
  searched.set(one, outcome)
  const { found, error, asked } = outcome
  const problems: string[] = []
  if (asked.length !== 1) problems.push(`it made ${asked.length} requests, expected one`)
  if (fixture.host.requestCount - sent < asked.length)
    problems.push('it made a request without host.request, which has no limits and no signal')
  if (asked[0]) problems.push(...missingMembers(expect.sent ?? {}, membersOf(asked[0]), 'sent'))
  problems.push(...failureProblems(expect, error))
  if (expect.failure || error !== undefined) return toCheck('results', name, problems)
  if (!Array.isArray(found?.results)) return toCheck('results', name, ['"results" is no list'])
  problems.push(...differencesOf(expect, found))
  return toCheck('results', name, problems)
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

/** All of a request that may contain the question, as one text. */
function textOf(request: ReceivedRequest): string {
  const { searchParams } = new URL(request.path, 'http://localhost')
  return `${[...searchParams].join('\n')}\n${request.body.toString()}`
}

function membersOf({ path, body }: ReceivedRequest): Record<string, unknown> {
  const parameters = Object.fromEntries(new URL(path, 'http://localhost').searchParams)
  try {
    return { ...parameters, ...JSON.parse(body.toString()) }
  } catch {
    return parameters
  }
}

function isRecorded(answer: unknown): answer is RecordedResponse {
  return (
    typeof answer === 'object' &&
    answer !== null &&
    (answer as Partial<RecordedResponse>).body instanceof Uint8Array
  )
}
