/** Models that fail often: calls and failures of the last five minutes, computed from the counters. */
import type { Finding } from './alerts.ts'

export interface ModelOutcomes {
  readonly calls: number
  readonly failed: number
}

const STEP_MS = 30_000
const STEPS = 10
const LEAST_CALLS = 20
const HIGH = 0.2
const LOW = 0.1

export class RecentErrors {
  readonly #past: ReadonlyMap<string, ModelOutcomes>[] = []
  #steppedAt = -Infinity

  /** @param now steady ms */
  findings(current: ReadonlyMap<string, ModelOutcomes>, now: number): Finding[] {
    if (now - this.#steppedAt >= STEP_MS) {
      this.#steppedAt = now
      this.#past.push(current)
      if (this.#past.length > STEPS) this.#past.shift()
    }
    return [...current].map(([model, { calls, failed }]) => {
      const before = this.#past[0]?.get(model) ?? { calls: 0, failed: 0 }
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
