/** Models that guards ask, through the gateway's own routing: who pays, and how much of it there is (guard design, 3.12). */
import type { ChatInput, ChatCompletion, GuardContext } from '../plugin.ts'
import { parsePico, priceUsage, type Pico, type UsageLine } from '../money/money.ts'
import type { FairSemaphore } from './semaphore.ts'
import { GuardFault } from './verdicts.ts'

/** What guards may ask for one request and the rules of one origin. */
const MOST_CALLS = 24
const MOST_COST: Pico = parsePico('0.02')

/** What is left of it. One for each call and origin: a request's rules cannot starve the key's. */
export class GuardBudget {
  #calls = 0
  #spent: Pico = 0n

  /** @throws GuardFault `budget` */
  draw(): void {
    if (this.#calls >= MOST_CALLS || this.#spent >= MOST_COST) {
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
  /** Told what was consumed, whatever became of the question. */
  readonly book: (line: UsageLine) => void
}

/** On whose behalf a guard asks. */
export interface ModelAccess {
  readonly account: string
  readonly purse: GuardBudget
  /** Whether somebody pays when this model is asked. */
  pays(model: string): boolean
  ask(question: GuardModelRequest): Promise<ChatCompletion>
  /** Takes down what was consumed. */
  book(line: UsageLine, cost: Pico): void
  /** A question has been answered, or not. */
  ended(ok: boolean): void
}

const askers = new WeakMap<GuardContext, ModelAccess>()

/** From now on, whoever holds this context may ask. */
export function grantModelAccess(context: GuardContext, asker: ModelAccess): GuardContext {
  askers.set(context, asker)
  return context
}

/**
 * Asks a model on behalf of the call that a context belongs to.
 * @throws GuardFault `budget`, `unpaid`; Error for a context that the gateway did not give
 */
export async function askModel(
  places: FairSemaphore,
  model: string,
  request: ChatInput,
  context: GuardContext,
): Promise<ChatCompletion> {
  const asker = askers.get(context)
  if (!asker) throw new Error('a guard has to hand on the context that it was given')
  if (!asker.pays(model)) {
    throw new GuardFault('unpaid', 'this account is free, and the model is not')
  }
  asker.purse.draw()
  const leave = await places.enter(asker.account, context.signal)
  try {
    const book = (line: UsageLine) => {
      const { cost } = priceUsage([line])
      asker.purse.spend(cost)
      asker.book(line, cost)
    }
    const completion = await asker.ask({ model, request, signal: context.signal, book })
    asker.ended(true)
    return completion
  } catch (error) {
    asker.ended(false)
    throw error
  } finally {
    leave()
  }
}
