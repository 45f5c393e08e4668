import { InvalidRequest } from './errors.ts'
import { isPastMoment, PAST_MOMENT } from './moments.ts'

const MAX_PAGE = 200
const DEFAULT_PAGE = 50

/** `?limit=` of a list. @throws InvalidRequest */
export function readLimit(value: string | null): number {
  if (value === null) return DEFAULT_PAGE
  const number = wholeNumber(value)
  if (number !== undefined && number >= 1 && number <= MAX_PAGE) return number
  throw wrongQuery('limit', `a whole number from 1 to ${MAX_PAGE}`)
}

/** @throws InvalidRequest for a parameter of the query that the route does not have */
export function checkParameters(query: URLSearchParams, allowed: ReadonlySet<string>): void {
  for (const name of query.keys()) {
    if (allowed.has(name)) continue
    const message = `Unknown parameter '${name.slice(0, 100)}'. Known: ${[...allowed].join(', ')}.`
    throw new InvalidRequest('unsupported_parameter', message, { param: name.slice(0, 100) })
  }
}

/** Most values of one filter. SQLite refuses conditions with thousands of alternatives. */
const MAX_VALUES = 100

/** All values of a parameter. @throws InvalidRequest */
export function readValues(query: URLSearchParams, name: string): string[] {
  const values = query.getAll(name)
  if (values.length <= MAX_VALUES) return values
  throw wrongQuery(name, `at most ${MAX_VALUES} values`)
}

/** `?format=csv`. @throws InvalidRequest for another format */
export function wantsCsv(query: URLSearchParams): boolean {
  const format = query.get('format') ?? 'json'
  if (format === 'json' || format === 'csv') return format === 'csv'
  throw wrongQuery('format', 'json or csv')
}

/** `?from=` and `?to=`, ms since epoch. @throws InvalidRequest */
export function readMoment(text: string, name: string): number {
  if (isPastMoment(text)) return Date.parse(text)
  throw wrongQuery(name, PAST_MOMENT)
}

/** @returns undefined for a text that is no whole number */
export function wholeNumber(value: string): number | undefined {
  return /^\d{1,15}$/.test(value) ? Number(value) : undefined
}

/** The error for a parameter of the query. @param expected description of a valid value */
export function wrongQuery(param: string, expected: string): InvalidRequest {
  return new InvalidRequest('invalid_value', `Invalid '${param}': expected ${expected}.`, { param })
}
