/** Connects a gateway with those that share its state. */
import type { LoadedConfig } from '../config/config.ts'
import type { Announcements } from '../state/announcements.ts'
import { AlertClaims } from './alert-claims.ts'
import type { Generations } from './generations.ts'
import { instanceOf, Instances } from './instances.ts'
import { Peers } from './peers.ts'
import type { Shared } from './shared.ts'
import { DisabledDeployments } from './taken-out.ts'

interface Sharing {
  readonly instances: Instances
  /** Deployments that operators have disabled. */
  readonly disabledDeployments: DisabledDeployments
  readonly peers: Peers
  readonly claims: AlertClaims
}

/** Public data of a gateway, and its connection to the others. */
interface OwnPlace {
  readonly announcements: Announcements | undefined
  /** ms since epoch */
  readonly startedAt: number
  readonly worker: number | undefined
}

/** Whether other gateways may use the same state. */
export function isShared({ config }: LoadedConfig): boolean {
  return config.state.driver === 'redis'
}

/** Makes the parts. Never rejects; its owner drives them by a timer, closes peers and lets the instance leave. */
export async function createSharing(
  shared: Shared,
  generations: Generations,
  { announcements, startedAt, worker }: OwnPlace,
): Promise<Sharing> {
  const { records, gatewayId, events, usage } = shared
  const { running } = generations
  const mayHaveOthers = isShared(generations.loaded)
  const disabledDeployments = new DisabledDeployments(shared, mayHaveOthers)
  await disabledDeployments.load()
  const own = () => ({
    ...instanceOf(generations.runtime, running.size, startedAt),
    ...(worker && { worker }),
  })
  const instances = new Instances({ ...shared, own }, mayHaveOthers)
  return {
    disabledDeployments,
    instances,
    claims: new AlertClaims({ records, instances, gatewayId }),
    peers: new Peers({ announcements, records, instances, gatewayId, running, events, usage }),
  }
}
