/** Events of credit: each booking is reported once, by the first gateway that hears of it, and so is the wish for a top-up, once a day. */
import { formatPico, parsePico, type Pico } from '../money/money.ts'
import type { EventContents } from '../plugin.ts'
import type { Account } from '../accounts/stored.ts'
import type { Records } from '../state/records.ts'
import type { NewBooking } from './usage/ledger-index.ts'

type CreditEvent = 'credit.booked' | 'credit.adjusted' | 'topup.wanted'

interface CreditEventsOptions {
  readonly records: Pick<Records, 'create'>
  readonly gateway: string
  readonly accountOf: (id: string) => Promise<Account | undefined>
  /** `seq` of the newest credit of an account; undefined where usage is switched off. */
  readonly newestCredit: (account: string) => Promise<number> | undefined
  /** It is undefined where no sink is set up: nothing is claimed then. */
  readonly tell: () =>
    | (<Name extends CreditEvent>(event: Name, data: EventContents[Name], id: string) => void)
    | undefined
  readonly failed: (error: unknown) => void
}

/** A time longer than a booking is new. */
const CLAIM_SECONDS = 90_000
const DAY_SECONDS = 86_400

export class CreditEvents {
  readonly #options: CreditEventsOptions

  constructor(options: CreditEventsOptions) {
    this.#options = options
  }

  booked(bookings: readonly NewBooking[]): void {
    if (!this.#options.tell()) return
    const telling = async () => {
      for (const booking of bookings) await this.#tell(booking)
    }
    telling().catch(this.#options.failed)
  }

  async #tell(booking: NewBooking): Promise<void> {
    const { account, seq, kind, amount, balance, reference, note, details } = booking
    if (!(await this.#claim(`booked:${account}:${seq}`, CLAIM_SECONDS))) return
    const { expiresAt, facts } = details ?? {}
    const name = kind === 'top-up' || kind === 'promo' ? 'credit.booked' : 'credit.adjusted'
    const stored = await this.#options.accountOf(account)
    this.#options.tell()?.(
      name,
      {
        account_id: account,
        account_name: stored?.name ?? '',
        seq,
        kind,
        amount_usd: formatPico(amount),
        balance_usd: formatPico(balance),
        reference,
        note,
        expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
        request_id: kind === 'refund' ? reference : null,
        cash: facts?.cash ?? null,
      },
      `${account}:${seq}`,
    )
  }

  /** Asks for a top-up of an account whose balance is too low. */
  looked({ id, autoTopUp, archivedAt }: Account, balance: Pico): void {
    if (!autoTopUp || archivedAt !== undefined || !this.#options.tell()) return
    const { below_usd, amount_usd = null } = autoTopUp
    if (balance >= parsePico(below_usd)) return
    const asking = async () => {
      const seq = await this.#options.newestCredit(id)
      if (seq === undefined) return
      if (!(await this.#claim(`wanted:${id}:${seq}`, DAY_SECONDS))) return
      const reference = `auto:${id}:${seq}`
      const amounts = { balance_usd: formatPico(balance), below_usd, amount_usd }
      // Receivers drop an event whose id they have seen.
      const day = new Date().toISOString().slice(0, 10)
      this.#options.tell()?.(
        'topup.wanted',
        { account_id: id, ...amounts, reference },
        `${reference}:${day}`,
      )
    }
    asking().catch(this.#options.failed)
  }

  #claim(key: string, ttlSeconds: number): Promise<boolean> {
    const { records, gateway } = this.#options
    return records.create(key, { gateway }, { ttlSeconds })
  }
}
