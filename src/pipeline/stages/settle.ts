import { performance } from 'node:perf_hooks'
import type { Timeout } from '../../lifetime/scope.ts'
import { InternalError, ShuttingDown, type GatewayError } from '../../errors/errors.ts'
import { SETTLE_MS, unbookedLine } from '../../state/ledger/unconfirmed.ts'
import type { Settled, Settlement } from '../../state/ledger/ledger.ts'
import {
  isOfModel,
  NO_COST,
  priceUsage,
  vendorCostOf,
  type Bill,
  type UsageLine,
} from '../../money/money.ts'
import { tierOf, versionOf, type Prices } from '../../money/prices.ts'
import type { Charge } from '../charge.ts'
import type { Call, Receipt, Stage } from '../pipeline.ts'
import { leaseOf } from '../rates.ts'

/**
 * Prices the meter when the answer ends, and books the sum when the call does: between booking and sending stands nothing that
 * can fail.
 */
export const settle: Stage = {
  name: 'settle',
  before(call) {
    call.charge = new CallCharge(call)
    call.through(call.endpoint.billing.attach(call))
  },

  /** Resolves once the charge is booked. */
  end(call) {
    return call.charge?.book()
  },
}

class CallCharge implements Charge {
  readonly #call: Call
  #bill: Bill | undefined
  #receipt: Receipt | undefined
  #charged: Settlement['usage']['charged']
  #because: Settlement['usage']['because']
  /** The error that the client gets in place of an answer, or of its end. */
  #error: GatewayError | undefined
  #booking: Promise<void> | undefined
  #isGivenUp = false

  constructor(call: Call) {
    this.#call = call
  }

  price(error?: GatewayError, failed = error !== undefined): Receipt | undefined {
    if (this.#booking) return this.#call.answer.unbooked ? undefined : this.#receipt
    this.#error = error
    const call = this.#call
    const { answer, admission } = call
    if (!isModelPaid(call, failed, error)) takeModelOff(call)
    const isOurs = error !== undefined && isGatewaysFault(call, error)
    const billed = admission.held!.billed && !isOurs
    const sum = billed ? priceUsage(answer.meter) : NO_COST
    answer.vendor = vendorCostOf(answer.meter, billed ? sum : undefined)
    if (isOurs && admission.held!.billed) countUnbilled(call, priceUsage(answer.meter))
    this.#bill = answer.priced = boundedOf(call, sum)
    this.#charged = billed ? (this.#bill === sum ? undefined : 'most') : 'nothing'
    this.#because = billed ? undefined : isOurs ? 'gateway' : 'free_tier'
    return (this.#receipt = call.receipt(this.#bill))
  }

  book(): Promise<void> {
    return (this.#booking ??= this.#book())
  }

  #book(): Promise<void> {
    const call = this.#call
    return new Promise((resolve) => {
      const started = performance.now()
      const take = (state: Settled['state']) => {
        call.runtime.metrics.settled(state, (performance.now() - started) / 1000)
        if (state === 'deferred') this.#deferred()
        else {
          call.answer.bill = this.#bill
          call.marks.settledMs = call.elapsedMs
        }
        call.runtime.holds.settled.wake(call.admission.account.id)
        resolve()
      }
      try {
        const { outcome } = call.answer
        if (!this.#bill) this.price(undefined, outcome === 'failed')
        if (this.#isGivenUp) this.#giveUp()
        new Booking(call, this.#settlement(), take).begin()
      } catch (error) {
        call.runtime.log.error(`${call.id}: the charge failed`, error)
        take('deferred')
      }
    })
  }

  giveUp(): void {
    this.#isGivenUp = true
  }

  #giveUp(): void {
    const call = this.#call
    if (this.#bill!.cost > 0n) countUnbilled(call, this.#bill!)
    this.#bill = call.answer.priced = NO_COST
    this.#charged = 'nothing'
    call.answer.unbooked = true
    call.answer.outcome = 'failed'
  }

  /** The charge is durable nowhere yet. It costs nothing where the client has nothing of the answer, and gets an error now. */
  #deferred(): void {
    const call = this.#call
    const { answer } = call
    answer.unbooked = true
    if (answer.outcome === 'cancelled' || isSent(call)) return
    answer.outcome = 'failed'
    if (this.#bill?.cost) countUnbilled(call, this.#bill)
    waive(call)
  }

  #settlement(): Settlement {
    const call = this.#call
    const { id: request, path, admission, target, answer } = call
    const { account } = admission
    const { counted } = admission.held!
    const { deployment, meter, flags, reported, vendor } = answer
    const violated = this.#error?.code === 'policy_violation'
    return {
      ...leaseOf(request, admission),
      day: admission.held!.day,
      cost: this.#bill!.cost,
      usage: {
        at: admission.entered!.at,
        endpoint: path,
        model: target.model.id,
        ...(deployment !== undefined && { deployment }),
        outcome: violated ? 'refused' : (answer.outcome ?? 'completed'),
        lines: meter.map(({ source, usage, prices, cost }) => ({
          source,
          usage,
          prices: versionOf(prices),
          tier: tierOf(prices, usage.promptTokens ?? 0),
          ...(cost && cost !== prices && { cost: versionOf(cost) }),
        })),
        ...call.request.labels,
        gateway: call.runtime.gatewayId,
        ...(admission.team && { team: admission.team.id }),
        ...(counted !== undefined && { counted }),
        ...(this.#charged && { charged: this.#charged }),
        ...(this.#because && { because: this.#because }),
        ...(account.priceList !== undefined && { list: account.priceList }),
        ...(vendor !== undefined && { vendor: String(vendor) }),
        ...(flags.size > 0 && { flags: [...flags] }),
        ...(reported && { reported }),
      },
    }
  }
}

/** The prices of a line, and those of its vendor where they are others. */
function pricesOf({ prices, cost }: UsageLine): { readonly prices: Prices }[] {
  return cost && cost !== prices ? [{ prices }, { prices: cost }] : [{ prices }]
}

/** Whether some of the answer went out. */
function isSent({ answer: { produced, written } }: Call): boolean {
  return produced && written
}

/**
 * Whether the model's line stays on the meter: some of the answer went out, or all of it is ready to, or its client left, or a
 * guard has withheld it for its text. What a guard withheld that could not be reached is the operator's.
 */
function isModelPaid(call: Call, failed: boolean, error: GatewayError | undefined): boolean {
  const { outcome, decision } = call.answer
  if (outcome === 'cancelled') return true
  if (decision?.unavailable) return !decision.isDown
  return !failed || isSent(call) || error?.code === 'policy_violation'
}

function takeModelOff({ answer: { meter } }: Call): void {
  const index = meter.findIndex(isOfModel)
  if (index !== -1) meter.splice(index, 1)
}

/** Whether a call fails by the gateway itself, and before its client has anything: it costs nothing then. */
function isGatewaysFault(call: Call, error: GatewayError): boolean {
  return !isSent(call) && (error instanceof InternalError || error instanceof ShuttingDown)
}

function countUnbilled({ runtime }: Call, { cost }: Bill): void {
  runtime.metrics.unbilled('gateway', cost)
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
    void prices.keep(this.#call.answer.meter.flatMap(pricesOf))
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
  const { ledger, metrics, log } = runtime
  const waiving = async () => {
    const { state, cost } = await ledger.waive(leaseOf(request, admission))
    if (state === 'deferred') metrics.waived()
    else if (cost > 0n) log.error(`${request} is charged although its answer was not sent`)
  }
  waiving().catch((error: unknown) => log.error(`${request}: waiving its charge failed`, error))
}
