/** What the gateway offers guard plugins. */
import { LRUCache } from 'lru-cache'
import type { GuardHost, Host, PatternMatcher } from '../plugin.ts'
import { askModel } from './model-access.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { FairSemaphore } from './semaphore.ts'

const MAX_CACHED = 20_000
const MAX_TTL_SECONDS = 86_400

/**
 * The host of one guard.
 * @param host what every plugin gets
 * @param semaphore bounds the models that all guards ask at once
 */
export function guardHost(
  host: Host,
  semaphore: FairSemaphore,
  compile: (patterns: readonly string[]) => PatternMatcher,
): GuardHost {
  const cached = new LRUCache<string, { readonly value: unknown }>({ max: MAX_CACHED })
  return {
    ...host,
    askModel: (model, request, context) => askModel(semaphore, model, request, context),
    compilePatterns: compile,
    yieldIfDue: ({ signal }) => yieldIfDue(() => signal.throwIfAborted()),
    cache: {
      get: ({ accountId }, key) => cached.get(`${accountId}\n${key}`)?.value,
      set({ accountId }, key, value, ttlSeconds) {
        const ttl = Math.min(ttlSeconds, MAX_TTL_SECONDS) * 1000
        if (ttl > 0) cached.set(`${accountId}\n${key}`, { value }, { ttl })
      },
    },
  }
}
