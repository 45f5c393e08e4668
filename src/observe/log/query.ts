import { parsePico } from '../../money/money.ts'
import { endedCall, type DecidedRule, type KnownCall } from '../record.ts'
import { endOf, ENDS, type End } from '../../server/admin/resources/request.ts'
import { wrongQuery } from '../../errors/query.ts'

/** Filters by value, and the member of a call that each compares. */
const VALUES = {
  key: ({ key_id }) => key_id,
  account: ({ account_id }) => account_id,
  team: ({ team_id }) => team_id,
  model: ({ model }) => model,
  deployment: ({ deployment }) => deployment,
  endpoint: ({ endpoint }) => endpoint,
  code: ({ code }) => code,
  limited_by: ({ limited_by }) => limited_by,
  outcome: ({ outcome }) => outcome,
  guard: ({ guard }) => guard?.outcome,
  session: ({ session }) => session,
  agent: ({ agent }) => agent,
  tag: ({ tag }) => tag,
  user: ({ user }) => user,
  gateway: ({ gateway }) => gateway,
  origin: ({ origin }) => origin,
} as const satisfies Record<string, (call: KnownCall) => string | undefined>

export type FilterName = keyof typeof VALUES

export const FILTERS = Object.keys(VALUES) as readonly FilterName[]

/** Filters of a list. Values of one filter are alternatives, an empty one finds calls without a value; all filters have to hold. */
export interface LogQuery {
  readonly filters: Readonly<Partial<Record<FilterName, readonly string[]>>>
  /** Statuses, as ranges: 404 is [404, 404], 4xx is [400, 499]. */
  readonly status?: readonly (readonly [number, number])[]
  readonly ends?: readonly End[]
  readonly stream?: boolean
  /** Whether the ledger has a charge of it, be it 0: an answer that was sent again has none. */
  readonly charged?: boolean
  /** Whether its key is known. */
  readonly keyed?: boolean
  /** Decisions of guards as {@link decisionText} writes them: alternatives. */
  readonly decided?: readonly string[]
  /** The lower bound of the cost, in 10⁻¹² USD. */
  readonly minCost?: bigint
  readonly minMs?: number
  /** Half-open range, ms since epoch. */
  readonly from?: number
  readonly to?: number
  /** Id of the last row of the previous page. */
  readonly after?: string
  readonly limit: number
}

/** Newest first. */
export interface LogPage {
  readonly calls: readonly KnownCall[]
  readonly next?: string
  /** The lower end of what was searched, ms since epoch. */
  readonly searchedTo?: number
  /** Moment from which on no call was removed, ms since epoch; absent for an empty log. */
  readonly completeFrom?: number
  /** Days whose file is damaged: their calls are missing. */
  readonly unreadable: readonly string[]
}

export function matches(
  call: KnownCall,
  { filters, status, ends, stream, charged, keyed, decided, minCost, minMs }: LogQuery,
): boolean {
  const isOf = Object.entries(filters).every(([name, values]) =>
    values.includes(VALUES[name as FilterName](call) ?? ''),
  )
  const has = call.status ?? 0
  return (
    isOf &&
    (status?.some(([from, to]) => has >= from && has <= to) ?? true) &&
    (ends?.includes(endOf(endedCall(call))) ?? true) &&
    (stream === undefined || (call.stream ?? false) === stream) &&
    (charged === undefined || isCharged(call) === charged) &&
    (keyed === undefined || (call.key_id !== undefined) === keyed) &&
    (decided === undefined || hasDecision(call, decided)) &&
    (minCost === undefined || (costOf(call) ?? -1n) >= minCost) &&
    (minMs === undefined || (call.times?.total_ms ?? 0) >= minMs)
  )
}

/** A decision of guards in a word for each of its members; the rule, which may be missing or have spaces, is the last. */
export function decisionText({ mode, side, outcome, rule }: DecidedRule): string {
  return `${mode} ${side} ${outcome} ${rule}`.trim()
}

export function hasDecision({ decided = [] }: KnownCall, wanted: readonly string[]): boolean {
  return decided.some((one) => wanted.includes(decisionText(one)))
}

function isCharged({ cost_usd, outcome }: KnownCall): boolean {
  return cost_usd !== undefined && outcome !== 'replayed'
}

function costOf({ cost_usd }: KnownCall): bigint | undefined {
  return cost_usd === undefined ? undefined : parsePico(cost_usd)
}

export function valuesOf(call: KnownCall): (string | number | bigint | null)[] {
  const { status, stream, times } = call
  return [
    ...FILTERS.map((name) => VALUES[name](call) ?? null),
    status ?? null,
    stream === undefined ? null : Number(stream),
    costOf(call) ?? null,
    times?.total_ms ?? null,
  ]
}

/** A status, or a family of them, as a range. @throws InvalidRequest */
export function readStatus(text: string): readonly [number, number] {
  const [, family] = /^([1-5])xx$/.exec(text) ?? []
  if (family) return [Number(family) * 100, Number(family) * 100 + 99]
  if (/^\d{3}$/.test(text) || text === '0') return [Number(text), Number(text)]
  throw wrongQuery('status', 'a status such as 404, or a family such as 4xx')
}

/** @throws InvalidRequest */
export function readEnd(text: string): End {
  const end = ENDS.find((one) => one === text)
  if (end) return end
  throw wrongQuery('end', `one of ${ENDS.join(', ')}`)
}

/** The id of a request as the log stores it. @throws InvalidRequest */
export function readLogId(text: string, name: string): string {
  const [, ulid] = /^req_([0-9A-HJKMNP-TV-Z]{26})$/.exec(text) ?? []
  if (ulid) return ulid
  throw wrongQuery(name, 'the id of a request')
}

export function requestId(row: string): string {
  return `req_${row}`
}

// Storage of the request log: files of days, or Redis.

export interface LogBounds {
  readonly keep: number
  /** Bytes of all rows. */
  readonly size: number
}

/** Why rows were not stored: a failure of the disk or of Redis, or an id of a day that is no longer kept. */
export type Dropped = 'disk' | 'late'

export interface Stored {
  readonly rows: number
  readonly dropped: Readonly<Partial<Record<Dropped, number>>>
  /** Bytes of all rows at the last count. */
  readonly bytes: number
  /** Why nothing can be stored. */
  readonly fault?: string
}

export interface LogStore {
  /** Stores calls. Never throws or rejects. @param lines the lines of `lineOf`, separated by line feeds */
  store(lines: string): Stored | Promise<Stored>
  /** One page of calls, newest first. */
  list(query: LogQuery): LogPage | Promise<LogPage>
  /** A call by its id without prefix; undefined when there is none. */
  find(id: string): KnownCall | undefined | Promise<KnownCall | undefined>
  close(): void | Promise<void>
}
