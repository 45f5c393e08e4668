/** Questions to the request log, and their answers. */

/** Columns that can be asked for by value. */
export const FILTERS = [
  'key',
  'account',
  'model',
  'deployment',
  'endpoint',
  'code',
  'limited_by',
  'outcome',
  'guard',
  'session',
  'agent',
  'tag',
  'user',
  'gateway',
  'origin',
] as const

/** A column that can be asked for by value. */
export type FilterName = (typeof FILTERS)[number]

/** Which calls. Values of one filter are alternatives; all filters have to hold. */
export interface LogQuery {
  readonly filters: Readonly<Partial<Record<FilterName, readonly string[]>>>
  /** Statuses, as ranges: 404 is [404, 404], 4xx is [400, 499]. */
  readonly status?: readonly (readonly [number, number])[]
  readonly stream?: boolean
  /** In 10⁻¹² USD. */
  readonly minCost?: bigint
  readonly minMs?: number
  /** ms since epoch: from this moment on, and before that one. */
  readonly from?: number
  readonly to?: number
  /** Id of the last row of the page before. */
  readonly after?: string
  readonly limit: number
}

/** A row of the log by column; null is "not known". */
export type LogRow = Readonly<Record<string, string | number | bigint | null>>

/** Newest first. */
export interface LogPage {
  readonly rows: readonly LogRow[]
  /** Set while there may be more: the value of `after` for the next page. */
  readonly next?: string
  /** ms since epoch: everything from here on was looked at. */
  readonly searchedTo?: number
  /** Days whose file is damaged: their calls are missing. */
  readonly unreadable: readonly string[]
}

/** The predicate of the index of calls that did not go well. */
export const BAD = "(status >= 400 OR outcome <> 'completed' OR guard = 'blocked')"

/** Whether a row is one of those that are asked for. */
export function matches(
  row: LogRow,
  { filters, status, stream, minCost, minMs }: LogQuery,
): boolean {
  const isOf = Object.entries(filters).every(([name, values]) => values.includes(String(row[name])))
  const has = Number(row.status)
  return (
    isOf &&
    (status?.some(([from, to]) => has >= from && has <= to) ?? true) &&
    (stream === undefined || Number(row.stream) === Number(stream)) &&
    (minCost === undefined || BigInt(row.cost ?? -1) >= minCost) &&
    (minMs === undefined || Number(row.ms_total) >= minMs)
  )
}

/** SQL of a query: what an index can find, and what has to be looked at row by row. */
interface Conditions {
  readonly indexed: string
  readonly rest: string
  /** Of both, in their order. */
  readonly indexedValues: readonly (string | number | bigint)[]
  readonly restValues: readonly (string | number | bigint)[]
}

/** Columns with an index. */
const INDEXED: readonly FilterName[] = ['key', 'session', 'account']

/** Splits a query for SQLite. */
export function conditionsOf({ filters, status, stream, minCost, minMs }: LogQuery): Conditions {
  const column = INDEXED.find((name) => filters[name]?.length === 1)
  const onlyBad = status?.every(([from]) => from >= 400) ?? false
  const indexed = column ? `${column} = ?` : onlyBad ? BAD : 'true'
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
    indexed,
    rest: rest.length > 0 ? rest.join(' AND ') : 'true',
    indexedValues: column ? filters[column]! : [],
    restValues,
  }
}
