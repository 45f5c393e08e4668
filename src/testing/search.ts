/** The conformance kit for search engines: asks an engine as the gateway would, against a fake service on a local socket. */
import type { SearchPlugin } from '../plugin.ts'
import { checkDomains, checkFields, checkQuery, checkRepeat } from './checks/searches.ts'
import { BUSY, checkRefusal, page, refusals, type Fault } from './checks/statuses.ts'
import { startUpstream, type ReceivedRequest } from './fake-upstream.ts'
import { IsolatedHost } from './hosts.ts'
import { within } from './provider-under-test.ts'
import {
  CheckRun,
  describeError,
  kitDefaults,
  reportOf,
  toCheck,
  type Check,
  type KitOptions,
  type KitReport,
} from './report.ts'
import {
  answerText,
  checkResults,
  queryOf,
  search,
  type SearchCase,
  type SearchFixture,
} from './search-cases.ts'
import { containsSecret, secretsIn } from './secrets.ts'
import { optionsWithAddress } from './set-up.ts'

export type { SearchCase }

/** How to test a search engine. */
export interface SearchTestOptions extends KitOptions {
  /** At least one, whose answer has two results or more. */
  readonly cases: readonly SearchCase[]
  /** Options of the plugin without the address; by default a key is tried. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Name of the option with the address; by default the first of `baseURL`, `url` and `endpoint` that works. */
  readonly addressOption?: string
}

const KEY = 'Kx7Qm2Vt9Lp4Zw8RfN3bT6yH'
/**
 * Checks a search engine.
 * @throws ConfigError if the options are invalid; whatever `setup` throws
 */
export async function testSearch(
  plugin: SearchPlugin,
  options: SearchTestOptions,
): Promise<KitReport> {
  const { seed, timeoutMs } = kitDefaults(options)
  const service = await startUpstream()
  const host = new IsolatedHost(service.url)
  const run = new CheckRun(options)
  try {
    const { value: valid } = await optionsWithAddress(plugin, options, service.url, KEY)
    const engine = await plugin.setup(valid, host.hostOf(plugin.name))
    const fixture: SearchFixture = { plugin, engine, host, service, timeoutMs, thrown: [] }
    const secrets = [KEY, ...secretsIn(valid)]
    const usable = typeof engine?.search === 'function'
    const problems = usable ? [] : ['"setup" has to return an object with "search"']
    await run.run('set up', null, () => toCheck('set up', null, problems))
    if (usable) await runChecks(fixture, options.cases, run)
    await run.run('secrets', null, () => checkSecrets(fixture, secrets))
    await run.run('close', null, () => checkClose(fixture))
    const cases = options.cases.map(({ name }) => name)
    return reportOf(plugin, { seed, cases }, run.checks, secrets)
  } finally {
    await host.close()
    await service.close()
  }
}

async function runChecks(
  fixture: SearchFixture,
  cases: readonly SearchCase[],
  run: CheckRun,
): Promise<void> {
  const first = cases.find(({ expect }) => !expect.failure)
  if (!first) {
    const missing = 'there is no case; write one with two results'
    await run.run('results', null, () => toCheck('results', null, [missing]))
    return
  }
  for (const one of cases) await run.run('results', one.name, () => checkResults(fixture, one))
  await run.run('fields', null, () => checkFields(fixture, cases))
  await run.run('query', null, () => checkQuery(fixture, first))
  await run.run('domains', null, () => checkDomains(fixture, first))
  await run.run('repeat', null, () => checkRepeat(fixture, cases))
  for (const fault of faultsOf(first)) {
    await run.run('errors', fault[0], async () =>
      checkRefusal(fault, await search(fixture, fault[1])),
    )
  }
  await run.run('cancel', null, () => checkCancel(fixture))
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

/** The search is given up while the service is silent. */
async function checkCancel({ engine, service, timeoutMs }: SearchFixture): Promise<Check> {
  const arrived = Promise.withResolvers<ReceivedRequest>()
  service.answer((request) => {
    arrived.resolve(request)
    return { pieces: [], ending: 'silent' }
  })
  const client = new AbortController()
  const searching = (async () => engine.search(queryOf({}), client.signal))()
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

function checkSecrets({ thrown, host }: SearchFixture, secrets: readonly string[]): Check {
  const problems: string[] = []
  const texts = thrown.map((error) => `${String(error)} ${String((error as Error)?.cause ?? '')}`)
  if (texts.some((text) => containsSecret(text, secrets))) problems.push('an error shows the key')
  if (host.logLines.some((line) => containsSecret(line, secrets)))
    problems.push('the log shows the key')
  return toCheck('secrets', null, problems)
}

async function checkClose({ engine, timeoutMs }: SearchFixture): Promise<Check> {
  const closing = (async () => engine.close?.())()
  const problem = await within(closing, 'it did not close', timeoutMs).then(
    () => undefined,
    describeError,
  )
  return toCheck('close', null, problem === undefined ? [] : [problem])
}
