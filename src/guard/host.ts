/** The host of guard plugins. They ask models by the gateway's routing: payer, budget, concurrency. */
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import { parsePico, priceUsage, type Pico, type UsageLine } from '../money/money.ts'
import { compilePatterns } from '../patterns/patterns.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import type { ChatCompletion, ChatInput, GuardContext, GuardHost, Host } from '../plugin.ts'
import { GuardFault } from './runner.ts'

const MAX_CACHED = 20_000
const MAX_TTL_SECONDS = 86_400

/** @param host the host of every plugin @param semaphore bounds the models that all guards ask at once */
export function guardHost(host: Host, semaphore: FairSemaphore): GuardHost {
  const cached = new LRUCache<string, { readonly value: unknown }>(atMost(MAX_CACHED))
  return {
    ...host,
    askModel: (model, request, context) => askModel(semaphore, model, request, context),
    compilePatterns: (patterns) => compilePatterns(patterns),
    yieldIfDue: ({ signal }) => yieldIfDue(() => signal.throwIfAborted()),
    cache: {
      get: ({ accountId }, key) => cached.get(`${accountId}\n${key}`)?.value,
      set({ accountId }, key, value, ttlSeconds) {
        const ttl = Math.min(ttlSeconds, MAX_TTL_SECONDS) * 1000
        if (ttl > 0) cached.set(`${accountId}\n${key}`, { value }, { ttl })
      },
    },
  }
}

/** The most questions of guards about one request for the rules of one origin. */
export const MAX_CALLS = 24
/** The most that they may spend on them; questions that run when it is spent are not ended. */
export const MAX_COST: Pico = parsePico('0.02')

/** The budget of one call and origin. The rules of a request cannot use up that of the key's rules. */
export class GuardBudget {
  #calls = 0
  #spent: Pico = 0n

  /** @throws GuardFault `budget` */
  beginCall(): void {
    if (this.#calls >= MAX_CALLS || this.#spent >= MAX_COST) {
      throw new GuardFault('budget', 'guards have used up what one request may spend')
    }
    this.#calls++
  }

  spend(amount: Pico): void {
    this.#spent += amount
  }
}

export interface GuardModelRequest {
  readonly model: string
  readonly request: ChatInput
  readonly signal: AbortSignal
  /** It is called with the consumption, also for a question that failed. */
  readonly book: (line: UsageLine) => void
}

export interface ModelAccess {
  readonly account: string
  readonly budget: GuardBudget
  pays(model: string): boolean
  ask(question: GuardModelRequest): Promise<ChatCompletion>
  book(line: UsageLine, cost: Pico): void
  ended(ok: boolean): void
}

const granted = new WeakMap<GuardContext, ModelAccess>()

/** Lets the holder of a context ask models. @returns the context */
export function grantModelAccess(context: GuardContext, access: ModelAccess): GuardContext {
  granted.set(context, access)
  return context
}

/** Gives another context of the same call the access of the first, if it has any. */
export function passOnModelAccess(from: GuardContext, to: GuardContext): void {
  const access = granted.get(from)
  if (access) granted.set(to, access)
}

/**
 * Asks a model on behalf of the call that a context belongs to.
 * @throws GuardFault `budget`, `unpaid`; Error for a context that the gateway did not give
 */
async function askModel(
  semaphore: FairSemaphore,
  model: string,
  request: ChatInput,
  context: GuardContext,
): Promise<ChatCompletion> {
  const access = granted.get(context)
  if (!access) throw new Error('a guard has to hand on the context that it was given')
  if (!access.pays(model)) {
    throw new GuardFault('unpaid', 'this account is free, and the model is not')
  }
  access.budget.beginCall()
  const leave = await semaphore.enter(access.account, context.signal)
  try {
    const book = (line: UsageLine) => {
      const { cost } = priceUsage([line])
      access.budget.spend(cost)
      access.book(line, cost)
    }
    const completion = await access.ask({ model, request, signal: context.signal, book })
    access.ended(true)
    return completion
  } catch (error) {
    access.ended(false)
    throw error
  } finally {
    leave()
  }
}

/** Bounds how many tasks run at once; owners that wait take turns. */
export class FairSemaphore {
  readonly #limit: number
  #running = 0
  /** Owners in the order of their turn, each with the tasks that wait. */
  readonly #queues = new Map<string, (() => void)[]>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Waits until a task may run.
   * @returns gives the place back; further calls do nothing
   * @throws the signal's reason when it is aborted before that
   */
  async enter(owner: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#running < this.#limit) this.#running++
    else await this.#wait(owner, signal)
    let isInside = true
    return () => {
      if (isInside) this.#next()
      isInside = false
    }
  }

  #wait(owner: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(owner) ?? []
      this.#queues.set(owner, queue)
      const enter = () => {
        signal.removeEventListener('abort', giveUp)
        resolve()
      }
      const giveUp = () => {
        queue.splice(queue.indexOf(enter), 1)
        if (queue.length === 0) this.#queues.delete(owner)
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      queue.push(enter)
    })
  }

  #next(): void {
    for (const [owner, queue] of this.#queues) {
      const enter = queue.shift()!
      this.#queues.delete(owner)
      if (queue.length > 0) this.#queues.set(owner, queue)
      return enter()
    }
    this.#running--
  }
}
