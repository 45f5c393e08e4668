/** Holds what a gateway says of limits against the rows that were counted for them, as this file adds them up itself. */
import { parsePico } from '../../src/money/money.ts'
import type { OwnedRow } from './_usage.ts'

/** Limits that no call reaches, of each unit and kind of window. */
const PLAIN = `{ unit: requests, window: minute, value: 100000000 }, { unit: concurrent, value: 100000 }`
export const KEY_LIMITS =
  `[${PLAIN}, { unit: usd, window: 5h, value: '1000000' }, { unit: usd, window: week, value: '1000000' }, ` +
  `{ unit: usd, window: month, value: '1000000' }, { unit: tokens, window: minute, value: 1000000000 }, ` +
  `{ unit: requests, window: day, value: 100000000, models: ['mock/dear'] }]`
export const TEAM_LIMITS =
  `[{ unit: requests, window: 5h, value: 100000000 }, { unit: tokens, window: week, value: 1000000000 }, ` +
  `{ unit: usd, window: lifetime, value: '1000000', models: ['mock/*'] }]`
export const ACCOUNT_LIMITS =
  `[{ unit: usd, window: 5h, value: '1000000' }, { unit: tokens, window: month, value: 1000000000 }, ` +
  `{ unit: concurrent, value: 100000, models: ['mock/*'] }]`

/** Counters in which every call of a key is reserved, by their letters: of the key, its team, its account. */
const NAMED: Readonly<Record<string, string>> = { torture: 'kkkaaa', second: 'kkktttaaa' }
const OWNERS: Readonly<Record<string, string>> = { k: 'key', t: 'team', a: 'account' }

export class CounterSums {
  /** The sums by key (`*` for counters of a team or the account), name of the limit with its owner, and window. */
  readonly #sums = new Map<string, bigint>()
  readonly #reset = new Map<string, bigint>()
  readonly #faults: string[] = []

  add({ key, usage, cost }: OwnedRow): void {
    const { counted = '', lines = [], model, outcome } = usage ?? {}
    const entries = counted === '' ? [] : counted.split(',')
    const named = NAMED[key ?? '']
    if (named === undefined) return
    const letters = entries.map((entry) => entry[0]).join('')
    const expected = model === 'mock/dear' ? named.replace('kkk', 'kkkk') : named
    if (letters !== expected) this.#faults.push(`a row of ${key} names ${counted}`)
    let tokens = 0
    for (const { usage: of } of lines) tokens += (of.promptTokens ?? 0) + (of.completionTokens ?? 0)
    const isFailed = outcome === 'failed'
    for (const entry of entries) {
      const [, letter = '', id = '', window = ''] = /^(.):([^@]+)@(.+)$/.exec(entry)!
      const amount = id.startsWith('cap')
        ? cost
        : isFailed || id.startsWith('concurrency')
          ? 0n
          : id.startsWith('tokens')
            ? BigInt(tokens)
            : 1n
      const name = `${letter === 'k' ? key : '*'} ${OWNERS[letter]}.${id} ${window}`
      this.#sums.set(name, (this.#sums.get(name) ?? 0n) + amount)
    }
  }

  /** Resets a limit of a key: what is counted of it in the present window counts no more. */
  async reset(url: string, token: string, key: string, limit: string): Promise<void> {
    const [before] = await limitsOf(url, token, key, limit)
    const answer = await fetch(`${url}/admin/keys/${key}/limits/${limit}/reset`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: '{"reason":"torture"}',
    })
    const { data } = (await answer.json()) as any
    const name = `${key} key.${limit} ${data.window}`
    this.#reset.set(name, (this.#reset.get(name) ?? 0n) + amountOf(before.unit, before.used))
  }

  /** What a gateway says otherwise, one text each. @param isIdle nothing is held: calls of a gateway that was killed end with it */
  async faults(url: string, token: string, isIdle: boolean): Promise<string[]> {
    const faults = this.#faults.splice(0)
    for (const key of Object.keys(NAMED)) {
      for (const one of await limitsOf(url, token, key)) {
        const { limit, unit, window, used, held, starts_at } = one
        if (isIdle && amountOf(unit, held) !== 0n) faults.push(`${limit} of ${key}: ${held} held`)
        if (/\.(rpm|concurrency)$/.test(limit)) continue
        const name = `${limit.startsWith('key.') ? key : '*'} ${limit} ${windowOf(window, starts_at)}`
        // Sums of a key and an account in USD, a day or a month, are not counted for a limit.
        if (limit === 'key.cap.month' || windowOf(window, starts_at) === '') continue
        const expected = (this.#sums.get(name) ?? 0n) - (this.#reset.get(name) ?? 0n)
        if (amountOf(unit, used) !== expected) {
          faults.push(`${name}: ${expected} in the ledger, ${used} counted`)
        }
      }
    }
    return faults
  }
}

/** The limits of a key and of those above it, with amounts as they were written. */
async function limitsOf(url: string, token: string, key: string, only = ''): Promise<any[]> {
  const headers = { authorization: `Bearer ${token}` }
  const text = await (await fetch(`${url}/admin/keys/${key}/limits`, { headers })).text()
  const exact = (name: string, value: unknown, context?: { source: string }) =>
    /^(used|held)$/.test(name) && typeof value === 'number' ? context!.source : value
  const { data } = JSON.parse(text, exact as (name: string, value: unknown) => unknown)
  return data.filter(({ limit }: any) => only === '' || limit === `key.${only}`)
}

function amountOf(unit: string, text: string): bigint {
  return unit === 'usd' ? parsePico(text) : BigInt(text)
}

/** The name of a window that begins at a moment; empty for a span that is not open. */
function windowOf(window: string | null, start: string | null): string {
  if (window === null || window === 'lifetime') return '-'
  if (start === null) return ''
  if (window === 'minute' || window === '5h') return String(Date.parse(start))
  const date = start.slice(0, 10).replaceAll('-', '')
  return window === 'month' ? date.slice(0, 6) : date
}
