/** The one timer of a gateway: deadlines and timeouts of calls, logs, the heap, leases, what alerts are about. */
import type { RunningCalls } from '../pipeline/running-calls.ts'
import type { Ledger } from '../state/ledger/ledger.ts'
import type { Call } from '../pipeline/pipeline.ts'
import { TICK_MS, type Shared } from './shared.ts'
import type { BodyBudget } from './body-budget.ts'
import type { DiskSpace } from './disk-space.ts'
import type { HealthEvents } from './health-events.ts'
import type { Instances } from './instances.ts'
import type { Peers } from './peers.ts'
import type { TakenOut } from './taken-out.ts'

/** What one timer drives. */
interface Timed extends Pick<
  Shared,
  | 'access'
  | 'requests'
  | 'usage'
  | 'spending'
  | 'events'
  | 'faults'
  | 'authFailures'
  | 'ledger'
  | 'log'
  | 'loop'
> {
  readonly running: RunningCalls
  readonly bodies: BodyBudget
  readonly takenOut: TakenOut
  readonly instances: Instances
  readonly peers: Peers
  readonly health: HealthEvents
  readonly disk: DiskSpace
}

const RENEW_MS = 10_000

/** Starts the timer, which does not keep the process running. The owner clears it. */
export function startTimer({ running, ledger, log, loop, ...timed }: Timed): NodeJS.Timeout {
  // By the monotonic clock: leases expire by another clock than the wall clock.
  let renewAt = performance.now() + RENEW_MS
  loop.tick(performance.now())
  const timer = setInterval(() => {
    const now = performance.now()
    for (const call of running) call.tick(now)
    timed.access.flush()
    timed.requests.flush()
    timed.usage.flush()
    timed.faults.tick()
    timed.authFailures.tick()
    timed.events.tick(now)
    timed.health.tick()
    timed.bodies.tick()
    loop.tick(now)
    timed.takenOut.tick(now)
    timed.instances.tick(now)
    timed.peers.tick(now)
    timed.disk.tick(now)
    void timed.spending.tick(now)
    if (performance.now() < renewAt) return
    renewAt = performance.now() + RENEW_MS
    void renewLeases(running, ledger).catch((error) => log.error('renewing leases failed', error))
  }, TICK_MS)
  timer.unref()
  return timer
}

async function renewLeases(running: RunningCalls, ledger: Ledger): Promise<void> {
  const leases = []
  for (const call of running) {
    const { account, key, entered }: Partial<Call> = call
    if (!account || !key || !entered || call.bill) continue
    leases.push({ account: account.id, key: key.id, request: call.id })
  }
  if (leases.length > 0) await ledger.renew(leases)
}
