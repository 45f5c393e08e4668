import { tierRefusal } from '../allowlist.ts'
import { Forbidden, PaymentRequired, TooManyRequests, Unavailable } from '../errors.ts'
import type { Held, HeldOk } from '../ledger/ledger.ts'
import type { Call, Stage } from '../pipeline.ts'

/** Sets the money aside. Refuses when a cap, the balance, or what running calls leave of it is used up. */
export const hold: Stage = async function hold(call, next) {
  const { id: request, account, key, entered, model, endpoint, runtime } = call
  const amount = entered.paid
    ? runtime.holds.of(
        runtime.config.billing.hold,
        key.id,
        model.id,
        model.prices,
        endpoint.estimate(call.input, model),
      )
    : 0n
  const held = await runtime.ledger.hold({
    request,
    account: account.id,
    key: key.id,
    at: entered.at,
    hold: amount,
    free: model.freeTier,
  })
  runtime.metrics.held(held.ok ? 'ok' : held.why)
  if (!held.ok) throw refusalOf(call, held)
  call.held = held
  return next()
}

function refusalOf(call: Call, refused: Exclude<Held, HeldOk>): Error {
  switch (refused.why) {
    case 'tier':
      return tierRefusal(call.runtime.catalog, call.model)
    case 'credits':
      return new PaymentRequired('The balance of this account is used up. Add credits to go on.')
    case 'cap':
      return new Forbidden('key_limit_exceeded', capMessage(refused.scope, refused.resetsAt))
    case 'held':
      return new TooManyRequests(
        'too_many_concurrent',
        'What is left of the balance or spend cap is set aside for calls that are still running.',
      )
    case 'lost':
      return new Unavailable('service_unavailable', 'The gateway was paused for too long.')
  }
}

function capMessage(scope: 'lifetime' | 'day' | 'month', resetsAt: number | undefined): string {
  if (scope === 'lifetime') return 'The spend cap of this key is reached.'
  const when =
    resetsAt === undefined ? '' : ` It starts anew at ${new Date(resetsAt).toISOString()}.`
  return `The spend cap of this key for this ${scope} (UTC) is reached.${when}`
}
