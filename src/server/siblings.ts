/** The other processes that serve the same address, from the view of one of them. */
import type { MetricFamily } from '../observe/prometheus.ts'

export type Reason = 'draining' | 'seed' | 'ledger' | 'outbox' | 'memory' | 'fault'

/** It is absent where one process serves alone. */
export interface Siblings {
  /** The metrics of all of them as one. Never rejects: for a process that does not answer, its last known metrics are used. */
  metrics(own: readonly MetricFamily[]): Promise<readonly MetricFamily[]>
  /** Why others cannot take work. */
  readonly reasons: readonly Reason[]
}
