/** Compares the book of an account in Redis with its rows. */
import { countedOn, type Pico } from '../../money/money.ts'
import type { Discrepancy } from '../ledger/ledger.ts'
import { addCost, addRunning, compareSums, spendName } from '../ledger/book.ts'
import { totalsIn, type DatedRow, type Snapshot } from './rows.ts'

/** Sums of a snapshot that differ from those of its rows and running calls. */
export async function discrepancies(
  account: string,
  { book, holds, leases, folded }: Snapshot,
  pages: AsyncIterable<readonly DatedRow[]>,
): Promise<Discrepancy[]> {
  const sums = new Map<string, Pico>()
  for await (const page of pages) {
    for (const { row, day } of page) addCost(sums, { ...row, day })
  }
  for (const total of totalsIn(folded)) addCost(sums, { kind: 'usage', ...total })
  for (const member of leases) {
    const [amount = '', day = '', , , ceiling = 0] = holds[member]?.split('|') ?? []
    // A call that was refused with `held` holds nothing.
    const held = day ? { amount: BigInt(amount), ceiling: BigInt(ceiling), day } : undefined
    addRunning(sums, keyOf(member), held)
  }
  sums.set('paid in', countedOn(sums.get('paid in') ?? 0n))
  return compareSums(account, storedIn(book), sums)
}

/** Every sum of a book, under the name that `discrepancies` gives to the same sum of rows and calls. */
function* storedIn(book: Snapshot['book']): Generator<readonly [what: string, amount: Pico]> {
  const sum = (field: string) => BigInt(book[field] ?? 0)
  yield ['balance', sum('bal')]
  yield ['held', sum('bal') - sum('avail')]
  yield ['ceilings', sum('ceil')]
  // A book of an earlier version gets its sum with its next hold or top-up.
  if (book.in !== undefined) yield ['paid in', sum('in')]
  for (const field of Object.keys(book)) {
    const [kind = '', window = '', key = ''] = field.split(':')
    if (kind === 'n') yield [`calls of key ${window}`, sum(field)]
    if (kind === 'm') yield [`ceilings of key ${window}`, sum(field)]
    if (kind !== 's' && kind !== 'c') continue
    const spend = spendName(key, window === 'L' ? 'lifetime' : window)
    const settled = sum(`s:${window}:${key}`)
    if (kind === 's') yield [spend, settled]
    else yield [`held, ${spend}`, sum(field) - settled]
  }
}

function keyOf(member: string): string {
  return member.slice(0, member.indexOf('|'))
}
