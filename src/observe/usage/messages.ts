import type { RequestId, LedgerSource } from '../../state/ledger/ledger.ts'
import type { ChargeOfCall } from './charge.ts'
import type {
  DecisionsQuery,
  DecisionSums,
  FailureSum,
  RefusalsQuery,
  RefusalSum,
} from './decisions.ts'
import type { AccountKey, LastUse } from './statement.ts'
import type { Checked, UsageDifference } from './ledger-index.ts'
import type { TooLarge, UsageAnswer } from './query.ts'
import type { UsageQuery } from './question.ts'
import type { BalancePoint, Statement } from '../../server/admin/resources/usage.ts'

export interface UsageInit {
  readonly folder: string | undefined
  readonly source: LedgerSource
}

/** Accounts that may have new rows, charges that were booked just now, and ended calls, both as lines. */
export interface UsageNotice {
  readonly accounts?: readonly string[]
  readonly booked?: string
  readonly called?: string
}

/** The accounts of an answer; absent for all. They are compared with the ledger first. */
interface Scope {
  readonly accounts?: readonly string[] | undefined
}

export interface UsageQuestions {
  usage: {
    readonly ask: Scope & { readonly queries: readonly UsageQuery[] }
    readonly answer: Proven<readonly (UsageAnswer | TooLarge)[]>
  }
  statement: {
    readonly ask: { readonly account: string; readonly from: number; readonly to: number }
    readonly answer: Proven<Statement>
  }
  balances: {
    readonly ask: {
      readonly account: string
      readonly rollup: 'hour' | 'day'
      readonly from: number
      readonly to: number
    }
    readonly answer: Proven<readonly BalancePoint[]>
  }
  decisions: { readonly ask: DecisionsQuery; readonly answer: DecisionSums }
  refusals: { readonly ask: RefusalsQuery; readonly answer: readonly RefusalSum[] }
  /** Failures of vendors since a moment, ms since epoch. */
  failures: { readonly ask: number; readonly answer: readonly FailureSum[] }
  charge: {
    readonly ask: {
      readonly request: RequestId
      /** Owner of the call; absent where it is unknown. */
      readonly account?: string
    }
    readonly answer: ChargeOfCall | undefined
  }
  lastUsed: { readonly ask: readonly AccountKey[] | 'all'; readonly answer: readonly LastUse[] }
  verify: { readonly ask: true; readonly answer: Proven<undefined> }
  /** Reads the whole ledger again, in the background. */
  rebuild: { readonly ask: true; readonly answer: undefined }
}

/** An answer with the result of the comparison with the ledger. */
export interface Proven<Result> {
  readonly result: Result
  readonly checked: Checked
  /** When circumstances begin, ms since epoch; undefined where there are none yet. */
  readonly since: number | undefined
}

export type UsageQuestion = {
  [Name in keyof UsageQuestions]: { readonly [_ in Name]: UsageQuestions[Name]['ask'] }
}[keyof UsageQuestions]

export type UsageReport =
  | { readonly lag: number }
  | { readonly differences: readonly UsageDifference[] }
  | { readonly warning: string }
