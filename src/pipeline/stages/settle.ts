import { performance } from 'node:perf_hooks'
import type { Outcome } from '../../state/ledger/ledger.ts'
import { NO_COST, priceUsage, type Bill } from '../../money/money.ts'
import type { Call, Charge, Stage } from '../pipeline.ts'

/** Charges exactly once: when the reply ends or, if it never ends, when the call does. */
export const settle: Stage = async function settle(call, next) {
  let bill: Promise<Bill> | undefined
  const charge: Charge = (outcome = call.outcome ?? 'completed', pays = outcome !== 'failed') =>
    (bill ??= settleOnce(call, outcome, pays))
  call.scope.defer(() => (call.bill ? undefined : charge(call.outcome ?? 'failed')))
  const { parts } = await next()
  return { parts: parts.through(call.endpoint.billing.attach(call, charge)) }
}

/**
 * Prices the meter and books it. Failed calls and calls of the free tier are booked with a cost of 0.
 * @param pays false: the call costs nothing
 */
async function settleOnce(call: Call, outcome: Outcome, pays: boolean): Promise<Bill> {
  const { id: request, account, key, held, model, path, meter, runtime } = call
  const started = performance.now()
  const bill = pays && held.billed ? priceUsage(meter) : NO_COST
  await runtime.ledger.settle({
    request,
    account: account.id,
    key: key.id,
    day: held.day,
    cost: bill.cost,
    usage: {
      at: call.entered.at,
      endpoint: path,
      model: model.id,
      deployment: call.deployment,
      outcome,
      lines: meter.map(({ source, usage }) => ({ source, usage })),
    },
  })
  call.bill = bill
  const { hold } = runtime.config.billing
  if (hold === 'expected' && outcome === 'completed') {
    // A search has a hold of its own, by its price.
    const search = priceUsage(meter.filter(({ source }) => source === 'search')).cost
    runtime.holds.learn(key.id, model.id, bill.cost - (bill.cost > search ? search : bill.cost))
  }
  runtime.metrics.settled((performance.now() - started) / 1000)
  return bill
}
