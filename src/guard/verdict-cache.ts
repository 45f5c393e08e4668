/** Texts that remote guards have agreed to, so that they are not asked again. */
import { LRUCache } from 'lru-cache'
import { createHmac, randomBytes } from 'node:crypto'
import type { GuardContext, TextItem } from '../plugin.ts'

const MAX_VERDICTS = 20_000
const TTL_MS = 600_000

/** Remembers passes only, by a hash of everything that a verdict may depend on. Accounts share nothing. */
export class VerdictCache {
  readonly #passed = new LRUCache<string, true>({ max: MAX_VERDICTS, ttl: TTL_MS })
  readonly #secret = randomBytes(32)

  /** @param guard the instance's name */
  keyOf(guard: string, context: GuardContext, item: TextItem): string {
    const { accountId, keyId, operation, model, origin, rules, judgeModel } = context
    const { side, channel, text, context: shown } = item
    const asked = [guard, accountId, keyId, operation, model, origin, rules, judgeModel]
    const parts = JSON.stringify([...asked, side, channel, shown, text])
    return createHmac('sha256', this.#secret).update(parts).digest('base64')
  }

  has(key: string): boolean {
    return this.#passed.has(key)
  }

  add(key: string): void {
    this.#passed.set(key, true)
  }
}
