/** Opens the storage of stored answers that a configuration wants. */
import type { Config } from '../config/config.ts'
import { AnswerCache } from '../answers/cache.ts'
import { isFolder, openStore } from '../answers/drivers.ts'
import { ConfigError } from '../errors/errors.ts'
import type { Faults } from '../observe/faults.ts'
import type { Metrics } from '../observe/metrics.ts'
import { isAbsolute, resolve } from 'node:path'

const MIB = 1_048_576
const SAME_REDIS =
  'answers.store is the Redis of the ledger: it removes nothing, and full it stops calls. Take another one.'
/** Most bytes of stored answers in memory, and in a folder, where the configuration does not say it. */
const MOST_IN_MEMORY = 64 * MIB
const MOST_IN_FOLDER = 1024 * MIB

/**
 * @param directory of the configuration file
 * @returns undefined where the configuration has no section `answers`
 * @throws ConfigError for a driver that cannot be used
 */
export async function openAnswers(
  { answers, state }: Pick<Config, 'answers' | 'state'>,
  directory: string,
  { faults, metrics }: { readonly faults: Pick<Faults, 'warn'>; readonly metrics: Metrics },
): Promise<AnswerCache | undefined> {
  if (!answers) return undefined
  const { store, maxEntry, ttl, timeout } = answers
  const kept = isFolder(store.driver) && typeof store.base === 'string' ? store.base : undefined
  const mostBytes = answers.maxSize ?? (kept === undefined ? MOST_IN_MEMORY : MOST_IN_FOLDER)
  if (store.driver === 'redis' && state.driver === 'redis' && store.url === state.url) {
    faults.warn('answers.ledger_redis', SAME_REDIS)
  }
  try {
    return new AnswerCache({
      storage: await openStore(store, directory, mostBytes),
      driver: store.driver,
      folder: kept === undefined || isAbsolute(kept) ? kept : resolve(directory, kept),
      mostEntryBytes: maxEntry,
      mostBytes,
      timeoutMs: timeout * 1000,
      maxTtl: ttl,
      metrics: metrics.calls,
      warn: (message) => faults.warn('answers.store', message),
    })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new ConfigError('answers', [{ path: 'answers.store', message }])
  }
}
