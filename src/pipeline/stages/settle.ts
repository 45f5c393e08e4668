import { performance } from 'node:perf_hooks'
import type { Timeout } from '../../lifetime/scope.ts'
import { SETTLE_MS, unbookedLine } from '../../state/ledger/deferred.ts'
import type { Outcome, Settled, Settlement, UsageRow } from '../../state/ledger/ledger.ts'
import { NO_COST, priceUsage, type Bill } from '../../money/money.ts'
import { tierOf, versionOf } from '../../money/prices.ts'
import type { Call, Charged, Stage } from '../pipeline.ts'

/** Charges exactly once: when the answer ends or, if it never ends, when the call does. */
export const settle: Stage = {
  name: 'settle',
  before(call) {
    let charged: Promise<Charged> | undefined
    const { answer } = call
    call.charge = (outcome = answer.outcome ?? 'completed', pays = outcome !== 'failed') =>
      (charged ??= settleOnce(call, outcome, pays))
    call.through(call.endpoint.billing.attach(call))
  },

  /** Resolves once the charge is booked. */
  end({ answer, charge }) {
    return answer.bill ? undefined : charge(answer.outcome ?? 'failed').then(() => {})
  },
}

/**
 * Prices the meter and books it. Failed calls, calls of the free tier, and those that a guard could not judge are
 * booked with a cost of 0.
 * @param pays false: the call costs nothing
 */
function settleOnce(call: Call, outcome: Outcome, pays: boolean): Promise<Charged> {
  return new Promise((resolve) => {
    try {
      const started = performance.now()
      const { answer, admission, runtime } = call
      const billed = pays && admission.held!.billed && !answer.decision?.unavailable
      const sum = billed ? priceUsage(answer.meter) : NO_COST
      const bill = boundedOf(call, sum)
      const charged = billed ? (bill === sum ? undefined : 'most') : 'nothing'
      const take = (state: Settled['state']) => {
        runtime.metrics.settled(state, (performance.now() - started) / 1000)
        if (state !== 'deferred') {
          answer.bill = bill
          call.marks.settledMs = call.elapsedMs
        }
        resolve({ bill, state, waive: waive.bind(undefined, call) })
      }
      new Booking(call, settlementOf(call, outcome, bill, charged), take).begin()
    } catch (error) {
      resolve(unsettled(call, error))
    }
  })
}

/** The bill, at most `billing.mostPerCall`. */
function boundedOf(call: Call, bill: Bill): Bill {
  const { runtime, answer } = call
  const { mostPerCall } = runtime.config.billing
  if (bill.cost <= mostPerCall) return bill
  answer.flags.add('suspicious')
  runtime.usageFindings.overpriced(call.id, answer.deployment, bill.cost, mostPerCall)
  return bill.cappedAt(mostPerCall)
}

/** The result for a call whose charge could not even be made up. */
function unsettled({ id, runtime }: Call, error: unknown): Charged {
  runtime.log.error(`${id}: the charge failed`, error)
  return { bill: NO_COST, state: 'deferred', waive: () => {} }
}

function settlementOf(
  call: Call,
  outcome: Outcome,
  { cost }: Bill,
  charged: UsageRow['charged'],
): Settlement {
  const { id: request, path, admission, target, answer } = call
  const { account, key } = admission
  const { deployment, meter, flags, reported } = answer
  return {
    request,
    account: account.id,
    key: key.id,
    day: admission.held!.day,
    cost,
    usage: {
      at: admission.entered!.at,
      endpoint: path,
      model: target.model.id,
      ...(deployment !== undefined && { deployment }),
      outcome,
      lines: meter.map(({ source, usage, prices }) => ({
        source,
        usage,
        prices: versionOf(prices),
        tier: tierOf(prices, usage.promptTokens ?? 0),
      })),
      ...call.request.labels,
      gateway: call.runtime.gatewayId,
      ...(charged && { charged }),
      ...(flags.size > 0 && { flags: [...flags] }),
      ...(reported && { reported }),
    },
  }
}

/** Has the ledger book a charge. A fault of the ledger ends with this call. */
class Booking {
  readonly #call: Call
  readonly #settlement: Settlement
  #take: ((state: Settled['state']) => void) | undefined
  readonly #timeout: Timeout

  /** @param take gets the answer of the ledger, once; `deferred` when there is none in time */
  constructor(call: Call, settlement: Settlement, take: (state: Settled['state']) => void) {
    this.#call = call
    this.#settlement = settlement
    this.#take = take
    // Bound, as the other methods: see `lifetime/README.md`.
    this.#timeout = call.timeout(SETTLE_MS, this.#late.bind(this))
  }

  begin(): void {
    const { ledger, prices } = this.#call.runtime
    const failed = this.#failed.bind(this)
    // Those of searches and guards; `hold` has stored those of the model. No charge waits for them.
    void prices.keep(this.#call.answer.meter)
    try {
      ledger.settle(this.#settlement).then(this.#booked.bind(this), failed)
    } catch (error) {
      failed(error)
    }
  }

  #booked({ state }: Settled): void {
    this.#answered(state)
  }

  #failed(error: unknown): void {
    if (!this.#take) return
    this.#call.runtime.log.error(unbookedLine(this.#settlement, 'the ledger has failed'), error)
    this.#answered('deferred')
  }

  #late(): void {
    const { id, runtime } = this.#call
    runtime.log.error(`${id}: the ledger has not answered a charge in time; it may still be booked`)
    this.#answered('deferred')
  }

  #answered(state: Settled['state']): void {
    const take = this.#take
    this.#take = undefined
    this.#timeout.clear()
    take?.(state)
  }
}

/** Waives a charge without waiting: the client gets its error, whatever the ledger answers. */
function waive({ id: request, admission, runtime }: Call): void {
  const { account, key } = admission
  const { ledger, metrics, log } = runtime
  const waiving = async () => {
    const { state, cost } = await ledger.waive({ request, account: account.id, key: key.id })
    if (state === 'deferred') metrics.waived()
    else if (cost > 0n) log.error(`${request} is charged although its answer was not sent`)
  }
  waiving().catch((error: unknown) => log.error(`${request}: waiving its charge failed`, error))
}
