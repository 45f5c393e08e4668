import { tierRefusal } from '../../models/allowlist.ts'
import { Forbidden, PaymentRequired, TooManyRequests, Unavailable } from '../../errors/errors.ts'
import type { HoldResult, HoldGranted } from '../../state/ledger/ledger.ts'
import type { Pico } from '../../money/money.ts'
import type { Call, Stage } from '../pipeline.ts'
import { RESULT_TOKENS, searchPrice } from '../../search/search.ts'

/**
 * Reserves money for the call.
 * @throws Forbidden for a spend cap, PaymentRequired for the balance, TooManyRequests while running calls hold the rest
 */
export const hold: Stage = async function hold(call, next) {
  const { id: request, account, key, entered, model, runtime } = call
  const amount = entered.paid ? amountFor(call) : 0n
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

/** The hold for the answer, and for the web search that the client wants. */
function amountFor(call: Call): Pico {
  const { key, model, endpoint, runtime, request } = call
  const { input } = request
  const policy = runtime.config.billing.hold
  const estimate = endpoint.billing.estimate(input, model)
  const wanted = endpoint.grounding?.searchRequest(input, call.online)
  if (!wanted || !runtime.search) {
    return runtime.holds.of(policy, key.id, model.id, model.prices, estimate)
  }
  const promptTokens = (estimate.most.promptTokens ?? 0) + RESULT_TOKENS
  const most = { ...estimate.most, promptTokens }
  const amount = runtime.holds.of(policy, key.id, model.id, model.prices, { ...estimate, most })
  return amount + searchPrice(runtime.search.engineFor(wanted).prices)
}

function refusalOf(call: Call, refused: Exclude<HoldResult, HoldGranted>): Error {
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
