/** Web searches that the gateway makes before it asks a model. */
import type { ConsolaInstance } from 'consola'
import { setTimeout as sleep } from 'node:timers/promises'
import { UpstreamFailure } from '../errors/errors.ts'
import { unlessAborted, deepFrozen } from '../lifetime/scope.ts'
import type { Faults } from '../observe/faults.ts'
import type { Metrics } from '../observe/metrics.ts'
import { formatPico, parsePico, priceUsage, type Pico } from '../money/money.ts'
import type { Prices } from '../money/prices.ts'
import type {
  SearchResponse,
  SearchResult,
  SearchQuery,
  SearchEngine,
  Step,
  Usage,
} from '../plugin.ts'
import {
  ALL_CHARACTERS,
  cleanResults,
  EXCERPT_CHARACTERS,
  singleLine,
  shorten,
  domainRules,
} from './results.ts'

export const MAX_RESULTS = 10

/** Estimate of the most tokens that the results and the text around them add to a prompt. */
export const RESULT_TOKENS = Math.ceil(ALL_CHARACTERS / 3)

export interface SearchRequest {
  /** The user's message; may be empty. */
  readonly question: string
  /** Name of an engine; any other value selects the default engine. */
  readonly engine: unknown
  /** Number of results, from 1 to {@link MAX_RESULTS}. */
  readonly maxResults: number
  readonly includeDomains: readonly string[]
  readonly excludeDomains: readonly string[]
  /** Path of the vendor's tool that the search replaces: without a search the call goes on. */
  readonly tool?: string
}

export interface ConfiguredEngine {
  readonly name: string
  readonly use: string
  readonly engine: SearchEngine
  /** Price of one search, as `web_search`. */
  readonly prices: Prices
  /** What the vendor is paid for one; absent where that is unknown. */
  readonly cost?: Prices
  /** ms for a search and its retry together. */
  readonly timeoutMs: number
}

/** The results of a search, and the usage to charge. */
interface SearchOutcome {
  readonly results: readonly SearchResult[]
  readonly usage: Usage
}

/** Use of web search by an endpoint: the question, and the place of the results. */
export interface Grounding<In, Part> {
  /** The search that a request asks for; undefined if none. */
  searchRequest(input: In, online: boolean): SearchRequest | undefined
  /**
   * Adds the results to the request for the model. Returns a copy.
   * @param results one or more
   * @param at time of the search, ms since epoch
   */
  addResults(outbound: any, results: readonly SearchResult[], input: In, at: number): unknown
  /** A step that adds citations to one answer. */
  cite(results: readonly SearchResult[]): Step<Part, Part>
}

/** ms before the retry at an engine that does not tell how long to wait. */
const RETRY_DELAY_MS = 200
/** Longest question; engines accept far less. */
const MAX_QUESTION_CHARACTERS = 20_000

/** Failures that may be over a moment later. */
const TRANSIENT = new Set(['upstream_rate', 'overloaded', 'upstream_error'])

/** Where searches are counted and failures logged. */
interface SearchContext {
  readonly metrics: Metrics
  readonly log: ConsolaInstance
  readonly faults: Pick<Faults, 'caught' | 'warn'>
}

export class Search {
  readonly #engines: ReadonlyMap<string, ConfiguredEngine>
  readonly #fallback: ConfiguredEngine
  readonly #context: SearchContext
  /** Last reported cost of each engine whose cost differs from its price. */
  readonly #reported = new Map<string, Pico>()

  /** @param engines one or more @param fallback name of the default engine; when absent, the first one */
  constructor(
    engines: readonly ConfiguredEngine[],
    fallback: string | undefined,
    context: SearchContext,
  ) {
    this.#engines = new Map(engines.map((engine) => [engine.name, engine]))
    this.#fallback = (fallback && this.#engines.get(fallback)) || engines[0]!
    this.#context = context
  }

  engineFor({ engine }: SearchRequest): ConfiguredEngine {
    return (typeof engine === 'string' && this.#engines.get(engine)) || this.#fallback
  }

  /**
   * Makes one search, with one retry after a transient failure. A failure is counted and logged.
   * @param abort an abort controller for this search only; aborted here when the time is up
   * @returns undefined if there is no text to search for
   * @throws UpstreamFailure of class `timeout` or `upstream_error`; the abort reason, if the call was aborted
   */
  async find(request: SearchRequest, abort: AbortController): Promise<SearchOutcome | undefined> {
    const question = singleLine(request.question.slice(0, MAX_QUESTION_CHARACTERS))
    if (!question) return undefined
    const engine = this.engineFor(request)
    const rules = domainRules(request.includeDomains, request.excludeDomains)
    const query: SearchQuery = deepFrozen({
      text: (limit) => shorten(question, limit),
      // With domain rules, results are filtered here, so more are requested; up to ten cost the same.
      maxResults: rules.any ? MAX_RESULTS : request.maxResults,
      maxCharacters: EXCERPT_CHARACTERS,
      includeDomains: rules.include,
      excludeDomains: rules.exclude,
    })
    const response = await this.#measured(engine, query, abort)
    const { results, dropped, used } = cleanResults(response.results, rules, request.maxResults)
    this.#context.metrics.searchResultsDropped(engine.name, dropped)
    // Unusable results alone are no search. An engine without results has searched.
    if (dropped > 0 && used === 0) return { results, usage: { searches: 0 } }
    const cost = amountOf(response.vendorCost)
    if (cost === undefined) return { results, usage: { searches: 1 } }
    this.#compare(engine, cost)
    return { results, usage: { searches: 1, vendorCost: formatPico(cost) } }
  }

  async #measured(
    engine: ConfiguredEngine,
    query: SearchQuery,
    abort: AbortController,
  ): Promise<SearchResponse> {
    const { name, use } = engine
    const { metrics, faults } = this.#context
    const started = performance.now()
    const report = (outcome: string) => {
      const seconds = (performance.now() - started) / 1000
      metrics.searched(name, outcome, seconds)
    }
    try {
      const response = await ask(engine, query, abort)
      report('ok')
      return response
    } catch (error) {
      const { aborted, reason } = abort.signal
      const cause: unknown = aborted ? reason : error
      if (aborted && !UpstreamFailure.is(cause)) throw cause
      const failure = UpstreamFailure.is(cause) ? cause.failure : 'upstream_error'
      report(failure)
      const line = `search engine ${name} failed: ${failure} (${reasonOf(cause)})`
      if (UpstreamFailure.is(cause)) faults.warn(line, line)
      else faults.caught(cause, use, name, true)
      throw failure === 'timeout'
        ? new UpstreamFailure('timeout', 'The web search did not answer in time.')
        : new UpstreamFailure('upstream_error', 'The web search failed.')
    }
  }

  /** Logs, once for each amount, that an engine reports another cost than its configured price. */
  #compare({ name, prices }: ConfiguredEngine, cost: Pico): void {
    const price = searchPrice(prices)
    if (cost === price || this.#reported.get(name) === cost) return
    this.#reported.set(name, cost)
    const [reported, own] = [formatPico(cost), formatPico(price)]
    this.#context.log.warn(
      `search engine ${name} reports a cost of ${reported} USD per search, but is configured with ${own} USD: correct its price`,
    )
  }
}

export function searchPrice(prices: Prices): Pico {
  return priceUsage([{ source: 'search', usage: { searches: 1 }, prices }]).cost
}

async function ask(
  { engine, timeoutMs }: ConfiguredEngine,
  query: SearchQuery,
  abort: AbortController,
): Promise<SearchResponse> {
  const { signal } = abort
  const deadline = performance.now() + timeoutMs
  const late = () => abort.abort(new UpstreamFailure('timeout', 'no answer in time'))
  const timer = setTimeout(late, timeoutMs)
  const once = async () => checked(await unlessAborted(signal, engine.search(query, signal)))
  try {
    return await once()
  } catch (error) {
    const waitMs = retryDelayOf(error)
    if (signal.aborted || waitMs === undefined || performance.now() + waitMs >= deadline)
      throw error
    await sleep(waitMs, undefined, { ref: false, signal })
    return await once()
  } finally {
    clearTimeout(timer)
  }
}

function retryDelayOf(error: unknown): number | undefined {
  if (!UpstreamFailure.is(error) || !TRANSIENT.has(error.failure)) return undefined
  return error.retryAfterMs ?? RETRY_DELAY_MS
}

function checked(response: SearchResponse): SearchResponse {
  if (Array.isArray(response?.results)) return response
  throw new UpstreamFailure('upstream_error', 'the plugin returned no list of results')
}

/** Reason for the log. Messages of an UpstreamFailure are safe to show; of other errors only the name is. */
function reasonOf(error: unknown): string {
  if (UpstreamFailure.is(error)) return error.messageOf('The search engine')
  return error instanceof Error ? error.name : typeof error
}

/** The reported cost; undefined if it is not an amount. */
function amountOf(cost: string | undefined): Pico | undefined {
  try {
    return typeof cost === 'string' ? parsePico(cost) : undefined
  } catch {
    return undefined
  }
}
