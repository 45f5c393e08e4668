/** Bookings of the admin API: credits, and corrections of a balance. Each is booked once per account and reference. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest, ReferenceTaken, Unavailable } from '../../errors/errors.ts'
import { formatPico, parsePico, usdJson, type Pico } from '../../money/money.ts'
import type { Settled } from '../../state/ledger/ledger.ts'
import { note as noteChange } from './audit.ts'
import type { readNew } from './bodies.ts'
import type { adjustment, credits } from './resources/account.ts'
import type { AdminRequest } from './route.ts'

/** Books credits; status 200 for a reference that was booked earlier. @throws ReferenceTaken when that was with another amount */
export async function topUp(
  request: Pick<AdminRequest, 'runtime' | 'actor'>,
  account: string,
  { usd, reference = `credits:${randomUUID()}`, note }: ReturnType<typeof readNew<typeof credits>>,
) {
  const amount = parsePico(usd)
  const booked = request.runtime.ledger.topUp({
    account,
    amount,
    reference,
    ...(note !== undefined && { note }),
  })
  const booking = { booked, account, amount, reference }
  const answer = await answerTo(request, booking, { free_tier: false })
  const after = { usd: formatPico(amount), reference, note }
  if (!answer.body.data.duplicate) {
    await noteChange(request, { action: 'account.credit', object: `account:${account}`, after })
  }
  return answer
}

/** Books a correction, as {@link topUp}. */
export async function adjust(
  request: Pick<AdminRequest, 'runtime' | 'actor'>,
  account: string,
  {
    usd,
    reference = `adjust:${randomUUID()}`,
    reason,
  }: ReturnType<typeof readNew<typeof adjustment>>,
) {
  const amount = usd.startsWith('-') ? -parsePico(usd.slice(1)) : parsePico(usd)
  const booked = request.runtime.ledger.adjust({ account, amount, reference, reason })
  const answer = await answerTo(request, { booked, account, amount, reference }, {})
  const after = { usd: formatPico(amount), reference, reason }
  if (!answer.body.data.duplicate) {
    await noteChange(request, { action: 'account.adjust', object: `account:${account}`, after })
  }
  return answer
}

interface Booking {
  readonly booked: Promise<Settled>
  readonly account: string
  readonly amount: Pico
  readonly reference: string
}

async function answerTo(
  { runtime }: Pick<AdminRequest, 'runtime'>,
  { booked, account, amount, reference }: Booking,
  more: object,
) {
  const { state, cost, balance } = await booked.catch((error) => explain(error, reference))
  runtime.usage?.settled(account)
  const duplicate = state === 'duplicate'
  if (cost !== -amount) {
    const [before, now] = [-cost, amount].map((pico) => `${formatPico(pico)} USD`)
    const first = `The reference ${JSON.stringify(reference)} was booked with ${before} before`
    const message = `${first}, not with ${now}: nothing was booked. Use another reference.`
    throw new ReferenceTaken(message)
  }
  const amounts = { amount_usd: usdJson(-cost), balance_usd: usdJson(balance) }
  const data = { account_id: account, ...amounts, ...more, duplicate }
  return { status: duplicate ? 200 : 201, body: { data } }
}

/** Translates an error of the ledger: it bounds balances too, and may have booked without an answer. */
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
