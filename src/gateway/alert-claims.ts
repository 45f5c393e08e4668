/** Which of the gateways that share a state reports an alert that all of them see. */
import type { AlertNotice } from '../plugin.ts'
import type { Records } from '../state/records.ts'
import type { Instances } from './instances.ts'

interface Claim {
  readonly revision: number
  readonly state: AlertNotice['state']
  /** Id of the gateway that reported it. */
  readonly gateway: string
}

interface ClaimsOptions {
  readonly records: Pick<Records, 'get' | 'create' | 'replace'>
  readonly instances: Pick<Instances, 'list'>
  readonly gatewayId: string
}

export class AlertClaims {
  readonly #options: ClaimsOptions

  constructor(options: ClaimsOptions) {
    this.#options = options
  }

  /**
   * Whether this gateway is the one that reports a change of an alert. A report of a gateway that no longer runs is repeated.
   * @param id equal in all gateways. @throws Unavailable while the state cannot be reached
   */
  async claim(id: string, state: AlertNotice['state']): Promise<boolean> {
    const { records, gatewayId: gateway } = this.#options
    const key = `alert:${id}`
    const claim = await records.get<Claim>(key)
    if (!claim) return records.create(key, { revision: 1, state, gateway } satisfies Claim)
    if (claim.state === state && (await this.#runs(claim.gateway))) return false
    const { revision } = claim
    return records.replace(key, { revision: revision + 1, state, gateway } as Claim, revision)
  }

  async #runs(gateway: string): Promise<boolean> {
    const { instances, gatewayId } = this.#options
    if (gateway === gatewayId) return false
    return (await instances.list()).some(({ id }) => id === gateway)
  }
}
