import {
  checkParameters,
  readMoment,
  readValues,
  wholeNumber,
  wrongQuery,
} from '../../errors/query.ts'
import { isAnswerable, labelOf, type GroupName, type UsageQuery } from './query.ts'
import { firstMoment, momentIn } from '../../state/ledger/zone.ts'
import { METRICS, type Metric } from './sums.ts'
import { ROLLUPS, type Rollup } from './tables.ts'

const DAY_MS = 86_400_000
/** Range of a question without one. */
const USUAL_DAYS = 7
const MOST_HOURLY_DAYS = 3
const MOST_DAILY_DAYS = 400
const USUAL_TOP = 20
const MOST_TOP = 1000
const OTHERS = ['from', 'to', 'rollup', 'group', 'metric', 'top', 'format']

/**
 * A question. @param groups allowed groups. @param now ms since epoch
 * @throws InvalidRequest for an unknown or unreadable parameter, and for what the tables cannot answer
 */
export function readUsageQuery(
  query: URLSearchParams,
  groups: readonly GroupName[],
  now: number,
): UsageQuery {
  checkParameters(query, new Set([...OTHERS, ...groups]))
  const { from, to } = readRange(query, now)
  const filters: Partial<Record<GroupName, readonly string[]>> = {}
  for (const name of groups) {
    const values = readValues(query, name)
    if (values.length > 0) filters[name] = values
  }
  const group = readGroup(query.get('group'), groups)
  const rollup = readRollup(query.get('rollup'), to - from, Boolean(labelOf({ group, filters })))
  const metric = oneOf(query.get('metric') ?? 'cost_usd', 'metric', METRICS) as Metric
  const question = { from, to, rollup, group, filters, metric, top: readTop(query.get('top')) }
  if (isAnswerable(question)) return question
  throw wrongQuery(
    'group',
    'groups and filters that fit each other: tag or user with account and key alone, in days or months; ' +
      'code and limit without deployment and outcome',
  )
}

/** `?from=` and `?to=`, half-open, ms since epoch; by default the last seven days. @throws InvalidRequest */
export function readRange(query: URLSearchParams, now: number): { from: number; to: number } {
  const [first, last] = [query.get('from'), query.get('to')]
  const to = last === null ? now : readMoment(last, 'to')
  const from = first === null ? to - USUAL_DAYS * DAY_MS : readMoment(first, 'from')
  if (from < to) return { from, to }
  throw wrongQuery('from', last === null ? 'a moment that is over' : "a moment before 'to'")
}

/** The answer adds up days of several zones: those of each account are its own. */
export const MIXED = 'mixed'

/**
 * A question in the time zone of its accounts: days and months are dates, and a range of hours that is given by dates begins
 * and ends with these.
 * @param zones those of the accounts that are asked for
 */
export function inZones(
  question: UsageQuery,
  query: URLSearchParams,
  zones: ReadonlySet<string>,
): { readonly query: UsageQuery; readonly zone: string } {
  const zone = zones.size === 1 ? [...zones][0]! : MIXED
  const isHourly = question.rollup === 'hour'
  if (zone === 'UTC' || (isHourly && zone === MIXED)) return { query: question, zone }
  const moved = (name: 'from' | 'to', pick: (...moments: number[]) => number) => {
    const at = question[name]
    const isDate = /^\d{4}-\d\d-\d\d$/.test(query.get(name) ?? '')
    if (isHourly) return isDate ? firstMoment(zone, query.get(name)!) : at
    if (isDate) return at
    return pick(...[...zones].map((one) => Date.parse(`${momentIn(one, at).slice(0, 19)}Z`)))
  }
  return { query: { ...question, from: moved('from', Math.min), to: moved('to', Math.max) }, zone }
}

function readGroup(text: string | null, groups: readonly GroupName[]): readonly GroupName[] {
  const names = text ? text.split(',') : []
  if (names.length > 2 || new Set(names).size < names.length) {
    throw wrongQuery('group', 'at most two different names, separated by a comma')
  }
  return names.map((name) => oneOf(name, 'group', groups) as GroupName)
}

function readRollup(text: string | null, ms: number, labelled: boolean): Rollup {
  if (text !== null) return oneOf(text, 'rollup', ROLLUPS) as Rollup
  if (ms <= MOST_HOURLY_DAYS * DAY_MS && !labelled) return 'hour'
  return ms <= MOST_DAILY_DAYS * DAY_MS ? 'day' : 'month'
}

function readTop(text: string | null): number {
  if (text === null) return USUAL_TOP
  const number = wholeNumber(text)
  if (number !== undefined && number >= 1 && number <= MOST_TOP) return number
  throw wrongQuery('top', `a whole number from 1 to ${MOST_TOP}`)
}

function oneOf(text: string, name: string, names: readonly string[]): string {
  if (names.includes(text)) return text
  throw wrongQuery(name, `one of ${names.join(', ')}`)
}
