/** Banned patterns on one lane: held against every piece of a text that grows, or against a text that is there at once. */
import type { Origin, PatternMatch, ScanProgress } from '../plugin.ts'
import type { Follower, Stop } from './scan-session.ts'
import { AtEnd, turnsOf } from './scan-sessions-whole.ts'
import type { PatientScan } from '../patterns/scan.ts'
import type { CompiledMatcher } from '../patterns/patterns.ts'
import type { Steps } from '../patterns/time-slice.ts'
import { toFault } from './verdicts.ts'

/** What is needed of a matcher. */
export type Searcher = Pick<CompiledMatcher, 'scan' | 'searchTask' | 'isClean'>

/**
 * Looks at every piece at once. Where somebody can be told later, what takes long lets others have their turn: a long
 * piece, and a match of which it has to be found out how far back it began.
 */
export class PatternFollower implements Follower {
  readonly name = 'patterns'
  readonly origin: Origin
  safe = 0
  stop: Stop | undefined = undefined
  waiting = false
  readonly #scan: PatientScan
  readonly #offset: number
  readonly #changed: (() => void) | undefined
  /** What came while it was waiting. */
  #later = ''
  #ended = false
  #left = false

  /** @param changed called when it has something new after it was waiting; without it, it never does */
  constructor(matcher: Searcher, offset: number, origin: Origin, changed?: () => void) {
    this.#scan = matcher.scan()
    this.#offset = offset
    this.origin = origin
    this.#changed = changed
  }

  get looking(): boolean {
    return this.waiting
  }

  push(text: string): void {
    if (this.waiting) this.#later += text
    else if (this.#changed) this.#look(this.#scan.take(text))
    else this.#take(this.#scan.push(text))
  }

  end(): void {
    if (this.waiting) this.#ended = true
    else if (this.#changed) this.#look(this.#scan.finish())
    else this.#take(this.#scan.end())
  }

  leave(): void {
    this.#left = true
    this.waiting = false
  }

  #take({ safeOffset: safe, match: hit }: ScanProgress): void {
    this.safe = safe
    if (hit) this.stop = stopFor(hit, this.#offset)
  }

  #look(step: ScanProgress | Steps<ScanProgress>): void {
    if (!('next' in step)) return this.#take(step)
    this.waiting = true
    void this.#wait(step)
  }

  async #wait(steps: Steps<ScanProgress>): Promise<void> {
    let step: ScanProgress | Steps<ScanProgress> | undefined = steps
    try {
      while (step) {
        this.#take('next' in step ? await turnsOf(step, () => this.#left) : step)
        step = this.stop ? undefined : this.#rest()
      }
    } catch (error) {
      this.stop = { fault: toFault(error) }
    }
    if (this.#left) return
    this.waiting = false
    this.#changed!()
  }

  /** What is left to look at, if anything is. */
  #rest(): ScanProgress | Steps<ScanProgress> | undefined {
    const text = this.#later
    this.#later = ''
    if (text !== '') return this.#scan.take(text)
    if (!this.#ended) return undefined
    this.#ended = false
    return this.#scan.finish()
  }
}

/**
 * Looks at a text once it is complete, which is many times faster, and lets others have their turn when that takes long.
 * A text that comes in several pieces after all is looked at as it grows.
 */
export class PatternSearch extends AtEnd {
  readonly #matcher: Searcher
  readonly #offset: number
  #text = ''
  #growing: PatternFollower | undefined

  constructor(matcher: Searcher, offset: number, origin: Origin, changed: () => void) {
    super('patterns', origin, changed)
    this.#matcher = matcher
    this.#offset = offset
  }

  push(text: string): void {
    if (!this.#growing && this.#text === '') {
      this.#text = text
      return
    }
    if (!this.#growing) {
      this.#growing = new PatternFollower(this.#matcher, this.#offset, this.origin)
      this.#growing.push(this.#text)
    }
    if (!this.#growing.stop) this.#growing.push(text)
    this.#follow(this.#growing)
  }

  end(): void {
    if (!this.#growing) {
      if (this.#matcher.isClean(this.#text)) return void (this.safe = this.#text.length)
      return this.look(this.#matcher.searchTask(this.#text), (hit) => {
        if (hit) this.stop = stopFor(hit, this.#offset)
        else this.safe = this.#text.length
      })
    }
    if (!this.#growing.stop) this.#growing.end()
    this.#follow(this.#growing)
  }

  #follow({ safe, stop }: PatternFollower): void {
    this.safe = safe
    this.stop = stop
  }
}

function stopFor({ pattern, start, end, view }: PatternMatch, offset: number): Stop {
  const rule = `bannedPatterns[${pattern + offset}]` as const
  return { block: { action: 'block', rule, spans: [{ start, end }] }, view }
}
