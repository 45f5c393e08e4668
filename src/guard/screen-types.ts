/** What an output screen is given, and what it reports. */
import type { Channel } from '../plugin.ts'
import type { OutputCodec } from './adapter.ts'
import type { OutputScanner, Stopped } from './scan-session.ts'
import type { GuardFault } from './verdicts.ts'

interface ScreenLimits {
  /** Characters that may be retained of one text, and a quarter of what may be retained of all. */
  readonly maxHeld: number
  /** Characters of a buffered answer. */
  readonly maxBuffer: number
  /** Characters of one tool call. */
  readonly maxToolCall: number
}

/** Where a violation was found. */
export interface OutputLocation {
  readonly choice: number
  readonly channel: Channel
  /** The texts that matched, where the guard said where. */
  readonly matched: readonly string[]
}

/** Told of everything that happens while an answer is screened. */
export interface ScreenObserver {
  /** @param dropped only a channel or an item was left out for it */
  found(stopped: Stopped, location: OutputLocation, dropped: boolean): void
  /** A guard could not look. */
  failed(guard: string, fault: GuardFault): void
  /** A field was left out because no guard can read it. */
  removed(field: string): void
  /** Media went by unread. */
  unscanned(kind: string): void
  /** Characters that went out. */
  released(count: number): void
  /** Characters that never will. */
  withheld(count: number): void
}

/** A choice that is refused. */
export interface Denial<Part> {
  readonly choice: number
  /** A part of the answer. */
  readonly sample: Part | undefined
  /** Whether a part of this choice went out, and whether text of it did. */
  readonly opened: boolean
  readonly hasText: boolean
  /** Set when a guard could not look; otherwise a violation was found. */
  readonly fault: GuardFault | undefined
}

export interface ScreenInit<Part> {
  readonly codec: OutputCodec<Part>
  /** Local ones first. */
  readonly scanners: readonly OutputScanner[]
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
  readonly observer: ScreenObserver
  /** The parts of a refusal. @throws in the error form */
  readonly refuse: (denial: Denial<Part>) => readonly Part[]
}
