import { InvalidRequest, PaymentRequired, UpstreamFailure } from '../../errors/errors.ts'
import { formatPico } from '../../money/money.ts'
import { searchOf } from '../native.ts'
import type { Call, Stage } from '../pipeline.ts'
import type { SearchResult, Usage } from '../../plugin.ts'
import {
  searchPrice,
  type Grounding,
  type Search,
  type SearchRequest,
} from '../../search/search.ts'

/**
 * Searches the web once for a request that asks for it. The results go upstream with the request and come back as
 * citations. A search that fails counts as no search, unless the operator configured that the call fails with it.
 */
export const ground: Stage = {
  name: 'ground',
  before(call) {
    const wanted = searchOf(call)
    return wanted && grounded(call, wanted)
  },
}

async function grounded(call: Call, wanted: SearchRequest): Promise<void> {
  const { grounding } = call.endpoint
  const { search } = call.runtime
  if (wanted.tool !== undefined) {
    // A tool may go without, as with a vendor that has none.
    if (!search || costsTooMuch(call, search, wanted)) return
    call.target.searchedFor = wanted.tool
  }
  // Without a search the answer would look grounded and not be so.
  if (!search) throw noEngine(call)
  call.target.requiresNormalForm = true
  const results = await searched(call, grounding!, search, wanted)
  call.through(grounding!.cite(results))
}

/** The results that may be shown to the model; they are in the outbound request then. */
async function searched(
  call: Call,
  grounding: Grounding<unknown, unknown>,
  search: Search,
  wanted: SearchRequest,
): Promise<readonly SearchResult[]> {
  const { prices, cost } = search.engineFor(wanted)
  if (costsTooMuch(call, search, wanted)) {
    const price = searchPrice(prices)
    throw new PaymentRequired(
      `A web search costs ${formatPico(price)} USD, and this account has no credits. ` +
        'Add credits, or drop ":online" and the web plugin.',
    )
  }
  const { meter } = call.answer
  const line = (usage: Usage) => ({
    source: 'search' as const,
    usage,
    prices,
    ...(cost && { cost }),
  })
  // It is paid from the moment when it is sent: also by a client that does not wait for its results.
  const at = meter.push(line({ searches: 1 })) - 1
  let response
  try {
    response = await find(call, search, wanted)
  } catch (error) {
    if (!call.aborted) meter[at] = line({ searches: 0 })
    throw error
  }
  if (call.answer.priced) return []
  meter[at] = line(response?.usage ?? { searches: 0 })
  if (!response) return []
  const { results } = response
  const { target } = call
  const { resultFilter } = target
  const passed =
    results.length > 0 && resultFilter ? await resultFilter.filterResults(results) : results
  if (passed.length > 0) {
    const { input } = call.request
    target.outbound = grounding.addResults(target.outbound, passed, input, call.startedAt)
  }
  return passed
}

/** Whether the search costs anything, and the account has no credits. */
function costsTooMuch(
  { admission: { held } }: Call,
  search: Search,
  wanted: SearchRequest,
): boolean {
  return !held!.billed && searchPrice(search.engineFor(wanted).prices) > 0n
}

/** It is undefined when the search failed and the operator ignores that. */
async function find(call: Call, search: Search, wanted: SearchRequest) {
  const scope = call.abortScope()
  const { metrics } = call.runtime
  const { name } = search.engineFor(wanted)
  scope.late = { instance: name, metrics }
  const started = performance.now()
  const record = (result: string) =>
    call.addQuestion({ to: 'search', name, ms: performance.now() - started, result, rules: [] })
  try {
    const response = await search.find(wanted, scope)
    // Without a text there is nothing to search for.
    if (response) record('ok')
    return response
  } catch (error) {
    record(UpstreamFailure.is(error) ? error.failure : 'cancelled')
    call.throwIfAborted()
    const ignores = call.runtime.config.search.onError === 'ignore'
    if (!ignores || !UpstreamFailure.is(error)) throw error
    return undefined
  } finally {
    call.release(scope)
  }
}

function noEngine(call: Call): InvalidRequest {
  return new InvalidRequest(
    'unsupported_value',
    'This gateway has no search engine configured. Drop ":online" and the web plugin to go on without a search.',
    { param: call.target.online ? 'model' : 'plugins' },
  )
}
