/** Which of the gateways that share a state tells an alert that all of them see. */
import type { AlertNotice } from '../plugin.ts'
import type { Records } from '../state/records.ts'
import type { Instances } from './instances.ts'

/** What was last told of an alert. */
interface Claim {
  readonly revision: number
  readonly state: AlertNotice['state']
  /** Id of the gateway that told it. */
  readonly gateway: string
}

/** What {@link AlertClaims} works with. */
interface ClaimsOptions {
  readonly records: Pick<Records, 'get' | 'create' | 'replace'>
  readonly instances: Pick<Instances, 'list'>
  readonly gatewayId: string
}

/** Claims of one gateway. */
export class AlertClaims {
  readonly #options: ClaimsOptions

  constructor(options: ClaimsOptions) {
    this.#options = options
  }

  /**
   * Whether this gateway is the one that tells a change of an alert. What a gateway told that runs no more is told again.
   * @param id equal in all gateways. @throws Unavailable while the state is away
   */
  async claim(id: string, state: AlertNotice['state']): Promise<boolean> {
    const { records, gatewayId: gateway } = this.#options
    const key = `alert:${id}`
    const told = await records.get<Claim>(key)
    if (!told) return records.create(key, { revision: 1, state, gateway } satisfies Claim)
    if (told.state === state && (await this.#runs(told.gateway))) return false
    const { revision } = told
    return records.replace(key, { revision: revision + 1, state, gateway } as Claim, revision)
  }

  async #runs(gateway: string): Promise<boolean> {
    const { instances, gatewayId } = this.#options
    if (gateway === gatewayId) return false
    return (await instances.list()).some(({ id }) => id === gateway)
  }
}
