/**
 * Orders of credit: written before the payment provider is asked, and booked once when it tells of the payment, in whatever order
 * and however often. An order is asked for, because webhooks of a payment, a refund or a dispute may never come.
 */
import type { Accounts } from '../accounts/accounts.ts'
import type { Account } from '../accounts/stored.ts'
import type { Config } from '../config/config.ts'
import {
  Forbidden,
  InvalidRequest,
  NotFound,
  NotPossible,
  TooManyRequests,
  Unavailable,
} from '../errors/errors.ts'
import { inTime } from '../lifetime/scope.ts'
import { formatPico, MAX_AMOUNT, parsePico, type Pico } from '../money/money.ts'
import type { Alerts, Finding } from '../observe/alerts.ts'
import type { Checkout, PaymentEvent, Payments, WebhookDelivery } from '../plugin.ts'
import type { StoredPayment } from '../server/admin/resources/payment.ts'
import { randomId } from '../state/ids.ts'
import type { Booking, Ledger } from '../state/ledger/ledger.ts'
import type { Records } from '../state/records.ts'
import { isDeepStrictEqual } from 'node:util'

// Amounts of payments: the charge of an order, and what a part of a payment is worth. All are exact.

const PICO_DIGITS = 12
const ONE = 10n ** BigInt(PICO_DIGITS)

/** Currencies whose minor unit is not a hundredth, by ISO 4217. */
const DIGITS: Readonly<Record<string, number>> = Object.fromEntries([
  ...'bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf'
    .split(' ')
    .map((code) => [code, 0] as const),
  ...'bhd iqd jod kwd lyd omr tnd'.split(' ').map((code) => [code, 3] as const),
])

/** The charge for an amount of credit, rounded up to the minor unit of the currency. @param rate the price of 1 USD */
function chargeFor(usd: Pico, rate: string, currency: string): string {
  const digits = DIGITS[currency] ?? 2
  const unit = 10n ** BigInt(PICO_DIGITS - digits)
  const exact = usd * parsePico(rate)
  const units = (exact + ONE * unit - 1n) / (ONE * unit)
  const [whole, fraction = ''] = formatPico(units * unit).split('.')
  return digits === 0 ? whole! : `${whole}.${fraction.padEnd(digits, '0')}`
}

/** The credit for an amount that was paid, rounded down. @param rate the price of 1 USD */
function creditFor(paid: string, rate: string): Pico {
  return (parsePico(paid) * ONE) / parsePico(rate)
}

/** The credit for a part of a payment, rounded down. */
function shareOf(usd: string, part: string, paid: string): Pico {
  return (parsePico(usd) * parsePico(part)) / parsePico(paid)
}

function isSameAmount(one: string, other: string): boolean {
  return parsePico(one) === parsePico(other)
}

// What a payment provider has reported of one payment, in any order.

type Paid = Extract<PaymentEvent, { readonly type: 'paid' }>

/** A refund or a dispute. */
interface Reversal {
  readonly kind: 'refund' | 'dispute'
  readonly amount: string
  readonly currency: string
  /** Whether it took place, and whether it was taken back. The second may be reported first. */
  readonly done?: true
  readonly undone?: true
}

/** The record `payment-facts:<id of the payment>`. */
interface PaymentFacts {
  readonly revision: number
  /** The payment plugin that has reported them. */
  readonly provider: string
  /** It is absent for what is reported before the payment. */
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
function paymentOf(event: PaymentEvent): string {
  return event.type === 'paid' ? event.id : event.payment
}

function factsKey(payment: string): string {
  return `payment-facts:${payment}`
}

/** Keeps an event, and forgets none: it can be reported again, and in any order. @returns what is known of its payment */
async function keepEvent(
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
function takenBack({ paid, reversals }: PaymentFacts, usd: string): readonly Taken[] {
  return Object.entries(reversals).flatMap(([id, { kind, amount, currency, done, undone }]) => {
    if (!paid || !done || currency !== paid.currency) return []
    const share = shareOf(usd, amount, paid.amount)
    const cash = { amount, currency }
    return share === 0n ? [] : [{ id, kind, amount: share, cash, undone: undone === true }]
  })
}

/** The payment provider of a configuration. */
export interface PaymentProvider {
  /** Name of its plugin, which is part of every reference in the ledger. */
  readonly name: string
  readonly provider: Payments
}

interface OrdersOptions {
  readonly records: Records
  readonly ledger: Pick<Ledger, 'book' | 'health'>
  readonly accounts: Pick<Accounts, 'account'>
  /** It is undefined where customers do not pay. */
  readonly provider: () => PaymentProvider | undefined
  readonly settings: () => Pick<Config, 'payments' | 'server'>
  /** It is called when the balance of an account has changed. */
  readonly booked: (account: string) => void
  readonly once: (what: Parameters<Alerts['once']>[0]) => void
  readonly warn: (message: string) => void
}

/** An order of credit. */
interface CreditOrder {
  readonly account: string
  /** Decimal text. */
  readonly usd: string
  /** Id of the actor who orders. */
  readonly by: string
  readonly email?: string | undefined
}

/** One of several accounts or states has to fit; an empty list is all. */
interface PaymentFilter {
  readonly accounts?: readonly string[]
  readonly states?: readonly string[]
  /** Id of the actor who ordered it. */
  readonly by?: string | undefined
}

/** A payment with its facts. */
export interface KnownPayment {
  readonly row: StoredPayment
  readonly takenBack: Pico
}

const PROVIDER_MS = 10_000
const LOOK_MS = 60_000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
/** Age from which an open order is asked for, every hour until it lapses. */
const FIRST_ASK_MS = 10 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const LAPSE_MS = 3 * DAY_MS
/** Booked orders are asked for after a day and then weekly, as long as a card can be disputed: reversals lose webhooks, too. */
const REVERSAL_MS = 126 * DAY_MS
const REVERSAL_ASK_MS = 7 * DAY_MS
/** Booked orders that are asked for in one look. */
const MOST_ASKED = 20
/** Least time between two questions for one order by customers who have returned. */
const RETURN_MS = 5_000
const MOST_OPEN = 10
const URL_LENGTH = 4096

const ALL = 'payments'
const OPEN = 'payments-open'
/** Booked orders as `<day of the next question>_<reference>`. */
const BOOKED = 'payments-booked'
const UNMATCHED = 'payments-unmatched'
const ofAccount = (account: string) => `payments-of:${account}`
const rowKey = (reference: string) => `payment:${reference}`
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)
const turnOf = (reference: string, at: number) => `${dayOf(at)}_${reference}`

export class PaymentOrders {
  readonly #options: OrdersOptions
  /** References of payments without an order; undefined until they were looked up. */
  #unmatched: Set<string> | undefined
  #lookedAt = -Infinity
  #turn: Promise<void> | undefined

  constructor(options: OrdersOptions) {
    this.#options = options
  }

  // Orders.

  /**
   * Orders credit. @returns the order, and the page on which it is paid
   * @throws InvalidRequest for an amount out of bounds, Forbidden for an account that is not in force, TooManyRequests, Unavailable
   */
  async order({ account, usd, by, email }: CreditOrder) {
    const { name, provider } = this.#provider()
    const { payments, server } = this.#options.settings()
    const { currency, rate, min, max } = payments!
    const amount = parsePico(usd)
    if (amount < parsePico(min) || amount > parsePico(max)) {
      const message = `Invalid 'usd': expected an amount from ${min} to ${max}.`
      throw new InvalidRequest('invalid_value', message, { param: 'usd' })
    }
    requireInForce(await this.#accountOf(account))
    const charge = { amount: chargeFor(amount, rate, currency), currency }
    const reference = randomId('pay_')
    await this.#takePlace(account, reference)
    const createdAt = Date.now()
    const order = { reference, account, usd: formatPico(amount), charge, rate, by, createdAt }
    const row = { ...order, revision: 1, state: 'open', provider: name } as const
    await this.#add(row, OPEN)
    const address = `${server.publicUrl}/me`
    const page = await this.#checkout(provider, {
      reference,
      description: `${order.usd} USD of credit`,
      ...charge,
      returnUrl: `${address}?payment=${reference}`,
      cancelUrl: address,
      ...(email !== undefined && { email }),
    })
    if (!page) {
      // No customer has its page: it cannot be paid.
      await this.#change(reference, (stored) => ({ ...stored, state: 'lapsed' }))
      await this.#options.records.drop(OPEN, reference)
      throw new Unavailable(
        'service_unavailable',
        'The payment provider does not answer as expected. Nothing was ordered. Try again later.',
      )
    }
    await this.#change(reference, (stored) => ({ ...stored, checkout: page.id }))
    return { order, url: page.url }
  }

  /** The page of an order; undefined, with a line in the log, where the provider makes none. */
  async #checkout(
    provider: Payments,
    order: Parameters<Payments['checkout']>[0],
  ): Promise<Checkout | undefined> {
    try {
      const made = await this.#ask((signal) => provider.checkout(order, signal))
      if (typeof made?.id === 'string' && made.id !== '' && isPage(made.url)) return made
      this.#options.warn(`the payment provider has made no page with an id and an https address`)
    } catch (error) {
      this.#options.warn(`the payment provider has made no page: ${causeOf(error)}`)
    }
    return undefined
  }

  /** Takes one of the places that an account has for open orders within an hour. @throws TooManyRequests */
  async #takePlace(account: string, reference: string): Promise<void> {
    const { records } = this.#options
    const now = Date.now()
    const key = `payment-places:${account}`
    const life = { ttlSeconds: HOUR_MS / 1000 }
    await records.update<Places>(
      key,
      async (stored) => {
        let orders = (stored?.orders ?? []).filter(({ at }) => now - at < HOUR_MS)
        if (orders.length >= MOST_OPEN) {
          const rows = await this.#rows(orders.map((one) => one.reference))
          const open = new Set(rows.flatMap((row) => (row?.state === 'open' ? row.reference : [])))
          orders = orders.filter((one) => open.has(one.reference))
        }
        if (orders.length >= MOST_OPEN) {
          const reason = `This account has ${MOST_OPEN} open orders, which is the most within an hour.`
          throw new TooManyRequests('rate_limited', reason, HOUR_MS - (now - orders[0]!.at))
        }
        return { orders: [...orders, { reference, at: now }] }
      },
      life,
    )
  }

  // Events of the provider.

  /**
   * Takes a webhook. When it resolves, what it tells is booked.
   * @returns the number of its events; undefined for a wrong signature. @throws Unavailable where it has to be delivered again
   */
  async deliver(delivery: WebhookDelivery): Promise<number | undefined> {
    const { name, provider } = this.#provider()
    const late = () => new Error('it took more than 10 seconds')
    let events: readonly PaymentEvent[] | undefined
    try {
      const reading = (async () => provider.read(delivery))()
      events = await inTime(reading, PROVIDER_MS, late)
      if (events !== undefined) checkEvents(events)
    } catch (error) {
      // An error of a reader may quote the body, which is not logged.
      const why = error instanceof BadEvent ? error.message : ((error as Error)?.name ?? 'Error')
      this.#options.warn(`a webhook could not be read: ${why}`)
      throw new Unavailable(
        'service_unavailable',
        'The webhook could not be read. Deliver it again.',
      )
    }
    if (events === undefined) return undefined
    await this.#take(events, name)
    return events.length
  }

  /** Keeps all events before it books the first: what is reported of a payment later may be needed for it. */
  async #take(events: readonly PaymentEvent[], provider: string): Promise<void> {
    for (const event of events) await keepEvent(this.#options.records, event, provider)
    for (const payment of new Set(events.map(paymentOf))) await this.#settle(payment)
  }

  /** Books what is known of a payment and is not booked yet. It may be repeated at every point, by several gateways at once. */
  async #settle(payment: string): Promise<void> {
    const { records } = this.#options
    const facts = await records.get<PaymentFacts>(factsKey(payment))
    if (!facts?.paid) return
    const row = await this.#rowOf(payment, facts)
    const { account, usd, reference, state } = row
    if (account === undefined || usd === undefined) return
    await this.#book(row, facts)
    await this.#takeBack(row, facts)
    if (state !== 'booked') {
      const bookedAt = Date.now()
      if (row.checkout !== undefined) {
        await records.add(BOOKED, turnOf(reference, bookedAt + DAY_MS))
      }
      await this.#change(reference, (stored) =>
        stored.state === 'booked' ? undefined : { ...stored, state: 'booked', bookedAt },
      )
      await this.#warnOfArchived(account, reference)
    }
    await records.drop(OPEN, reference)
    await records.drop(UNMATCHED, reference)
    this.#unmatched?.delete(reference)
  }

  /** The row of a payment: that of its order, if that is for this amount and has no other payment; else one of its own. */
  async #rowOf(payment: string, facts: PaymentFacts): Promise<StoredPayment> {
    const { records } = this.#options
    const { paid, provider, row: assigned } = facts
    if (assigned !== undefined) return (await this.#row(assigned))!
    const fits = (row: StoredPayment) =>
      row.provider === provider &&
      row.charge.currency === paid!.currency &&
      isSameAmount(row.charge.amount, paid!.amount) &&
      row.payment === undefined
    const claimed = await this.#change(paid!.reference, (row) =>
      fits(row) ? { ...row, payment } : undefined,
    )
    let row = claimed ?? (await this.#row(paid!.reference))
    if (row?.payment !== payment || row.reference === payment) row = undefined
    row ??= await this.#withoutOrder(payment, facts)
    const { reference } = row
    await records.update<PaymentFacts>(factsKey(payment), (stored) =>
      stored && stored.row === undefined ? { ...stored, row: reference } : undefined,
    )
    return row
  }

  /** The row of a payment without an order, which waits for an operator. */
  async #withoutOrder(payment: string, { paid, provider }: PaymentFacts): Promise<StoredPayment> {
    const { amount, currency } = paid!
    const row = {
      revision: 1,
      reference: payment,
      state: 'unmatched',
      provider,
      charge: { amount, currency },
      payment,
      createdAt: Date.now(),
    } as const
    await this.#add(row, UNMATCHED)
    this.#unmatched?.add(payment)
    return (await this.#row(payment))!
  }

  async #book(row: StoredPayment, { paid, provider }: PaymentFacts): Promise<void> {
    const { account, usd, payment, decidedBy, note } = row
    const { amount, currency } = paid!
    await this.#booking({
      account: account!,
      kind: 'top-up',
      amount: parsePico(usd!),
      reference: `${provider}:${payment}`,
      actor: decidedBy ?? `payments:${provider}`,
      ...(note !== undefined && { note }),
      facts: { cash: { amount, currency, by: provider, payment: payment! } },
    })
  }

  /** Books refunds and disputes, and their reversals. */
  async #takeBack({ account, usd, payment }: StoredPayment, facts: PaymentFacts): Promise<void> {
    const { provider } = facts
    for (const { id, kind, amount, cash, undone } of takenBack(facts, usd!)) {
      const booking = {
        account: account!,
        kind: 'adjust',
        actor: `payments:${provider}`,
      } as const
      const paidBy = { cash: { ...cash, by: provider, payment: payment! } }
      const [cause, reverse] = CAUSES[kind]
      await this.#booking({
        ...booking,
        amount: -amount,
        reference: `${provider}:${id}`,
        note: `${kind} of the payment ${payment}`,
        facts: { ...paidBy, cause },
      })
      if (!undone) continue
      await this.#booking({
        ...booking,
        amount,
        reference: `${provider}:${id}:reversed`,
        note: `the ${kind} of the payment ${payment} was reversed`,
        facts: { ...paidBy, cause: reverse },
      })
    }
  }

  async #booking(booking: Booking): Promise<void> {
    const { ledger, booked } = this.#options
    const { doubt } = ledger.health()
    if (doubt !== undefined) {
      throw new Unavailable('service_unavailable', `Nothing was booked. ${doubt}`)
    }
    await ledger.book(booking)
    booked(booking.account)
  }

  async #warnOfArchived(id: string, reference: string): Promise<void> {
    const account = await this.#options.accounts.account(id)
    if (account && account.archivedAt === undefined) return
    const message = `the payment ${reference} was booked to the account ${id}, which is archived`
    this.#options.once({ kind: 'payment.unmatched', object: reference, message })
  }

  // Decisions of operators, and what became of orders.

  /**
   * Books a payment without an order, once. @returns the payment, and whether this call has assigned it
   * @throws NotFound, NotPossible for one that is booked, or assigned to another account
   */
  async assign(
    reference: string,
    { account, usd, note, by }: Omit<CreditOrder, 'usd'> & { usd?: string; note?: string },
  ): Promise<KnownPayment & { readonly isNew: boolean }> {
    const { records } = this.#options
    const row = await this.#existing(reference)
    if (row.state !== 'unmatched') {
      throw new NotPossible(`The payment ${reference} is ${row.state}: there is nothing to book.`)
    }
    await this.#accountOf(account)
    const amount = usd === undefined ? this.#creditOf(row) : parsePico(usd)
    if (amount <= 0n || amount > MAX_AMOUNT) {
      const message = `Invalid 'usd': expected an amount above 0 and up to ${formatPico(MAX_AMOUNT)}.`
      throw new InvalidRequest('invalid_value', message, { param: 'usd' })
    }
    const text = formatPico(amount)
    const assigned = await this.#change(reference, (stored) =>
      stored.account === undefined
        ? { ...stored, account, usd: text, by, decidedBy: by, ...(note !== undefined && { note }) }
        : undefined,
    )
    const payment = assigned ?? (await this.#existing(reference))
    if (payment.account !== account || payment.usd !== text) {
      const message = `The payment ${reference} was booked to ${payment.account} with ${payment.usd} USD.`
      throw new NotPossible(message)
    }
    await records.add(ofAccount(account), reference)
    await this.#settle(payment.payment!)
    return { ...(await this.payment(reference)), isNew: assigned !== undefined }
  }

  /** The credit for a payment without an order, by the present rate. @throws InvalidRequest in another currency */
  #creditOf({ charge }: StoredPayment): Pico {
    const { payments } = this.#options.settings()
    if (payments?.currency === charge.currency) return creditFor(charge.amount, payments.rate)
    const message = `Missing 'usd': ${charge.amount} ${charge.currency} were paid, and "payments" has no rate for that currency.`
    throw new InvalidRequest('missing_required_parameter', message, { param: 'usd' })
  }

  /** Asks the provider what became of an order. @throws NotFound, NotPossible, Unavailable */
  async check(reference: string): Promise<KnownPayment> {
    const row = await this.#existing(reference)
    const { name } = this.#provider()
    if (row.checkout === undefined || row.provider !== name) {
      throw new NotPossible(`There is no page of ${name} for ${reference}.`)
    }
    await this.#find(row).catch((error: unknown) => {
      if (error instanceof Unavailable) throw error
      this.#options.warn(`the payment provider could not be asked: ${causeOf(error)}`)
      const message = 'The payment provider cannot be asked now. Try again later.'
      throw new Unavailable('service_unavailable', message)
    })
    return this.payment(reference)
  }

  /** A payment whose customer has returned: the provider is asked while it is open. */
  async returned(reference: string): Promise<KnownPayment> {
    await this.#askIf(reference, Date.now(), ({ askedAt = -Infinity }) => askedAt + RETURN_MS)
    return this.payment(reference)
  }

  /** @throws NotFound */
  async payment(reference: string): Promise<KnownPayment> {
    return (await this.#withFacts([await this.#existing(reference)]))[0]!
  }

  /** Payments, newest first. @param after the reference before the first one. @returns undefined where that is not in the list */
  async list(
    { accounts = [], states = [], by }: PaymentFilter,
    after: string | undefined,
    most: number,
  ): Promise<readonly KnownPayment[] | undefined> {
    const index = accounts.length === 1 ? ofAccount(accounts[0]!) : ALL
    const ids = (await this.#options.records.list(index)).toReversed()
    const from = after === undefined ? 0 : ids.indexOf(after) + 1
    if (after !== undefined && from === 0) return undefined
    const isOne = (of: readonly string[], value: string) => of.length === 0 || of.includes(value)
    const fits = (row: StoredPayment) =>
      isOne(accounts, row.account ?? '') &&
      isOne(states, row.state) &&
      (by === undefined || row.by === by)
    const matching: StoredPayment[] = []
    for (let at = from; at < ids.length && matching.length < most; at += BATCH) {
      const rows = await this.#rows(ids.slice(at, at + BATCH))
      matching.push(...rows.filter((row) => row !== undefined).filter(fits))
    }
    return this.#withFacts(matching.slice(0, most))
  }

  async #withFacts(rows: readonly StoredPayment[]): Promise<readonly KnownPayment[]> {
    const paid = rows.filter(({ payment }) => payment !== undefined)
    const keys = paid.map(({ payment }) => factsKey(payment!))
    const facts = await this.#options.records.getMany<PaymentFacts>(keys)
    const byPayment = new Map(paid.map(({ payment }, i) => [payment, facts[i]]))
    return rows.map((row) => {
      const paidFacts = row.usd === undefined ? undefined : byPayment.get(row.payment)
      const reversals = paidFacts ? takenBack(paidFacts, row.usd!) : []
      const sum = reversals.reduce((sum, { amount, undone }) => (undone ? sum : sum + amount), 0n)
      return { row, takenBack: sum }
    })
  }

  // Reconciling.

  /** @param steadyNow steady ms */
  tick(steadyNow: number): void {
    if (this.#turn || steadyNow - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = steadyNow
    this.#turn = this.reconcile(Date.now())
      .catch((error: unknown) => this.#options.warn(`open orders were not read: ${String(error)}`))
      .finally(() => (this.#turn = undefined))
  }

  /** Waits for a look that is under way. */
  async close(): Promise<void> {
    this.#lookedAt = Infinity
    await this.#turn
  }

  /** Asks for orders that are due, and lets old ones lapse. Rejects where records cannot be read. @param now ms since epoch */
  async reconcile(now: number): Promise<void> {
    const { records } = this.#options
    this.#unmatched = new Set(await records.list(UNMATCHED))
    const open = await records.list(OPEN)
    const rows = await this.#rows(open)
    for (const [i, reference] of open.entries()) {
      const row = rows[i]
      if (row?.state === 'open') await this.#look(row, now)
      else await records.drop(OPEN, reference)
    }
    await this.#lookForReversals(now)
  }

  async #lookForReversals(now: number): Promise<void> {
    const { records } = this.#options
    const due = (await records.list(BOOKED)).filter((turn) => turn.slice(0, 10) <= dayOf(now))
    for (const turn of due.slice(0, MOST_ASKED)) {
      const reference = turn.slice(turn.indexOf('_') + 1)
      const isAnswered = await this.#askIf(
        reference,
        now,
        ({ askedAt = -Infinity }) => askedAt + HOUR_MS,
        'booked',
      )
      const { bookedAt = 0 } = (await this.#row(reference)) ?? {}
      const next = now + (isAnswered ? REVERSAL_ASK_MS : DAY_MS)
      if (now - bookedAt < REVERSAL_MS) await records.add(BOOKED, turnOf(reference, next))
      await records.drop(BOOKED, turn)
    }
  }

  async #look({ reference, createdAt }: StoredPayment, now: number): Promise<void> {
    await this.#askIf(reference, now, ({ askedAt = -Infinity }) =>
      askedAt < createdAt + FIRST_ASK_MS ? createdAt + FIRST_ASK_MS : askedAt + HOUR_MS,
    )
    if (now - createdAt < LAPSE_MS) return
    await this.#change(reference, (row) =>
      row.state === 'open' && row.payment === undefined ? { ...row, state: 'lapsed' } : undefined,
    )
  }

  /**
   * Asks the provider for an order that is due; of several gateways one does. Never rejects for the provider.
   * @returns false where the provider gave no answer
   */
  async #askIf(
    reference: string,
    now: number,
    dueAt: (row: StoredPayment) => number,
    state: StoredPayment['state'] = 'open',
  ): Promise<boolean> {
    const name = this.#options.provider()?.name
    const claimed = await this.#change(reference, (row) => {
      const isAsked = row.state === state && row.checkout !== undefined && row.provider === name
      return isAsked && now >= dueAt(row) ? { ...row, askedAt: now } : undefined
    })
    if (!claimed) return true
    try {
      await this.#find(claimed)
      return true
    } catch (error) {
      this.#options.warn(`it is not known what became of ${reference}: ${causeOf(error)}`)
      return false
    }
  }

  async #find({ checkout }: StoredPayment): Promise<void> {
    const { name, provider } = this.#provider()
    const events = await this.#ask((signal) => provider.find(checkout!, signal))
    checkEvents(events)
    await this.#take(events, name)
  }

  /** Payments without an order, for alerts. */
  findings(): readonly Finding[] {
    return [...(this.#unmatched ?? [])].map((reference) => ({
      kind: 'payment.unmatched',
      object: reference,
      state: 'wrong',
      message: `the payment ${reference} is for no order: sluicegate payments book ${reference} --account <id>`,
    }))
  }

  /** Whether {@link PaymentOrders.findings} has all of them. */
  get hasLooked(): boolean {
    return this.#unmatched !== undefined
  }

  // Records.

  #ask<T>(question: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = () => new Error('it took more than 10 seconds')
    const answer = (async () => question(AbortSignal.timeout(PROVIDER_MS)))()
    return inTime(answer, PROVIDER_MS + 100, late)
  }

  /** @throws NotFound where customers do not pay */
  #provider(): PaymentProvider {
    const provider = this.#options.provider()
    if (!provider)
      throw new NotFound('unknown_url', 'There is no such route: "payments" is not set.')
    return provider
  }

  async #accountOf(id: string): Promise<Account> {
    const account = await this.#options.accounts.account(id)
    if (!account) throw new NotFound('not_found', `There is no account ${JSON.stringify(id)}.`)
    return account
  }

  async #add(row: StoredPayment, index: string): Promise<void> {
    const { records } = this.#options
    await records.create(rowKey(row.reference), row)
    await records.add(ALL, row.reference)
    await records.add(index, row.reference)
    if (row.account !== undefined) await records.add(ofAccount(row.account), row.reference)
  }

  /** @throws NotFound */
  async #existing(reference: string): Promise<StoredPayment> {
    const row = await this.#row(reference)
    if (row) return row
    const shown = JSON.stringify(reference.slice(0, 100))
    throw new NotFound('not_found', `There is no payment ${shown}.`)
  }

  async #row(reference: string): Promise<StoredPayment | undefined> {
    return (await this.#rows([reference]))[0]
  }

  /** A reference may be a text of another program. */
  async #rows(references: readonly string[]): Promise<readonly (StoredPayment | undefined)[]> {
    const keys = references.map((one) => rowKey(isReference(one) ? one : '-'))
    return this.#options.records.getMany<StoredPayment>(keys)
  }

  /** Changes a row that exists. @returns undefined where nothing was changed */
  async #change(
    reference: string,
    change: (row: StoredPayment) => StoredPayment | undefined,
  ): Promise<StoredPayment | undefined> {
    if (!isReference(reference)) return undefined
    return this.#options.records.update<StoredPayment>(rowKey(reference), (row) => {
      if (!row) return undefined
      const { revision: _, ...changed } = change(row) ?? { revision: undefined }
      return Object.keys(changed).length === 0 ? undefined : (changed as StoredPayment)
    })
  }
}

const BATCH = 100

interface Places {
  readonly revision: number
  /** Orders of the last hour. */
  readonly orders: readonly { readonly reference: string; readonly at: number }[]
}

const CAUSES = {
  refund: ['payment_refund', 'refund_failed'],
  dispute: ['dispute', 'dispute_won'],
} as const

class BadEvent extends Error {}

/** @throws BadEvent for what no provider may tell */
function checkEvents(events: readonly PaymentEvent[]): void {
  if (!Array.isArray(events)) throw new BadEvent('the plugin has given no list of events')
  for (const event of events) {
    const problem = eventProblem(event as PaymentEvent)
    if (problem) throw new BadEvent(`the plugin has given an event whose ${problem}`)
  }
}

function isReference(text: string): boolean {
  return /^[\w-]{1,200}$/.test(text)
}

function isPage(url: unknown): boolean {
  const parsed = typeof url === 'string' && url.length <= URL_LENGTH ? URL.parse(url) : null
  return parsed?.protocol === 'https:' || parsed?.protocol === 'http:'
}

/** @throws Forbidden */
function requireInForce({ disabled, archivedAt }: Account): void {
  if (!disabled && archivedAt === undefined) return
  const state = archivedAt === undefined ? 'disabled' : 'archived'
  throw new Forbidden('forbidden', `This account is ${state}: no credit is sold to it.`)
}

function causeOf(error: unknown): string {
  const { cause } = error as Error
  const own = error instanceof Error ? error.message : String(error)
  return cause instanceof Error ? `${own} (${cause.message})` : own
}
