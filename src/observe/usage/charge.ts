import type { DatabaseSync } from 'node:sqlite'
import { formatPico, type Pico } from '../../money/money.ts'
import { quantitiesOf, type KnownCall } from '../record.ts'
import { timeOf } from '../../state/ids.ts'
import type { RequestId, LedgerReader, ReadRow } from '../../state/ledger/ledger.ts'
import { unitOf } from './tables.ts'

export interface ChargeOfCall {
  readonly account: string
  readonly row: ReadRow
  readonly refund: Refund | undefined
}

/** What was given back of the cost of a call. */
interface Refund {
  readonly amount: Pico
  /** ms since epoch */
  readonly at: number
  readonly reason: string
}

/** Hours by which the clock of a ledger may differ from that of the gateway which made the id. */
const HOURS = 1

/**
 * The row of a call; undefined where none was booked, or it was folded.
 * @param account owner of the call; absent, the accounts that were charged in its hour are searched
 */
export async function chargeOf(
  reader: LedgerReader,
  db: DatabaseSync,
  request: RequestId,
  account: string | undefined,
): Promise<ChargeOfCall | undefined> {
  for (const owner of account === undefined ? chargedAt(db, request) : [account]) {
    const row = await reader.charge(owner, request)
    if (row) return { account: owner, row, refund: refundOf(db, owner, request) }
  }
  return undefined
}

function refundOf(db: DatabaseSync, account: string, request: RequestId): Refund | undefined {
  const select = db.prepare(
    `SELECT amount, at, note FROM booking WHERE account = ? AND kind = 'refund' AND reference = ?`,
  )
  select.setReadBigInts(true)
  const refund = select.get(account, request)
  return (
    refund && {
      amount: refund.amount as bigint,
      at: Number(refund.at),
      reason: String(refund.note ?? ''),
    }
  )
}

function chargedAt(db: DatabaseSync, request: RequestId): string[] {
  const unit = unitOf('hour', timeOf(request.replace(/^req_/, '')))
  const charged = db.prepare(
    `SELECT DISTINCT account FROM settled_hour JOIN settled_group ON id = group_id
     WHERE unit BETWEEN ? AND ?`,
  )
  return charged.all(unit - HOURS, unit + HOURS).map((row) => String(row.account))
}

/** Record of a charged call that the request log lacks, from its row of the ledger. */
export function callOfCharge({
  account,
  row: { request, at, key, cost, usage },
}: Pick<ChargeOfCall, 'account' | 'row'>): KnownCall {
  const lineOf = (source: string) => usage?.lines.find((line) => line.source === source)?.usage
  const model = lineOf('model')
  return {
    id: request,
    at: new Date(at).toISOString(),
    method: 'POST',
    endpoint: usage?.endpoint ?? '',
    account_id: account,
    key_id: key,
    model: usage?.model,
    deployment: usage?.deployment,
    outcome: usage?.outcome ?? 'completed',
    usage: quantitiesOf(model, lineOf('search')?.searches),
    estimated: model?.estimated,
    cost_usd: formatPico(cost),
    vendor_cost_usd: usage?.vendor === undefined ? undefined : formatPico(BigInt(usage.vendor)),
    tag: usage?.tag,
    user: usage?.user,
    gateway: usage?.gateway,
  }
}

export interface BookedRow {
  readonly account: string
  readonly previous: number
  readonly row: ReadRow
}

export function rowsIn(lines: string): BookedRow[] {
  return lines.split('\n').map((line) => {
    const [account, previous, seq, request, key, day, at, cost, usage] = JSON.parse(line)
    const row = { kind: 'usage' as const, seq, request, key, day, at, cost: BigInt(cost), usage }
    return { account, previous, row }
  })
}
