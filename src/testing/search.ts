/** The conformance kit for search engines: asks an engine as the gateway would, against a fake service on a local socket. */
import type { SearchPlugin } from '../plugin.ts'
import { checkDomains, checkFields, checkQuery, checkRepeat } from './checks/searches.ts'
import {
  checkCancel,
  checkClose,
  checkMemory,
  checkSecrets,
  KEY,
  type ServiceOptions,
} from './checks/service.ts'
import { BUSY, checkRefusal, page, refusals, type Fault } from './checks/statuses.ts'
import { startUpstream } from './fake-upstream.ts'
import { IsolatedHost } from './hosts.ts'
import { CheckRun, kitDefaults, reportOf, toCheck, type KitReport } from './report.ts'
import {
  answerText,
  checkResults,
  queryOf,
  responseOf,
  search,
  type SearchCase,
  type SearchFixture,
} from './search-cases.ts'
import { secretsIn } from './secrets.ts'
import { optionsWithAddress } from './set-up.ts'

export type { SearchCase }

export interface SearchTestOptions extends ServiceOptions {
  /** At least one, whose answer has two results or more. */
  readonly cases: readonly SearchCase[]
}

/** Checks a search engine. @throws ConfigError for invalid options; whatever `setup` throws */
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
