/** The client for everything that is not a call to a model: ofetch over the connections of an instance. */
import { createFetch, FetchError, type $Fetch, type FetchOptions } from 'ofetch'
import { fetch, Headers, Response, type RequestInit } from 'undici'
import { brokenAnswer, UpstreamFailure } from '../errors/errors.ts'
import { CLASSES, toFailure, waitIn } from './failures.ts'
import type { EgressRoute } from './egress.ts'
import { abortScopeOf } from '../lifetime/scope.ts'
import { Pools, PoolsDispatcher } from './pools.ts'

interface HttpLimits {
  readonly timeoutMs: number
  /** Most decoded bytes of an answer. */
  readonly limitBytes: number
}

const FIRST_REDIRECT = 300
const FIRST_ERROR = 400

/**
 * Makes the client. It follows no redirect and repeats nothing. What it throws is an UpstreamFailure with the class of the
 * status, without the address of the request.
 */
export function createHttp(pools: Pools, limits: HttpLimits): $Fetch {
  const own = createFetch({
    fetch: boundedFetch(pools, limits) as unknown as typeof globalThis.fetch,
    Headers: Headers as unknown as typeof globalThis.Headers,
    AbortController,
    defaults: { retry: 0, redirect: 'manual' },
  })
  return withFailures(own, pools)
}

/** A client with connections of its own, which its owner closes. */
export function openHttp(
  route: EgressRoute,
  limits: HttpLimits,
): { client: $Fetch; close(): Promise<void> } {
  const pools = new Pools(route, CONNECTIONS, () => {})
  const close = () => pools.close(() => new Error('connections could not be closed'))
  return { client: createHttp(pools, limits), close }
}

const CONNECTIONS = 4

/** undici's own `fetch`: that of Node.js belongs to another undici, which must not get our connections. */
function boundedFetch(pools: Pools, { timeoutMs, limitBytes }: HttpLimits) {
  const dispatcher = new PoolsDispatcher(pools)
  return async (
    input: string,
    { timeout: ms = timeoutMs, ...init }: RequestInit & { timeout?: number } = {},
  ): Promise<Response> => {
    const scope = init.signal && abortScopeOf(init.signal)
    if (scope) scope.usesHttp = true
    // ofetch ignores its own time-out where a signal is given. None is wanted for a stream of events.
    const late = ms === 0 ? [] : AbortSignal.timeout(ms)
    const signal = AbortSignal.any([init.signal ?? [], late].flat())
    const response = await fetch(input, { ...init, signal, dispatcher })
    const { status, headers } = response
    if (status >= FIRST_REDIRECT && status < FIRST_ERROR) {
      await response.body?.cancel()
      throw failureOf(status, Object.fromEntries(headers))
    }
    pools.openedTo(new URL(input).origin).proxy?.answered()
    if (!response.body) return response
    let bytes = 0
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length
        if (bytes > limitBytes) controller.error(brokenAnswer('The answer is too large.'))
        else controller.enqueue(chunk)
      },
    })
    return new Response(response.body.pipeThrough(bound), { status, headers })
  }
}

function withFailures(http: $Fetch, pools: Pools): $Fetch {
  const asFailure = (request: unknown) => (error: unknown) => {
    throw failureOfError(error, request, pools)
  }
  const ask = (request: string, options?: FetchOptions<any>) =>
    http(request, options).catch(asFailure(request))
  return Object.assign(ask, {
    raw: (request: string, options?: FetchOptions<any>) =>
      http.raw(request, options).catch(asFailure(request)),
    native: http.native,
    create: (...given: Parameters<$Fetch['create']>) => withFailures(http.create(...given), pools),
  }) as $Fetch
}

/** The error of ofetch quotes the whole address, which may hold a secret. */
function failureOfError(error: unknown, request: unknown, pools: Pools): unknown {
  const isOfFetch = error instanceof FetchError
  if (isOfFetch && error.response) {
    return failureOf(error.response.status, Object.fromEntries(error.response.headers))
  }
  const thrown = isOfFetch ? error.cause : error
  const cause = thrown instanceof TypeError && thrown.cause instanceof Error ? thrown.cause : thrown
  if (UpstreamFailure.is(cause) || !(cause instanceof Error)) return cause
  if (cause.name === 'TimeoutError') return new UpstreamFailure('timeout', undefined, { cause })
  // An abort of the caller, and what its own hooks throw.
  if (cause === error || cause.name === 'AbortError') return cause
  const url = String(request)
  return toFailure(cause, url, pools.openedTo(new URL(url).origin).proxy)
}

function failureOf(status: number, headers: Readonly<Record<string, string>>): UpstreamFailure {
  const retryAfterMs = waitIn(headers)
  return new UpstreamFailure(CLASSES[status] ?? 'upstream_error', undefined, {
    cause: Object.assign(new Error(`HTTP ${status}`), { status }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}
