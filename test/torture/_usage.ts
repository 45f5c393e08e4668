/** Holds what a gateway says of usage against the rows of its ledger, group by group. */
import { parsePico } from '../../src/money/money.ts'
import type { LedgerReader, ReadRow } from '../../src/state/ledger/ledger.ts'

/** Pairs of groups, with what they are of a row. */
const GROUPS: Readonly<Record<string, (row: OwnedRow) => readonly (string | undefined)[]>> = {
  'account,key': ({ account, key }) => [account, key],
  'key,model': ({ key, usage }) => [key, usage?.model],
  'account,model': ({ account, usage }) => [account, usage?.model],
  tag: ({ usage }) => [usage?.tag],
  'outcome,deployment': ({ usage }) => [usage?.outcome, usage?.deployment],
}

/** Waits until the index has read all rows. */
const LEVEL_MS = 360_000
const PAGE_ROWS = 1000

/** A row with its account. */
export type OwnedRow = ReadRow & { readonly account: string }

interface Sums {
  calls: number
  cost: bigint
}

/** Sums of all rows of a ledger, by each of some groups and day. */
export class RowSums {
  /** The number of the last row of each account that was read. */
  readonly #read = new Map<string, number>()
  readonly #groups = new Map(Object.keys(GROUPS).map((group) => [group, new Map<string, Sums>()]))

  /** Adds the rows that are new. @returns them, in the order of their account */
  async add(reader: LedgerReader): Promise<readonly OwnedRow[]> {
    const added: OwnedRow[] = []
    for (const account of (await reader.heads()).keys()) {
      for (;;) {
        const page = await reader.rows(account, (this.#read.get(account) ?? 0) + 1, PAGE_ROWS)
        for (const row of page) this.#add({ ...row, account }, added)
        if (page.length < PAGE_ROWS) break
      }
    }
    return added
  }

  /** What a gateway says otherwise, one text each. */
  async faults(url: string, token: string): Promise<string[]> {
    const faults: string[] = []
    for (const [group, sums] of this.#groups) {
      const answer = await level(url, token, group)
      if (answer.ledger.agrees !== true) {
        faults.push(`${group}: ${JSON.stringify(answer.ledger)}`)
        continue
      }
      const shown = new Map<string, string>(
        answer.data.map((one: any) => [
          nameOf(one.start.slice(0, 10).replaceAll('-', ''), Object.values(one.group)),
          `${one.calls} ${parsePico(one.cost_usd)}`,
        ]),
      )
      for (const [name, { calls, cost }] of sums) {
        const expected = `${calls} ${cost}`
        if (shown.get(name) !== expected) {
          faults.push(`${group} ${name}: ${expected} in the ledger, ${shown.get(name)} in usage`)
        }
        shown.delete(name)
      }
      for (const name of shown.keys()) faults.push(`${group} ${name}: not in the ledger`)
    }
    return faults
  }

  #add(row: OwnedRow, added: OwnedRow[]): void {
    added.push(row)
    this.#read.set(row.account, row.seq)
    if (row.kind !== 'usage') return
    for (const [group, sums] of this.#groups) {
      const name = nameOf(row.day, GROUPS[group]!(row))
      const { calls, cost } = sums.get(name) ?? { calls: 0, cost: 0n }
      sums.set(name, { calls: calls + 1, cost: cost + row.cost })
    }
  }
}

/** Has the whole ledger read again. */
export async function rebuildUsage(url: string, token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const { status } = await fetch(`${url}/admin/usage/rebuild`, { method: 'POST', headers })
  if (status !== 202) throw new Error(`usage/rebuild: status ${status}`)
}

function nameOf(day: string | undefined, group: readonly unknown[]): string {
  return [day, ...group.map((name) => name ?? '')].join(' ')
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
