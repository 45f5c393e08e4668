/** The memory that request bodies may take together: bodies wait or are refused before the process runs out of it. */
import { totalmem } from 'node:os'
import { getHeapStatistics, type HeapInfo } from 'node:v8'
import { TooManyRequests, Unavailable } from '../errors/errors.ts'

const MIB = 1024 * 1024
/** Shares grow in steps, so that a body asks for memory a few times only. */
const STEP_BYTES = MIB
/** How long a body waits for memory before anything of it was kept. */
const WAIT_MS = 5_000
const RETRY_AFTER_SECONDS = 2
/** Share of its limit above which the heap takes no more large bodies, until it is below the other one. */
const HEAP_FULL = 0.85
const HEAP_WELL = 0.75
/** Time of a full heap after which the process should get no new work. */
const HEAP_PATIENCE_MS = 10_000
/** Largest share of the budget for one key, and for one account on the free tier. */
const KEY_PART = 1 / 2
const FREE_TIER_PART = 1 / 8

export interface BodyOwner {
  readonly key: string
  readonly account: string
  readonly freeTier: boolean
}

/** A quarter of the memory that the process may use, from 256 MiB to 2 GiB. */
export function defaultBodyMemory(): number {
  // 0, or more than the machine has, where nothing constrains the process.
  const constrained = process.constrainedMemory() || Infinity
  const quarter = Math.floor(Math.min(constrained, totalmem()) / 4)
  return Math.min(Math.max(quarter, 256 * MIB), 2048 * MIB)
}

export interface BodyShare {
  /**
   * Makes the share at least this heavy. Not called while it waits.
   * @returns a promise only while a body that holds nothing waits for memory
   * @throws Unavailable without memory, TooManyRequests when other bodies of the owner have its part of it
   */
  grow(weight: number): void | Promise<void>
  /** Gives everything back, or the place in the queue. Idempotent. */
  release(): void
}

interface Body {
  readonly owner: BodyOwner
  held: number
  released: boolean
  /** It is set while it waits. */
  wait: { readonly wanted: number; readonly settle: (error?: unknown) => void } | undefined
}

type Shortage = 'memory' | 'heap' | 'key' | 'free_tier'

type Heap = Pick<HeapInfo, 'used_heap_size' | 'heap_size_limit'>

export class BodyBudget {
  readonly #capacity: () => number
  readonly #onRefused: (shortage: Shortage) => void
  readonly #heap: () => Heap
  /** Held bytes by key and by account. */
  readonly #held = new Map<string, number>()
  #total = 0
  /** Steady ms; undefined while the heap takes large bodies. */
  #heapFullSince: number | undefined
  /** Bodies that hold nothing yet, in the order of arrival. */
  readonly #waiting: Body[] = []

  /**
   * @param capacity most weight at once, in bytes; a body that is heavier alone counts as this much
   * @param onRefused counts a refusal
   */
  constructor(
    capacity: () => number,
    onRefused: (shortage: Shortage) => void,
    heap: () => Heap = getHeapStatistics,
  ) {
    this.#capacity = capacity
    this.#onRefused = onRefused
    this.#heap = heap
  }

  /** Bytes that running bodies hold. */
  get heldBytes(): number {
    return this.#total
  }

  share(owner: BodyOwner): BodyShare {
    const body: Body = { owner, held: 0, released: false, wait: undefined }
    return {
      grow: (weight) => this.#grow(body, weight),
      release: () => this.#release(body),
    }
  }

  /** Checks the heap; called at regular intervals. */
  tick(): void {
    const { used_heap_size: used, heap_size_limit: limit } = this.#heap()
    const isFull = used > limit * (this.#heapFullSince === undefined ? HEAP_FULL : HEAP_WELL)
    this.#heapFullSince = isFull ? (this.#heapFullSince ?? performance.now()) : undefined
  }

  /** Whether large bodies have been refused for more than ten seconds, because the heap is nearly full. */
  get exhausted(): boolean {
    const since = this.#heapFullSince
    return since !== undefined && performance.now() - since > HEAP_PATIENCE_MS
  }

  #grow(body: Body, weight: number): void | Promise<void> {
    const steps = Math.ceil(weight / STEP_BYTES) * STEP_BYTES
    const wanted = Math.min(steps, this.#capacity())
    const more = wanted - body.held
    if (more <= 0 || body.released) return undefined
    if (this.#heapFullSince !== undefined) throw this.#noMemory('heap')
    this.#checkParts(body, wanted)
    const fits = this.#total + more <= this.#capacity()
    if (fits && (body.held > 0 || this.#waiting.length === 0)) return this.#give(body, more)
    // Two bodies that are half read must not wait for each other.
    if (body.held > 0) throw this.#noMemory('memory')
    return this.#wait(body, wanted)
  }

  #release(body: Body): void {
    if (body.released) return
    body.released = true
    if (body.held === 0 && !body.wait) return
    removeFrom(this.#waiting, body)
    body.wait?.settle()
    this.#give(body, -body.held)
    this.#serve()
  }

  #wait(body: Body, wanted: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        removeFrom(this.#waiting, body)
        settle(this.#noMemory('memory'))
        this.#serve()
      }, WAIT_MS)
      const settle = (error?: unknown) => {
        clearTimeout(timer)
        body.wait = undefined
        if (error === undefined) resolve()
        else reject(error)
      }
      body.wait = { wanted, settle }
      this.#waiting.push(body)
    })
  }

  #serve(): void {
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const { wanted, settle } = first.wait!
      if (this.#total + wanted > this.#capacity()) return
      this.#waiting.shift()
      try {
        this.#checkParts(first, wanted)
        this.#give(first, wanted)
        settle()
      } catch (error) {
        settle(error)
      }
    }
  }

  /**
   * Checks the shares of the owner: a key gets half, an account on the free tier an eighth; a body that is alone is never
   * refused for that.
   */
  #checkParts(body: Body, wanted: number): void {
    const { key, account, freeTier } = body.owner
    const exceeds = (owner: string, part: number) => {
      const others = (this.#held.get(owner) ?? 0) - body.held
      return others > 0 && others + wanted > this.#capacity() * part
    }
    const ofAccount = freeTier && exceeds(`account ${account}`, FREE_TIER_PART)
    if (!ofAccount && !exceeds(`key ${key}`, KEY_PART)) return
    this.#onRefused(ofAccount ? 'free_tier' : 'key')
    throw new TooManyRequests(
      'too_many_concurrent',
      'The bodies of other requests take all the memory that this key may use at once.',
    )
  }

  #noMemory(shortage: Shortage): Unavailable {
    this.#onRefused(shortage)
    const message = 'There is no memory for another large body. Try again later.'
    return new Unavailable('service_unavailable', message, {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
  }

  #give(body: Body, more: number): void {
    body.held += more
    this.#total += more
    for (const owner of [`key ${body.owner.key}`, `account ${body.owner.account}`]) {
      const held = (this.#held.get(owner) ?? 0) + more
      if (held > 0) this.#held.set(owner, held)
      else this.#held.delete(owner)
    }
  }
}

function removeFrom(waiting: Body[], body: Body): void {
  const at = waiting.indexOf(body)
  if (at >= 0) waiting.splice(at, 1)
}
