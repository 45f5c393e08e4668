/** Commands that show gateways, their guards and their settings. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { cell, print, table } from './output.ts'
import { shown } from './settings.ts'

/** `config show`: the settings of the running gateway; defaults with `--all` only. */
export async function showConfig(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/config')
  const settings = args.on.has('all')
    ? data
    : data.filter(({ origin }: any) => origin.from !== 'default')
  print(args, settings, () => {
    const rows = settings.map(({ path, value, origin }: any) => {
      const where = [origin.from, origin.file ?? origin.name].filter((one) => one !== undefined)
      return [path, shown(value), where.join(' ')]
    })
    return table(['SETTING', 'VALUE', 'FROM'], rows)
  })
}

export async function listGateways(admin: Admin, args: Arguments): Promise<void> {
  const { data } = await admin.ask('GET', '/gateways')
  print(args, data, () => {
    const rows = data.map((one: any) => [
      one.id,
      one.version,
      one.started_at,
      one.running,
      one.ledger.ok ? 'books' : 'cannot book',
      one.usage_lag_rows,
      one.log?.rows,
      sumOf(Object.values(one.log?.dropped ?? {})),
    ])
    const headings = ['ID', 'VERSION', 'SINCE', 'RUNNING', 'LEDGER', 'LAG', 'LOGGED', 'DROPPED']
    return table(headings, rows)
  })
}

/** `guard`: decisions of guards, by rule, and their state. */
export async function showGuard(admin: Admin, args: Arguments): Promise<void> {
  const { from, to, account, key } = args.text
  const filters = Object.entries({ from, to, account, key }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as [string, string]],
  )
  const { data } = await admin.ask('GET', `/guard?${new URLSearchParams(filters)}`)
  print(args, data, () => {
    const sums = Map.groupBy(data.decisions, (one: any) =>
      [one.rule || '-', one.side, one.mode, one.outcome].join('\t'),
    )
    const decisions = [...sums].map(([of, days]) => [
      ...of.split('\t'),
      sumOf(days.map(({ calls }: any) => calls)),
    ])
    const guards = data.guards.map((one: any) => [
      one.guard,
      one.execution,
      one.mode,
      one.circuits.find(({ state }: any) => state !== 'closed')?.state ?? 'closed',
      sumOf(one.errors.map(({ count }: any) => count)),
      one.latency
        .map(({ side, p50_ms, p95_ms }: any) => `${side} ${cell(p50_ms)}/${cell(p95_ms)}`)
        .join(', '),
    ])
    return (
      table(['RULE', 'SIDE', 'MODE', 'OUTCOME', 'CALLS'], decisions) +
      `\n${table(['GUARD', 'RUNS', 'MODE', 'CIRCUIT', 'ERRORS', 'P50/P95 MS'], guards)}`
    )
  })
}

/** The sum of counts: numbers of the API are the text that it sent. */
function sumOf(counts: readonly unknown[]): number {
  return counts.reduce((sum: number, one) => sum + Number(cell(one)), 0)
}
