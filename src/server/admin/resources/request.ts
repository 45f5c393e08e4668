import type { BillAnswer } from './bill.ts'
import { parsePico, usdJson, type Usd } from '../../../money/amounts.ts'
import type { EndedCall } from '../../../plugin/ended-call.ts'
import { QUANTITIES } from './usage.ts'

/** How a call has ended, in one word for lists, filters and sums. */
export const ENDS = ['completed', 'blocked', 'limited', 'rejected', 'failed', 'left'] as const
export type End = (typeof ENDS)[number]

/** Filters of lists of calls as options of commands, with names of their values. */
export const REQUEST_FILTERS = {
  key: { value: 'ids', help: 'only those of these keys, separated by commas' },
  account: { value: 'ids', help: 'only those of these accounts' },
  team: { value: 'ids', help: 'only those of these teams' },
  model: { value: 'ids', help: 'only those of these models' },
  status: { value: 'statuses', help: 'only those with these statuses, such as 404 or 4xx' },
  code: { value: 'codes', help: 'only those with these error codes' },
  end: { value: 'words', help: ENDS.join(', ') },
  outcome: { value: 'outcomes', help: 'completed, refused, cancelled, failed, replayed' },
  guard: { value: 'outcomes', help: 'passed, blocked, monitored, error' },
  'limited-by': { value: 'limits', help: 'only those refused by these, such as key.rpm' },
  deployment: { value: 'ids', help: 'only those of these deployments' },
  endpoint: { value: 'paths', help: 'only those of these endpoints' },
  tag: { value: 'tags', help: 'only those with these tags' },
  user: { value: 'names', help: 'only those of these end users' },
  session: { value: 'hashes', help: 'only those of these sessions' },
} as const

export const REQUEST_COLUMNS = [
  'id',
  'at',
  'method',
  'endpoint',
  'account_id',
  'team_id',
  'key_id',
  'key_name',
  'model',
  'deployment',
  'status',
  'code',
  'limited_by',
  'outcome',
  'end',
  'stream',
  'cost_usd',
  'vendor_cost_usd',
  'estimated',
  ...['admit_ms', 'guard_ms', 'first_ms', 'settled_ms', 'total_ms'].map((name) => `times.${name}`),
  ...QUANTITIES.map((name) => `usage.${name}`),
  'guard.outcome',
  'guard.rules',
  'tag',
  'user',
  'session',
  'agent',
  'origin',
  'gateway',
  'attempts',
  'retry',
  'error',
]

/** Members for sinks alone, or for a single call. */
const HIDDEN = ['limits', 'decided', 'trace', 'request', 'response', 'content'] as const
type Hidden = (typeof HIDDEN)[number]
/** Members that a running call has in part, and amounts, which are JSON numbers here. */
type Changed =
  | 'status'
  | 'outcome'
  | 'times'
  | 'guard'
  | 'cost_usd'
  | 'cost_details'
  | 'vendor_cost_usd'

export interface RequestView extends Omit<EndedCall, Hidden | Changed> {
  /** It is null until it is sent. */
  readonly status: number | null
  /** It is null while the call runs. */
  readonly outcome: EndedCall['outcome'] | null
  /** It is null while the call runs. */
  readonly end: End | null
  readonly times: { readonly [Name in keyof EndedCall['times']]: number | null }
  readonly guard: Omit<NonNullable<EndedCall['guard']>, 'policy'> | null
  readonly cost_usd: Usd | null
  readonly cost_details: Readonly<Record<string, Usd>> | null
  /** What vendors are paid, null where it is unknown: with the right `money`. */
  readonly vendor_cost_usd?: Usd | null
  /** It is null where it is unknown. */
  readonly key_name?: string | null
  readonly running: boolean
}

/** @param withMoney whether it has what vendors are paid */
export function requestView(call: EndedCall, running: boolean, withMoney: boolean): RequestView {
  const { cost_usd, cost_details, vendor_cost_usd: vendor, guard, ...rest } = call
  const shown: Partial<typeof rest> = { ...rest }
  for (const name of HIDDEN) delete shown[name]
  const details = Object.entries(cost_details ?? {}).map(([name, usd]) => [name, amount(usd)])
  return {
    ...(shown as Omit<typeof rest, Hidden>),
    cost_usd: cost_usd === null ? null : amount(cost_usd),
    cost_details: cost_details && Object.fromEntries(details),
    ...(withMoney && { vendor_cost_usd: vendor === null ? null : amount(vendor) }),
    guard: guard && { outcome: guard.outcome, rules: guard.rules },
    end: running ? null : endOf(call),
    running,
  }
}

type Ending = Pick<EndedCall, 'status' | 'outcome' | 'limited_by'> & {
  readonly guard: Pick<NonNullable<EndedCall['guard']>, 'outcome'> | null
}

/** `blocked` by a policy, `limited` by a limit, `left` by its client, `rejected` with another 4xx. A replay is `completed`. */
export function endOf({ status, outcome, limited_by, guard }: Ending): End {
  if (guard?.outcome === 'blocked' || outcome === 'refused') return 'blocked'
  if (limited_by !== null) return 'limited'
  if (outcome === 'cancelled') return 'left'
  if (status !== null && status >= 400 && status < 500) return 'rejected'
  return outcome === 'failed' ? 'failed' : 'completed'
}

const amount = (usd: string): Usd => usdJson(parsePico(usd))

/** A limit that was in force for a call: its rate as in the answer with its use, or another limit. */
export interface LimitInForce {
  readonly limit: string
  /** Caps are text, as in the settings of a key. */
  readonly value: number | string
  readonly used: number | null
  readonly left: number | null
}

export interface RequestDetails extends RequestView {
  readonly limits: readonly LimitInForce[] | null
  /** The row of the ledger with the charge; absent while the call runs. */
  readonly ledger?: { readonly seq: number; readonly cost_usd: Usd } | null
  /** It is null where it cannot be explained any more. */
  readonly bill?: BillAnswer | null
  /** The row was folded into a total, or its prices are not stored. */
  readonly bill_missing?: 'folded' | 'prices'
  readonly content?: 'kept' | 'not kept'
  /** It is set where only the ledger has the call. */
  readonly log?: 'missing'
}

export interface RequestContent {
  readonly id: string
  readonly account_id: string
  readonly key_id: string
  readonly user: string | null
  readonly endpoint: string
  readonly model: string | null
  readonly decided: NonNullable<EndedCall['decided']>
  /** The body of the request. */
  readonly input: { readonly messages?: readonly { readonly content?: unknown }[] }
  readonly output: readonly {
    readonly choice: number
    readonly channel: string
    readonly text: string
  }[]
  readonly cut: boolean
}

/** A call for the holder of its key: nothing of vendors, addresses or content. */
export interface HolderCall extends Pick<
  RequestView,
  | 'id'
  | 'at'
  | 'endpoint'
  | 'model'
  | 'status'
  | 'code'
  | 'outcome'
  | 'end'
  | 'usage'
  | 'cost_usd'
  | 'tag'
> {
  readonly stream: boolean
  readonly times: Pick<RequestView['times'], 'first_ms' | 'total_ms'>
}
