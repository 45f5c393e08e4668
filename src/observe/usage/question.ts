import type { Metric } from './sums.ts'
import {
  CALLED,
  CALLED_OVERALL,
  SETTLED,
  SETTLED_OVERALL,
  type Rollup,
  type TableSet,
} from './tables.ts'

/** Groups of calls. `tag` and `user`: alone or with `key`, in days and months. */
export const GROUPS = [
  'account',
  'key',
  'model',
  'deployment',
  'endpoint',
  'outcome',
  'tag',
  'user',
  'code',
  'limit',
] as const
export type GroupName = (typeof GROUPS)[number]

export interface UsageQuery {
  /** ms since epoch, half-open; widened to whole hours, with days and months to whole days. */
  readonly from: number
  readonly to: number
  readonly rollup: Rollup
  /** Groups of the answer, at most two. */
  readonly group: readonly GroupName[]
  /** Values of one filter are alternatives. */
  readonly filters: Readonly<Partial<Record<GroupName, readonly string[]>>>
  readonly metric: Metric
  /** Groups that are kept apart; the rest is `other`. */
  readonly top: number
  /** Whether the whole range is one span of the answer. */
  readonly isOneSpan?: boolean
  /** The only kind of sums to read; absent for both. */
  readonly of?: Source['of']
}

export interface Source extends Omit<TableSet, 'groups'> {
  /** What is added up: settled calls, or circumstances. */
  readonly of: 'settled' | 'called'
  readonly columns: Readonly<Partial<Record<GroupName, string>>>
}

const source = (of: Source['of'], { groups, ...tables }: TableSet): Source => ({
  ...tables,
  of,
  columns: Object.fromEntries(groups.map((name) => [name === 'limited_by' ? 'limit' : name, name])),
})

/** Sources of each kind, the smallest first. */
const SOURCES: readonly (readonly Source[])[] = [
  [source('settled', SETTLED_OVERALL), source('settled', SETTLED)],
  [source('called', CALLED_OVERALL), source('called', CALLED)],
]
export const TAGGED: Source = {
  table: 'tagged',
  of: 'settled',
  rollups: ['day'],
  columns: { account: 'account', key: 'key', tag: 'value', user: 'value' },
}

type Asked = Pick<UsageQuery, 'group' | 'filters' | 'of'>

/** The smallest tables that have what a question asks for. */
export function sourcesOf(query: Asked): readonly Source[] {
  if (labelOf(query)) return [TAGGED]
  const names = namesIn(query)
  return SOURCES.flatMap(
    (kind) => kind.find(({ columns }) => names.every((name) => columns[name] !== undefined)) ?? [],
  ).filter(({ of }) => query.of === undefined || of === query.of)
}

/** `tag` or `user`, where the question uses one of them. */
export function labelOf({ group, filters }: Asked): 'tag' | 'user' | undefined {
  return (['tag', 'user'] as const).find((name) => group.includes(name) || filters[name])
}

/** Whether a question can be answered: the tables do not hold every combination. */
export function isAnswerable(query: Asked & Pick<UsageQuery, 'rollup'>): boolean {
  if (!labelOf(query)) return sourcesOf(query).length > 0
  const names = namesIn(query)
  const isBoth = names.includes('tag') && names.includes('user')
  return !isBoth && query.rollup !== 'hour' && names.every((name) => TAGGED.columns[name])
}

function namesIn({ group, filters }: Asked): readonly GroupName[] {
  return [...group, ...(Object.keys(filters) as GroupName[])]
}
