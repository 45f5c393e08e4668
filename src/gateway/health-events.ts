/** Notices when deployments or the ledger fail and recover: for alerts, and for those who watch the events of the gateway. */
import type { Finding } from '../observe/alerts.ts'
import type { LiveEvents } from '../observe/live-events.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import { AlertFindings } from './alert-findings.ts'

/** Between two looks for alerts. */
const LOOK_MS = 1000

/** The owner calls `tick` from time to time. */
export class HealthEvents {
  readonly #events: LiveEvents
  readonly #runtime: () => Runtime
  readonly #more: () => readonly Finding[]
  /** By deployment, and of the ledger under the name ''. */
  #states = new Map<string, string>()
  readonly #findings = new AlertFindings()
  #lookedAt = -Infinity

  /** @param more how the rest is that alerts are raised about */
  constructor(events: LiveEvents, runtime: () => Runtime, more: () => readonly Finding[]) {
    this.#more = more
    this.#events = events
    this.#runtime = runtime
  }

  tick(): void {
    const now = performance.now()
    if (now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now
      const runtime = this.#runtime()
      const { off } = runtime.config.alerts
      const all = [...this.#findings.of(runtime), ...this.#more()]
      const told = all.filter(({ kind }) => !off.includes(kind))
      runtime.alerts.observe(told, now)
    }
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
