/** What connects a gateway with those that share its state. */
import type { LoadedConfig } from '../config/config.ts'
import type { Announcements } from '../state/announcements.ts'
import { AlertClaims } from './alert-claims.ts'
import type { Generations } from './generations.ts'
import { instanceOf, Instances } from './instances.ts'
import { Peers } from './peers.ts'
import type { Shared } from './shared.ts'
import { TakenOut } from './taken-out.ts'

/** The parts that follow the other gateways of one state. */
interface Sharing {
  /** The gateways that share the state. */
  readonly instances: Instances
  /** Deployments that operators have taken out. */
  readonly takenOut: TakenOut
  /** What the gateways tell each other. */
  readonly peers: Peers
  readonly claims: AlertClaims
}

/** What the others see of a gateway, and how it speaks with them. */
interface OwnPlace {
  /** Absent for a state of one gateway. */
  readonly announcements: Announcements | undefined
  /** ms since epoch */
  readonly startedAt: number
  /** Which worker the gateway is, where several serve one address. */
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
  const takenOut = new TakenOut(shared, mayHaveOthers)
  await takenOut.load()
  const own = () => ({
    ...instanceOf(generations.runtime, running.size, startedAt),
    ...(worker && { worker }),
  })
  const instances = new Instances({ ...shared, own }, mayHaveOthers)
  return {
    takenOut,
    instances,
    claims: new AlertClaims({ records, instances, gatewayId }),
    peers: new Peers({ announcements, records, instances, gatewayId, running, events, usage }),
  }
}
