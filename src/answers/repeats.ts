/** Requests that a client may repeat under one key of its own: which of them is answered, and what the others get. */
import type { Pico } from '../money/money.ts'
import type { Ledger, RequestId } from '../state/ledger/ledger.ts'
import type { Records } from '../state/records.ts'
import { sealKey, type AnswerStorage } from './storage.ts'

/** One request that may be repeated. */
export interface Repeatable {
  /** It is made of the API key and the client's own key. */
  readonly name: string
  readonly account: string
  readonly request: RequestId
  /** Hash of what is asked: the same name with another one is a mistake of the client. */
  readonly print: string
  /** The API key and the client's own key as they were sent. */
  readonly secret: string
  readonly value: string
}

/** The record of a request that is being answered, or was. */
interface Claim {
  readonly revision: number
  readonly request: RequestId
  readonly gateway: string
  readonly print: string
  /** ms since epoch */
  readonly at: number
}

/** An answer as it was sent. */
export interface KeptAnswer {
  readonly request: string
  readonly status: number
  readonly type: string
  readonly bytes: Buffer
}

/**
 * What a request finds: nothing, so that it is answered itself; another request of the same name; an answer; an answer that
 * is not kept; or one that runs. `lost`: on a gateway that has ended, and whose charges are not known.
 */
type Found =
  | { readonly is: 'first'; readonly held: HeldClaim }
  | { readonly is: 'other'; readonly request: string }
  | { readonly is: 'answered'; readonly answer: KeptAnswer }
  | { readonly is: 'gone'; readonly request: string; readonly cost: Pico }
  | { readonly is: 'running' | 'lost'; readonly request: string }

/** A claim of this process. */
interface HeldClaim {
  readonly claim: Claim
  /** Steady ms. */
  readonly since: number
}

interface RepeatsOptions {
  readonly records: Pick<Records, 'create' | 'get' | 'replace' | 'del'>
  readonly storage: AnswerStorage
  readonly ledger: Pick<Ledger, 'receipt' | 'isBooked'>
  /** The id of this gateway. */
  readonly gateway: string
  /** Whether another gateway runs. */
  readonly runs: (gateway: string) => Promise<boolean>
  /** Is told of faults of the storage. */
  readonly warn: (message: string) => void
}

const MOST_BYTES_OF_ACCOUNT = 16 * 1024 * 1024
/** Part of the time of a claim in which it cannot have been taken over. */
const SAFE_SHARE = 4
/** A claim is looked at this often, because others may change it between two looks. */
const LOOKS = 5

/** The receipt in the ledger decides whether a request was answered, so nothing here can disagree with the ledger. */
export class Repeats {
  readonly #options: RepeatsOptions
  /** Sizes of kept answers and the ends of their times, steady ms, by account, oldest first. */
  readonly #kept = new Map<string, { readonly until: number; readonly bytes: number }[]>()
  /** Claims that could not be given back. */
  readonly #unreleased = new Set<string>()

  constructor(options: RepeatsOptions) {
    this.#options = options
  }

  /** Claims a request, or tells what became of the one that has the claim. @throws Unavailable while the state is away */
  async claim(one: Repeatable, keepSeconds: number): Promise<Found> {
    const { records, gateway } = this.#options
    const { name, request, print } = one
    const claim = { revision: 1, request, gateway, print, at: Date.now() } satisfies Claim
    const life = { ttlSeconds: keepSeconds }
    const first = (held: Claim) =>
      ({ is: 'first', held: { claim: held, since: performance.now() } }) as const
    for (let look = 0; look < LOOKS; look++) {
      if (await records.create(keyOf(name), claim, life)) return first(claim)
      const existing = await records.get<Claim>(keyOf(name))
      if (!existing) continue
      const answer = await this.#look(one, existing, keepSeconds)
      if (answer) return answer
      const { revision } = existing
      const next = { ...claim, revision: revision + 1 }
      if (await records.replace(keyOf(name), next, revision, life)) {
        this.#unreleased.delete(name)
        return first(next)
      }
    }
    return { is: 'running', request }
  }

  /** @returns undefined for a claim that may be taken over */
  async #look(one: Repeatable, existing: Claim, keepSeconds: number): Promise<Found | undefined> {
    const { ledger, gateway, runs } = this.#options
    const { request } = existing
    if (existing.print !== one.print) return { is: 'other', request }
    const isOwn = existing.gateway === gateway
    // This is asked first: what that gateway had to book may be booked just now.
    const hasEnded = !isOwn && (await ledger.isBooked(existing.gateway))
    const cost = await ledger.receipt(one.account, request)
    if (cost !== undefined) {
      const answer = await this.#read(one, request)
      return answer ? { is: 'answered', answer } : { is: 'gone', request, cost }
    }
    if (isOwn) return this.#unreleased.has(one.name) ? undefined : { is: 'running', request }
    if (hasEnded) return undefined
    if (await runs(existing.gateway)) return { is: 'running', request }
    const isOld = Date.now() - existing.at > (keepSeconds * 1000) / 2
    return isOld ? undefined : { is: 'lost', request }
  }

  async #read(one: Repeatable, request: string): Promise<KeptAnswer | undefined> {
    const value = await this.#options.storage.get(answerOf(one.name), sealOf(one))
    if (!value) return undefined
    const end = value.indexOf('\n')
    const head = JSON.parse(value.subarray(0, end).toString())
    // Another one of this name was not charged, and its gateway has ended.
    return head.request === request ? { ...head, bytes: value.subarray(end + 1) } : undefined
  }

  /** Keeps an answer that is complete. One that does not fit is not kept. Never rejects. */
  async keep(one: Repeatable, copy: AnswerCopy, keepSeconds: number): Promise<void> {
    const { storage, warn } = this.#options
    const { status, type, bytes } = copy
    if (!bytes || !this.#fits(one.account, bytes.length, keepSeconds)) return
    const head = JSON.stringify({ request: one.request, status, type })
    const value = Buffer.concat([Buffer.from(`${head}\n`), bytes])
    await storage
      .put(answerOf(one.name), value, keepSeconds, sealOf(one))
      .catch((error: unknown) => warn(`an answer could not be kept: ${String(error)}`))
  }

  /**
   * Whether a claim is still the one of this gateway, asked before its answer is booked. Another gateway takes over the claim of one that
   * was stopped, or could not reach the store, for half of the time that claims are kept. Without an answer of the store it is.
   */
  async holds(
    { name }: Repeatable,
    { claim, since }: HeldClaim,
    keepSeconds: number,
  ): Promise<boolean> {
    const { records, warn } = this.#options
    if (performance.now() - since < (keepSeconds * 1000) / SAFE_SHARE) return true
    const { revision } = claim
    const next = { ...claim, revision: revision + 1, at: Date.now() }
    const life = { ttlSeconds: keepSeconds }
    try {
      // One that has expired belongs to none, unless it was taken since.
      const isHeld = await records.replace(keyOf(name), next, revision, life)
      return isHeld || (await records.create(keyOf(name), next, life))
    } catch (error) {
      warn(`the claim of a request could not be looked at: ${String(error)}`)
      return true
    }
  }

  /** Gives back the claim of a request that has no whole answer. Never rejects. */
  async release({ name }: Repeatable): Promise<void> {
    const { records, warn } = this.#options
    try {
      await records.del(keyOf(name))
    } catch (error) {
      this.#unreleased.add(name)
      warn(`the claim of a request could not be given back: ${String(error)}`)
    }
  }

  #fits(account: string, bytes: number, keepSeconds: number): boolean {
    const now = performance.now()
    const kept = (this.#kept.get(account) ?? []).filter(({ until }) => until > now)
    const sum = kept.reduce((all, one) => all + one.bytes, bytes)
    const fits = sum <= MOST_BYTES_OF_ACCOUNT
    if (fits) kept.push({ until: now + keepSeconds * 1000, bytes })
    this.#kept.set(account, kept)
    return fits
  }
}

/** Takes a copy of an answer while it is sent. */
export class AnswerCopy {
  status = 0
  type = ''
  readonly #mostBytes: number
  #size = 0
  #chunks: Buffer[] | undefined = []

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  head(status: number, type: string): void {
    this.status = status
    this.type = type
  }

  add(bytes: string | Uint8Array): void {
    if (!this.#chunks) return
    const chunk = Buffer.from(bytes as Uint8Array)
    this.#size += chunk.length
    if (this.#size > this.#mostBytes) this.#chunks = undefined
    else this.#chunks.push(chunk)
  }

  /** The whole answer; undefined for one that is too large. */
  get bytes(): Buffer | undefined {
    return this.#chunks && Buffer.concat(this.#chunks)
  }
}

function keyOf(name: string): string {
  return `claim:${name}`
}

function answerOf(name: string): string {
  return `answer:${name}`
}

function sealOf({ secret, value }: Repeatable) {
  return sealKey(secret, value, 'answer')
}
