/** Notices when deployments or the ledger fail and recover, while the events of the gateway are watched. */
import type { LiveEvents } from '../observe/live-events.ts'
import type { Runtime } from '../pipeline/pipeline.ts'

/** The owner calls `tick` from time to time. */
export class HealthEvents {
  readonly #events: LiveEvents
  readonly #runtime: () => Runtime
  /** By deployment, and of the ledger under the name ''. */
  #states = new Map<string, string>()

  constructor(events: LiveEvents, runtime: () => Runtime) {
    this.#events = events
    this.#runtime = runtime
  }

  tick(): void {
    if (!this.#events.wanted) {
      this.#states.clear()
      return
    }
    const { catalog, routing, ledger } = this.#runtime()
    const isFirst = this.#states.size === 0
    const states = new Map([['', ledger.health().ok ? 'books' : 'cannot book']])
    for (const { deployments } of catalog.all()) {
      for (const one of deployments) states.set(one.id, routing.healthOf(one).report().state)
    }
    for (const [deployment, state] of states) {
      if (isFirst || this.#states.get(deployment) === state) continue
      const of = deployment === '' ? { ledger: state } : { deployment, state }
      this.#events.emit('health', () => of)
    }
    this.#states = states
  }
}
