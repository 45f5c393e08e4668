/** Guards that ask models through the gateway's own routing: who pays, and how much they may spend. */
import type { ChatInput, ChatCompletion, GuardContext } from '../plugin.ts'
import { parsePico, priceUsage, type Pico, type UsageLine } from '../money/money.ts'
import type { FairSemaphore } from './semaphore.ts'
import { GuardFault } from './verdicts.ts'

/** What guards may spend on one request for the rules of one origin. */
const MAX_CALLS = 24
const MAX_COST: Pico = parsePico('0.02')

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

/** One question to a model. */
export interface GuardModelRequest {
  /** Catalog id. */
  readonly model: string
  readonly request: ChatInput
  readonly signal: AbortSignal
  /** Called with what was consumed, also for a question that failed. */
  readonly book: (line: UsageLine) => void
}

/** The right to ask models for one call. */
export interface ModelAccess {
  readonly account: string
  readonly budget: GuardBudget
  /** Whether the cost of this model is covered. */
  pays(model: string): boolean
  ask(question: GuardModelRequest): Promise<ChatCompletion>
  /** Books what was consumed. */
  book(line: UsageLine, cost: Pico): void
  /** A question was answered, or failed. */
  ended(ok: boolean): void
}

const granted = new WeakMap<GuardContext, ModelAccess>()

/** Lets the holder of a context ask models. @returns the context */
export function grantModelAccess(context: GuardContext, access: ModelAccess): GuardContext {
  granted.set(context, access)
  return context
}

/**
 * Asks a model on behalf of the call that a context belongs to.
 * @throws GuardFault `budget`, `unpaid`; Error for a context that the gateway did not give
 */
export async function askModel(
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
