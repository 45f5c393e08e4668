/** What crosses between the index of usage and its thread. */
import type { RequestId } from '../../state/ledger/ledger.ts'
import type { LedgerSource } from '../../state/ledger/reader.ts'
import type { ChargeOfCall } from './charge.ts'
import type {
  DecisionsQuery,
  DecisionSums,
  FailureSum,
  RefusalsQuery,
  RefusalSum,
} from './decisions.ts'
import type { AccountKey, LastUse } from './last-used.ts'
import type { Checked, UsageDifference } from './ledger-index.ts'
import type { TooLarge, UsageAnswer } from './query.ts'
import type { UsageQuery } from './question.ts'
import type { BalancePoint, Statement } from '../../server/admin/resources/usage.ts'

/** What the thread is started with. */
export interface UsageInit {
  readonly folder: string | undefined
  readonly source: LedgerSource
}

/** Accounts that may have new rows, charges that were booked just now, and calls that have ended, both as lines. */
export interface UsageNotice {
  readonly accounts?: readonly string[]
  readonly booked?: string
  readonly called?: string
}

/** The accounts that an answer is about; absent for all. They are compared with the ledger first. */
interface Scope {
  readonly accounts?: readonly string[] | undefined
}

/** Questions, and the answer to each. */
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
  /** What guards decided; it is no part of the ledger. */
  decisions: { readonly ask: DecisionsQuery; readonly answer: DecisionSums }
  /** What limits refused. */
  refusals: { readonly ask: RefusalsQuery; readonly answer: readonly RefusalSum[] }
  /** What vendors failed at, from a moment on, ms since epoch. */
  failures: { readonly ask: number; readonly answer: readonly FailureSum[] }
  /** What the ledger has booked for a call. */
  charge: {
    readonly ask: {
      readonly request: RequestId
      /** Whose call it is; absent where that is not known. */
      readonly account?: string
    }
    readonly answer: ChargeOfCall | undefined
  }
  /** When keys were used last. */
  lastUsed: { readonly ask: readonly AccountKey[] | 'all'; readonly answer: readonly LastUse[] }
  /** Adds up all tables again. */
  verify: { readonly ask: true; readonly answer: Proven<undefined> }
  /** Reads the whole ledger again, in the background. */
  rebuild: { readonly ask: true; readonly answer: undefined }
}

/** An answer with what the comparison with the ledger has found. */
export interface Proven<Result> {
  readonly result: Result
  readonly checked: Checked
  /** When circumstances begin, ms since epoch; undefined where there are none yet. */
  readonly since: number | undefined
}

/** One question. */
export type UsageQuestion = {
  [Name in keyof UsageQuestions]: { readonly [_ in Name]: UsageQuestions[Name]['ask'] }
}[keyof UsageQuestions]

/** What the thread tells by itself. */
export type UsageReport =
  | { readonly lag: number }
  | { readonly differences: readonly UsageDifference[] }
  | { readonly warning: string }
