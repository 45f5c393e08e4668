/** The prices by which calls were charged, as records: rows of the ledger refer to them by version. */
import {
  priceUsage,
  vendorCostOf,
  type Pico,
  type UsageLine,
  explain,
  type Explained,
} from '../money/money.ts'
import {
  compilePrices,
  tierOf,
  type Prices,
  type Pricing,
  pricingOf,
  versionOf,
  PRICE_PER_PICO,
} from '../money/prices.ts'
import type { Model } from '../models/catalog.ts'
import { type PriceChange, priceChanges } from '../models/price-changes.ts'
import type { Ledger, LedgerRow, Log } from './ledger/ledger.ts'
import type { Records } from './records.ts'

export const PRICE_INDEX = 'prices'

export function priceKey(version: string): string {
  return `prices:${version}`
}

export class PriceRecords {
  readonly #records: Records
  readonly #log: Log
  readonly #kept = new Set<string>()
  readonly #writing = new Map<string, Promise<void>>()

  constructor(records: Records, log: Log) {
    this.#records = records
    this.#log = log
  }

  /**
   * Stores prices before the first charge by them: the stores keep the order of writes. Never rejects: a charge does not wait
   * for a store that cannot be reached, and the next one by these prices stores them.
   */
  keep(lines: readonly { readonly prices: Prices }[]): Promise<unknown> | undefined {
    const missing = lines.filter(({ prices }) => !this.#kept.has(versionOf(prices)))
    if (missing.length === 0) return undefined
    return Promise.all(missing.map(({ prices }) => this.#write(prices)))
  }

  /** Explains the cost of a row; undefined where its prices are not stored. */
  async explain(row: Pick<LedgerRow, 'cost' | 'usage'>): Promise<ExplainedBill | undefined> {
    const { cost, usage } = row
    if (!usage) return undefined
    const lines = await linesOf({ usage }, async (version) => {
      const pricing = await this.#records.get<Pricing>(priceKey(version))
      return pricing && compilePrices(pricing)
    })
    return Array.isArray(lines) ? explainRow({ cost, usage }, lines) : undefined
  }

  /** A stored list of prices by its version. */
  pricing(version: string): Promise<Pricing | undefined> {
    return this.#records.get<Pricing>(priceKey(version))
  }

  /** Prices every row of these accounts again, from its quantities and the stored prices of its version. */
  check(ledger: Pick<Ledger, 'usage'>, accounts: readonly string[]): Promise<PriceCheck> {
    return checkPrices(ledger, this.#records, accounts)
  }

  /**
   * Stores the prices of all models, and reports how they differ from those stored earlier. Never rejects: a store that cannot
   * be reached is logged, and no differences are reported.
   * @returns the differences, to one of the gateways that start together
   */
  async exchange(models: readonly Model[]): Promise<readonly PriceChange[]> {
    try {
      return await exchangePrices(this.#records, models)
    } catch (error) {
      this.#log.warn('the prices could not be compared with those of the last start', error)
      return []
    }
  }

  #write(prices: Prices): Promise<void> {
    const version = versionOf(prices)
    let writing = this.#writing.get(version)
    if (writing === undefined) {
      writing = this.#store(version, pricingOf(prices)).finally(() => this.#writing.delete(version))
      this.#writing.set(version, writing)
    }
    return writing
  }

  async #store(version: string, pricing: Pricing): Promise<void> {
    try {
      // Not `create`, which reads first: a settlement could overtake it.
      await this.#records.put(priceKey(version), pricing)
      await this.#records.add(PRICE_INDEX, version)
      this.#kept.add(version)
    } catch (error) {
      this.#log.warn(
        `the prices ${version} could not be stored; the next charge by them tries again`,
        error,
      )
    }
  }
}

/** A row whose cost is not that of its quantities at its prices. */
interface WrongCost {
  readonly account: string
  readonly request: string
  readonly stored: Pico
  /** It is undefined where another tier than that of the row applies. */
  readonly recomputed: Pico | undefined
  /** It is set where it is not the cost but what the vendors are paid. */
  readonly of?: 'vendor'
}

/** Result of pricing the rows of the ledger again. */
interface PriceCheck {
  readonly checked: number
  /** Number of rows without a version, of earlier releases, or whose prices are not stored. */
  readonly unknown: number
  readonly wrong: readonly WrongCost[]
}

async function checkPrices(
  ledger: Pick<Ledger, 'usage'>,
  records: Pick<Records, 'get'>,
  accounts: readonly string[],
): Promise<PriceCheck> {
  const versions = new Map<string, Prices | undefined>()
  const pricesOf = async (version: string) => {
    if (!versions.has(version)) {
      const pricing = await records.get<Pricing>(priceKey(version))
      versions.set(version, pricing && compilePrices(pricing))
    }
    return versions.get(version)
  }
  let [checked, unknown] = [0, 0]
  const wrong: WrongCost[] = []
  for (const account of accounts) {
    for await (const row of ledger.usage(account)) {
      if (row.kind !== 'usage' || !row.usage) continue
      const lines = await linesOf(row, pricesOf)
      if (lines === undefined) {
        unknown++
        continue
      }
      checked++
      const recomputed = lines === 'another tier' ? undefined : costOf(row, lines)
      const { request, cost: stored } = row
      if (stored !== recomputed) wrong.push({ account, request, stored, recomputed })
      else if (row.usage.vendor !== undefined) {
        const vendor = BigInt(row.usage.vendor)
        const again = vendorCostOf(lines as readonly UsageLine[])
        if (vendor !== again)
          wrong.push({ account, request, stored: vendor, recomputed: again, of: 'vendor' })
      }
    }
  }
  return { checked, unknown, wrong }
}

/** The cost of a row with these lines. */
function costOf({ cost, usage }: LedgerRow, lines: readonly UsageLine[]): Pico {
  const { outcome, charged } = usage!
  if (charged === 'nothing' || (outcome === 'failed' && cost === 0n)) return 0n
  const sum = priceUsage(lines).cost
  return charged === 'most' && cost < sum ? cost : sum
}

async function linesOf(
  { usage }: Pick<LedgerRow, 'usage'>,
  pricesOf: (version: string) => Promise<Prices | undefined>,
): Promise<UsageLine[] | 'another tier' | undefined> {
  const lines: UsageLine[] = []
  for (const { source, usage: quantities, prices: version, tier, cost: paid } of usage!.lines) {
    const prices = version === undefined ? undefined : await pricesOf(version)
    const cost = paid === undefined ? prices : await pricesOf(paid)
    if (!prices || !cost) return undefined
    if (tier !== tierOf(prices, quantities.promptTokens ?? 0)) return 'another tier'
    lines.push({ source: source as UsageLine['source'], usage: quantities, prices, cost })
  }
  return lines
}

// The prices with which gateways last served, as one record, so that a start can tell which ones changed since.

type PricedModel = Pick<Model, 'id' | 'pricing' | 'prices'>

interface LastPrices {
  /** Number of times the record was replaced. */
  readonly replaced: number
  /** Prices by the id of the model. */
  readonly models: Readonly<Record<string, Pricing>>
}

const LAST = 'prices:last'

/**
 * Replaces the stored prices by those of this gateway.
 * @returns the differences; none at first, and none where another gateway that starts with the same prices has reported them
 */
async function exchangePrices(
  records: Records,
  models: readonly PricedModel[],
): Promise<PriceChange[]> {
  const stored = await records.get<LastPrices>(LAST)
  const now = Object.fromEntries(models.map(({ id, pricing }) => [id, pricing]))
  if (stored && isSame(stored.models, now)) return []
  const changes = stored ? changesSince(stored.models, models) : []
  const replaced = (stored?.replaced ?? 0) + 1
  // One of the gateways that start together creates the record of this turn. All replace the prices: one may end before it has.
  const isFirst = changes.length > 0 && (await records.create(turnKey(replaced), {}))
  await records.put(LAST, { replaced, models: now } satisfies LastPrices)
  if (replaced > 1) await records.del(turnKey(replaced - 1))
  return isFirst ? changes : []
}

function turnKey(replaced: number): string {
  return `prices:last-${replaced}`
}

/** Changes of the models that are in both. */
function changesSince(stored: LastPrices['models'], models: readonly PricedModel[]): PriceChange[] {
  const moved = models.filter(
    ({ id, pricing }) => Object.hasOwn(stored, id) && !isSame(stored[id]!, pricing),
  )
  const before = moved.map(({ id }) => ({ id, prices: compilePrices(stored[id]!) }))
  return priceChanges(before, moved)
}

/** Whether two values are the same text. Entries that are only written in another order count as different at first. */
function isSame(one: object, other: object): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

// Bills explained: which quantity of a call was charged at which price, from its row of the ledger and the stored prices.

/** What a row of the ledger says of its cost. */
interface ChargedRow {
  readonly lines: readonly { readonly prices?: string; readonly tier?: number }[]
  readonly charged?: 'nothing' | 'most'
  readonly because?: 'free_tier' | 'gateway'
  readonly list?: string
  readonly vendor?: string
  readonly flags?: readonly string[]
}

interface Charged {
  readonly cost: Pico
  readonly estimated: boolean
  readonly lines: readonly Explained[]
  /** 10⁻¹⁸ USD, as the rounding up to a pico-dollar. */
  readonly sum: bigint
  readonly rounding: bigint
  readonly waived: Pico
  readonly because?: ChargedRow['because']
  /** What is above the most that one call may cost. */
  readonly cut: Pico
}

interface ExplainedBill {
  readonly bill: Charged
  /** What the vendors were paid; undefined where it is unknown. */
  readonly vendor:
    | { readonly cost: Pico; readonly lines: readonly Explained[]; readonly reported: boolean }
    | undefined
  readonly prices: readonly {
    readonly version: string
    readonly tier: number
    readonly list: string | null
  }[]
}

/**
 * Explains the cost of a row: cost = sum + rounding - waived - cut.
 * @param lines those of the row with the prices of their versions
 */
export function explainRow(
  { cost, usage }: { readonly cost: Pico; readonly usage: ChargedRow },
  lines: readonly UsageLine[],
): ExplainedBill {
  const explained = explain(lines)
  const sum = explained.reduce((all, { amount }) => all + amount, 0n)
  const whole = (sum + PRICE_PER_PICO - 1n) / PRICE_PER_PICO
  const isCut = usage.charged === 'most'
  const missing = whole - cost
  return {
    bill: {
      cost,
      estimated: usage.flags?.includes('estimated') ?? false,
      lines: explained,
      sum,
      rounding: whole * PRICE_PER_PICO - sum,
      waived: isCut ? 0n : missing,
      ...(usage.because && { because: usage.because }),
      cut: isCut ? missing : 0n,
    },
    vendor: vendorOf(usage, lines),
    prices: usage.lines.map(({ prices, tier }) => ({
      version: prices!,
      tier: tier ?? 0,
      list: usage.list ?? null,
    })),
  }
}

function vendorOf({ vendor }: ChargedRow, lines: readonly UsageLine[]): ExplainedBill['vendor'] {
  if (vendor === undefined) return undefined
  // A stored answer costs its vendor nothing.
  const vendorLines = lines.filter(({ source }) => source !== 'cache')
  const paid = explain(vendorLines.map((line) => ({ ...line, prices: line.cost ?? line.prices })))
  return {
    cost: BigInt(vendor),
    lines: paid,
    reported: paid.some(({ price }) => price === 'vendor_usd'),
  }
}
