/** The end of credit: every minute what is due is booked, from the index of usage. Gateways of one ledger may book it together. */
import type { Ledger } from '../../state/ledger/ledger.ts'
import type { UsageIndex } from './usage.ts'

interface ExpiryOptions {
  readonly ledger: Pick<Ledger, 'book'>
  /** It is undefined where the operator has switched usage off: no credit has an end then. */
  readonly usage: () => Pick<UsageIndex, 'ask' | 'settled'> | undefined
  readonly failed: (error: unknown) => void
}

const LOOK_MS = 60_000

export class Expiry {
  readonly #options: ExpiryOptions
  #lookedAt = -Infinity
  #turn: Promise<void> | undefined

  constructor(options: ExpiryOptions) {
    this.#options = options
  }

  /** @param steadyNow steady ms */
  tick(steadyNow: number): void {
    if (this.#turn || steadyNow - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = steadyNow
    this.#turn = this.expire(Date.now())
      .catch((error: unknown) => this.#options.failed(error))
      .finally(() => (this.#turn = undefined))
  }

  /** Books what is due. Rejects where the ledger or usage cannot be read. @param now ms since epoch */
  async expire(now: number): Promise<void> {
    const index = this.#options.usage()
    for (const { account, name } of (await index?.ask('due', now)) ?? []) {
      const booking = { kind: 'expire', account, amount: 0n, reference: name } as const
      await this.#options.ledger.book({ ...booking, actor: 'gateway' })
      index!.settled(account)
    }
  }
}
