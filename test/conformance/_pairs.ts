/** Every pair of kinds of limits that are reached together: which of them answers, and what passes after the wait that it told. */
import { expect } from 'vitest'
import { limitBounds } from '../../src/accounts/limits.ts'
import { parsePico } from '../../src/money/money.ts'
import {
  ACCOUNT,
  teamKey,
  type CountedLimit,
  type HoldResult,
  type KeyLimits,
  type Lease,
  type Ledger,
} from '../../src/state/ledger/ledger.ts'
import { kindOf } from '../../src/state/ledger/limit-list.ts'
import { DAY_MS, MINUTE_MS } from '../../src/state/ledger/windows.ts'
import { holdOf } from '../state/_hold.ts'
import type { TestClock } from './ledger.ts'

const MODELS = ['vendor/*']
/** Refusals at the end of what is settled, by the order in which they answer; the balance is between them. */
const TERMINAL = ['cap.lifetime', 'cap.5h', 'cap.day', 'cap.week', 'cap.month', 'tokens.lifetime']
const WAITS = [
  'requests.5h',
  'requests.day',
  'requests.week',
  'requests.month',
  'tokens.minute',
  'tokens.5h',
  'tokens.day',
  'rpm.00000001',
]
const OWNERS = ['key', 'team', 'account', 'tier'] as const
const CONCURRENT = 'concurrency.00000001'

interface One {
  readonly id: string
  readonly of: (typeof OWNERS)[number]
}

/** @param random an owner of each is drawn by it */
export async function everyPair(ledger: Ledger, clock: TestClock, random: () => number) {
  const draw = (id: string): One =>
    id === 'tier.day'
      ? { id: 'requests.day', of: 'tier' }
      : { id, of: OWNERS[Math.floor(random() * 3)]! }
  const settled = [...TERMINAL, 'balance', ...WAITS, 'tier.day']
  for (const [a, b] of pairsOf(settled)) {
    const pair = [draw(a), draw(b)]
    // Nothing is charged on the free tier.
    const isFree = b === 'tier.day'
    if (isFree && (a.startsWith('cap') || a === 'balance')) continue
    await new Pair(ledger, clock, pair, isFree).reached()
  }
  const held = ['cap.5h', 'cap.day', 'cap.lifetime', 'tokens.minute', 'tokens.week', CONCURRENT]
  for (const [a, b] of pairsOf([...held, 'balance'])) {
    await new Pair(ledger, clock, [draw(a), draw(b)], false).setAside()
  }
}

function* pairsOf(kinds: readonly string[]): Generator<readonly [string, string]> {
  for (const [n, one] of kinds.entries()) {
    for (const other of kinds.slice(n)) if (one !== other) yield [one, other]
  }
}

interface Asked {
  readonly lease: Lease
  readonly held: HoldResult
}

let accounts = 0

class Pair {
  readonly #account = `pair-${accounts++}`
  readonly #ledger: Ledger
  readonly #clock: TestClock
  readonly #pair: readonly One[]
  readonly #isFree: boolean
  #requests = 0

  constructor(ledger: Ledger, clock: TestClock, pair: readonly One[], isFree: boolean) {
    this.#ledger = ledger
    this.#clock = clock
    this.#pair = pair
    this.#isFree = isFree
  }

  get #name(): string {
    return this.#pair.map(({ of, id }) => `${of}.${id}`).join(' and ')
  }

  /** One call reaches both. */
  async reached(): Promise<void> {
    await this.#limit(1n)
    const first = await this.#ask(1n)
    expect(first.held.ok, this.#name).toBe(true)
    const begun = this.#clock.now()
    await this.#settle(first, 1n)
    const { held, lease } = await this.#ask(1n)
    await this.#ledger.leave(lease)
    const wanted = this.#answering(begun)
    if (wanted === 'balance') return expect(held, this.#name).toEqual({ ok: false, why: 'credits' })
    expect(held, this.#name).toMatchObject({
      why: 'limit',
      limit: { of: wanted.of, name: wanted.id, value: 1n, used: 1n },
    })
    if (held.ok || held.why !== 'limit') return
    const { resetsAt } = limitBounds(held.limit)
    expect(resetsAt, this.#name).toBe(endOf(wanted.id, begun))
    if (resetsAt === undefined) return
    await this.#clock.advance(resetsAt - this.#clock.now())
    const again = await this.#ask(1n)
    const isTerminal = TERMINAL.includes(wanted.id)
    // Only what answers later may refuse now.
    const refused = !again.held.ok && again.held.why === 'limit' ? again.held.limit.name : undefined
    if (!isTerminal) expect(again.held.ok, this.#name).toBe(true)
    else if (refused !== undefined) expect(WAITS, this.#name).toContain(refused)
    else if (!again.held.ok) expect(again.held.why, this.#name).toBe('credits')
    await this.#ledger.leave(again.lease)
  }

  /** A running call has set most of both aside. */
  async setAside(): Promise<void> {
    await this.#limit(10n)
    const first = await this.#ask(8n)
    expect(first.held.ok, this.#name).toBe(true)
    const begun = this.#clock.now()
    const second = await this.#ask(8n)
    await this.#ledger.leave(second.lease)
    expect(second.held, this.#name).toMatchObject({ why: 'held', retryAfterMs: 1000 })
    if (second.held.ok || second.held.why !== 'held') return
    const full = this.#pair.find(({ id }) => id === CONCURRENT)
    const wanted =
      full ?? (this.#pair.some(({ id }) => id === 'balance') ? undefined : this.#lastOf(begun))
    const { limit } = second.held
    expect(limit && [limit.of, limit.name], this.#name).toEqual(wanted && [wanted.of, wanted.id])
    await this.#ledger.leave(first.lease)
    await this.#clock.advance(second.held.retryAfterMs)
    const again = await this.#ask(8n)
    expect(again.held.ok, this.#name).toBe(true)
    await this.#ledger.leave(again.lease)
  }

  #answering(begun: number): One | 'balance' {
    const terminal = this.#pair.filter(({ id }) => TERMINAL.includes(id))
    if (terminal.length > 0) return this.#lastOf(begun, terminal)
    return this.#pair.some(({ id }) => id === 'balance') ? 'balance' : this.#lastOf(begun)
  }

  /** The one whose window ends last; of equal ones that of the lower owner, then the first. */
  #lastOf(begun: number, among: readonly One[] = this.#pair): One {
    const end = ({ id }: One) => endOf(id, begun) ?? Infinity
    const owner = ({ of }: One) => OWNERS.indexOf(of)
    return among.toSorted((a, b) => {
      const [first, second] = [end(a), end(b)]
      return first === second ? owner(a) - owner(b) : first < second ? 1 : -1
    })[0]!
  }

  async #limit(value: bigint): Promise<void> {
    const amount = this.#pair.some(({ id }) => id === 'balance') ? value : parsePico('1000')
    const booking = { kind: 'top-up', account: this.#account, amount, reference: 'first' } as const
    if (!this.#isFree) await this.#ledger.book(booking)
    const of = (owner: One['of'], most: Partial<KeyLimits>): KeyLimits => {
      const own = this.#pair.filter((one) => one.of === owner && one.id !== 'balance')
      const counted = own.map(({ id }): CountedLimit => {
        const isPlain = id.split('.').length < 3 && !id.endsWith('00000001')
        return { id, value: id === CONCURRENT ? 1n : value, ...(!isPlain && { models: MODELS }) }
      })
      return { disabled: false, ...most, ...(counted.length > 0 && { counted }) }
    }
    const roomy = { rpm: 1000, concurrency: 1000 }
    await this.#ledger.limits(this.#account, 'key', of('key', roomy), 1)
    await this.#ledger.limits(this.#account, teamKey('t'), of('team', {}), 1)
    await this.#ledger.limits(this.#account, ACCOUNT, of('account', {}), 1)
  }

  async #ask(amount: bigint): Promise<Asked> {
    const request = `req_${this.#account}_${this.#requests++}`
    const lease = { account: this.#account, key: 'key', team: 't', request }
    const revisions = { revision: 1, accountRevision: 1, teamRevision: 1 }
    const entered = await this.#ledger.enter({
      ...lease,
      ...revisions,
      freeTier: { rpm: 1000, concurrency: 1000 },
    })
    if (!entered.ok) throw new Error(`${this.#name}: ${entered.why}`)
    const tokens = { expected: Number(amount), ceiling: Number(amount) }
    const hold = { ...holdOf(amount), tokens, at: entered.at, free: this.#isFree }
    const isTier = this.#pair.some(({ of }) => of === 'tier')
    const held = await this.#ledger.hold({ ...lease, ...hold, ...(isTier && { tierPerDay: 1 }) })
    return { lease, held }
  }

  async #settle({ lease, held }: Asked, amount: bigint): Promise<void> {
    if (!held.ok) return
    const { day, counted } = held
    const lines = [{ source: 'model', usage: { promptTokens: Number(amount) } }]
    const usage = { at: this.#clock.now(), endpoint: 'chat', model: 'vendor/model', lines }
    await this.#ledger.settle({
      ...lease,
      day,
      cost: this.#isFree ? 0n : amount,
      usage: { ...usage, outcome: 'completed', team: 't', ...(counted && { counted }) },
    })
  }
}

/** The end of a window in which a call counts, in UTC. */
function endOf(id: string, at: number): number | undefined {
  const { window } = kindOf(id)
  if (window === undefined || window === 'lifetime') return undefined
  if (window === 'minute') return at + MINUTE_MS
  if (window === '5h') return at + 300 * MINUTE_MS
  const days = Math.floor(at / DAY_MS)
  if (window === 'day') return (days + 1) * DAY_MS
  // 5 January 1970 was a Monday.
  if (window === 'week') return (Math.floor((days - 4) / 7) * 7 + 11) * DAY_MS
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}
