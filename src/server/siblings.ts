/** The other processes that serve the same address, as the server of one of them sees them. */
import type { MetricFamily } from '../observe/prometheus.ts'

/** Why no new work should be sent. */
export type Reason = 'draining' | 'ledger' | 'outbox' | 'memory' | 'fault'

/** Absent where one process serves alone. */
export interface Siblings {
  /** The metrics of all of them as one. Never rejects: of a process that does not answer, the last ones that are known. */
  metrics(own: readonly MetricFamily[]): Promise<readonly MetricFamily[]>
  /** Why others cannot take work. */
  readonly reasons: readonly Reason[]
}
