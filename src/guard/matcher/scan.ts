/** Follows a text through all views at once. */
import type { PatternHit, Scan, ScanStep } from '../../plugin.ts'
import type { Machines } from './build.ts'
import { HiddenText } from './hidden.ts'
import { NOTHING, type Machine } from './machine.ts'
import { Track } from './track.ts'

/** One way of reading a text with {@link Machines}. */
export class TextScan implements Scan {
  readonly #machine: Machine
  readonly #text: Track
  readonly #hidden: HiddenText | undefined
  /** How much has been read. */
  #position = 0
  /** The first half of a surrogate pair that waits for the second, or 0. */
  #high = 0
  #step: ScanStep = { safe: 0 }

  constructor({ text, decoded }: Machines) {
    this.#machine = text
    this.#text = new Track(text)
    this.#hidden = decoded && new HiddenText(decoded)
  }

  push(text: string): ScanStep {
    for (let at = 0; at < text.length && !this.#step.hit;) {
      const from = at
      if (this.#high === 0) at = this.#run(text, from)
      if (at === from && !this.#step.hit) this.#readUnit(text.charCodeAt(at++))
    }
    return this.#settle()
  }

  end(): ScanStep {
    if (this.#high > 0 && !this.#step.hit) this.#readHigh()
    if (this.#step.hit) return this.#step
    if (this.#text.finish() || this.#hidden?.finish()) return this.#stop(this.#position)
    return (this.#step = { safe: this.#position })
  }

  /** Reads as much of a piece as can be read at once. @returns up to where, or where a match ends */
  #run(text: string, from: number): number {
    const track = this.#text
    const to = this.#hidden?.skip(text, from, track.since) ?? text.length
    const at = track.run(text, from, to, this.#position)
    this.#position += at - from
    if (track.found !== undefined) {
      this.#hidden?.unread(to - at)
      this.#stop(this.#position)
    }
    return at
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
    const { since } = this.#text
    const isHit =
      (codeClass !== NOTHING && this.#text.advance(codeClass, start, end)) ||
      (this.#hidden !== undefined && this.#hidden.read(codePoint, since))
    if (isHit) this.#stop(start)
    else this.#position = end
  }

  #settle(): ScanStep {
    if (this.#step.hit) return this.#step
    const safe = this.#hold(this.#position, false)
    // Most pieces of a text release something, but not all.
    return safe === this.#step.safe ? this.#step : (this.#step = { safe })
  }

  #stop(position: number): ScanStep {
    const found = (this.#text.found ?? this.#hidden!.found)!
    const { pattern, view, start, end } = found
    const hit: PatternHit = { pattern, view, start, end }
    return (this.#step = { safe: Math.min(this.#hold(position, true), start), hit })
  }

  #hold(position: number, isExact: boolean): number {
    const held = Math.min(position, this.#text.hold(isExact))
    return this.#hidden === undefined ? held : Math.min(held, this.#hidden.hold(isExact))
  }
}
