/** The part of an account book that a key, a team or the account itself has: limits with what is counted for them, and spend. */
import type { Pico } from '../../money/money.ts'
import type {
  Exposure,
  HeldBy,
  HoldRequest,
  KeyLimits,
  LimitOwner,
  RateStatus,
  RefusedLimit,
} from './ledger.ts'
import { isKept, isNewer, kindOf, type LimitKind } from './limit-list.ts'
import type { CountedLimit } from './ledger.ts'
import { RateLog } from './rate-log.ts'
import { currentWindow, roughEnd, windowOf, type Moment } from './windows.ts'

/** Days, and months, for which a key's spend is kept. A cap needs one of each, late settlements a few more. */
const KEPT_WINDOWS = 40

/** A key's spend in one window; `held` belongs to running calls. */
interface WindowSpend {
  settled: Pico
  held: Pico
}

/** What is counted for a limit in its present window; `held` and `ceilings` belong to running calls. */
export interface Counter {
  /** Name of the window; empty where none is open. */
  window: string
  settled: bigint
  held: bigint
  ceilings: bigint
}

/** A counted limit of an owner. */
interface BookLimit extends LimitKind {
  readonly limit: CountedLimit
  /** It is absent for a limit that reads the spend of its owner. */
  readonly counter: Counter | undefined
  /** What resets took off in a window. */
  reset: { readonly window: string; readonly amount: bigint } | undefined
}

/** A key's part of an account book: its limits, its admissions and its spend. */
export class KeyBook {
  readonly id: string
  limits: KeyLimits | undefined = undefined
  counted: readonly BookLimit[] = []
  revision = -Infinity
  running = 0
  /** Sum of the ceilings of its running calls, over all windows. */
  ceilings: Pico = 0n
  readonly log = new RateLog()
  readonly lifetime: WindowSpend = { settled: 0n, held: 0n }
  readonly #days = new Map<string, WindowSpend>()
  readonly #months = new Map<string, WindowSpend>()

  constructor(id: string) {
    this.id = id
  }

  /** Keeps the counters of limits that stay; a limit that comes back has forgotten what was counted. */
  count(limits: readonly CountedLimit[] = []): void {
    const former = new Map(this.counted.map((one) => [one.limit.id, one]))
    this.counted = limits.map((limit) => {
      const { counter, reset } = former.get(limit.id) ?? {}
      const own = isKept(limit.id) ? undefined : (counter ?? newCounter())
      return { ...kindOf(limit.id), limit, counter: own, reset }
    })
  }

  counterOf(id: string): Counter | undefined {
    return this.counted.find(({ limit }) => limit.id === id)?.counter
  }

  window(name: string): WindowSpend {
    if (name === 'lifetime') return this.lifetime
    const windows = name.length === 6 ? this.#months : this.#days
    const existing = windows.get(name)
    if (existing) return existing
    const spend = { settled: 0n, held: 0n }
    windows.set(name, spend)
    // Drops the earliest window, not the oldest entry: a dropped window can then never come back and count from zero.
    if (windows.size > KEPT_WINDOWS) windows.delete([...windows.keys()].sort()[0]!)
    return spend
  }

  /** The lifetime, day and month windows of a day. */
  windows(day: string): readonly [lifetime: WindowSpend, day: WindowSpend, month: WindowSpend] {
    return [this.lifetime, this.window(day), this.window(windowOf('month', day))]
  }

  *named(): Generator<readonly [name: string, spend: WindowSpend]> {
    yield ['lifetime', this.lifetime]
    yield* this.#days
    yield* this.#months
  }
}

export function newCounter(): Counter {
  return { window: '', settled: 0n, held: 0n, ceilings: 0n }
}

/** Adds what a call counts to the counter that its hold has named. One that counts a later window already stays. */
export function addToCounter(counter: Counter, window: string, amount: bigint): void {
  if (counter.window !== window) {
    if (!isNewer(window, counter.window)) return
    Object.assign(counter, { ...newCounter(), window })
  }
  counter.settled += amount
}

// Bounds on the calls of an account beside its balance: caps with their spend, limits over all keys, the exposure.

/** A limit as it stands for a call. */
export interface Standing {
  readonly owner: LimitOwner
  readonly of: KeyBook
  readonly one: BookLimit
  /** Name of the window in which the call would count. */
  readonly current: string
  readonly value: bigint
  /** The settled spend of that window, less what was reset. */
  readonly used: bigint
  readonly held: bigint
  readonly ceilings: bigint
  /** What the call may use. */
  readonly expected: bigint
  readonly ceiling: bigint
  /** When the window ends: of two limits the later answers. */
  readonly end: number
}

export function standingOf(
  owner: LimitOwner,
  of: KeyBook,
  one: BookLimit,
  { expected, ceiling, tokens }: HoldRequest,
  moment: Moment,
): Standing {
  const { limit, unit, window, counter, reset } = one
  const spend = counter ?? of.window(windowOf(window, moment.day))
  const current = currentWindow(window, counter?.window ?? '', moment)
  const isOpen = !counter || counter.window === current
  const { raised } = limit
  const wanted =
    unit === 'usd'
      ? { expected, ceiling }
      : unit === 'tokens'
        ? { expected: BigInt(tokens.expected), ceiling: BigInt(tokens.ceiling) }
        : ONE
  return {
    owner,
    of,
    one,
    current,
    value: raised && moment.now < raised.until ? raised.value : limit.value,
    used: (isOpen ? spend.settled : 0n) - (reset?.window === current ? reset.amount : 0n),
    held: isOpen ? spend.held : 0n,
    ceilings: counter ? (isOpen ? counter.ceilings : 0n) : of.ceilings,
    ...wanted,
    end: roughEnd(window, current, moment),
  }
}

const ONE = { expected: 1n, ceiling: 1n }

/** Whether nothing is left of a limit, whatever else runs. */
export function isReached({ one: { unit }, value, used, held }: Standing): boolean {
  return value - used - (unit === 'requests' ? held : 0n) <= 0n
}

export function isTerminal({ one: { unit, window } }: Standing): boolean {
  return unit === 'usd' || (unit === 'tokens' && window === 'lifetime')
}

/** The condition of a limit that makes the call wait for running calls. A call waits for nothing where nothing else is reserved. */
export function waitsAt(standing: Standing, { share, most }: Exposure): HeldBy | undefined {
  const { one, value, used, held, ceilings, expected, ceiling } = standing
  if (ceiling === 0n || ceilings === 0n) return undefined
  const left = value - used
  if (one.unit === 'concurrent') return expected > left - held ? 'concurrency' : undefined
  if (one.unit === 'requests') return undefined
  if (expected > left - held) return 'cap'
  const more =
    one.unit === 'usd' ? exposed({ share, most }, value) : BigInt(Math.floor(share * Number(value)))
  return ceilings + ceiling > left + more ? 'cap_ceilings' : undefined
}

/** The limit whose window ends last: nothing of its kind refuses after it. Where several end then, it is the first. */
export function lastOf(standings: readonly Standing[]): Standing | undefined {
  let last: Standing | undefined
  for (const one of standings) if (!last || one.end > last.end) last = one
  return last
}

export function refusedBy({ owner, one, current, value, used, held }: Standing): RefusedLimit {
  const { limit, unit, window } = one
  const isRaised = limit.raised !== undefined && value === limit.raised.value
  return {
    of: owner,
    name: limit.id,
    unit,
    ...(window && { window }),
    value,
    used: unit === 'usd' || unit === 'tokens' ? used : used + held,
    ...(limit.models && { models: limit.models }),
    ...(isRaised && { raisedUntil: limit.raised!.until }),
    current,
  }
}

/** The smaller of the two amounts of an exposure. The share is a double, and so is its product. */
export function exposed({ share, most }: Exposure, of: Pico): Pico {
  const part = BigInt(Math.floor(share * Number(of)))
  return part < most ? part : most
}

/** What is left, after the call, of the limit of tokens a minute for all models of which the least is left. */
export function nearestTokens(standings: readonly Standing[], now: number): RateStatus | undefined {
  let nearest: RateStatus | undefined
  for (const { one, value, used, held, expected, end } of standings) {
    if (one.limit.id !== 'tokens.minute') continue
    const left = value - used - held - expected
    const remaining = left > 0n ? Number(left) : 0
    const resetMs = end - now
    const status = { limit: Number(value), remaining, resetMs }
    if (!nearest || remaining < nearest.remaining) nearest = status
  }
  return nearest
}
