/**
 * Callers of one account, in simulated time, against real ledgers: what `edge-money.ts` plays. Time goes on when everything
 * that runs is asleep; whatever wakes at one moment runs at once.
 */
import {
  HoldEstimator,
  HoldGrowth,
  type Estimate,
  type HoldFigures,
} from '../../src/money/holds.ts'
import { parsePico, priceUsage, type Pico } from '../../src/money/money.ts'
import { compilePrices } from '../../src/money/prices.ts'
import type { KeyLimits, Lease, Ledger } from '../../src/state/ledger/ledger.ts'

/** When simulated time begins. */
export const START = Date.UTC(2026, 4, 15, 6)
const RENEW_MS = 10_000
const EXPOSURE = { share: 0.25, most: parsePico('10') }
const FREE_TIER = { rpm: 1, concurrency: 1 }
const MODEL = 'vendor/model'
const PRICES = compilePrices({ prompt: '0.0000025', completion: '0.00001' })

/** What a call will really consume, and what is known of it before. */
export interface Draw {
  readonly estimatedPrompt: number
  readonly prompt: number
  readonly output: number
}

/** Makes a call up. */
type DrawCall = (random: () => number, limit: number) => Draw

/** What callers do to an account, and what must come of it. */
export interface Row {
  readonly name: string
  /** USD that the account ever got, and that are left when the callers come. */
  readonly paidIn: string
  readonly left: string
  readonly cap?: string
  readonly callers: number
  /** Output limit of each call, in tokens. */
  readonly limit: number
  /** Calls after which the callers stop; without it they go on until nothing is left. */
  readonly calls?: number
  /** Calls from which the gateways have learned before. */
  readonly learned: number
  /** USD of the call in whose units overruns are shown. */
  readonly unit: number
  readonly draw: DrawCall
  /** The calls from which the gateways have learned, if these are others. */
  readonly teach?: DrawCall
  /** Calls that wait are failures. */
  readonly neverWaits?: boolean
  /** Holds that grow are failures. */
  readonly neverRaises?: boolean
  readonly servedAtMost?: number
  /** How soon a refused caller comes again; about a second. */
  readonly retryMs?: number
}

/** A gateway as far as money is concerned. */
export interface Instance {
  readonly ledger: Ledger
  holds: HoldEstimator
}

/** What became of an account. */
export interface Result {
  /** The overrun of the balance or of the cap, in USD; undefined when money was left at the end. */
  readonly overrun: number | undefined
  readonly served: number
  readonly needless: number
  readonly raises: number
  readonly faults: readonly string[]
}

/** Simulated time: it goes on when everything that runs is asleep. Whatever wakes at one moment runs at once. */
export class World {
  now = START
  #awake = 0
  #idle = Promise.withResolvers<void>()
  #sleepers: { at: number; wake: () => void }[] = []
  readonly #setClock: (now: number) => void | Promise<void>
  #failure: unknown = undefined

  constructor(setClock: (now: number) => void | Promise<void>) {
    this.#setClock = setClock
  }

  spawn(run: () => Promise<void>): void {
    this.#awake++
    run()
      .catch((error: unknown) => (this.#failure ??= error))
      .finally(() => this.#asleep())
  }

  sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#sleepers.push({ at: this.now + Math.max(1, Math.round(ms)), wake: resolve })
    this.#asleep()
    return promise
  }

  /** Goes on until nothing is left to run. @throws the first error of what ran */
  async run(): Promise<void> {
    for (;;) {
      if (this.#awake > 0) await this.#idle.promise
      if (this.#failure !== undefined) throw this.#failure
      if (this.#sleepers.length === 0) return
      const next = this.#sleepers.reduce((least, { at }) => Math.min(least, at), Infinity)
      const woken = this.#sleepers.filter(({ at }) => at === next)
      this.#sleepers = this.#sleepers.filter(({ at }) => at !== next)
      this.now = next
      await this.#setClock(next)
      this.#awake = woken.length
      this.#idle = Promise.withResolvers()
      for (const { wake } of woken) wake()
    }
  }

  #asleep(): void {
    if (--this.#awake === 0) this.#idle.resolve()
  }
}

/** One account and its callers. */
export class Account {
  readonly #row: Row
  readonly #id: string
  readonly #instances: readonly Instance[]
  readonly #world: World
  readonly #random: () => number
  readonly #stream: boolean
  /** Real ms after which callers give up, so that a row keeps to its time. */
  readonly #until: number
  readonly #running = new Map<string, { cost: Pico; lease: Lease }>()
  #callers = 0
  #asked = 0
  #started = 0
  /** Changes with every event that lets another call in or out. */
  #epoch = 0
  #pending = 0
  #spent = 0n
  #highest = 0n
  #excess = 0n
  #served = 0
  #needless = 0
  #raises = 0
  #emptied = false
  readonly #faults: string[] = []

  constructor(
    row: Row,
    id: string,
    instances: readonly Instance[],
    world: World,
    random: () => number,
    stream: boolean,
    until: number,
  ) {
    this.#row = row
    this.#id = id
    this.#instances = instances
    this.#world = world
    this.#random = random
    this.#stream = stream
    this.#until = until
  }

  async spend(): Promise<Result> {
    const { row, ledger } = { row: this.#row, ledger: this.#instances[0]!.ledger }
    const [paidIn, left] = [parsePico(row.paidIn), parsePico(row.left)]
    await ledger.book({ kind: 'top-up', account: this.#id, amount: paidIn, reference: 'first' })
    const cap = row.cap === undefined ? undefined : parsePico(row.cap)
    const limits: KeyLimits = {
      disabled: false,
      rpm: 1_000_000,
      concurrency: 1_000_000,
      ...(cap !== undefined && { counted: [{ id: 'cap.lifetime', value: cap }] }),
    }
    const keys = cap === undefined ? ['k0', 'k1', 'k2', 'k3', 'k4'] : ['k0']
    for (const key of keys) await ledger.limits(this.#id, key, limits, 1)
    if (paidIn > left) await this.#settle(ledger, this.#lease('past', 'k9'), paidIn - left)
    for (const instance of this.#instances) {
      instance.holds = new HoldEstimator()
      for (let i = 0; i < row.learned; i++) this.#teach(instance)
    }
    for (let i = 0; i < row.callers; i++) {
      this.#callers++
      this.#world.spawn(() => this.#caller(keys[i % keys.length]!).finally(() => this.#callers--))
    }
    this.#world.spawn(() => this.#renew())
    await this.#world.run()
    return this.#result(paidIn, left, cap)
  }

  /** Calls until the money is used up, or all calls were made; a refused call comes again. */
  async #caller(key: string): Promise<void> {
    const { limit, calls = Infinity, retryMs = 1000 } = this.#row
    while (this.#started < calls) {
      this.#started++
      const draw = this.#row.draw(this.#random, limit)
      for (;;) {
        if (performance.now() > this.#until) return
        const answer = await this.#attempt(key, draw)
        if (answer === 'over') return
        if (answer === 'served') break
        await this.#world.sleep(retryMs * (0.75 + this.#random() / 2))
      }
    }
  }

  async #attempt(key: string, draw: Draw): Promise<'served' | 'waits' | 'over'> {
    const instance = this.#instances[this.#asked % this.#instances.length]!
    const { ledger, holds } = instance
    const lease = this.#lease(`req_${this.#id}_${this.#asked++}`, key)
    const entered = await ledger.enter({ ...lease, revision: 1, freeTier: FREE_TIER })
    if (!entered.ok) throw new Error(`not admitted: ${entered.why}`)
    const estimate = estimateOf(draw, this.#row.limit)
    const figures = holds.of('adaptive', this.#subject, estimate)
    const { expected, ceiling } = figures
    const isAlone = this.#running.size + this.#pending === 0
    this.#pending++
    const epoch = ++this.#epoch
    const money = { expected, ceiling, exposure: EXPOSURE }
    const of = { model: 'vendor/model', tokens: { expected: 0, ceiling: 0 }, free: false }
    const hold = { ...lease, at: entered.at, ...money, ...of }
    const held = await ledger.hold(hold)
    this.#pending--
    const cost = costOf(draw)
    if (!held.ok) {
      await ledger.leave(lease)
      if (held.why === 'credits' || held.why === 'limit') {
        this.#emptied = true
        return 'over'
      }
      if (held.why !== 'held') throw new Error(`no hold: ${held.why}`)
      if (isAlone && epoch === this.#epoch) this.#faults.push('a lone call was refused')
      if (this.#row.neverWaits) this.#faults.push(`a call waited (${held.by})`)
      if (this.#isPaidFor(cost)) this.#needless++
      return 'waits'
    }
    this.#epoch++
    this.#running.set(lease.request, { cost, lease })
    await this.#write(instance, lease, draw, held.tight ? figures : undefined)
    await this.#settle(ledger, lease, cost)
    this.#epoch++
    this.#running.delete(lease.request)
    this.#spent += cost
    this.#served++
    if (cost > this.#highest) this.#highest = cost
    if (cost > ceiling) this.#excess += cost - ceiling
    const usage = { promptTokens: draw.prompt, completionTokens: draw.output }
    const line = { source: 'model' as const, usage, prices: PRICES }
    holds.learn(this.#subject, { estimate, line })
    return 'served'
  }

  /** The answer comes, 80 tokens a second; the hold of a tight call grows with it. */
  async #write(
    { ledger, holds }: Instance,
    lease: Lease,
    { output }: Draw,
    tight: HoldFigures | undefined,
  ): Promise<void> {
    const started = this.#world.now
    const wholeMs = 500 + (output / 80) * 1000
    const growth = tight && new HoldGrowth(tight)
    const rate = this.#stream ? 80 : holds.rateOf(MODEL)
    for (;;) {
      const spentMs = this.#world.now - started
      const reachedMs = growth && !growth.isOver ? (growth.covered / rate) * 1000 : Infinity
      if (reachedMs >= wholeMs) return this.#world.sleep(wholeMs - spentMs)
      await this.#world.sleep(reachedMs - spentMs)
      const step = growth!.next(((this.#world.now - started) / 1000) * rate)
      if (!step) continue
      this.#raises++
      if (this.#row.neverRaises) this.#faults.push('a hold grew')
      await ledger.raise({ ...lease, from: step.from, to: step.to })
      growth!.take(step)
    }
  }

  /** Running calls keep their leases. */
  async #renew(): Promise<void> {
    while (this.#callers > 0) {
      await this.#world.sleep(RENEW_MS)
      const leases = [...this.#running.values()].map(({ lease }) => lease)
      if (leases.length > 0) await this.#instances[0]!.ledger.renew(leases)
    }
  }

  async #settle(ledger: Ledger, lease: Lease, cost: Pico): Promise<void> {
    const at = this.#world.now
    const usage = { at, endpoint: 'chat', model: MODEL, outcome: 'completed' as const, lines: [] }
    const settled = await ledger.settle({ ...lease, day: '20260515', cost, usage })
    if (settled.state !== 'charged') this.#faults.push(`a settlement is ${settled.state}`)
  }

  #teach({ holds }: Instance): void {
    const { teach = this.#row.draw, limit } = this.#row
    const draw = teach(this.#random, limit)
    const usage = { promptTokens: draw.prompt, completionTokens: draw.output }
    const line = { source: 'model' as const, usage, prices: PRICES }
    const estimate = estimateOf(draw, this.#row.limit)
    holds.learn(this.#subject, { estimate, line })
  }

  /** Whether what is left would have paid for all that runs and for one more call. */
  #isPaidFor(cost: Pico): boolean {
    const { cap, left } = this.#row
    const running = [...this.#running.values()].reduce((sum, one) => sum + one.cost, 0n)
    return parsePico(cap ?? left) - this.#spent >= running + cost
  }

  async #result(paidIn: Pico, left: Pico, cap: Pico | undefined): Promise<Result> {
    const { ledger } = this.#instances[0]!
    const faults = this.#faults
    const { balance, available } = await ledger.account(this.#id)
    const { lifetime, inFlight } = await ledger.key(this.#id, 'k0')
    if (balance !== left - this.#spent) faults.push('the balance is not what was spent')
    if (available !== balance) faults.push('money is held although nothing runs')
    if (inFlight !== 0) faults.push('a lease is left')
    for (const { what } of await ledger.verify(this.#id)) faults.push(`wrong sum: ${what}`)
    const overrun = cap === undefined ? -balance : lifetime - cap
    const share = BigInt(Math.floor(Number(cap ?? paidIn) * EXPOSURE.share))
    const exposure = share < EXPOSURE.most ? share : EXPOSURE.most
    const bound = (exposure > this.#highest ? exposure : this.#highest) + this.#excess
    if (overrun > bound) faults.push(`overrun ${overrun}, at most ${bound}`)
    const { servedAtMost = Infinity } = this.#row
    if (this.#served > servedAtMost) faults.push(`${this.#served} calls were served`)
    return {
      overrun: this.#emptied ? Math.max(0, Number(overrun) / 1e12) : undefined,
      served: this.#served,
      needless: this.#needless,
      raises: this.#raises,
      faults,
    }
  }

  #lease(request: string, key: string): Lease {
    return { account: this.#id, key, request }
  }

  get #subject() {
    return { account: this.#id, model: MODEL, prices: PRICES }
  }
}

function estimateOf({ estimatedPrompt }: Draw, limit: number): Estimate {
  return {
    least: {},
    expected: { promptTokens: estimatedPrompt },
    most: { promptTokens: 2 * estimatedPrompt },
    output: { limit, choices: 1 },
  }
}

function costOf({ prompt, output }: Draw): Pico {
  const usage = { promptTokens: prompt, completionTokens: output }
  return priceUsage([{ source: 'model', usage, prices: PRICES }]).cost
}
