/**
 * Promotional and expiring credit. A block is an interval on the lifetime spend of its account: what calls have spent inside of it, it
 * has paid. So what is left of it follows from one sum, and a settlement has nothing to do for it. Credit outside of blocks is plain.
 */
import type { Pico } from '../../money/money.ts'
import type { AccountCredit, BlockText, Booking, LedgerRow, OpenBlock } from './ledger.ts'

interface Block extends Omit<BlockText, 'from' | 'to'> {
  readonly from: Pico
  readonly to: Pico
}

/** Most open blocks of an account. */
export const MOST_BLOCKS = 100

export function toBlocks(texts: readonly BlockText[]): Block[] {
  return texts.map((one) => ({ ...one, from: BigInt(one.from), to: BigInt(one.to) }))
}

export function toTexts(blocks: readonly Block[]): BlockText[] {
  return blocks.map((one) => ({ ...one, from: String(one.from), to: String(one.to) }))
}

/** Blocks of which something is left. @param spent the settled lifetime spend of the account */
function openBlocks(blocks: readonly Block[], spent: Pico): OpenBlock[] {
  return blocks.flatMap(({ name, to, expiresAt, ...block }) => {
    const left = to - later(block.from, spent)
    return left > 0n ? [{ name, left, ...(expiresAt !== undefined && { expiresAt }) }] : []
  })
}

export function creditOf(balance: Pico, blocks: readonly Block[], spent: Pico): AccountCredit {
  const open = openBlocks(blocks, spent)
  return { plain: open.reduce((rest, { left }) => rest - left, balance), blocks: open }
}

/** Lifetime spend and blocks of an account, from which follows what a cost is paid of. */
export interface CreditState {
  readonly spent: Pico
  readonly blocks: readonly Block[]
}

export const NO_CREDIT: CreditState = { spent: 0n, blocks: [] }

/** What each block pays of the next cost; the rest is paid of plain credit. */
function partsOf({ spent, blocks }: CreditState, cost: Pico): [name: string, part: Pico][] {
  const end = spent + cost
  return blocks.flatMap(({ name, from, to }) => {
    const part = (to < end ? to : end) - later(from, spent)
    return part > 0n ? [[name, part] as [string, Pico]] : []
  })
}

/** What promotional blocks pay of the next cost. */
export function promotionalPart(credit: CreditState, cost: Pico): Pico {
  const parts = credit.blocks.length === 0 ? [] : partsOf(credit, cost)
  return parts.reduce((sum, [name, part]) => (isPromotional(name) ? sum + part : sum), 0n)
}

/** What is left of promotional blocks. */
export function promotionalLeft({ blocks, spent }: CreditState): Pico {
  const open = openBlocks(blocks, spent).filter(({ name }) => isPromotional(name))
  return open.reduce((sum, { left }) => sum + left, 0n)
}

/** The state after a row. */
export function creditAfter(
  credit: CreditState,
  { kind, cost, booking }: Pick<LedgerRow, 'kind' | 'cost' | 'booking'>,
): CreditState {
  if (kind === 'usage') return { ...credit, spent: credit.spent + cost }
  return booking?.blocks ? { ...credit, blocks: toBlocks(booking.blocks) } : credit
}

function isPromotional(name: string): boolean {
  return name.startsWith('promo:')
}

/** Whether a booking adds, cuts or ends a block. */
export function changesBlocks({ kind, expiresAt, takesFrom }: Booking): boolean {
  return kind === 'promo' || kind === 'expire' || expiresAt !== undefined || takesFrom !== undefined
}

/** Why a booking cannot change blocks. */
export type BlockFault = 'no_block' | 'too_many_blocks'

interface BlockChange {
  /** The cost of the row: the negative amount. */
  readonly cost: Pico
  readonly blocks: readonly BlockText[]
}

/**
 * The effect of a booking that changes blocks. Those that are left are laid end to end from the present spend, in the order of use:
 * first what ends soonest, promotional before paid credit, then what was booked first.
 */
export function changeBlocks(
  { kind, amount, reference, expiresAt, takesFrom }: Booking,
  stored: readonly BlockText[],
  spent: Pico,
): BlockChange | BlockFault {
  const open = openBlocks(toBlocks(stored), spent)
  const find = (wanted: string) => open.find(({ name }) => name === wanted)
  const without = (block: OpenBlock | undefined) => open.filter((one) => one !== block)
  if (kind === 'expire') {
    const ended = find(reference)
    return { cost: ended?.left ?? 0n, blocks: laid(without(ended), spent) }
  }
  if (takesFrom !== undefined) {
    const cut = find(takesFrom)
    if (!cut) return 'no_block'
    const left = cut.left + amount
    const rest = open.flatMap((one) =>
      one === cut ? (left > 0n ? [{ ...cut, left }] : []) : [one],
    )
    return { cost: -amount, blocks: laid(rest, spent) }
  }
  if (open.length >= MOST_BLOCKS) return 'too_many_blocks'
  const ends = expiresAt !== undefined && { expiresAt }
  open.push({ name: `${kind}:${reference}`, left: amount, ...ends })
  return { cost: -amount, blocks: laid(open, spent) }
}

function laid(open: readonly OpenBlock[], spent: Pico): BlockText[] {
  let from = spent
  const blocks = open.toSorted(inOrderOfUse).map(({ left, ...block }) => {
    const to = from + left
    const one = { ...block, from, to }
    from = to
    return one
  })
  return toTexts(blocks)
}

function inOrderOfUse(a: OpenBlock, b: OpenBlock): number {
  const [first, second] = [a.expiresAt ?? Infinity, b.expiresAt ?? Infinity]
  if (first !== second) return first - second
  return Number(isPromotional(b.name)) - Number(isPromotional(a.name))
}

function later(a: Pico, b: Pico): Pico {
  return a > b ? a : b
}
