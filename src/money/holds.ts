/** How much money to hold for a call while it runs. */
import { LRUCache } from 'lru-cache'
import { parsePico, priceUsage, type Pico, type Prices } from './money.ts'
import type { Usage } from '../plugin.ts'

/** Lower and upper bound of the usage of a call, known before it starts. */
export interface Estimate {
  readonly least: Usage
  readonly most: Usage
}

/**
 * How much is held: the lower bound (`floor`), the upper bound (`ceiling`), or what calls of this key and model have cost
 * on average, kept between the two bounds (`expected`).
 */
type HoldPolicy = 'floor' | 'expected' | 'ceiling'

/**
 * One million USD: above any balance, and far below the largest amount a ledger accepts. A client may ask for any number
 * of tokens, also for a model without a known output limit.
 */
const LARGEST_HOLD = parsePico('1000000')
/** Weight of the running mean: one new call changes it by one sixteenth of the difference. */
const MEAN_WEIGHT = 16n

/**
 * Computes holds and learns from settled calls what a key and model usually cost. The means live in memory, one set per
 * instance: they only size holds and never change what a call is charged.
 */
export class HoldEstimator {
  readonly #means = new LRUCache<string, Pico>({ max: 20_000 })

  /**
   * The amount to hold for one call, at most {@link LARGEST_HOLD}.
   * @param key id of the key; together with the model id it selects the running mean
   */
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

  /** Adds the cost of a settled call to the running mean of its key and model. */
  learn(key: string, model: string, cost: Pico): void {
    const name = nameOf(key, model)
    const mean = this.#means.get(name)
    this.#means.set(name, mean === undefined ? cost : mean + (cost - mean) / MEAN_WEIGHT)
  }
}

function nameOf(key: string, model: string): string {
  return `${key} ${model}`
}
