/** What comes back: of a provider, up through the stages, and to the client with its price. */
import type { GuardReport } from '../guard/decision.ts'
import type { Bill, UsageLine } from '../money/money.ts'
import type { UsageReport } from '../money/plausible.ts'
import type { Outcome, Settled } from '../state/ledger/ledger.ts'
import type { Flow, SearchResult } from '../plugin.ts'

/** What comes back up. Parts are pulled by the client's socket; nothing is produced ahead of demand. */
export interface Reply<Part = any> {
  readonly parts: Flow<Part>
}

/** The answer of a provider: parts in the endpoint's normal form, and the quantities that pass with them. */
export interface ProviderAnswer<Part = any> {
  /** A list when the answer is complete. */
  readonly parts: Flow<Part> | readonly Part[]
  /** Consumed so far: what the vendor has reported, and what is known without it. */
  usage(): UsageReport
  /**
   * Characters and bytes of content so far. An answer without new content has stalled, whatever else arrives. Absent where an
   * answer comes whole.
   */
  received?(): number
  /** The vendor has said why the answer ends, and what all of it consumed. Only the end of the stream is outstanding. */
  complete?(): boolean
  /** The whole answer is consumed when its first part arrives, and is charged then. */
  readonly chargeAtFirstPart?: boolean
  /**
   * Provider-specific token, such as a reasoning signature, that pins the conversation to its deployment. Known when all
   * parts were read.
   */
  affinityToken?: (() => string | undefined) | undefined
}

/** The result of a charge, as data: each wire form writes it in its own way. */
export interface Receipt {
  readonly bill: Bill
  /** Quantities of the call, by source. */
  readonly meter: readonly UsageLine[]
  /** Decisions of the guards, if any were at work. */
  readonly guard?: GuardReport
}

/**
 * Books the meter in the ledger, once; later calls get the same answer. Never rejects.
 * @param pays whether the client owes it; by default not for a failed call
 */
export type Charge = (outcome?: Outcome, pays?: boolean) => Promise<Charged>

/** What became of a charge. */
export interface Charged {
  readonly bill: Bill
  /** `deferred`: it is durable nowhere yet, so the client must not be told a cost. */
  readonly state: Settled['state']
  /** Makes a deferred charge cost nothing, because its answer was not sent. */
  waive(): void
}

/** Checks search results before the model or the client sees them. */
export interface ResultFilter {
  /** @returns the results that may be shown to the model and cited */
  filterResults(
    results: readonly SearchResult[],
  ): readonly SearchResult[] | Promise<readonly SearchResult[]>
}

/** An error in the form of the wire. */
export interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** To be serialised as JSON. */
  readonly body: unknown
}
