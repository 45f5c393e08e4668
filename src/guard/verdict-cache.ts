/** Texts that remote guards have agreed to, so that they are not asked again (guard design, 3.4). */
import { LRUCache } from 'lru-cache'
import { createHmac, randomBytes } from 'node:crypto'
import type { GuardContext, TextItem } from '../plugin.ts'

const MOST = 20_000
const TTL_MS = 600_000

/** Remembers passes only, by a hash of everything that a verdict may depend on. One account learns nothing of another. */
export class VerdictCache {
  readonly #known = new LRUCache<string, true>({ max: MOST, ttl: TTL_MS })
  readonly #secret = randomBytes(32)

  /** @param guard the instance's name */
  keyOf(guard: string, context: GuardContext, unit: TextItem): string {
    const {
      accountId,
      keyId,
      operation: endpoint,
      model,
      origin,
      rules,
      judgeModel: judge,
    } = context
    const { side, channel, text, context: around } = unit
    const about = [guard, accountId, keyId, endpoint, model, origin, rules, judge]
    const parts = [...about, side, channel, around, text]
    return createHmac('sha256', this.#secret).update(JSON.stringify(parts)).digest('base64')
  }

  has(key: string): boolean {
    return this.#known.has(key)
  }

  add(key: string): void {
    this.#known.set(key, true)
  }
}
