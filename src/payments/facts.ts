/** What a payment provider has told of one payment, in any order. */
import { isDeepStrictEqual } from 'node:util'
import type { PaymentEvent } from '../plugin.ts'
import type { Records } from '../state/records.ts'
import { parsePico, type Pico } from '../money/amounts.ts'
import { shareOf } from './amounts.ts'

type Paid = Extract<PaymentEvent, { readonly type: 'paid' }>

/** A refund or a dispute. */
interface Reversal {
  readonly kind: 'refund' | 'dispute'
  readonly amount: string
  readonly currency: string
  /** Whether it took place, and whether it was taken back. The second may be told first. */
  readonly done?: true
  readonly undone?: true
}

/** The record `payment-facts:<id of the payment>`. */
export interface PaymentFacts {
  readonly revision: number
  /** The payment plugin that told them. */
  readonly provider: string
  /** It is absent for what is told before the payment. */
  readonly paid?: Pick<Paid, 'reference' | 'amount' | 'currency'>
  /** Reference of the row that it was assigned to. */
  readonly row?: string
  /** Refunds and disputes by their ids. */
  readonly reversals: Readonly<Record<string, Reversal>>
}

const KINDS = {
  refunded: ['refund', 'done'],
  refund_failed: ['refund', 'undone'],
  disputed: ['dispute', 'done'],
  dispute_won: ['dispute', 'undone'],
} as const

const ID = /^[\w-]{1,200}$/
const AMOUNT = /^\d{1,12}(\.\d{1,12})?$/

/** What is wrong with an event of a plugin; undefined for one that can be used. */
export function eventProblem(event: PaymentEvent): string | undefined {
  const { type, id, amount, currency } = event as Partial<PaymentEvent>
  const isPaid = type === 'paid'
  if (!isPaid && !Object.hasOwn(KINDS, type ?? '')) return `"type" is ${JSON.stringify(type)}`
  const other = isPaid ? (event as Paid).reference : (event as { payment?: unknown }).payment
  const ids = isPaid ? { id } : { id, payment: other }
  for (const [name, value] of Object.entries(ids))
    if (typeof value !== 'string' || !ID.test(value))
      return `"${name}" is no text of 1 to 200 letters, digits, "_" and "-"`
  if (typeof other !== 'string') return '"reference" is no text'
  if (typeof amount !== 'string' || !AMOUNT.test(amount) || parsePico(amount) === 0n)
    return '"amount" is no decimal text above 0'
  if (typeof currency !== 'string' || !/^[a-z]{3}$/.test(currency))
    return '"currency" is no code of three lower-case letters'
  return undefined
}

/** The id of the payment that an event is about. */
export function paymentOf(event: PaymentEvent): string {
  return event.type === 'paid' ? event.id : event.payment
}

export function factsKey(payment: string): string {
  return `payment-facts:${payment}`
}

/** Keeps an event, and forgets none: it can be told again, and in any order. @returns what is known of its payment */
export async function keepEvent(
  records: Records,
  event: PaymentEvent,
  provider: string,
): Promise<PaymentFacts> {
  const key = factsKey(paymentOf(event))
  const stored = await records.update<PaymentFacts>(key, (facts) => {
    const { revision: _, ...known } = facts ?? { revision: 0, provider, reversals: {} }
    const next = withEvent(known, event)
    return isDeepStrictEqual(next, known) ? undefined : next
  })
  return stored ?? (await records.get<PaymentFacts>(key))!
}

function withEvent(facts: Omit<PaymentFacts, 'revision'>, event: PaymentEvent) {
  if (event.type === 'paid') {
    const { reference, amount, currency } = event
    return { ...facts, paid: facts.paid ?? { reference, amount, currency } }
  }
  const [kind, part] = KINDS[event.type]
  const { id, amount, currency } = event
  const before = facts.reversals[id] ?? { kind, amount, currency }
  const reversal = { ...before, [part]: true as const }
  return { ...facts, reversals: { ...facts.reversals, [id]: reversal } }
}

/** A refund or dispute that took place, with what it takes from the balance. */
interface Taken {
  readonly id: string
  readonly kind: Reversal['kind']
  readonly amount: Pico
  readonly cash: Pick<Reversal, 'amount' | 'currency'>
  readonly undone: boolean
}

/** The reversals of a payment. Those in another currency cannot be converted, and are left to an operator. @param usd its credit */
export function takenBack({ paid, reversals }: PaymentFacts, usd: string): readonly Taken[] {
  return Object.entries(reversals).flatMap(([id, { kind, amount, currency, done, undone }]) => {
    if (!paid || !done || currency !== paid.currency) return []
    const taken = shareOf(usd, amount, paid.amount)
    const cash = { amount, currency }
    return taken === 0n ? [] : [{ id, kind, amount: taken, cash, undone: undone === true }]
  })
}
