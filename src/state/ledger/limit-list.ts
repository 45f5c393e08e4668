/**
 * Limits as engines count them: their names, what they count of a call, and the text of a list. Both engines store a list as entries
 * joined by `;`. An entry is `<name>,<value>`; one with a raise or with models is `<name>,<value>,<raised>,<until>[,<pattern>…]`.
 * An amount is in picodollars. The entry `credit,<amount>` is no limit: it says how far below zero the balance may go.
 */
import type { Pico } from '../../money/money.ts'
import type { CountedLimit, KeyLimits, LimitOwner, Outcome, Unit, UsageRow } from './ledger.ts'
import type { Window } from './windows.ts'

export interface LimitKind {
  readonly unit: Unit
  /** It is absent for a number of calls at once. */
  readonly window?: Window
}

const UNITS: Readonly<Record<string, Unit>> = { cap: 'usd', requests: 'requests', tokens: 'tokens' }
const HEADS: Readonly<Record<Unit, string>> = {
  usd: 'cap',
  requests: 'requests',
  tokens: 'tokens',
  concurrent: 'concurrency',
}

/** The name of a limit without its owner. @param digits the digits of its models; empty for all */
export function nameOf({ unit, window }: LimitKind, digits: string): string {
  const isRate = unit === 'requests' && window === 'minute'
  const parts = isRate ? ['rpm'] : [HEADS[unit], ...(window ? [window] : [])]
  return [...parts, ...(digits ? [digits] : [])].join('.')
}

const KINDS = new Map<string, LimitKind>()
const RATE: LimitKind = { unit: 'requests', window: 'minute' }
const AT_ONCE: LimitKind = { unit: 'concurrent' }

/** Unit and window of a limit. @param id {@link CountedLimit.id} */
export function kindOf(id: string): LimitKind {
  if (id.startsWith('rpm')) return RATE
  if (id.startsWith('concurrency')) return AT_ONCE
  const dot = id.indexOf('.')
  const end = id.indexOf('.', dot + 1)
  const name = end < 0 ? id : id.slice(0, end)
  let kind = KINDS.get(name)
  if (!kind) {
    kind = { unit: UNITS[name.slice(0, dot)]!, window: name.slice(dot + 1) as Window }
    KINDS.set(name, kind)
  }
  return kind
}

/** Names of the sums that every key, team and account has: a limit by one of them needs no counter. */
const KEPT: ReadonlySet<string> = new Set(['cap.lifetime', 'cap.day', 'cap.month'])

export function isKept(id: string): boolean {
  return KEPT.has(id)
}

export function appliesTo({ models }: Pick<CountedLimit, 'models'>, model: string): boolean {
  return (
    !models ||
    models.some(
      (one) => one === model || (one.endsWith('/*') && model.startsWith(one.slice(0, -1))),
    )
  )
}

/** What a call counts for a limit: reserved when it is held, or counted when it is settled. */
export interface Counts {
  readonly usd: Pico
  readonly tokens: bigint
  readonly requests: bigint
  readonly concurrent: bigint
}

/** What a settled call counts. One that has failed counts no request and no tokens; what it costs counts. */
export function countsOf(
  cost: Pico,
  { outcome, lines }: { readonly outcome: Outcome; readonly lines: UsageRow['lines'] },
): Counts {
  if (outcome === 'failed') return { usd: cost, tokens: 0n, requests: 0n, concurrent: 0n }
  let tokens = 0
  for (const { source, usage } of lines) {
    if (source === 'model') tokens += (usage.promptTokens ?? 0) + (usage.completionTokens ?? 0)
  }
  return { usd: cost, tokens: BigInt(tokens), requests: 1n, concurrent: 0n }
}

const OWNER_LETTERS = { key: 'k', team: 't', account: 'a', tier: 'f' } as const
const OWNERS = new Map(
  Object.entries(OWNER_LETTERS).map(([owner, letter]) => [letter, owner as LimitOwner]),
)

function ownerOf(letter: string): LimitOwner {
  return OWNERS.get(letter as 'k')!
}

/** The counter in which a call was reserved. */
interface CounterEntry {
  readonly of: LimitOwner
  readonly id: string
  readonly window: string
}

/** Reads the counters of a hold, `<owner>:<id>@<window>` joined by commas. */
export function* countersIn(counted: string | undefined): Generator<CounterEntry> {
  if (!counted) return
  for (let start = 0; start < counted.length;) {
    const comma = counted.indexOf(',', start)
    const end = comma < 0 ? counted.length : comma
    const at = counted.indexOf('@', start)
    const [id, window] = [counted.slice(start + 2, at), counted.slice(at + 1, end)]
    yield { of: ownerOf(counted.charAt(start)), id, window }
    start = end + 1
  }
}

export function counterEntry({ of, id, window }: CounterEntry): string {
  return `${OWNER_LETTERS[of]}:${id}@${window}`
}

/** Whether a window of a counter comes after another one. @param other empty where none was */
export function isNewer(window: string, other: string): boolean {
  return other === '' || (window !== '-' && Number(window) > Number(other))
}

/** A text that no separator of a list occurs in. */
export function encoded(text: string): string {
  return text.replace(/[%,;|]/g, (one) => `%${one.charCodeAt(0).toString(16)}`)
}

export function writeList({ counted = [], credit }: ListedLimits): string {
  const entries = counted.map(({ id, value, models, raised }) => {
    const parts = [id, String(value)]
    if (raised || models) parts.push(raised ? String(raised.value) : '')
    if (raised || models) parts.push(raised ? String(raised.until) : '')
    return [...parts, ...(models ?? []).map(encoded)].join(',')
  })
  if (credit !== undefined) entries.push(`credit,${credit}`)
  return entries.join(';')
}

type ListedLimits = Pick<KeyLimits, 'counted' | 'credit'>

/**
 * Reads {@link writeList}. A `!` after a value is a mark of the Redis engine. What a damaged file has made unreadable is left out:
 * each process gives the limits of a key to its ledger again before the first call of that key.
 */
export function readList(list: string): ListedLimits {
  if (list === '') return {}
  let credit: Pico | undefined
  const counted: CountedLimit[] = []
  for (const entry of list.split(';')) {
    const [id = '', value = '', raised, until, ...models] = entry.split(',')
    try {
      const amount = BigInt(value.replace('!', ''))
      if (id === 'credit') credit = amount
      else
        counted.push({
          id,
          value: amount,
          ...(models.length > 0 && { models: models.map(decodeURIComponent) }),
          ...(raised && { raised: { value: BigInt(raised), until: Number(until) } }),
        })
    } catch {
      continue
    }
  }
  return { ...(counted.length > 0 && { counted }), ...(credit !== undefined && { credit }) }
}
