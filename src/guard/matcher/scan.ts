/** Follows a text through all views at once. */
import type { PatternHit, Scan, ScanStep } from '../../plugin.ts'
import { Base64, Escapes, Hex, type Decoder, type Reader } from '../views/decode.ts'
import type { Machines } from './build.ts'
import { NOTHING, type Machine } from './machine.ts'
import { Track, type Found } from './track.ts'

/**
 * Looks for what is encoded, in every way that is known.
 * Does not see characters that cannot be seen.
 */
export class DecodedText {
  readonly machine: Machine
  readonly #readers: readonly TrackReader[]
  readonly base64: Decoder
  readonly hex: readonly Decoder[]
  readonly escapes: Decoder
  /** {@link base64} and {@link hex}. */
  readonly runs: readonly Decoder[]
  readonly #decoders: readonly Decoder[]

  constructor(machine: Machine) {
    this.machine = machine
    this.#readers = Array.from({ length: 7 }, () => new TrackReader(machine))
    this.base64 = new Base64(this.#readers.slice(0, 4))
    this.hex = [new Hex(this.#readers[4]!, 0), new Hex(this.#readers[5]!, 1)]
    this.escapes = new Escapes(this.#readers[6]!)
    this.runs = [this.base64, ...this.hex]
    this.#decoders = [...this.runs, this.escapes]
  }

  /** @returns whether there is a match */
  read(codePoint: number, start: number, end: number): boolean {
    if (this.machine.classOf(codePoint) === NOTHING) return false
    this.base64.read(codePoint, start, end)
    for (const hex of this.hex) hex.read(codePoint, start, end)
    this.escapes.read(codePoint, start, end)
    return this.found !== undefined
  }

  /** @returns whether there is a match */
  finish(): boolean {
    for (const decoder of this.#decoders) decoder.end()
    return this.found !== undefined
  }

  /** The first pattern's match among those that end at the same place. */
  get found(): Found | undefined {
    if (!TrackReader.any(this.#readers)) return undefined
    const all = this.#readers.flatMap(({ track }) => track.found ?? [])
    return all.sort((a, b) => a.pattern - b.pattern || a.start - b.start)[0]
  }

  hold(): number {
    return this.#decoders.reduce((least, decoder) => Math.min(least, decoder.hold()), Infinity)
  }
}

/** One way of reading a text with {@link Machines}. */
export class TextScan implements Scan {
  readonly #machine: Machine
  readonly #text: Track
  readonly #decoded: DecodedText | undefined
  /** How much has been read. */
  #position = 0
  /** The first half of a surrogate pair that waits for the second, or 0. */
  #high = 0
  #step: ScanStep = { safe: 0 }

  constructor({ text, decoded }: Machines) {
    this.#machine = text
    this.#text = new Track(text)
    this.#decoded = decoded && new DecodedText(decoded)
  }

  push(text: string): ScanStep {
    for (let at = 0; at < text.length && !this.#step.hit; at++) {
      const unit = text.charCodeAt(at)
      if (unit < 128 && this.#high === 0) this.#read(unit, 1)
      else this.#readUnit(unit)
    }
    return this.#settle()
  }

  end(): ScanStep {
    if (this.#high > 0 && !this.#step.hit) this.#readHigh()
    if (this.#step.hit) return this.#step
    if (this.#text.finish() || this.#decoded?.finish()) return this.#stop(this.#position)
    return (this.#step = { safe: this.#position })
  }

  #readUnit(unit: number): void {
    if (this.#high > 0) {
      if ((unit & 0xfc00) === 0xdc00) {
        const codePoint = 0x10000 + ((this.#high & 0x3ff) << 10) + (unit & 0x3ff)
        this.#high = 0
        return this.#read(codePoint, 2)
      }
      this.#readHigh()
      if (this.#step.hit) return
    }
    if ((unit & 0xfc00) === 0xd800) this.#high = unit
    else this.#read(unit, 1)
  }

  #readHigh(): void {
    const unit = this.#high
    this.#high = 0
    this.#read(unit, 1)
  }

  #read(codePoint: number, units: number): void {
    const start = this.#position
    const end = start + units
    const codeClass = this.#machine.classOf(codePoint)
    const isHit =
      (codeClass !== NOTHING && this.#text.advance(codeClass, start, end)) ||
      (this.#decoded !== undefined && this.#decoded.read(codePoint, start, end))
    if (isHit) this.#stop(start)
    else this.#position = end
  }

  #settle(): ScanStep {
    if (this.#step.hit) return this.#step
    const safe = this.#hold(this.#position)
    // Most pieces of a text release something, but not all.
    return safe === this.#step.safe ? this.#step : (this.#step = { safe })
  }

  #stop(position: number): ScanStep {
    const found = (this.#text.found ?? this.#decoded!.found)!
    const { pattern, view, start, end } = found
    const hit: PatternHit = { pattern, view, start, end }
    return (this.#step = { safe: Math.min(this.#hold(position), start), hit })
  }

  #hold(position: number): number {
    const held = Math.min(position, this.#text.hold())
    return this.#decoded === undefined ? held : Math.min(held, this.#decoded.hold())
  }
}

/** A track for one way of decoding. */
class TrackReader implements Reader {
  readonly track: Track
  readonly #machine: Machine

  constructor(machine: Machine) {
    this.#machine = machine
    this.track = new Track(machine)
  }

  static any(readers: readonly TrackReader[]): boolean {
    for (const { track } of readers) if (track.found !== undefined) return true
    return false
  }

  read(symbol: number, start: number, end: number): void {
    if (this.track.found !== undefined) return
    const codeClass = this.#machine.classOf(symbol)
    if (codeClass !== NOTHING) this.track.advance(codeClass, start, end)
  }

  restart(): void {
    if (this.track.found === undefined) this.track.reset()
  }

  hold(): number {
    return this.track.hold()
  }
}
