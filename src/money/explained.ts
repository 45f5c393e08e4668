/** Bills explained: which quantity of a call was charged at which price, from its row of the ledger and the stored prices. */
import { explain, type Explained, type Pico, type UsageLine } from './money.ts'
import { PRICE_PER_PICO } from './prices.ts'

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

export interface ExplainedBill {
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
  const asked = lines.filter(({ source }) => source !== 'cache')
  const paid = explain(asked.map((line) => ({ ...line, prices: line.cost ?? line.prices })))
  return {
    cost: BigInt(vendor),
    lines: paid,
    reported: paid.some(({ price }) => price === 'vendor_usd'),
  }
}
