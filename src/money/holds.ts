/** How much money to set aside for a call while it runs (state design, 4.3). */
import { LRUCache } from 'lru-cache'
import { parsePico, priceUsage, type Pico, type Prices } from './money.ts'
import type { Usage } from '../plugin.ts'

/** Lower and upper bound of what a call will consume. */
export interface Estimate {
  readonly least: Usage
  readonly most: Usage
}

export type HoldPolicy = 'floor' | 'expected' | 'ceiling'

/**
 * A million USD: more than anybody's balance, and far from what a ledger refuses. A client may ask for any number of
 * tokens, of a model of which nobody has said how many it can write.
 */
const LARGEST_HOLD = parsePico('1000000')
/** Of how many calls the running mean remembers. */
const MEMORY = 16n

/**
 * Computes holds, and learns what calls of a key and model really cost. Kept per instance: a heuristic, never the truth.
 */
export class HoldEstimator {
  readonly #means = new LRUCache<string, Pico>({ max: 20_000 })

  /** At most {@link LARGEST_HOLD}. */
  of(policy: HoldPolicy, key: string, model: string, prices: Prices, estimate: Estimate): Pico {
    const price = (usage: Usage) => {
      const { cost } = priceUsage([{ source: 'model', usage, prices }])
      return cost < LARGEST_HOLD ? cost : LARGEST_HOLD
    }
    if (policy === 'ceiling') return price(estimate.most)
    const floor = price(estimate.least)
    const mean = policy === 'expected' ? this.#means.get(nameOf(key, model)) : undefined
    if (mean === undefined || mean <= floor) return floor
    const ceiling = price(estimate.most)
    return mean < ceiling ? mean : ceiling
  }

  learn(key: string, model: string, cost: Pico): void {
    const name = nameOf(key, model)
    const mean = this.#means.get(name)
    this.#means.set(name, mean === undefined ? cost : mean + (cost - mean) / MEMORY)
  }
}

function nameOf(key: string, model: string): string {
  return `${key} ${model}`
}
