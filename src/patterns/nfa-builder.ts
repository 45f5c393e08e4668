/** Instructions of an NFA while they are written. */
import { Alphabet, type Ranges } from './alphabet.ts'
import { ACCEPT, ASSERT, CHAR, DEAD, Nfa, SPLIT, type MatchTarget } from './nfa.ts'
import type { Task } from './time-slice.ts'

/** Collects the instructions of an NFA. A number can be reserved before its instruction is known, as loops need it. */
export class NfaBuilder {
  readonly #kind: number[] = []
  readonly #first: number[] = []
  readonly #second: number[] = []
  readonly #sets: Ranges[] = []
  readonly #setNumbers = new Map<string, number>()
  /** Long sets are often given several times, as the same array. */
  readonly #known = new Map<Ranges, number>()
  readonly #targets: MatchTarget[] = []
  readonly #starts: number[] = []

  get size(): number {
    return this.#kind.length
  }

  reserve(): number {
    return this.#put(this.size, DEAD, -1, -1)
  }

  /** Reads one symbol of a set. */
  char(set: Ranges, next: number, at = this.size): number {
    return this.#put(at, CHAR, next, this.set(set))
  }

  /** Goes both ways; the same way twice is a jump. */
  split(first: number, second: number, at = this.size): number {
    return this.#put(at, SPLIT, first, second)
  }

  /** Goes on where all of these conditions hold. */
  assert(conditions: number, next: number, at = this.size): number {
    return this.#put(at, ASSERT, next, conditions)
  }

  accept(target: MatchTarget, at = this.size): number {
    return this.#put(at, ACCEPT, -1, this.#targets.push(target) - 1)
  }

  /** A match may begin here. */
  start(state: number): void {
    this.#starts.push(state)
  }

  /** Makes the alphabet tell a set from all other symbols. @returns its number */
  set(ranges: Ranges): number {
    const known = this.#known.get(ranges)
    if (known !== undefined) return known
    const key = ranges.join()
    let number = this.#setNumbers.get(key)
    if (number === undefined) {
      number = this.#sets.push(ranges) - 1
      this.#setNumbers.set(key, number)
    }
    if (ranges.length > 2) this.#known.set(ranges, number)
    return number
  }

  *build(): Task<Nfa> {
    const alphabet = yield* Alphabet.of(this.#sets)
    yield
    return yield* Nfa.of({
      kind: Uint8Array.from(this.#kind),
      first: Int32Array.from(this.#first),
      second: Int32Array.from(this.#second),
      alphabet,
      targets: this.#targets,
      starts: this.#starts,
    })
  }

  #put(at: number, kind: number, first: number, second: number): number {
    this.#kind[at] = kind
    this.#first[at] = first
    this.#second[at] = second
    return at
  }
}
