/** Findings about everything that has alerts. */
import { isDeepStrictEqual } from 'node:util'
import type { HealthReport } from '../server/admin/resources/model.ts'
import type { Finding } from '../observe/alerts.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { ModelOutcomes } from '../observe/metrics.ts'

const OLD_MS = 60_000
const YOUNG_MS = 10_000

/** Checks everything that has alerts; the owner calls it at regular intervals. */
export class AlertFindings {
  /** Rows that the request log had dropped at the last check. */
  #dropped = 0
  readonly #errors = new RecentErrors()

  /** One finding for each object with an alert. */
  of(runtime: Runtime): Finding[] {
    return [
      ...deployments(runtime),
      ...egress(runtime),
      ...ledger(runtime),
      ...guards(runtime),
      ...sinks(runtime),
      ...this.#errors.findings(runtime.metrics.calls.outcomes(), performance.now()),
      this.#log(runtime),
    ]
  }

  #log({ requests }: Runtime): Finding {
    let dropped = 0
    for (const [why, rows] of requests?.counts.dropped ?? []) if (why !== 'flood') dropped += rows
    const grows = dropped > this.#dropped
    this.#dropped = dropped
    const message = 'calls are missing in the request log'
    return { kind: 'log.dropped', object: '', state: wrongIf(grows), message }
  }
}

/** Raises an alert for each model with calls since the start whose prices have changed. */
export function raisePriceAlerts(before: Runtime, after: Runtime): void {
  const kind = 'price.changed'
  if (after.config.alerts.off.includes(kind)) return
  const called = before.metrics.calls.outcomes()
  for (const { id: object, pricing } of after.catalog.all()) {
    const old = called.has(object) ? before.catalog.get(object) : undefined
    if (!old || isDeepStrictEqual(old.pricing, pricing)) continue
    after.alerts.once({ kind, object, message: `the prices of ${object} have changed` })
  }
}

function* deployments({ catalog, routing }: Runtime): Generator<Finding> {
  const seen = new Set<string>()
  for (const { id: model, deployments: all } of catalog.all()) {
    const states = all.map((one) => {
      const report = routing.healthOf(one).report()
      return { id: one.id, state: stateOf(report), why: whyOf(one.id, report) }
    })
    for (const { id, state, why } of states) {
      if (seen.has(id)) continue
      seen.add(id)
      yield { kind: 'deployment.down', object: id, state, message: `calls avoid ${why}` }
    }
    const isDown = all.length > 0 && states.every(({ state }) => state === 'wrong')
    const isWell = all.length === 0 || states.some(({ state }) => state === 'well')
    const reasons = states.map(({ why }) => why).join('; ')
    const message = `every deployment of ${model} is in cooldown: ${reasons}`
    const state = isDown ? 'wrong' : isWell ? 'well' : 'between'
    yield { kind: 'model.down', object: model, state, message }
  }
}

/** A cooldown that is over, a probe under way and a deployment that has answered nothing yet prove nothing. */
function stateOf({ state, isProven }: HealthReport): Finding['state'] {
  if (state === 'cooldown') return 'wrong'
  return state === 'healthy' && isProven ? 'well' : 'between'
}

function whyOf(id: string, { lastFailure, lastMessage, since }: HealthReport): string {
  const words = [lastFailure, lastMessage].filter((word) => word !== undefined).join(': ')
  const reason = words === '' ? '' : `: ${words}`
  const when =
    since === undefined ? '' : `; no call has succeeded since ${new Date(since).toISOString()}`
  return `${id}${reason}${when}`
}

function egress({ egress: ways }: Runtime): Finding[] {
  return ways.down.map(([object, message]) => ({
    kind: 'egress.down',
    object,
    state: 'wrong',
    message,
  }))
}

/** Shares of the memory of Redis from which on it is nearly full, and below which it has room again. */
const [FULL, ROOM] = [0.8, 0.75]

function ledger({ ledger: engine }: Runtime): Finding[] {
  const { ok, oldestMs, doubt, why, memoryUsed = 0 } = engine.health()
  const differs = doubt !== undefined || engine.discrepancies > 0 || engine.conflicts > 0
  const age = oldestMs > OLD_MS ? 'wrong' : oldestMs < YOUNG_MS ? 'well' : 'between'
  const old = `charges have not been durable for more than ${OLD_MS / 1000} s`
  const different = doubt ?? 'sums of the ledger do not equal its rows'
  // A ledger in doubt has an alert of its own.
  const isDown = !ok && doubt === undefined
  const down = `the ledger cannot book${why === undefined ? '' : `: ${why}`}`
  return [
    { kind: 'ledger.down', object: '', state: wrongIf(isDown), message: down },
    { kind: 'outbox.old', object: '', state: age, message: old },
    { kind: 'ledger.differs', object: '', state: wrongIf(differs), message: different },
    {
      kind: 'store.full',
      object: '',
      state: memoryUsed >= FULL ? 'wrong' : memoryUsed < ROOM ? 'well' : 'between',
      message: `Redis uses ${Math.round(memoryUsed * 100)} % of its maxmemory: at 100 % no call is admitted`,
    },
  ]
}

function* guards({ metrics }: Runtime): Generator<Finding> {
  for (const [object, { state }] of metrics.guard.circuits) {
    const now = state === 'half-open' ? 'between' : wrongIf(state === 'open')
    const message = `the guard ${object.split(' ', 1)[0]} is not asked, because it failed`
    yield { kind: 'guard.open', object, state: now, message }
  }
}

function* sinks({ sinks: running }: Runtime): Generator<Finding> {
  for (const [object, why] of running?.disabled ?? []) {
    const message = `the sink ${object} is not asked any more: ${why}`
    yield { kind: 'sink.disabled', object, state: 'wrong', message }
  }
}

function wrongIf(isWrong: boolean): 'wrong' | 'well' {
  return isWrong ? 'wrong' : 'well'
}

const STEP_MS = 30_000
/** Steps of the time in which failed calls count, and of that of fallbacks. */
const STEPS = 10
const FALLBACK_STEPS = 20
const LEAST_CALLS = 20
const HIGH = 0.2
const LOW = 0.1
/** Shares of calls that another model answers. */
const MANY = 0.5
const FEW = 0.25

const NO_CALLS: ModelOutcomes = { calls: 0, failed: 0, fellBack: 0 }

/** Calls of the last minutes that have failed, or that another model has answered. */
export class RecentErrors {
  readonly #past: ReadonlyMap<string, ModelOutcomes>[] = []
  #steppedAt = -Infinity

  /** @param now steady ms */
  findings(current: ReadonlyMap<string, ModelOutcomes>, now: number): Finding[] {
    if (now - this.#steppedAt >= STEP_MS) {
      this.#steppedAt = now
      this.#past.push(current)
      if (this.#past.length > FALLBACK_STEPS) this.#past.shift()
    }
    return [...this.#failed(current), ...this.#fellBack(current)]
  }

  #fellBack(current: ReadonlyMap<string, ModelOutcomes>): Finding[] {
    const past = this.#past[0]
    return [...current].flatMap(([model, { calls, fellBack }]) => {
      if (fellBack === 0) return []
      const before = past?.get(model) ?? NO_CALLS
      const others = fellBack - before.fellBack
      const recent = calls - before.calls + others
      const share = recent === 0 ? 0 : others / recent
      const isMany = recent >= LEAST_CALLS && share > MANY
      return {
        kind: 'fallback.many',
        object: model,
        state: isMany ? 'wrong' : share < FEW ? 'well' : 'between',
        message: `another model has answered ${others} of the last ${recent} calls of ${model}`,
      }
    })
  }

  #failed(current: ReadonlyMap<string, ModelOutcomes>): Finding[] {
    const past = this.#past.at(-STEPS) ?? this.#past[0]
    return [...current].map(([model, { calls, failed }]) => {
      const before = past?.get(model) ?? NO_CALLS
      const [recent, bad] = [calls - before.calls, failed - before.failed]
      const share = recent === 0 ? 0 : bad / recent
      const isHigh = recent >= LEAST_CALLS && share > HIGH
      return {
        kind: 'errors.high',
        object: model,
        state: isHigh ? 'wrong' : share < LOW ? 'well' : 'between',
        message: `${bad} of the last ${recent} calls of ${model} have failed`,
      }
    })
  }
}
