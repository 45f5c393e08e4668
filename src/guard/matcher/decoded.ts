/** View D over a text: what it hides goes through a machine of its own. */
import { Base64 } from '../views/base64.ts'
import type { Decoder, Reader } from '../views/decode.ts'
import { Escapes } from '../views/escapes.ts'
import { Hex } from '../views/hex.ts'
import { NOTHING, type Machine } from './machine.ts'
import { Track, type Found } from './track.ts'

/** Follows a text and looks for matches in what it decodes. Characters that cannot be seen are passed over. */
export class DecodedText {
  /** Of the matches that end at the same place, the first pattern's. */
  found: Found | undefined
  readonly hex: readonly Decoder[]
  readonly escapes: Decoder
  /** Base64, and {@link hex}. */
  readonly runs: readonly Decoder[]
  readonly #machine: Machine
  readonly #decoders: readonly Decoder[]

  constructor(machine: Machine) {
    this.#machine = machine
    const reader = () => new TrackReader(machine, (found) => this.#note(found))
    this.hex = [new Hex(reader(), 0), new Hex(reader(), 1)]
    this.escapes = new Escapes(reader())
    this.runs = [new Base64(Array.from({ length: 4 }, reader)), ...this.hex]
    this.#decoders = [...this.runs, this.escapes]
  }

  /** @returns whether there is a match; nothing may follow it */
  read(codePoint: number, start: number, end: number): boolean {
    if (this.#machine.classOf(codePoint) === NOTHING) return false
    for (const decoder of this.#decoders) decoder.read(codePoint, start, end)
    return this.found !== undefined
  }

  /** @returns whether there is a match */
  finish(): boolean {
    for (const decoder of this.#decoders) decoder.end()
    return this.found !== undefined
  }

  /** From where on a match may be under way; Infinity if none is. See {@link Track.hold}. */
  hold(isExact: boolean): number {
    let held = Infinity
    for (const decoder of this.#decoders) held = Math.min(held, decoder.hold(isExact))
    return held
  }

  #note(found: Found): void {
    const { found: other } = this
    const isFirst =
      other === undefined ||
      found.pattern < other.pattern ||
      (found.pattern === other.pattern && found.start < other.start)
    if (isFirst) this.found = found
  }
}

/** A track for one way of decoding. After a match it stays as it is, so that its hold is the one before the match. */
class TrackReader implements Reader {
  readonly #machine: Machine
  readonly #track: Track
  readonly #note: (found: Found) => void

  constructor(machine: Machine, note: (found: Found) => void) {
    this.#machine = machine
    this.#track = new Track(machine)
    this.#note = note
  }

  read(symbol: number, start: number, end: number): void {
    const track = this.#track
    if (track.found !== undefined) return
    const symbolClass = this.#machine.classOf(symbol)
    if (symbolClass === NOTHING || !track.advance(symbolClass, start, end)) return
    this.#note(track.found!)
  }

  restart(): void {
    if (this.#track.found === undefined) this.#track.reset()
  }

  hold(isExact: boolean): number {
    return this.#track.hold(isExact)
  }
}
