/**
 * Money: amounts, prices and bills. Amounts are integers of 10⁻¹² USD (`Pico`), prices are integers of 10⁻¹⁸ USD per unit.
 * Nothing between a price and the ledger has a fraction; clients receive decimal text.
 */
import type { Usage } from '../plugin.ts'
import { formatPico, MAX_AMOUNT, usdJson, type Pico } from './amounts.ts'
import {
  isByVendor,
  PICO_PER_USD,
  PRICE_PER_PICO,
  pricesAt,
  quantitiesOf,
  termsOf,
  type CostMember,
  type PriceName,
  type Prices,
  type Term,
  wholes,
} from './prices.ts'

export * from './amounts.ts'

/** Usage of one source at that source's prices: the model of the call, a stored answer of it, the gateway's own web search, or a guard that asked a model. */
export interface UsageLine {
  readonly source: 'model' | 'cache' | 'search' | 'guard'
  readonly usage: Usage
  readonly prices: Prices
  /** What its vendor is paid; absent where that is unknown. */
  readonly cost?: Prices
}

/** Whether a line is about the model of the call: asked, or by a stored answer. */
export function isOfModel({ source }: Pick<UsageLine, 'source'>): boolean {
  return source === 'model' || source === 'cache'
}

/** The cost of a call: the total and its parts. The parts sum to the total exactly. */
export class Bill {
  readonly cost: Pico
  /** The parts; every amount is above 0. */
  readonly details: readonly BillItem[]
  #text: string | undefined = undefined

  constructor(cost: Pico, details: readonly BillItem[]) {
    this.cost = cost
    this.details = details
  }

  /** The same bill for a lower total: the last parts are cut. */
  cappedAt(most: Pico): Bill {
    let left = most
    const details = this.details.map(({ member, amount }) => {
      const kept = amount < left ? amount : left
      left -= kept
      return { member, amount: kept }
    })
    return new Bill(most, details.filter(isAboveZero))
  }

  /** The total in USD as plain decimal text, for the body, the header and the log. */
  get text(): string {
    return (this.#text ??= formatPico(this.cost))
  }
}

interface BillItem {
  readonly member: CostMember
  readonly amount: Pico
}

export const NO_COST = new Bill(0n, [])

/** Members that OpenRouter's clients require beside the parts of a cost: of the prompt, and of the answer. */
type Sides = readonly [prompt: string, completion: string]
export const CHAT_SIDES: Sides = [
  'upstream_inference_prompt_cost',
  'upstream_inference_completions_cost',
]
export const RESPONSE_SIDES: Sides = [
  'upstream_inference_input_cost',
  'upstream_inference_output_cost',
]
const OF_PROMPT: ReadonlySet<CostMember> = new Set([
  'prompt_cost',
  'cache_read_cost',
  'cache_write_cost',
])

/**
 * The members `cost` and `cost_details` of every `usage` object in a response, and `model` where another one answered.
 * @param sides members that repeat what the prompt and the answer cost; they are no part of the sum
 */
export function costJson(
  { bill, answeredBy }: { readonly bill: Bill; readonly answeredBy?: string | undefined },
  sides?: Sides,
): {
  model?: string
  cost: number
  cost_details: Partial<Record<string, number>>
} {
  const details: Partial<Record<string, number>> = {}
  for (const { member, amount } of bill.details) details[member] = usdJson(amount)
  if (sides) {
    const sumOf = (fits: (member: CostMember) => boolean) =>
      bill.details.reduce((sum, { member, amount }) => (fits(member) ? sum + amount : sum), 0n)
    details[sides[0]] = usdJson(sumOf((member) => OF_PROMPT.has(member)))
    details[sides[1]] = usdJson(sumOf((member) => member === 'completion_cost'))
  }
  const model = answeredBy === undefined ? undefined : { model: answeredBy }
  return { ...model, cost: usdJson(bill.cost), cost_details: details }
}

/**
 * Multiplies quantities by the prices of their tier, adds the products and rounds the sum up to a pico-dollar, once. Parts are
 * rounded down, and the last part receives the difference, so that the parts sum to the total.
 */
export function priceUsage(lines: readonly UsageLine[]): Bill {
  const plain = lines.length === 1 && plainBill(lines[0]!)
  if (plain) return plain
  const items: Item[] = []
  let sum = 0n
  for (const line of lines) sum += addProducts(line, items)
  if (sum === 0n) return NO_COST
  const cost = roundedUp(sum)
  let left = cost
  for (let i = 0; i < items.length; i++) {
    const item = items[i]!
    item.amount = i === items.length - 1 ? left : item.amount / PRICE_PER_PICO
    left -= item.amount
  }
  return new Bill(cost, items.every(isAboveZero) ? items : items.filter(isAboveZero))
}

/** The charge of {@link priceUsage} for one line, without the parts. */
export function costOf(line: UsageLine): Pico {
  const plain = plainCosts(line.usage, line.prices, isOfModel(line))
  return plain ? BigInt(plain.total) : roundedUp(addProducts(line))
}

/**
 * What the vendors of a call are paid, rounded up to a pico-dollar, once. It does not depend on what the client pays.
 * @param bill that of the lines at their selling prices, where it was made
 * @returns undefined where it is unknown: a line that has quantities has no prices of its vendor
 */
export function vendorCostOf(lines: readonly UsageLine[], bill?: Bill): Pico | undefined {
  if (bill && lines.every(({ prices, cost }) => cost === prices)) return bill.cost
  let sum = 0n
  for (const { source, usage, cost } of lines) {
    // No vendor was asked.
    if (source === 'cache') continue
    if (cost && (usage.vendorCost !== undefined || !isReportedOnly(cost))) {
      sum += addProducts({ source, usage, prices: cost })
    } else if (hasQuantities(source, usage)) return undefined
  }
  return roundedUp(sum)
}

/** Whether prices count the vendor's own amount, and nothing where it reports none. */
function isReportedOnly({ vendor_usd: byVendor, ...others }: Prices): boolean {
  return byVendor !== undefined && Object.keys(others).length === 0
}

/** Whether anything of a line can cost something. A call of a model is a quantity itself. */
function hasQuantities(source: UsageLine['source'], usage: Usage): boolean {
  if (source === 'model') return true
  const { request: _, ...quantities } = quantitiesOf(usage)
  return Object.values(quantities).some((count) => count > 0)
}

/** The bill of one line of plain usage; undefined for any other. */
function plainBill({ source, usage, prices }: UsageLine): Bill | undefined {
  const costs = plainCosts(usage, prices, isOfModel({ source }))
  if (!costs) return undefined
  const cost = BigInt(costs.total)
  if (cost === 0n) return NO_COST
  const shown = SHOWN_AS[source]
  if (shown) return new Bill(cost, [{ member: shown, amount: cost }])
  const { prompt, cached, completion, request } = costs
  const details: BillItem[] = []
  const add = (member: CostMember, amount: number) => {
    if (amount > 0) details.push({ member, amount: BigInt(amount) })
  }
  // The fee is shown with the prompt, after the cache where it is all of that part: in the order of the terms.
  if (prompt > 0) add('prompt_cost', prompt + request)
  add('cache_read_cost', cached)
  if (prompt === 0) add('prompt_cost', request)
  add('completion_cost', completion)
  return new Bill(cost, details)
}

interface Item {
  readonly member: CostMember
  amount: bigint
}

/** A term of a bill: a quantity at its price. Amounts are 10⁻¹⁸ USD. */
export interface Explained {
  readonly source: UsageLine['source']
  readonly part: CostMember
  readonly price: PriceName
  /** The price that applied, which is a substitute where the list has none of the name. */
  readonly pricedAs: PriceName
  /** A count; of what the vendor reports, its amount in USD as text. */
  readonly quantity: number | string
  readonly unit: bigint
  readonly amount: bigint
}

/** The terms whose sum {@link priceUsage} rounds up. */
export function explain(lines: readonly UsageLine[]): Explained[] {
  const explained: Explained[] = []
  for (const line of lines) {
    addProducts(line, undefined, ({ name, member, unit, pricedAs }, count, amount) => {
      explained.push({
        source: line.source,
        part: SHOWN_AS[line.source] ?? member,
        price: name,
        pricedAs,
        quantity: name === 'vendor_usd' ? formatPico(BigInt(count)) : count,
        unit,
        amount,
      })
    })
  }
  return explained
}

/** The sum of a line, whose products are added to the parts of its bill. */
function addProducts(
  { source, usage, prices }: UsageLine,
  items?: Item[],
  tell?: (term: Term, count: number, product: bigint) => void,
): bigint {
  let sum = 0n
  const quantities = quantitiesOf(usage)
  const byVendor = isByVendor(usage, prices)
  // Every token of a line is charged at the tier of its whole prompt.
  for (const term of termsOf(pricesAt(prices, usage.promptTokens ?? 0))) {
    const { name, member, unit } = term
    const count = quantities[name]
    if (count === 0 || (name === 'request' && !isOfModel({ source }))) continue
    if ((name === 'vendor_usd') !== byVendor) continue
    const whole = BigInt(count) * unit
    const product = byVendor ? (whole + PICO_PER_USD - 1n) / PICO_PER_USD : whole
    sum += product
    if (items) addTo(items, SHOWN_AS[source] ?? member, product)
    tell?.(term, count, product)
  }
  return sum
}

function addTo(items: Item[], member: CostMember, amount: bigint): void {
  const item = items.find((known) => known.member === member)
  if (item) item.amount += amount
  else items.push({ member, amount })
}

function roundedUp(sum: bigint): Pico {
  return (sum + PRICE_PER_PICO - 1n) / PRICE_PER_PICO
}

function isAboveZero({ amount }: BillItem): boolean {
  return amount > 0n
}

/** The gateway's own searches are one part of the bill; the requests of guards to models are another. */
const SHOWN_AS: Partial<Record<UsageLine['source'], CostMember>> = {
  search: 'web_search_cost',
  guard: 'guard_cost',
}

/** @throws RangeError for an amount below `least` or above MAX_AMOUNT. @param what names the amount in the message */
export function checkAmount(what: string, amount: Pico, least?: Pico): void {
  if (amount <= MAX_AMOUNT && (least === undefined || amount >= least)) return
  const lower = least === undefined ? '' : least === 0n ? 'at least 0 and ' : 'above 0 and '
  const upper = `at most ${formatPico(MAX_AMOUNT)} USD`
  throw new RangeError(`${what} has to be ${lower}${upper}, not ${formatPico(amount)}`)
}

// Costs of plain usage: the tokens of a prompt, some of them read from a cache, and those of an answer, which is all that most
// chats have. They are numbers of whole pico-dollars, computed without the record of all quantities (`prices.ts`), and equal to
// its result: a cost that a double does not hold exactly is left to the record.

/** A cost and its parts, in pico-dollars. */
interface PlainCosts {
  readonly total: number
  readonly prompt: number
  readonly cached: number
  readonly completion: number
  /** The fee of a request. */
  readonly request: number
}

/** Whether a usage has no quantity but tokens of a prompt, read from a cache or not, and of an answer. */
export function isPlainUsage(usage: Usage): boolean {
  return !(
    usage.cachedAudioTokens ||
    usage.cachedImageTokens ||
    usage.cacheWriteTokens ||
    usage.cacheWrite1hTokens ||
    usage.audioInputTokens ||
    usage.imageInputTokens ||
    usage.reasoningTokens ||
    usage.audioOutputTokens ||
    usage.imageOutputTokens ||
    usage.images ||
    usage.pages ||
    usage.characters ||
    usage.seconds ||
    usage.searches ||
    usage.searchUnits
  )
}

/** The cost of a plain usage; undefined for any other usage, for prices that are no whole pico-dollars, and for large amounts. */
export function plainCosts(usage: Usage, prices: Prices, hasFee: boolean): PlainCosts | undefined {
  const { plain } = pricesAt(prices, usage.promptTokens ?? 0)
  if (!plain || !isPlainUsage(usage)) return undefined
  const tokens = wholes(usage.promptTokens)
  // A total that was not reported does not bound its part.
  const read = Math.min(wholes(usage.cachedTokens), tokens || Infinity)
  const prompt = tokens && (tokens - read) * plain.prompt
  const cached = read * plain.cached
  const completion = wholes(usage.completionTokens) * plain.completion
  const request = hasFee ? plain.request : 0
  const total = prompt + cached + completion + request
  // No part is above the total, so all of them are exact if it is.
  if (total > Number.MAX_SAFE_INTEGER) return undefined
  return { total, prompt, cached, completion, request }
}
