/** `/v1/key/checkout` and `/v1/key/payments`: the holder of a key buys credit for its account. */
import * as v from 'valibot'
import { filledText, object } from '../../errors/checks.ts'
import { Forbidden, InvalidRequest, NotFound } from '../../errors/errors.ts'
import { checkParameters, readLimit } from '../../errors/query.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { KnownPayment } from '../../payments/orders.ts'
import { checkoutBody, checkoutView, holderPayment } from '../../server/admin/resources/payment.ts'
import type { Policy } from '../../policy/policy.ts'
import { readValid } from '../shared/body.ts'
import type { GetRoute } from './route.ts'

const LIMIT_BYTES = 65_536
const PARAMETERS = new Set(['limit', 'after'])
const PATH = '/v1/key/payments'
const PRIVATE = { authenticated: true, cacheControl: 'no-store' }

interface Body {
  readonly usd: string
  readonly policy?: Policy
}

const body = object({ usd: filledText }, ['usd'])

/** Orders credit; the answer has the address of the page on which it is paid. */
export const keyCheckout: GetRoute = {
  path: '/v1/key/checkout',
  ...PRIVATE,
  body,
  async answer({ runtime, admission, incoming }) {
    requireHolders(runtime)
    const { usd } = await readValid<Body>(incoming, LIMIT_BYTES, body)
    if (!v.is(checkoutBody, { usd })) {
      const message = 'Invalid \'usd\': expected an amount in USD as decimal text, such as "25".'
      throw new InvalidRequest('invalid_value', message, { param: 'usd' })
    }
    const { account, key } = admission
    const by = `key:${key.id}`
    const { order, url } = await runtime.payments.order({ account: account.id, usd, by })
    return JSON.stringify({ data: checkoutView(order, url) })
  },
}

/** The orders of the calling key. */
export const keyPayments: GetRoute = {
  path: PATH,
  ...PRIVATE,
  async answer({ runtime, admission, incoming }) {
    requireHolders(runtime)
    const query = new URLSearchParams(incoming.url.split('?')[1] ?? '')
    const { account, key } = admission
    const filter = { accounts: [account.id], by: `key:${key.id}` }
    return JSON.stringify(await paymentsOf(runtime, filter, query))
  },
}

/** One order of the calling key. While it is open, the provider is asked what became of it. */
export const keyPayment: GetRoute = {
  path: `${PATH}/{reference}`,
  ...PRIVATE,
  async answer(call) {
    requireHolders(call.runtime)
    const reference = call.incoming.url.split('?', 1)[0]!.slice(PATH.length + 1)
    const { account, key } = call.admission
    const isOwn = ({ row }: KnownPayment) =>
      row.account === account.id && row.by === `key:${key.id}`
    return JSON.stringify(await returnedPayment(call.runtime, reference, isOwn))
  },
}

/** Orders as their customer sees them, newest first, and the terms of new ones. @throws InvalidRequest */
export async function paymentsOf(
  { config, payments }: Runtime,
  filter: { readonly accounts: readonly string[]; readonly by?: string },
  query: URLSearchParams,
) {
  checkParameters(query, PARAMETERS)
  const limit = readLimit(query.get('limit'))
  const page = await payments.list(filter, query.get('after') ?? undefined, limit + 1)
  if (!page) {
    const message = "Invalid 'after': nothing in this list has that reference."
    throw new InvalidRequest('invalid_value', message, { param: 'after' })
  }
  const data = page.slice(0, limit).map(({ row, takenBack }) => holderPayment(row, takenBack))
  const { currency, rate, amounts, min, max } = config.payments!
  const terms = { currency, rate, amounts, min, max }
  return { data, next: page.length > limit ? data.at(-1)!.reference : null, terms }
}

/** A payment whose customer has come back. @throws NotFound for one of another customer */
export async function returnedPayment(
  { payments }: Runtime,
  reference: string,
  isOwn: (payment: KnownPayment) => boolean,
) {
  const payment = await payments.payment(reference)
  if (!isOwn(payment)) {
    throw new NotFound('not_found', `There is no payment ${JSON.stringify(reference)}.`)
  }
  const { row, takenBack } = await payments.returned(reference)
  return { data: holderPayment(row, takenBack) }
}

/** @throws NotFound where customers do not pay, Forbidden where holders of keys may not */
export function requireHolders({ config: { payments } }: Runtime): void {
  if (!payments) throw new NotFound('unknown_url', 'There is no such route.')
  if (payments.holders) return
  throw new Forbidden('forbidden', 'Holders of keys may not order credit here.')
}
