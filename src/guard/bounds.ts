/** Who holds back how much of an answer, and who too much (guard design, 3.3 and 3.12). */
import type { Origin } from '../plugin.ts'
import type { Choice } from './screened-choice.ts'
import type { Follower } from './scan-session.ts'
import type { Lane } from './screened-text.ts'
import { GuardFault } from './verdicts.ts'

/** A guard and the lane that it follows. */
export interface Hold<Part> {
  readonly choice: Choice<Part>
  readonly lane: Lane<Part>
  readonly follower: Follower
}

const ORIGINS: readonly Origin[] = ['key', 'request']

/** Guards that hold more than `limit` characters of a lane, and wait for nothing but more of them. */
export function holdsOf<Part>(choice: Choice<Part>, limit: number): readonly Hold<Part>[] {
  return [...choice.lanes.values()].flatMap((lane) =>
    lane.holding(limit).map((follower) => ({ choice, lane, follower })),
  )
}

/**
 * The guard that holds most, where those of its origin together hold more than `limit` characters of all lanes. Rules of
 * a request must not cost the key its guards: each origin has a share of its own.
 */
export function worstHolds<Part>(
  choices: readonly Choice<Part>[],
  limit: number,
): readonly Hold<Part>[] {
  const holds = choices.flatMap((choice) => holdsOf(choice, 0))
  return ORIGINS.flatMap((origin) => {
    const own = holds.filter(({ follower }) => follower.origin === origin)
    const sum = own.reduce((total, hold) => total + lengthOf(hold), 0)
    return sum > limit ? own.sort((a, b) => lengthOf(b) - lengthOf(a)).slice(0, 1) : []
  })
}

/** Why a guard that holds too much is not waited for. */
export function tooLarge(): GuardFault {
  return new GuardFault('too_large', 'more text than may be held')
}

function lengthOf<Part>({ lane, follower }: Hold<Part>): number {
  return lane.length - follower.safe
}
