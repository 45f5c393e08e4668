/** What a screen is told, and what it tells. */
import type { Channel } from '../plugin.ts'
import type { Scout } from './scan-session.ts'
import type { Halt } from './screened-text.ts'
import type { OutputCodec } from './adapter.ts'
import type { GuardFault } from './verdicts.ts'

export interface ScreenLimits {
  /** Characters of one lane that may be held, and a quarter of what may be held of all. */
  readonly maxHeld: number
  /** Characters of an answer that goes out as a whole. */
  readonly maxBuffer: number
  /** Characters of one tool call. */
  readonly maxToolCall: number
}

/** Where something was found. */
export interface OutputLocation {
  readonly choice: number
  readonly channel: Channel
  /** The texts that matched, where the guard said where. */
  readonly matched: readonly string[]
}

/** What is written down while an answer is screened. */
export interface ScreenObserver {
  /** @param dropped only what can be left out was left out for it */
  found(halt: Halt, place: OutputLocation, dropped: boolean): void
  /** A guard could not look. */
  failed(guard: string, fault: GuardFault): void
  /** A field left out because nobody can read it. */
  removed(field: string): void
  /** Media that went by unread. */
  unscanned(kind: string): void
  /** Characters that went out. */
  released(count: number): void
  /** Characters that never will. */
  withheld(count: number): void
}

/** What a choice is refused for. */
export interface Denial<Part> {
  readonly choice: number
  /** A part of the answer. */
  readonly sample: Part | undefined
  /** Whether a part of this choice went out, and text of it. */
  readonly opened: boolean
  readonly hasText: boolean
  /** Set when a guard could not look; else something was found. */
  readonly fault: GuardFault | undefined
}

export interface ScreenInit<Part> {
  readonly lanes: OutputCodec<Part>
  /** Local ones first. */
  readonly scouts: readonly Scout[]
  /** Nothing goes out before all of it has passed. */
  readonly buffer: boolean
  /** The answer comes as a whole. Without `buffer`, only where nothing is enforced. */
  readonly atOnce?: boolean
  /** A block ends the whole answer: `refuse` throws. The first part waits for the next, so that it may get a status. */
  readonly errorForm: boolean
  /** How many choices were asked for. */
  readonly choices: number
  readonly onError: 'block' | 'allow'
  readonly limits: ScreenLimits
  readonly notes: ScreenObserver
  /** What says "no" in place of a choice. @throws in the error form */
  readonly refuse: (denial: Denial<Part>) => readonly Part[]
}
