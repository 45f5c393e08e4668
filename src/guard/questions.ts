/**
 * An estimate of the questions of guards to models about a call at the expense of the account, and of their cost.
 * This is part of the hold for the call; the charge is what the models report.
 */
import type { Pico } from '../money/money.ts'
import type { Guard, Origin } from '../plugin.ts'
import { MAX_CALLS, MAX_COST } from './host.ts'
import { IN_FLIGHT, LONGEST, segmentsIn } from './text-check.ts'

/** A guard that asks a model for the rules of one origin, at the expense of the account. */
export interface AskingGuard {
  readonly guard: Guard
  readonly origin: Origin
  /** Catalog id of the model. */
  readonly model: string
}

export interface AskedTexts {
  /** Characters of the input; 0 for none. */
  readonly input: number
  /** Characters of each choice of the answer, probable and at most; 0 for none. */
  readonly output: Readonly<Record<Figure, number>>
  readonly choices: number
}

/** The two figures of a hold: the probable questions, and the most that can be asked. */
type Figure = 'expected' | 'ceiling'

interface Questions {
  readonly model: string
  readonly count: number
  readonly atOnce: number
}

/** Questions by budget, see {@link GuardBudget}. */
export type BudgetedQuestions = Readonly<Record<Figure, readonly (readonly Questions[])[]>>

/** An unusable answer is asked for once more. */
export const ATTEMPTS = 2

/** The number of questions of a guard about one text, when every answer can be used. One where it does not tell. */
export function questionsAbout(guard: Guard, characters: number): number {
  try {
    const count: unknown = guard.questions?.(characters)
    return Number.isInteger(count) ? Math.min(Math.max(count as number, 1), MAX_CALLS) : 1
  } catch {
    return 1
  }
}

export function questionsOf(
  guards: readonly AskingGuard[],
  { input, output, choices }: AskedTexts,
): BudgetedQuestions {
  const byOrigin = [...Map.groupBy(guards, ({ origin }) => origin).values()]
  const budgets = (attempts: number, characters: number) =>
    byOrigin.map((list) =>
      list.map(({ guard, model }) => {
        const about = guard.checkInput && input > 0 ? questionsAbout(guard, input) : 0
        const answer = questionsAboutAnswer(guard, characters)
        return {
          model,
          count: attempts * (about + choices * answer.count),
          atOnce: Math.max(about, choices * answer.atOnce),
        }
      }),
    )
  return { expected: budgets(1, output.expected), ceiling: budgets(ATTEMPTS, output.ceiling) }
}

function questionsAboutAnswer(guard: Guard, characters: number): Omit<Questions, 'model'> {
  const reads = guard.checkOutput !== undefined || guard.streamOutput !== undefined
  if (!reads || characters <= 0) return { count: 0, atOnce: 0 }
  const segments = guard.needsFullText ? 1 : Math.min(segmentsIn(characters), MAX_CALLS)
  const each = questionsAbout(guard, guard.needsFullText ? characters : LONGEST)
  return { count: segments * each, atOnce: Math.min(segments, IN_FLIGHT) * each }
}

/**
 * The cost of questions. A budget pays for so many questions, and for no further one when its amount is spent; those
 * that run then continue.
 * @param costOf one question to a model
 */
export function costOfQuestions(
  budgets: readonly (readonly Questions[])[],
  costOf: (model: string) => Pico,
): Pico {
  let total = 0n
  for (const list of budgets) {
    let [all, dearest, running] = [0n, 0n, 0n]
    for (const { model, count, atOnce } of list) {
      const cost = costOf(model)
      all += BigInt(count) * cost
      running += BigInt(atOnce) * cost
      if (cost > dearest) dearest = cost
    }
    total += [all, BigInt(MAX_CALLS) * dearest, MAX_COST + running].reduce(lesser)
  }
  return total
}

function lesser(one: Pico, other: Pico): Pico {
  return one < other ? one : other
}
