/** An index of usage for tests, and calls to settle. */
import { onTestFinished, vi } from 'vitest'
import { chargeOf, rowsIn, type BookedRow } from '../../../src/observe/usage/charge.ts'
import { LedgerIndex, type UsageDifference } from '../../../src/observe/usage/ledger-index.ts'
import { Proof } from '../../../src/observe/usage/proof.ts'
import { answerUsage, type UsageAnswer } from '../../../src/observe/usage/query.ts'
import { openTables } from '../../../src/observe/usage/work.ts'
import type { Ledger, LedgerSource } from '../../../src/state/ledger/ledger.ts'
import { openSource } from '../../../src/observe/usage/thread.ts'
import { NOON, SILENT, USAGE } from '../../state/sqlite/_engine.ts'
import { lineOfCharge } from '../../../src/observe/usage/usage.ts'

export const DAY_MS = 86_400_000

/** The index of a ledger, in the tables of a folder; it is closed with the test. */
export async function openIndex(source: LedgerSource, tablesFolder: string, pageRows = 3) {
  const reader = await openSource(source, SILENT)
  const tables = openTables(tablesFolder)
  const told: UsageDifference[] = []
  const differs = (found: readonly UsageDifference[]) => void told.push(...found)
  const lacking: string[] = []
  const lacks = (account: string) => void lacking.push(account)
  const index = new LedgerIndex({
    db: tables.db,
    reader,
    pageRows,
    now: () => NOON,
    differs,
    lacks,
  })
  const proof = new Proof({ db: tables.db, reader, pageRows })
  await index.open()
  await index.compare()
  let closed = false
  const close = async () => {
    if (closed) return
    closed = true
    await index.close()
    await reader.close()
    tables.close()
  }
  onTestFinished(close)
  const usage = (group: UsageQuery['group'] = [], rollup: UsageQuery['rollup'] = 'day') =>
    answerUsage(
      tables.db,
      {
        from: NOON - 10 * DAY_MS,
        to: NOON + DAY_MS,
        rollup,
        group,
        filters: {},
        metric: 'cost_usd',
        top: 100,
      },
      NOON,
    ) as UsageAnswer
  const charge = (request: string, account: string | undefined) =>
    chargeOf(reader, tables.db, request, account)
  /** How often rows of the ledger were read. */
  const reads = vi.spyOn(reader, 'rows').mock.calls
  return {
    index,
    proof,
    lacking,
    told,
    usage,
    charge,
    close,
    reads,
    check: () => index.check(undefined, Infinity),
  }
}
export type UsageQuery = Parameters<typeof answerUsage>[1]

let calls = 0
/** Settles a call, at `key` of `acct` unless said otherwise. */
export async function settle(
  ledger: Ledger,
  cost: bigint,
  { key = 'key', account = 'acct', at = NOON, tag = undefined as string | undefined } = {},
) {
  const day = new Date(at).toISOString().slice(0, 10).replaceAll('-', '')
  const usage = { ...USAGE, at, ...(tag !== undefined && { tag }) }
  await ledger.settle({ request: `req_${calls++}`, account, key, day, cost, usage })
}

/** Charges of a ledger as they cross to the index, from now on; taken with the function. */
export function bookedBy(ledger: Ledger): () => BookedRow[] {
  const lines: string[] = []
  ledger.onBooked = (charge) => void lines.push(lineOfCharge(charge))
  return () => rowsIn(lines.splice(0).join('\n'))
}
