import { parsePico } from '../../money/money.ts'
import type { KnownCall } from '../record.ts'

/** Filters by value, and the member of a call that each compares. */
const VALUES = {
  key: ({ key_id }) => key_id,
  account: ({ account_id }) => account_id,
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

/** Filters of a list. Values of one filter are alternatives; all filters have to hold. */
export interface LogQuery {
  readonly filters: Readonly<Partial<Record<FilterName, readonly string[]>>>
  /** Statuses, as ranges: 404 is [404, 404], 4xx is [400, 499]. */
  readonly status?: readonly (readonly [number, number])[]
  readonly stream?: boolean
  /** Lower bound of the cost, in 10⁻¹² USD. */
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
  /** Lower end of what was searched, ms since epoch. */
  readonly searchedTo?: number
  /** Days whose file is damaged: their calls are missing. */
  readonly unreadable: readonly string[]
}

export function matches(
  call: KnownCall,
  { filters, status, stream, minCost, minMs }: LogQuery,
): boolean {
  const isOf = Object.entries(filters).every(([name, values]) =>
    values.includes(String(VALUES[name as FilterName](call))),
  )
  const has = call.status ?? 0
  return (
    isOf &&
    (status?.some(([from, to]) => has >= from && has <= to) ?? true) &&
    (stream === undefined || (call.stream ?? false) === stream) &&
    (minCost === undefined || (costOf(call) ?? -1n) >= minCost) &&
    (minMs === undefined || (call.times?.total_ms ?? 0) >= minMs)
  )
}

function costOf({ cost_usd }: KnownCall): bigint | undefined {
  return cost_usd === undefined ? undefined : parsePico(cost_usd)
}

/** Columns that lists read, beside the id. */
export const COLUMNS: readonly string[] = [
  ...FILTERS.map((name) => `${name} TEXT`),
  ...['status', 'stream', 'cost', 'ms_total'].map((name) => `${name} INTEGER`),
]

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

/** Calls with a failure, without an end, or with a decision of guards: few among all. */
const BAD = "(status >= 400 OR outcome <> 'completed' OR guard = 'blocked')"
const UNFINISHED = "outcome <> 'completed'"
const DECIDED = "guard <> 'passed'"

/** An index of calls by column, or of some calls, each in the order of arrival. */
interface CallIndex {
  readonly name: string
  readonly column?: FilterName
  /** Condition on the calls in it; absent for all. */
  readonly where?: string
  /** Whether the index has exactly the calls that a query asks for; absent where a value of the column decides that. */
  readonly fits?: (query: LogQuery) => boolean
}

const rare = (column: FilterName): CallIndex => ({
  name: `call_${column}`,
  column,
  where: `${column} IS NOT NULL`,
})
const isUnfinished = ({ filters }: LogQuery) =>
  filters.outcome?.every((one) => one !== 'completed') ?? false
const isDecided = ({ filters }: LogQuery) =>
  filters.guard?.every((one) => one !== 'passed') ?? false
const isBad = (query: LogQuery) =>
  (query.status?.every(([from]) => from >= 400) ?? false) ||
  isUnfinished(query) ||
  query.filters.limited_by !== undefined

/** The first one that fits a query finds it fastest. One of all calls of an account or a model would cost each call more than the rest. */
const INDEXES: readonly CallIndex[] = [
  rare('session'),
  { name: 'call_bad_key', column: 'key', where: BAD, fits: isBad },
  { name: 'call_key', column: 'key' },
  rare('user'),
  rare('code'),
  rare('limited_by'),
  { name: 'call_outcome', column: 'outcome', where: UNFINISHED, fits: isUnfinished },
  { name: 'call_guard', column: 'guard', where: DECIDED, fits: isDecided },
  { name: 'call_decided', where: DECIDED, fits: isDecided },
  { name: 'call_bad_account', column: 'account', where: BAD, fits: isBad },
  { name: 'call_bad', where: BAD, fits: isBad },
  rare('tag'),
]

export const MAKE_INDEXES = INDEXES.map(({ name, column, where }) => {
  const columns = column === undefined ? 'id' : `${column}, id`
  return `CREATE INDEX IF NOT EXISTS ${name} ON call (${columns})${where === undefined ? '' : ` WHERE ${where}`};`
}).join('\n')

/** SQL of a query: conditions that an index satisfies, and conditions to check row by row. */
interface Conditions {
  /** The table, with the index. */
  readonly from: string
  readonly indexed: string
  readonly rest: string
  /** Values of both, in their order. */
  readonly indexedValues: readonly (string | number | bigint)[]
  readonly restValues: readonly (string | number | bigint)[]
}

/** Splits a query for SQLite. @param known existing indexes */
export function conditionsOf(query: LogQuery, indexes: ReadonlySet<string>): Conditions {
  const { filters, status, stream, minCost, minMs } = query
  const index = INDEXES.find(
    ({ name, column, fits }) =>
      indexes.has(name) && (!column || filters[column]?.length === 1) && (fits?.(query) ?? true),
  )
  const column = index?.column
  const indexed = [...(column ? [`${column} = ?`] : []), ...(index?.fits ? [index.where!] : [])]
  const rest: string[] = []
  const restValues: (string | number | bigint)[] = []
  for (const name of FILTERS) {
    const values = filters[name]
    if (!values || name === column) continue
    rest.push(`${name} IN (${values.map(() => '?').join(', ')})`)
    restValues.push(...values)
  }
  if (status) {
    rest.push(`(${status.map(() => 'status BETWEEN ? AND ?').join(' OR ')})`)
    restValues.push(...status.flat())
  }
  const more: [string, string | number | bigint | undefined][] = [
    ['stream = ?', stream === undefined ? undefined : Number(stream)],
    ['cost >= ?', minCost],
    ['ms_total >= ?', minMs],
  ]
  for (const [condition, value] of more) {
    if (value === undefined) continue
    rest.push(condition)
    restValues.push(value)
  }
  return {
    from: index ? `call INDEXED BY ${index.name}` : 'call',
    indexed: indexed.join(' AND ') || 'true',
    rest: rest.join(' AND ') || 'true',
    indexedValues: column ? filters[column]! : [],
    restValues,
  }
}
