/** Searches of the web that the gateway makes itself, before a model is asked. */
import type { ConsolaInstance } from 'consola'
import { setTimeout as sleep } from 'node:timers/promises'
import { UpstreamFailure } from '../errors/errors.ts'
import type { Metrics } from '../observe/metrics.ts'
import { formatPico, parsePico, priceUsage, type Pico, type Prices } from '../money/money.ts'
import type {
  SearchResponse,
  SearchResult,
  SearchQuery,
  SearchEngine,
  Step,
  Usage,
} from '../plugin.ts'
import { domainRules } from './domains.ts'
import { ALL_CHARACTERS, cleanResults, EXCERPT_CHARACTERS } from './results.ts'
import { singleLine, shorten } from './texts.ts'

/** The most results one search can have. */
export const MAX_RESULTS = 10

/** The most tokens that results, with everything around them, add to a prompt; an estimate. */
export const RESULT_TOKENS = Math.ceil(ALL_CHARACTERS / 3)

/** What a request wants to know from the web. */
export interface SearchRequest {
  /** As the user wrote it; may be without any text. */
  readonly question: string
  /** The name of an engine; anything else means the default. */
  readonly engine: unknown
  /** 1 to {@link MAX_RESULTS} */
  readonly maxResults: number
  readonly includeDomains: readonly string[]
  readonly excludeDomains: readonly string[]
}

/** A configured engine. */
export interface ConfiguredEngine {
  /** That of the configuration. */
  readonly name: string
  readonly engine: SearchEngine
  /** What one search costs, as `web_search`. */
  readonly prices: Prices
  /** ms for a search, its second try included. */
  readonly timeoutMs: number
}

/** What came of a search, and what it takes. */
export interface SearchOutcome {
  readonly results: readonly SearchResult[]
  readonly usage: Usage
}

/** How one endpoint is grounded: what it asks of the web, and where the results go. */
export interface Grounding<In, Part> {
  /** What is to be searched for, if anything is. */
  searchRequest(input: In, online: boolean): SearchRequest | undefined
  /**
   * Puts what was found where the model reads it; a copy.
   * @param hits at least one
   * @param at ms since epoch
   */
  addResults(outbound: any, hits: readonly SearchResult[], input: In, at: number): unknown
  /** Says in the answer where it comes from. One step for one answer. */
  cite(hits: readonly SearchResult[]): Step<Part, Part>
}

/** ms before the second try of an engine that does not say how long to wait. */
const PAUSE_MS = 200
/** Much of a question is background: what an engine wants is less. */
const MAX_QUESTION = 20_000

/** What of a failure may be gone a moment later. */
const PASSING = new Set(['upstream_rate', 'overloaded', 'upstream_error'])

export interface SearchContext {
  readonly metrics: Metrics
  readonly log: ConsolaInstance
}

/** The engines of one configuration. */
export class Search {
  readonly #engines: ReadonlyMap<string, ConfiguredEngine>
  readonly #fallback: ConfiguredEngine
  readonly #context: SearchContext
  /** The last cost that each engine reported and that was not its price. */
  readonly #reported = new Map<string, Pico>()

  /**
   * @param engines at least one
   * @param fallback the name of the one that is asked when a request names none that there is; by default the first
   */
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
   * Searches once: one engine, asked a second time when it may have failed by chance. A failure is counted and logged.
   * @param branch of the call, for this search alone: aborted when the time is up
   * @returns nothing when there is no text to search for
   * @throws UpstreamFailure of the class `timeout` or `upstream_error`; why the branch was aborted
   */
  async find(wish: SearchRequest, branch: AbortController): Promise<SearchOutcome | undefined> {
    const question = singleLine(wish.question.slice(0, MAX_QUESTION))
    if (!question) return undefined
    const engine = this.engineFor(wish)
    const rules = domainRules(wish.includeDomains, wish.excludeDomains)
    const query: SearchQuery = {
      text: (limit) => shorten(question, limit),
      // Where hits may be left out here, more of them are asked for; up to ten cost the same.
      maxResults: rules.any ? MAX_RESULTS : wish.maxResults,
      maxCharacters: EXCERPT_CHARACTERS,
      includeDomains: rules.include,
      excludeDomains: rules.exclude,
    }
    const found = await this.#measured(engine, query, branch)
    const hits = cleanResults(found.results, rules, wish.maxResults)
    const cost = amountOf(found.vendorCost)
    if (cost === undefined) return { results: hits, usage: { searches: 1 } }
    this.#compare(engine, cost)
    return { results: hits, usage: { searches: 1, vendorCost: formatPico(cost) } }
  }

  async #measured(
    engine: ConfiguredEngine,
    query: SearchQuery,
    branch: AbortController,
  ): Promise<SearchResponse> {
    const { name } = engine
    const { metrics, log } = this.#context
    const started = performance.now()
    const report = (outcome: string) => {
      const seconds = (performance.now() - started) / 1000
      metrics.searched({ engine: name, outcome, seconds })
    }
    try {
      const found = await ask(engine, query, branch)
      report('ok')
      return found
    } catch (error) {
      const { aborted, reason } = branch.signal
      const cause: unknown = aborted ? reason : error
      if (aborted && !UpstreamFailure.is(cause)) throw cause
      const failure = UpstreamFailure.is(cause) ? cause.failure : 'upstream_error'
      report(failure)
      log.warn(`search engine ${name} failed: ${failure} (${reasonOf(cause)})`)
      throw failure === 'timeout'
        ? new UpstreamFailure('timeout', 'The web search did not answer in time.')
        : new UpstreamFailure('upstream_error', 'The web search failed.')
    }
  }

  /** Says once when an engine reports another cost than the price that is charged for it. */
  #compare({ name, prices }: ConfiguredEngine, cost: Pico): void {
    const price = searchPrice(prices)
    if (cost === price || this.#reported.get(name) === cost) return
    this.#reported.set(name, cost)
    const [reported, own] = [formatPico(cost), formatPico(price)]
    this.#context.log.warn(
      `search engine ${name} reports a cost of ${reported} USD, its price here is ${own}`,
    )
  }
}

/** What one search costs. */
export function searchPrice(prices: Prices): Pico {
  return priceUsage([{ source: 'search', usage: { searches: 1 }, prices }]).cost
}

async function ask(
  { engine, timeoutMs }: ConfiguredEngine,
  query: SearchQuery,
  branch: AbortController,
): Promise<SearchResponse> {
  const { signal } = branch
  const { promise: stopped, reject } = Promise.withResolvers<never>()
  const stop = () => reject(signal.reason)
  const failure = new UpstreamFailure('timeout', 'no answer in time')
  const deadline = Date.now() + timeoutMs
  const timer = setTimeout(() => branch.abort(failure), timeoutMs)
  stopped.catch(() => {})
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  // Plugins that do not look at the signal must not hold up a call.
  const once = async () => checked(await Promise.race([engine.search(query, signal), stopped]))
  try {
    try {
      return await once()
    } catch (error) {
      const waitMs = waitBeforeAgain(error)
      if (signal.aborted || waitMs === undefined || Date.now() + waitMs >= deadline) throw error
      await Promise.race([sleep(waitMs, undefined, { ref: false }), stopped])
      return await once()
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

function waitBeforeAgain(error: unknown): number | undefined {
  if (!UpstreamFailure.is(error) || !PASSING.has(error.failure)) return undefined
  return error.retryAfterMs ?? PAUSE_MS
}

function checked(found: SearchResponse): SearchResponse {
  if (Array.isArray(found?.results)) return found
  throw new UpstreamFailure('upstream_error', 'the plugin gave no list of hits')
}

/** For the operator. Messages of failures are written for clients; of other errors only the name is known to be harmless. */
function reasonOf(error: unknown): string {
  if (UpstreamFailure.is(error)) return error.message
  return error instanceof Error ? error.name : typeof error
}

/** What is no amount is none of our business. */
function amountOf(cost: string | undefined): Pico | undefined {
  try {
    return typeof cost === 'string' ? parsePico(cost) : undefined
  } catch {
    return undefined
  }
}
