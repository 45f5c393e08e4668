/**
 * Money held while a call runs: its probable cost, learned from earlier calls, and its highest possible cost. Both only reserve
 * money, so they are computed with estimates; the charge of a call depends on its usage alone.
 */
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import type { Usage } from '../plugin.ts'
import type { Hidden } from './plausible.ts'
import { costOf, parsePico, type Pico, type UsageLine, isPlainUsage } from './money.ts'
import { pricesAt, pricesUpTo, type Prices } from './prices.ts'

/** Consumption of a call, estimated from its request. */
export interface Estimate {
  /** Least consumption of a request that was sent and never answered. */
  readonly least: Usage
  /** Probable number of input tokens and units. Tokens of the answer are not part of it. */
  readonly expected: Usage
  /** Highest number of input tokens and units. */
  readonly most: Usage
  /** It is absent where the answer has no tokens. */
  readonly output?: OutputEstimate
}

interface OutputEstimate {
  /** Most tokens of one choice that the vendor is told, or is known to write. */
  readonly limit: number
  readonly choices: number
  /** Whether the answer is made of image tokens. */
  readonly isImage?: boolean
}

/** `adaptive` holds the probable cost of a call, `ceiling` its highest possible cost. */
type HoldPolicy = 'adaptive' | 'ceiling'

/** The two figures of a hold, and the parts of the first one. */
export interface HoldFigures {
  /** Probable cost, at most the ceiling. */
  readonly expected: Pico
  readonly ceiling: Pico
  /** The part of `expected` that pays for tokens of the answer. */
  readonly output: Pico
  /** Tokens of the answer, all choices together, that this part pays for. */
  readonly outputTokens: number
}

interface LearnedCall {
  readonly estimate: Estimate
  /** Consumption of the model. */
  readonly line: UsageLine
}

/** An answer whose vendor has reported its usage. */
interface LearnedAnswer {
  readonly model: string
  readonly deployment: string
  readonly hidden: Hidden | undefined
  readonly tokens: number
  /** Tokens of reasoning among them. */
  readonly reasoning: number
  /** Time from the request to the vendor to its report. */
  readonly seconds: number
}

interface Subject {
  readonly account: string
  readonly model: string
  readonly prices: Prices
}

/** Consumption of an account's calls of a model. */
interface Learned {
  /** Mean of the input's cost, divided by its estimate. */
  ratio: number
  /** Mean of the output tokens of a choice, and the mean deviation from it. */
  mean: number
  deviation: number
}

/**
 * One million USD: above any balance, and far below the largest amount a ledger accepts. A client may ask for any number of
 * tokens, also for a model without a known output limit.
 */
const LARGEST_HOLD = parsePico('1000000')
const MAX_SUBJECTS = 20_000
const MAX_MODELS = 1000
/** Expected output tokens of a choice where nothing is known. */
const PRIOR_TOKENS = 2048
const PRIOR: Readonly<Learned> = { ratio: 1, mean: PRIOR_TOKENS, deviation: 0 }
/** Tokens a second of a deployment of which too few answers are known. */
const PRIOR_RATE = 80
/** Answers by which the speed of a deployment is known, and the number of the latest ones that are kept. */
const ENOUGH_RATES = 10
const MOST_RATES = 64
/** The share of answers that are slower than the rate by which a hidden answer is charged. */
const RATE_QUANTILE = 0.9
/** The latest answers of a model that tell whether it reasons unasked. */
const REASONING_MEMORY = 10
/** Least expected output tokens of a choice, so that a hold which doubles soon covers any answer. */
const LEAST_TOKENS = 16
const [LOWEST_RATIO, HIGHEST_RATIO] = [0.05, 8]
/** Weight of one call in a mean; a longer answer counts more, because too small a hold costs more than too large a one. */
const WEIGHT = 1 / 16
const WEIGHT_OF_LONGER = 1 / 4

/** Members of a usage that count tokens of the input. */
const INPUT = [
  'promptTokens',
  'cachedTokens',
  'cachedAudioTokens',
  'cachedImageTokens',
  'cacheWriteTokens',
  'cacheWrite1hTokens',
  'audioInputTokens',
  'imageInputTokens',
] as const

/** Computes holds, and learns the consumption of an account's calls of a model. It is kept in memory, one set per gateway. */
export class HoldEstimator {
  readonly settled = new SettlementWaits()
  readonly #learned = new LRUCache<string, Learned>(atMost(MAX_SUBJECTS))
  readonly #rates = new LRUCache<string, Latest>(atMost(MAX_MODELS))
  readonly #reasoning = new LRUCache<string, Latest>(atMost(MAX_MODELS))

  of(policy: HoldPolicy, subject: Subject, { expected, most, output }: Estimate): HoldFigures {
    const { prices } = subject
    const { limit = 0, choices = 1, isImage = false } = output ?? {}
    const ceiling = pricesUpTo(prices, most.promptTokens ?? 0)
      .map((tier) => held(withDearest(most, tier, choices * limit), tier))
      .reduce(greatest)
    const tier = pricesAt(prices, expected.promptTokens ?? 0)
    const { ratio, mean, deviation } = this.#of(subject)
    const tokens = Math.min(limit, Math.max(LEAST_TOKENS, Math.ceil(mean + 2 * deviation)))
    const outputTokens = policy === 'ceiling' ? choices * limit : choices * tokens
    const input = held(withScaled(expected, ratio), tier)
    const answer = held(outputOf(outputTokens, isImage), tier, 'guard')
    const sum = policy === 'ceiling' ? ceiling : least(input + answer, ceiling)
    return { expected: sum, ceiling, output: least(answer, sum), outputTokens }
  }

  /** Tokens a second of the faster answers of a deployment. */
  rateOf(deployment: string): number {
    const rates = this.#rates.get(deployment)?.values ?? []
    if (rates.length < ENOUGH_RATES) return PRIOR_RATE
    const sorted = rates.toSorted((one, other) => one - other)
    return sorted[Math.ceil(RATE_QUANTILE * sorted.length) - 1]!
  }

  /** Whether an answer that is not shown whole is taken to have reasoning: it was asked for, or the model has lately written some. */
  reasons(model: string, hidden: Hidden | undefined): boolean {
    if (hidden === 'asked' || !hidden) return hidden === 'asked'
    return this.#reasoning.get(`${model} ${hidden}`)?.values.includes(1) ?? false
  }

  /** Learns the speed of a deployment, and whether a model reasons. */
  learnAnswer({ model, deployment, hidden, tokens, reasoning, seconds }: LearnedAnswer): void {
    if (tokens > 0 && seconds > 0) {
      latestIn(this.#rates, deployment).add(tokens / seconds, MOST_RATES)
    }
    if (hidden && hidden !== 'asked') {
      latestIn(this.#reasoning, `${model} ${hidden}`).add(reasoning > 0 ? 1 : 0, REASONING_MEMORY)
    }
  }

  /** Learns from a call that has completed. */
  learn(subject: Subject, { estimate, line }: LearnedCall): void {
    const name = nameOf(subject)
    const stored = this.#learned.get(name)
    const isFirst = stored === undefined
    const learned = stored ?? { ...PRIOR }
    if (isFirst) this.#learned.set(name, learned)
    const { usage, prices } = line
    const estimated = held(scaled(estimate.expected, 1), prices, 'guard')
    const paid = held(scaled(usage, 1), prices, 'guard')
    if (estimated > 0n) {
      const ratio = learned.ratio + (Number(paid) / Number(estimated) - learned.ratio) * WEIGHT
      learned.ratio = Math.min(HIGHEST_RATIO, Math.max(LOWEST_RATIO, ratio))
    }
    if (!estimate.output) return
    const tokens = usage.completionTokens ?? 0
    const each = tokens / estimate.output.choices
    if (isFirst) {
      learned.mean = each
      learned.deviation = each / 2
    } else {
      const difference = each - learned.mean
      learned.mean += difference * (difference > 0 ? WEIGHT_OF_LONGER : WEIGHT)
      learned.deviation += (Math.abs(difference) - learned.deviation) * WEIGHT
    }
  }

  #of(subject: Subject): Readonly<Learned> {
    return this.#learned.get(nameOf(subject)) ?? PRIOR
  }
}

/** Calls that wait for the next settlement of their account. */
class SettlementWaits {
  readonly #waiting = new Map<string, Set<() => void>>()

  /** Resolves at the next settlement, after `ms`, or when the signal is aborted. */
  next(account: string, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(account) ?? new Set()
      this.#waiting.set(account, waiting)
      const wake = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', wake)
        waiting.delete(wake)
        if (waiting.size === 0) this.#waiting.delete(account)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      waiting.add(wake)
      signal.addEventListener('abort', wake)
      if (signal.aborted) wake()
    })
  }

  /** Wakes the calls of an account: some of its money may be free again. */
  wake(account: string): void {
    const waiting = this.#waiting.get(account)
    if (waiting) for (const wake of waiting) wake()
  }
}

/** The latest of many figures, in no order. */
class Latest {
  readonly values: number[] = []
  #next = 0

  add(value: number, most: number): void {
    this.values[this.#next] = value
    this.#next = (this.#next + 1) % most
  }
}

function latestIn(cache: LRUCache<string, Latest>, name: string): Latest {
  let latest = cache.get(name)
  if (!latest) cache.set(name, (latest = new Latest()))
  return latest
}

export interface HoldStep {
  readonly from: Pico
  readonly to: Pico
  readonly output: Pico
  /** Tokens of the answer that the hold pays for after the step. */
  readonly covered: number
}

/**
 * A hold that grows with its answer: the part for the answer doubles when the call has written as many tokens as that part pays
 * for, up to the ceiling.
 */
export class HoldGrowth {
  readonly #ceiling: Pico
  #held: Pico
  #output: Pico
  #covered: number

  constructor({ expected, ceiling, output, outputTokens }: HoldFigures) {
    this.#ceiling = ceiling
    this.#held = expected
    this.#output = output
    this.#covered = outputTokens
  }

  /** Tokens of the answer, all choices together, that the hold pays for. */
  get covered(): number {
    return this.#covered
  }

  get isOver(): boolean {
    return this.#held >= this.#ceiling || this.#output === 0n
  }

  /** The step that a call needs after this many tokens; undefined for none. */
  next(tokens: number): HoldStep | undefined {
    if (tokens < this.#covered || this.isOver) return undefined
    let [to, output, covered] = [this.#held, this.#output, this.#covered]
    for (; tokens >= covered && to < this.#ceiling; covered *= 2) {
      to += output
      output *= 2n
    }
    return { from: this.#held, to: least(to, this.#ceiling), output, covered }
  }

  take({ to, output, covered }: HoldStep): void {
    this.#held = to
    this.#output = output
    this.#covered = covered
  }
}

/** Tokens of a guard's question, with a window of text, and of its answer: typical, and of a long one. */
const QUESTION = {
  expected: { promptTokens: 3000, completionTokens: 300 },
  ceiling: { promptTokens: 6000, completionTokens: 1200 },
} as const

/** The cost of one question of a guard to a model, as part of one of the figures. */
export function questionCost(prices: Prices, figure: keyof typeof QUESTION): Pico {
  const usage = QUESTION[figure]
  return held(usage, pricesAt(prices, usage.promptTokens), 'guard')
}

/** Figures with costs of other sources than the model. @param output the part of `expected` that grows with the answer */
export function withCosts(
  policy: HoldPolicy,
  figures: HoldFigures,
  costs: Pick<HoldFigures, 'expected' | 'ceiling' | 'output'>,
): HoldFigures {
  const ceiling = least(figures.ceiling + costs.ceiling, LARGEST_HOLD)
  const expected = policy === 'ceiling' ? ceiling : figures.expected + costs.expected
  return {
    ...figures,
    ceiling,
    expected: least(expected, ceiling),
    output: figures.output + costs.output,
  }
}

function nameOf({ account, model }: Subject): string {
  return `${account} ${model}`
}

/** @param source a line of the model pays the fee of a request, other lines do not */
function held(usage: Usage, prices: Prices, source: UsageLine['source'] = 'model'): Pico {
  return least(costOf({ source, usage, prices }), LARGEST_HOLD)
}

function least(amount: Pico, most: Pico): Pico {
  return amount < most ? amount : most
}

function greatest(one: Pico, other: Pico): Pico {
  return one > other ? one : other
}

function withScaled(usage: Usage, factor: number): Usage {
  const input = scaled(usage, factor)
  if (!isPlainUsage(usage)) return { ...usage, ...input }
  const { promptTokens, cachedTokens } = input
  return { promptTokens, cachedTokens, completionTokens: usage.completionTokens }
}

function scaled(usage: Usage, factor: number): Usage {
  if (isPlainUsage(usage)) {
    const { promptTokens = 0, cachedTokens = 0 } = usage
    return {
      promptTokens: Math.ceil(promptTokens * factor),
      cachedTokens: Math.ceil(cachedTokens * factor),
    }
  }
  const input: { -readonly [Member in keyof Usage]: Usage[Member] } = {}
  for (const member of INPUT) {
    const tokens = usage[member]
    if (tokens !== undefined) input[member] = Math.ceil(tokens * factor)
  }
  return input
}

function outputOf(completionTokens: number, isImage: boolean): Usage {
  return isImage ? { completionTokens, imageOutputTokens: completionTokens } : { completionTokens }
}

/** A usage with tokens of an answer at the dearest price of output. */
function withDearest(usage: Usage, prices: Prices, tokens: number): Usage {
  const output = dearest(prices, tokens)
  if (!isPlainUsage(usage) || !isPlainUsage(output)) return { ...usage, ...output }
  const { promptTokens, cachedTokens } = usage
  return { promptTokens, cachedTokens, completionTokens: tokens }
}

/** Tokens of an answer at the dearest price of output. */
function dearest(prices: Prices, tokens: number): Usage {
  const { completion = 0n } = prices
  const { audio_output: audio = completion, image_output: image = completion } = prices
  const { reasoning = completion } = prices
  if (image > completion && image >= audio && image >= reasoning) return outputOf(tokens, true)
  if (reasoning > completion && reasoning >= audio) {
    return { completionTokens: tokens, reasoningTokens: tokens }
  }
  if (audio > completion) return { completionTokens: tokens, audioOutputTokens: tokens }
  return outputOf(tokens, false)
}
