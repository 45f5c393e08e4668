/** Banned patterns on one lane: held against every piece of a text that grows, or against a text that is there at once. */
import type { PatternHit, Scan } from '../plugin.ts'
import type { Follower, Stop } from './follower.ts'
import { AtEnd } from './followers-whole.ts'
import type { PatternMatcher } from './patterns.ts'
import type { Origin } from './watch.ts'

/** What is needed of a matcher. */
export type Searcher = Pick<PatternMatcher, 'scan' | 'search'>

/** Looks at every piece at once. */
export class PatternFollower implements Follower {
  readonly name = 'patterns'
  readonly origin: Origin
  safe = 0
  stop: Stop | undefined = undefined
  readonly #scan: Scan
  readonly #offset: number

  constructor(matcher: Searcher, offset: number, origin: Origin) {
    this.#scan = matcher.scan()
    this.#offset = offset
    this.origin = origin
  }

  get waiting(): boolean {
    return false
  }

  push(text: string): void {
    this.#take(this.#scan.push(text))
  }

  end(): void {
    this.#take(this.#scan.end())
  }

  leave(): void {}

  #take({ safe, hit }: ReturnType<Scan['push']>): void {
    this.safe = safe
    if (hit) this.stop = stopFor(hit, this.#offset)
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
      return this.look(this.#matcher.search(this.#text), (hit) => {
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

function stopFor({ pattern, start, end, view }: PatternHit, offset: number): Stop {
  const rule = `bannedPatterns[${pattern + offset}]` as const
  return { block: { action: 'block', rule, spans: [{ start, end }] }, view }
}
