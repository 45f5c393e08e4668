/**
 * Seals of months: where the chains of accounts stand at the end of a month, and one hash over all of them. What was sealed proves
 * later that no row of the time before was changed.
 */
import { rootOf, type NotedPoint } from '../../state/ledger/chain.ts'
import type { Audit } from '../../state/audit.ts'
import type { ChainPoint } from '../../state/ledger/ledger.ts'
import type { Records } from '../../state/records.ts'
import type { UsageIndex } from './usage.ts'

interface SealsOptions {
  readonly records: Records
  readonly audit: Audit
  /** It is undefined where the operator has switched usage off: nothing is sealed then. */
  readonly usage: () => Pick<UsageIndex, 'ask'> | undefined
  readonly gateway: string
  readonly sealed: (message: string) => void
  readonly failed: (error: unknown) => void
  /** ms since epoch */
  readonly now?: () => number
}

/** The record `seal-root:<month>`. */
interface SealedMonth {
  /** `YYYYMM` */
  readonly month: string
  readonly root: string
  readonly accounts: number
  /** ms since epoch */
  readonly at: number
}

const LOOK_MS = 600_000
/** A month is sealed in its first days: a later seal would say little about the month. */
const LATEST_MS = 72 * 3_600_000
const CLAIM_SECONDS = 3600
const BATCH = 200
const INDEX = 'seals'

/** Seals the month before, once for all gateways of a ledger. */
export class Seals {
  readonly #options: SealsOptions
  readonly #now: () => number
  #lookedAt = -Infinity
  #turn: Promise<void> | undefined

  constructor(options: SealsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => Date.now())
  }

  /** @param steadyNow steady ms */
  tick(steadyNow: number): void {
    if (this.#turn || steadyNow - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = steadyNow
    this.#turn = this.seal()
      .catch((error: unknown) => this.#options.failed(error))
      .finally(() => (this.#turn = undefined))
  }

  /** Seals the month before, unless that was done or the present month is old. Rejects where the store or usage cannot be read. */
  async seal(): Promise<void> {
    const { records, audit, usage, gateway, sealed } = this.#options
    const date = new Date(this.#now())
    const begin = Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
    const index = usage()
    if (!index || this.#now() - begin > LATEST_MS) return
    const start = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - 1))
    const month = start.toISOString().slice(0, 7).replace('-', '')
    if ((await records.list(INDEX)).includes(month)) return
    const claim = `sealing:${month}`
    if (!(await records.create(claim, { gateway }, { ttlSeconds: CLAIM_SECONDS }))) return
    const points = await index.ask('chains', start.getTime())
    for (let i = 0; i < points.length; i += BATCH) {
      const some = points.slice(i, i + BATCH)
      await Promise.all(some.map(([account, at]) => records.put(sealKey(account, month), at)))
    }
    const accounts = points.map(([account]) => account)
    if (accounts.length > 0) await records.add(sealedIn(month), ...accounts)
    const root = rootOf(points)
    const seal: SealedMonth = { month, root, accounts: accounts.length, at: this.#now() }
    await records.put(rootKey(month), seal)
    await audit.add({
      actor: 'gateway',
      actor_id: 'gateway',
      address: '',
      action: 'ledger.seal',
      object: `month:${month}`,
      changes: { root: { after: root }, accounts: { after: accounts.length } },
    })
    await records.add(INDEX, month)
    sealed(`the ledger of ${start.toISOString().slice(0, 7)} is sealed: ${root}`)
  }
}

/** Sealed months, the oldest first. */
async function sealedMonths(records: Records): Promise<readonly SealedMonth[]> {
  const months = await records.list(INDEX)
  const roots = await records.getMany<SealedMonth>(months.map(rootKey))
  return roots.filter((root) => root !== undefined).toSorted((a, b) => (a.month < b.month ? -1 : 1))
}

/** The seals of a month, by account. */
async function sealsOf(records: Records, month: string): Promise<ReadonlyMap<string, ChainPoint>> {
  const accounts = await records.list(sealedIn(month))
  const points = await records.getMany<ChainPoint>(accounts.map((id) => sealKey(id, month)))
  return new Map(accounts.flatMap((id, i) => (points[i] ? [[id, points[i]] as const] : [])))
}

/** Every seal by account, and the months whose seals do not give the root that was noted for them. */
export async function noted(records: Records): Promise<{
  readonly seals: ReadonlyMap<string, readonly NotedPoint[]>
  readonly months: readonly (SealedMonth & { readonly recomputed: string })[]
}> {
  const seals = new Map<string, NotedPoint[]>()
  const months = []
  for (const sealed of await sealedMonths(records)) {
    const points = await sealsOf(records, sealed.month)
    for (const [account, { n, chain }] of points) {
      const places = seals.get(account) ?? []
      places.push({ where: sealed.month, n, chain })
      seals.set(account, places)
    }
    months.push({ ...sealed, recomputed: rootOf(points) })
  }
  return { seals, months }
}

function sealKey(account: string, month: string): string {
  return `seal:${account}:${month}`
}

function rootKey(month: string): string {
  return `seal-root:${month}`
}

function sealedIn(month: string): string {
  return `seals-${month}`
}
