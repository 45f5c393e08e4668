import { formatDecimal, usdJson, type Pico, type Usd } from '../../../money/amounts.ts'
import { second } from './settings.ts'

/** A quantity at its price; amounts are 10⁻¹⁸ USD. */
interface Term {
  readonly source: string
  readonly part: string
  readonly price: string
  readonly pricedAs: string
  readonly quantity: number | string
  readonly unit: bigint
  readonly amount: bigint
}

interface Explained {
  readonly bill: {
    readonly cost: Pico
    readonly estimated: boolean
    readonly lines: readonly Term[]
    readonly sum: bigint
    readonly rounding: bigint
    readonly waived: Pico
    readonly because?: string
    readonly cut: Pico
  }
  readonly vendor:
    | { readonly cost: Pico; readonly lines: readonly Term[]; readonly reported: boolean }
    | undefined
  readonly prices: readonly {
    readonly version: string
    readonly tier: number
    readonly list: string | null
  }[]
}

interface Refund {
  readonly amount: Pico
  readonly at: number
  readonly reason: string
}

/** A bill: the cost is the sum of the amounts and the rounding, less what was waived or cut. A refund is a booking of its own. */
export function billView({ bill, vendor, prices }: Explained, refund: Refund | undefined) {
  return {
    cost_usd: usdJson(bill.cost),
    estimated: bill.estimated,
    lines: bill.lines.map(termView),
    sum_usd: exact(bill.sum),
    rounding_usd: exact(bill.rounding),
    waived_usd: usdJson(bill.waived),
    waived_because: bill.because ?? null,
    cut_usd: usdJson(bill.cut),
    prices,
    refund: refund
      ? { usd: usdJson(refund.amount), at: second(refund.at), reason: refund.reason }
      : null,
    vendor: vendor
      ? {
          cost_usd: usdJson(vendor.cost),
          lines: vendor.lines.map(termView),
          reported: vendor.reported,
        }
      : null,
  }
}

/** The bill; `vendor` is absent for those who have no right to see it. */
export type BillAnswer = Omit<ReturnType<typeof billView>, 'vendor'> &
  Partial<Pick<ReturnType<typeof billView>, 'vendor'>>

function termView({ source, part, price, pricedAs, quantity, unit, amount }: Term) {
  return {
    source,
    part,
    price,
    priced_as: pricedAs,
    quantity,
    unit_price_usd: exact(unit),
    amount_usd: exact(amount),
  }
}

const PRICE_DIGITS = 18

/** An amount of 10⁻¹⁸ USD as a number of JSON with every digit. */
function exact(amount: bigint): Usd {
  return JSON.rawJSON(formatDecimal(amount, PRICE_DIGITS)) as unknown as Usd
}
