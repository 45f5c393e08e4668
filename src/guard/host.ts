/** What the gateway offers guard plugins (guard design, 4). */
import { LRUCache } from 'lru-cache'
import type { GuardHost, Host, PatternMatcher } from '../plugin.ts'
import { askModel } from './model-access.ts'
import { inTurns } from '../patterns/time-slice.ts'
import type { FairSemaphore } from './semaphore.ts'

const MOST_CACHED = 20_000
const LONGEST_TTL_SECONDS = 86_400

/** A host for one guard. @param host what every plugin gets */
export function guardHost(
  host: Host,
  places: FairSemaphore,
  compile: (patterns: readonly string[]) => PatternMatcher,
): GuardHost {
  const cached = new LRUCache<string, { readonly value: unknown }>({ max: MOST_CACHED })
  return {
    ...host,
    askModel: (model, request, context) => askModel(places, model, request, context),
    compilePatterns: compile,
    inTurns: (steps, { signal }) => inTurns(steps, () => signal.throwIfAborted()),
    cache: {
      get: ({ accountId }, key) => cached.get(`${accountId}\n${key}`)?.value,
      set({ accountId }, key, value, ttlSeconds) {
        const ttl = Math.min(ttlSeconds, LONGEST_TTL_SECONDS) * 1000
        if (ttl > 0) cached.set(`${accountId}\n${key}`, { value }, { ttl })
      },
    },
  }
}
