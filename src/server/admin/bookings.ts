/** Bookings of the admin API: credits, corrections of a balance, and refunds of calls. Each is booked once per account and reference. */
import { type Booking } from '../../state/ledger/ledger.ts'
import { randomUUID } from 'node:crypto'
import type { Account } from '../../accounts/stored.ts'
import {
  GatewayError,
  InvalidRequest,
  LedgerDoubted,
  NotFound,
  NotPossible,
  ReferenceTaken,
  Unavailable,
} from '../../errors/errors.ts'
import { formatPico, parsePico, usdJson, type Pico } from '../../money/money.ts'
import { momentIn } from '../../state/ledger/zone.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note } from './audit.ts'
import { adjustment, credits, refund } from './resources/account.ts'
import {
  accountOf,
  bodyOf,
  idFromKey,
  needs,
  readNew,
  REPLAYED,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const bookingRoutes: Routes = {
  '/accounts/:id/credits': { POST: needs('money', addCredits) },
  '/accounts/:id/adjust': { POST: needs('money', adjustBalance) },
  '/requests/:id/refund': { POST: needs('money', refundCall) },
}

async function addCredits(request: AdminRequest): Promise<Answer> {
  const body = readNew(credits, await bodyOf(request))
  const account = await bookable(request)
  const isPromo = body.kind === 'promotional'
  const expiresAt = body.expires_at == null ? undefined : readEnd(request, body.expires_at)
  if (body.unlock === true && !isPromo) {
    const message = "Invalid 'unlock': paid credit ends the free tier by itself."
    throw new InvalidRequest('invalid_value', message, { param: 'unlock' })
  }
  const booking: BookingRequest = {
    account: account.id,
    kind: isPromo ? 'promo' : 'top-up',
    amount: parsePico(body.usd),
    reference: referenceFor(request, 'credits', body.reference),
    actor: request.actor.id,
    ...(body.note !== undefined && { note: body.note }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(body.unlock === true && { unlock: true }),
  }
  const isFree = async () => isPromo && !(await request.runtime.ledger.account(account.id)).paid
  return book(request, booking, async () => ({ free_tier: await isFree() }))
}

async function adjustBalance(request: AdminRequest): Promise<Answer> {
  const { usd, reason, reference, takes_from } = readNew(adjustment, await bodyOf(request))
  const { id } = await bookable(request)
  const amount = usd.startsWith('-') ? -parsePico(usd.slice(1)) : parsePico(usd)
  if (takes_from !== undefined && amount > 0n) {
    const message = "Invalid 'takes_from': only an amount below 0 takes from a block."
    throw new InvalidRequest('invalid_value', message, { param: 'takes_from' })
  }
  return book(request, {
    account: id,
    kind: 'adjust',
    amount,
    reference: referenceFor(request, 'adjust', reference),
    note: reason,
    actor: request.actor.id,
    ...(takes_from !== undefined && { takesFrom: takes_from }),
  })
}

/** Gives the cost of a call back, or a part of it, once. */
async function refundCall(request: AdminRequest): Promise<Answer> {
  const { usd, reason } = readNew(refund, await bodyOf(request))
  const { runtime, id } = request
  refuseInDoubt(runtime)
  if (!runtime.usage) {
    const message = 'Calls are not found: "log.usage" is false, and its index has them.'
    throw new NotPossible(message, 'not_available')
  }
  const charge = await runtime.usage.ask('charge', { request: id })
  if (!charge?.row.usage) {
    const message = `There is no charge of ${JSON.stringify(id.slice(0, 100))} in the ledger: it was not booked, or its row was folded.`
    throw new NotFound('not_found', message)
  }
  const { account, row } = charge
  const amount = usd === undefined ? row.cost : parsePico(usd)
  checkRefund(row.cost, amount)
  const { endpoint, model, deployment, outcome, tag, user, team, vendor } = row.usage!
  const { timeZone } = (await runtime.accounts.account(account)) ?? {}
  const zone = timeZone ?? runtime.config.defaults.timeZone
  const call = {
    key: row.key ?? '',
    model,
    endpoint,
    outcome,
    known: vendor !== undefined,
    day: momentIn(zone, Date.now()).slice(0, 10).replaceAll('-', ''),
    ...(team !== undefined && { team }),
    ...(deployment !== undefined && { deployment }),
    ...(tag !== undefined && { tag }),
    ...(user !== undefined && { user }),
  }
  const booking = { account, kind: 'refund', amount, reference: id, note: reason } as const
  const actor = request.actor.id
  const booked = { ...booking, actor, facts: { call } }
  const answer = await book(request, booked, async () => ({ request_id: id }))
  if (answer.status === 201) runtime.metrics.calls.refunded(endpoint, model, amount)
  return answer
}

/** @throws NotPossible for a call that was free, or whose cost is less */
function checkRefund(cost: Pico, amount: Pico): void {
  if (cost === 0n)
    throw new NotPossible(
      'This call has cost nothing: there is nothing to refund.',
      'nothing_to_refund',
    )
  if (amount <= cost) return
  const message = `This call has cost ${formatPico(cost)} USD: ${formatPico(amount)} USD cannot be refunded.`
  throw new NotPossible(message, 'refund_too_large')
}

/** @throws InvalidRequest for a moment that is past, NotPossible where nothing would end the credit */
function readEnd({ runtime }: AdminRequest, text: string): number {
  const at = Date.parse(text)
  if (!runtime.usage) {
    const message = 'Credit cannot end: "log.usage" is false, and its index books the end.'
    throw new NotPossible(message, 'not_available')
  }
  if (at > Date.now()) return at
  const message = `Invalid 'expires_at': expected a moment to come, found ${JSON.stringify(text)}.`
  throw new InvalidRequest('invalid_value', message, { param: 'expires_at' })
}

/** The account of a booking. @throws LedgerDoubted, NotFound, and NotPossible for one that is archived */
async function bookable(request: AdminRequest): Promise<Account> {
  refuseInDoubt(request.runtime)
  const account = await accountOf(request.runtime, request.id)
  if (account.archivedAt === undefined) return account
  throw new NotPossible('This account is archived: book it to another one.', 'account_archived')
}

/** @throws LedgerDoubted while the ledger is not the one that was used until now */
function refuseInDoubt({ ledger }: Runtime): void {
  const { doubt } = ledger.health()
  if (doubt !== undefined)
    throw new LedgerDoubted('ledger_in_doubt', `Nothing was booked. ${doubt}`)
}

/** The reference of a booking: the client's, or one made of its `Idempotency-Key`, or a new one. */
function referenceFor(
  request: AdminRequest,
  kind: 'credits' | 'adjust',
  reference?: string,
): string {
  return reference ?? idFromKey(request, kind, request.id) ?? `${kind}:${randomUUID()}`
}

type BookingRequest = Booking & { readonly kind: keyof typeof ACTIONS }

const ACTIONS = { 'top-up': 'credit', promo: 'credit', adjust: 'adjust', refund: 'refund' }

/**
 * Books; status 200 for a reference that was booked earlier.
 * @param more further members of the answer. @throws ReferenceTaken where that was with another amount, NotPossible for a refund
 */
async function book(
  request: AdminRequest,
  booking: BookingRequest,
  more: () => Promise<object> = async () => ({}),
): Promise<Answer> {
  const { runtime } = request
  const { account, kind, amount, reference, note: remark, expiresAt, takesFrom } = booking
  const { state, cost, balance } = await runtime.ledger.book(booking).catch((error) => {
    refuseInDoubt(runtime)
    return explain(error, reference)
  })
  runtime.usage?.settled(account)
  runtime.spending.touched(account)
  const duplicate = state === 'duplicate'
  if (cost !== -amount) throw bookedBefore(booking, -cost)
  const amounts = { amount_usd: usdJson(-cost), balance_usd: usdJson(balance) }
  const data = { account_id: account, ...amounts, ...(await more()), duplicate }
  if (duplicate) return { status: 200, headers: REPLAYED, body: { data } }
  const reason = kind === 'adjust' || kind === 'refund' ? { reason: remark } : { note: remark }
  const after = {
    usd: formatPico(amount),
    reference,
    ...(kind === 'promo' && { kind: 'promotional' }),
    ...reason,
    ...(expiresAt !== undefined && { expires_at: new Date(expiresAt).toISOString() }),
    ...(takesFrom !== undefined && { takes_from: takesFrom }),
  }
  const action = `account.${ACTIONS[kind]}` as const
  await note(request, { action, object: `account:${account}`, after })
  return { status: 201, body: { data } }
}

function bookedBefore({ kind, amount, reference }: Booking, before: Pico): GatewayError {
  const [first, now] = [before, amount].map((pico) => `${formatPico(pico)} USD`)
  if (kind === 'refund') {
    const message = `${first} of this call were refunded before, not ${now}: nothing was booked.`
    return new NotPossible(message, 'already_refunded')
  }
  const message = `The reference ${JSON.stringify(reference)} was booked with ${first} before, not with ${now}: nothing was booked. Use another reference.`
  return new ReferenceTaken(message)
}

/** Translates an error of the ledger, which may have booked without an answer. */
function explain(error: unknown, reference: string): never {
  if (error instanceof Unavailable) {
    const again = `Repeat it with the reference ${JSON.stringify(reference)}, which books it once.`
    const message = `${error.message} Whether this was booked is not known. ${again}`
    throw new Unavailable('service_unavailable', message, { cause: error })
  }
  if (!(error instanceof RangeError)) throw error
  const message = `Invalid 'usd': ${error.message}.`
  throw new InvalidRequest('invalid_value', message, { param: 'usd' })
}
