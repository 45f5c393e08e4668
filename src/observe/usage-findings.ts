/** Logs usage that a vendor did not report, or that cannot be true. */
import type { ConsolaInstance } from 'consola'
import type { Assessment } from '../money/plausible.ts'
import { formatPico, type Pico } from '../money/money.ts'
import type { Metrics } from './metrics.ts'

/** Least time between two lines for one deployment and kind of finding. */
const PAUSE_MS = 60_000

interface Origin {
  readonly request: string
  readonly provider: string
  readonly deployment: string
}

/** Counts every finding, and logs one a minute for each deployment and kind. */
export class UsageFindings {
  readonly #metrics: Metrics
  readonly #log: Pick<ConsolaInstance, 'warn' | 'error'>
  /** Steady ms of the last line, by kind and deployment; names of the configuration. */
  readonly #loggedAt = new Map<string, number>()

  constructor(metrics: Metrics, log: Pick<ConsolaInstance, 'warn' | 'error'>) {
    this.#metrics = metrics
    this.#log = log
  }

  /** @param complete whether the vendor had the time to report; the usage of a cut answer is not at fault */
  found(
    { request, provider, deployment }: Origin,
    assessment: Assessment,
    complete: boolean,
  ): void {
    const { verdict, estimated, figures } = assessment
    if (estimated) this.#metrics.usageEstimated(provider, complete ? estimated : 'incomplete')
    if (verdict !== 'plausible') {
      this.#metrics.usageDoubted(provider, verdict)
      const shown = Object.entries(figures).map(
        ([name, { reported, bound }]) => `${name} ${reported}, expected at most ${bound}`,
      )
      const level = verdict === 'absurd' ? 'error' : 'warn'
      const message = `${request}: ${deployment} reported ${verdict} usage: ${shown.join('; ')}`
      this.#say(level, `${verdict} ${deployment}`, message)
    } else if (estimated && complete) {
      const message = `${request}: ${deployment} reported no usable usage (${estimated}); it is charged by estimate`
      this.#say('warn', `estimated ${deployment}`, message)
    }
  }

  overpriced(request: string, deployment: string | undefined, cost: Pico, most: Pico): void {
    this.#metrics.usageDoubted(deployment?.split('/', 1)[0] ?? '', 'absurd')
    const message = `${request}: costs ${formatPico(cost)} USD, charged are ${formatPico(most)} (billing.mostPerCall)`
    this.#say('error', `overpriced ${deployment}`, message)
  }

  #say(level: 'warn' | 'error', subject: string, message: string): void {
    const now = performance.now()
    if (now - (this.#loggedAt.get(subject) ?? -Infinity) < PAUSE_MS) return
    this.#loggedAt.set(subject, now)
    this.#log[level](message)
  }
}
