import { InvalidRequest, PaymentRequired, UpstreamFailure } from '../../errors/errors.ts'
import { formatPico } from '../../money/money.ts'
import type { Call, Stage } from '../pipeline.ts'
import type { SearchResult } from '../../plugin.ts'
import {
  searchPrice,
  type Grounding,
  type Search,
  type SearchRequest,
} from '../../search/search.ts'

/**
 * Searches the web, once, for a request that wants it: before the model is asked, whichever deployments will be. What is
 * found goes upstream with the request, and comes back as citations. A search that fails is no search, unless the operator
 * wants the call to fail with it.
 */
export const ground: Stage = async function ground(call, next) {
  const { grounding } = call.endpoint
  const wish = grounding?.searchRequest(call.input, call.online)
  if (!wish) return next()
  const { search } = call.runtime
  // An answer must not look grounded and be none.
  if (!search) throw noEngine(call)
  const results = await searched(call, grounding!, search, wish)
  const { parts } = await next()
  return { parts: parts.through(grounding!.cite(results)) }
}

async function searched(
  call: Call,
  grounding: Grounding<any, any>,
  search: Search,
  wish: SearchRequest,
): Promise<readonly SearchResult[]> {
  const { prices } = search.engineFor(wish)
  const price = searchPrice(prices)
  if (price > 0n && !call.held.billed) {
    throw new PaymentRequired(
      `A web search costs ${formatPico(price)} USD, and this account has no credits. ` +
        'Add credits, or drop ":online" and the web plugin.',
    )
  }
  const found = await find(call, search, wish)
  call.meter.push({ source: 'search', usage: found?.usage ?? { searches: 0 }, prices })
  if (!found) return []
  const { results: hits } = found
  const { resultFilter: hitScreen } = call
  const passed = hits.length > 0 && hitScreen ? await hitScreen.filterResults(hits) : hits
  if (passed.length > 0) {
    call.outbound = grounding.addResults(call.outbound, passed, call.input, call.startedAt)
  }
  return passed
}

async function find(call: Call, search: Search, wish: SearchRequest) {
  const branch = call.abortScope()
  try {
    return await search.find(wish, branch)
  } catch (error) {
    call.throwIfAborted()
    const ignores = call.runtime.config.search.onError === 'ignore'
    if (!ignores || !UpstreamFailure.is(error)) throw error
    return undefined
  } finally {
    call.release(branch)
  }
}

function noEngine(call: Call): InvalidRequest {
  return new InvalidRequest(
    'unsupported_value',
    'This gateway has no search engine configured. Drop ":online" and the web plugin to go on without a search.',
    { param: call.online ? 'model' : 'plugins' },
  )
}
