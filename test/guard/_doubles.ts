/** Guards and patterns that tests can see through. */
import * as v from 'valibot'
import type { patternScanner } from '../../src/guard/text-check.ts'
import {
  defineGuard,
  type Guard,
  type GuardPlugin,
  type PatternMatcher,
  type PatternMatch,
  type ScanProgress,
  type TextItem,
  type Verdict,
} from '../../src/plugin.ts'

/** Literals, case and all: the plainest matcher that keeps its promises. */
export function literalMatcher(
  literals: readonly string[],
): PatternMatcher & Parameters<typeof patternScanner>[0] {
  const scan = () => new LiteralScan(literals)
  const find = (text: string) => {
    const one = scan()
    return one.push(text).match ?? one.end().match
  }
  return {
    scan,
    find,
    search: find,
  }
}

class LiteralScan {
  readonly #literals: readonly string[]
  #text = ''
  #safe = 0

  constructor(literals: readonly string[]) {
    this.#literals = literals
  }

  push(text: string): ScanProgress {
    for (const character of text) {
      const hold = this.#hold()
      this.#text += character
      for (const [pattern, literal] of this.#literals.entries()) {
        if (!this.#text.endsWith(literal)) continue
        const end = this.#text.length
        const start = end - literal.length
        const match: PatternMatch = { start, end, pattern, view: 'raw' }
        return { safeOffset: Math.min(hold, start), match }
      }
    }
    this.#safe = this.#hold()
    return { safeOffset: this.#safe }
  }

  end(): ScanProgress {
    return { safeOffset: this.#text.length }
  }

  pushSliced(text: string): ScanProgress {
    return this.push(text)
  }

  endSliced(): ScanProgress {
    return this.end()
  }

  /** Where the longest beginning of a literal starts that may go on. */
  #hold(): number {
    const longest = Math.max(0, ...this.#literals.map(({ length }) => length))
    for (let start = Math.max(0, this.#text.length - longest); start < this.#text.length; start++) {
      const rest = this.#text.slice(start)
      if (this.#literals.some((literal) => literal.startsWith(rest))) return start
    }
    return this.#text.length
  }
}

/** A guard plugin made on the spot. */
export function guardPlugin(name: string, guard: Guard): GuardPlugin {
  return defineGuard({ name, options: v.strictObject({}), setup: () => guard })
}

/** Blocks texts with a word in them, by segments on the way out. */
export function wordGuard(word: string, guard: Partial<Guard> = {}): Guard {
  const judge = ({ text }: TextItem): Verdict => {
    const start = text.indexOf(word)
    if (start < 0) return { action: 'pass' }
    return { action: 'block', rule: 'deny:code', spans: [{ start, end: start + word.length }] }
  }
  return {
    enforces: ['deny:code'],
    execution: 'local',
    checkInput: (items) => items.map(judge),
    checkOutput: judge,
    ...guard,
  }
}
