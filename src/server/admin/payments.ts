/** Payments of customers, for operators: links, lists, and payments without an order. */
import { InvalidRequest, NotPossible } from '../../errors/errors.ts'
import { checkParameters, readLimit } from '../../errors/query.ts'
import type { KnownPayment } from '../../payments/orders.ts'
import { note } from './audit.ts'
import {
  bookPayment,
  checkoutBody,
  checkoutView,
  PAYMENT_STATES,
  paymentView,
} from './resources/payment.ts'
import {
  accountOf,
  bodyOf,
  needs,
  notInList,
  read,
  readNew,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const paymentRoutes: Routes = {
  '/accounts/:id/checkout': { POST: needs('money', createLink) },
  '/payments': { GET: needs('money', listPayments) },
  '/payments/:id': { GET: needs('money', showPayment) },
  '/payments/:id/check': { POST: needs('money', checkPayment) },
  '/payments/:id/book': { POST: needs('money', assignPayment) },
}

const PARAMETERS = new Set(['account', 'state', 'limit', 'after'])

/** Orders credit for an account: the link is sent to its customer. */
async function createLink(request: AdminRequest): Promise<Answer> {
  const { runtime, id, actor } = request
  const { usd } = read(checkoutBody, await bodyOf(request))
  await accountOf(runtime, id)
  if (!runtime.paymentProvider) {
    const message = 'Customers cannot pay: the configuration has no "payments".'
    throw new NotPossible(message, 'not_available')
  }
  const { order, url } = await runtime.payments.order({ account: id, usd, by: actor.id })
  const after = { usd: order.usd, reference: order.reference }
  await note(request, { action: 'account.checkout', object: `account:${id}`, after })
  return { status: 201, body: { data: checkoutView(order, url) } }
}

async function listPayments({ runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, PARAMETERS)
  const [accounts, states] = [query.getAll('account'), query.getAll('state')]
  for (const id of accounts) await accountOf(runtime, id)
  if (states.some((one) => !(PAYMENT_STATES as readonly string[]).includes(one))) {
    const message = `Invalid 'state': expected one of ${PAYMENT_STATES.join(', ')}.`
    throw new InvalidRequest('invalid_value', message, { param: 'state' })
  }
  const limit = readLimit(query.get('limit'))
  const after = query.get('after') ?? undefined
  const page = await runtime.payments.list({ accounts, states }, after, limit + 1)
  if (!page) throw notInList()
  const data = page.slice(0, limit).map(viewOf)
  return { body: { data, next: page.length > limit ? data.at(-1)!.reference : null } }
}

async function showPayment({ runtime, id }: AdminRequest): Promise<Answer> {
  return { body: { data: viewOf(await runtime.payments.payment(id)) } }
}

async function checkPayment({ runtime, id }: AdminRequest): Promise<Answer> {
  return { body: { data: viewOf(await runtime.payments.check(id)) } }
}

async function assignPayment(request: AdminRequest): Promise<Answer> {
  const { runtime, id, actor } = request
  const { account_id: account, usd, note: remark } = readNew(bookPayment, await bodyOf(request))
  const payment = await runtime.payments.assign(id, {
    account,
    by: actor.id,
    ...(usd !== undefined && { usd }),
    ...(remark !== undefined && { note: remark }),
  })
  const after = { account_id: account, usd: payment.row.usd, reference: id, note: remark }
  if (payment.isNew) await note(request, { action: 'payment.book', object: `payment:${id}`, after })
  return { body: { data: viewOf(payment) } }
}

function viewOf({ row, takenBack }: KnownPayment) {
  return paymentView(row, takenBack)
}
