/** Asks a search engine as the gateway does, and compares its results with its case. */
import { deepFrozen } from '../lifetime/scope.ts'
import type {
  DomainFilter,
  FailureClass,
  SearchEngine,
  SearchPlugin,
  SearchQuery,
  SearchResponse,
  SearchResult,
} from '../plugin.ts'
import type { ServiceFixture } from './checks/service.ts'
import { missingMembers } from './compare.ts'
import { json, type FakeResponse, type ReceivedRequest } from './fake-upstream.ts'
import { within } from './provider-under-test.ts'
import { describeError, notFailure, toCheck, type Check } from './report.ts'
import type { RecordedResponse } from './transcripts.ts'

export interface SearchCase {
  readonly name: string
  /** The query; by default a question with every kind of special character. */
  readonly query?: {
    readonly text?: string
    readonly maxResults?: number
    readonly includeDomains?: readonly DomainFilter[]
    readonly excludeDomains?: readonly DomainFilter[]
  }
  /** The service's answer as a JSON value, or a recorded one. */
  readonly answer: unknown
  readonly expect: ExpectedSearch
}

/** The expected results. Members that are not named must be absent. */
interface ExpectedSearch {
  readonly results?: readonly SearchResult[]
  readonly vendorCost?: string
  /** Class of the failure with which the search ends, instead of results. */
  readonly failure?: FailureClass
  /** Members that the request has to have: parameters of its address, or members of its JSON body. */
  readonly sent?: Readonly<Record<string, unknown>>
}

export interface SearchFixture extends ServiceFixture {
  readonly plugin: SearchPlugin
  readonly engine: SearchEngine
}

interface Searched {
  readonly found?: SearchResponse
  readonly error?: unknown
  readonly asked: readonly ReceivedRequest[]
}

export const WORDS = 'What does "A & B" cost in Grüße #1? 👋'

const FIELDS = ['url', 'title', 'content', 'publishedAt'] as const

/** One search, in bounded time. Never throws. */
export async function search(
  { engine, service, timeoutMs, thrown }: SearchFixture,
  answer: FakeResponse,
  query: SearchCase['query'] = {},
): Promise<Searched> {
  service.answer(answer)
  const before = service.requests.length
  const client = new AbortController()
  const received = () => service.requests.slice(before)
  try {
    // Called in a function: an engine may also throw before it gives a promise.
    const searching = (async () => engine.search(deepFrozen(queryOf(query)), client.signal))()
    return { found: await within(searching, 'no answer', timeoutMs), asked: received() }
  } catch (error) {
    thrown.push(error)
    return { error: error ?? new Error('nothing was thrown'), asked: received() }
  } finally {
    client.abort()
  }
}

export function queryOf({
  text = WORDS,
  ...others
}: NonNullable<SearchCase['query']>): SearchQuery {
  return {
    text: (limit) => text.slice(0, limit),
    maxResults: 7,
    maxCharacters: 1500,
    includeDomains: [],
    excludeDomains: [],
    ...others,
  }
}

export function responseOf({ answer }: SearchCase): FakeResponse {
  if (!isRecorded(answer)) return json(answer)
  const { status, headers, body } = answer
  return { status, headers, pieces: [body] }
}

export function answerText({ answer }: SearchCase): string {
  return isRecorded(answer) ? Buffer.from(answer.body).toString() : JSON.stringify(answer)
}

export async function checkResults(fixture: SearchFixture, one: SearchCase): Promise<Check> {
  const { name, expect, query } = one
  const sent = fixture.host.requests.length
  const { found, error, asked } = await search(fixture, responseOf(one), query)
  const problems: string[] = []
  if (asked.length !== 1) problems.push(`it made ${asked.length} requests, expected one`)
  if (fixture.host.requests.length - sent < asked.length)
    problems.push('it made a request without host.request, which has no limits and no signal')
  if (asked[0]) problems.push(...missingMembers(expect.sent ?? {}, membersOf(asked[0]), 'sent'))
  if (expect.failure) {
    const problem = notFailure(error, [expect.failure])
    return toCheck('results', name, problem ? [...problems, problem] : problems)
  }
  if (error !== undefined) return toCheck('results', name, [...problems, describeError(error)])
  if (!Array.isArray(found?.results)) return toCheck('results', name, ['"results" is no list'])
  problems.push(...differencesOf(expect, found))
  return toCheck('results', name, problems)
}

export function differencesOf(expect: ExpectedSearch, found: SearchResponse): string[] {
  const { results, vendorCost } = found
  const wantedResults = expect.results ?? []
  const problems: string[] = []
  if (results.length !== wantedResults.length)
    problems.push(`expected ${wantedResults.length} results, found ${results.length}`)
  for (const [i, wanted] of wantedResults.entries()) {
    const result: Partial<SearchResult> = results[i] ?? {}
    for (const field of FIELDS) {
      if (result[field] === wanted[field]) continue
      const [is, not] = [result[field], wanted[field]].map((value) => JSON.stringify(value))
      problems.push(`results[${i}].${field}: expected ${not}, found ${is}`)
    }
  }
  if (vendorCost !== expect.vendorCost)
    problems.push(`vendorCost: expected ${expect.vendorCost}, found ${String(vendorCost)}`)
  return problems
}

/** The texts of a request: parameters of its address, and all texts in a JSON body. */
export function textsOf({ path, body }: ReceivedRequest): string[] {
  const parameters = [...new URL(path, 'http://localhost').searchParams.values()]
  const texts: string[] = []
  const collect = (value: unknown): void => {
    if (typeof value === 'string') texts.push(value)
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(collect)
  }
  try {
    collect(JSON.parse(body.toString()))
  } catch {
    // A body in another form, or none.
    texts.push(body.toString())
  }
  return [...parameters, ...texts]
}

/** All of a request that may contain the question, as one text. */
export function textOf(request: ReceivedRequest): string {
  const { searchParams } = new URL(request.path, 'http://localhost')
  return `${[...searchParams].join('\n')}\n${request.body.toString()}`
}

function membersOf({ path, body }: ReceivedRequest): Record<string, unknown> {
  const parameters = Object.fromEntries(new URL(path, 'http://localhost').searchParams)
  try {
    return { ...parameters, ...JSON.parse(body.toString()) }
  } catch {
    return parameters
  }
}

function isRecorded(answer: unknown): answer is RecordedResponse {
  return (
    typeof answer === 'object' &&
    answer !== null &&
    (answer as Partial<RecordedResponse>).body instanceof Uint8Array
  )
}
