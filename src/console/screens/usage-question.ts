/** The question about usage that the address asks, and the addresses of the answers behind a figure. */
import { withQuery } from '../api.ts'
import type { Filter } from '../parts/filters.ts'
import { spanOf } from '../parts/range.ts'
import { place } from '../state.ts'
import type { Metric } from './usage-rows.ts'

export const STANDARD = '-30d'
/** Groups shown by themselves where the address has no number, and by how many more a link shows. */
export const USUAL_TOP = 20

export const METRICS: Readonly<Record<string, string>> = {
  cost_usd: 'Cost',
  calls: 'Calls',
  prompt_tokens: 'Prompt tokens',
  cached_tokens: 'Cached tokens',
  cache_write_tokens: 'Cache writes',
  completion_tokens: 'Completion tokens',
  reasoning_tokens: 'Reasoning tokens',
  images: 'Images',
  pages: 'Pages',
  seconds: 'Seconds of sound',
  characters: 'Characters',
  searches: 'Searches',
  search_units: 'Search units',
  errors: 'Failed calls',
  refused: 'Refused calls',
  blocked: 'Blocked calls',
}
/** Spans of time; '' leaves the choice to the gateway. */
export const ROLLUPS: Readonly<Record<string, string>> = {
  '': 'day or hour',
  hour: 'hour',
  day: 'day',
  month: 'month',
}

/** Groups of calls, and the parts that a group leads to. */
export const GROUPS: Readonly<Record<string, { readonly label: string; readonly within: string }>> =
  {
    model: { label: 'Model', within: 'key' },
    account: { label: 'Account', within: 'key' },
    key: { label: 'Key', within: 'model' },
    deployment: { label: 'Deployment', within: 'model' },
    endpoint: { label: 'Endpoint', within: 'model' },
    outcome: { label: 'Outcome', within: 'model' },
    tag: { label: 'Tag', within: 'key' },
    user: { label: 'User', within: 'key' },
    code: { label: 'Error code', within: 'key' },
    limit: { label: 'Limit', within: 'key' },
  }
/** Groups that only the request log has: no amounts. */
const CIRCUMSTANCES = ['code', 'limit']
const LABELS = ['tag', 'user']
export const FILTERS: readonly Filter[] = Object.entries(GROUPS).map(([name, { label }]) => ({
  name,
  label: label.toLowerCase(),
}))
/** Names of the filters in the list of requests; it has no filter for the others. */
const IN_REQUESTS: Readonly<Record<string, string>> = {
  account: 'account',
  key: 'key',
  model: 'model',
  deployment: 'deployment',
  endpoint: 'endpoint',
  outcome: 'outcome',
  code: 'code',
  limit: 'limited_by',
}

export interface Question {
  readonly group: readonly string[]
  readonly metric: Metric
  readonly rollup: string
  readonly top: number
  /** A second group of the address that is not kept together with the first. */
  readonly without?: string
}

/** Reads the address; the usual values replace missing and invalid ones. */
export function questionOf(query: URLSearchParams): Question {
  const [first = '', second = ''] = (query.get('group') ?? 'model')
    .split(',')
    .filter((name) => name in GROUPS)
  const group = [first, fits(first, second) ? second : ''].filter(Boolean)
  const usual = group.some((name) => CIRCUMSTANCES.includes(name)) ? 'calls' : 'cost_usd'
  const metric = query.get('metric') ?? usual
  return {
    group,
    metric: (metric in METRICS ? metric : usual) as Metric,
    rollup: query.get('rollup') ?? '',
    top: Number(query.get('top')) || USUAL_TOP,
    ...(second !== '' && group.length < 2 && { without: second }),
  }
}

export function fits(one: string, other: string): boolean {
  if (one === other || other === '') return other === ''
  const [first, second] = [one, other].map((name) =>
    LABELS.includes(name) ? 'label' : CIRCUMSTANCES.includes(name) ? 'circumstance' : name,
  )
  if (first === 'label') return second === 'key' || second === 'account'
  if (second === 'label') return first === 'key' || first === 'account'
  const settled = ['deployment', 'outcome']
  if (first === 'circumstance') return !settled.includes(second!)
  return second !== 'circumstance' || !settled.includes(first!)
}

export function pathOf(
  query: URLSearchParams,
  { group, metric, rollup, top }: Question,
  now: number,
) {
  const { from, to } = spanOf(query, STANDARD, now)
  const parameters = new URLSearchParams({ metric, top: String(top) })
  if (group.length > 0) parameters.set('group', group.join())
  if (rollup !== '') parameters.set('rollup', rollup)
  if (from) parameters.set('from', from)
  if (to) parameters.set('to', to)
  for (const { name } of FILTERS)
    for (const value of query.getAll(name)) parameters.append(name, value)
  return withQuery('/admin/usage', parameters)
}

export function csvOf(path: string): string {
  return `${path}&format=csv`
}

/** The address of the list of requests with range and filters of this screen. */
export function requestsHref(more: Readonly<Record<string, string>>): string | undefined {
  const { query } = place.value
  const parameters = new URLSearchParams({ from: query.get('from') ?? STANDARD })
  const to = query.get('to')
  if (to !== null) parameters.set('to', to)
  const filters = [...query].filter(([name]) => name in GROUPS && !(name in more))
  for (const [name, value] of [...filters, ...Object.entries(more)]) {
    if (!(name in IN_REQUESTS)) return undefined
    parameters.append(IN_REQUESTS[name]!, value)
  }
  return withQuery('/console/requests', parameters)
}
