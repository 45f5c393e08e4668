/** Holds what a gateway says of usage against the rows of its ledger, group by group. */
import { DatabaseSync } from 'node:sqlite'
import { parsePico } from '../../src/money/money.ts'

/** Pairs of groups, with the columns of rows that they are. */
const GROUPS = {
  'account,key': ['account', 'key'],
  'key,model': ['key', `json_extract(body, '$.model')`],
  'account,model': ['account', `json_extract(body, '$.model')`],
  tag: [`coalesce(json_extract(body, '$.tag'), '')`],
  'outcome,deployment': [
    `json_extract(body, '$.outcome')`,
    `coalesce(json_extract(body, '$.deployment'), '')`,
  ],
} as const

/** Waits until the index has read all rows. */
const LEVEL_MS = 60_000

/** @returns what differs, one text each */
export async function usageFaults(url: string, token: string, file: string): Promise<string[]> {
  const faults: string[] = []
  using db = new DatabaseSync(file, { readOnly: true, readBigInts: true })
  for (const [group, columns] of Object.entries(GROUPS)) {
    const answer = await level(url, token, group)
    if (answer.ledger.agrees !== true) {
      faults.push(`${group}: ${JSON.stringify(answer.ledger)}`)
      continue
    }
    const shown = new Map<string, string>(
      answer.data.map((one: any) => [
        [one.start.slice(0, 10).replaceAll('-', ''), ...namesOf(one.group)].join(' '),
        `${one.calls} ${parsePico(one.cost_usd)}`,
      ]),
    )
    const rows = db
      .prepare(
        `SELECT day, ${columns.map((column, i) => `${column} AS group_${i}`).join(', ')},
           count(*) AS calls, sum(cost) AS cost
         FROM usage WHERE kind = 'usage' GROUP BY day, ${columns.map((_, i) => `group_${i}`).join(', ')}`,
      )
      .all()
    for (const row of rows) {
      const name = [row.day, ...columns.map((_, i) => row[`group_${i}`])].join(' ')
      const expected = `${row.calls} ${row.cost}`
      if (shown.get(name) !== expected) {
        faults.push(`${group} ${name}: ${expected} in the ledger, ${shown.get(name)} in usage`)
      }
      shown.delete(name)
    }
    for (const name of shown.keys()) faults.push(`${group} ${name}: not in the ledger`)
  }
  return faults
}

/** Has the whole ledger read again. */
export async function rebuildUsage(url: string, token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const { status } = await fetch(`${url}/admin/usage/rebuild`, { method: 'POST', headers })
  if (status !== 202) throw new Error(`usage/rebuild: status ${status}`)
}

function namesOf(group: Record<string, string | null>): string[] {
  return Object.values(group).map((name) => name ?? '')
}

/** Days, with amounts as they were written. */
async function level(url: string, token: string, group: string): Promise<any> {
  const query = `group=${group}&rollup=day&from=2020-01-01&top=1000`
  const headers = { authorization: `Bearer ${token}` }
  for (const until = performance.now() + LEVEL_MS; ;) {
    const answer = await fetch(`${url}/admin/usage?${query}`, { headers })
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`usage: status ${answer.status}: ${text}`)
    const exact = (name: string, value: unknown, context?: { source: string }) =>
      name === 'cost_usd' && typeof value === 'number' ? context!.source : value
    const body = JSON.parse(text, exact as (name: string, value: unknown) => unknown)
    if (body.ledger.agrees !== null || performance.now() > until) return body
  }
}
