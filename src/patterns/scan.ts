/** Follows a text through all views at once. */
import type { PatternMatch, TextScan, ScanProgress } from '../plugin.ts'
import { runSliced, runSync, type Task } from './time-slice.ts'
import type { CompiledPatterns } from './build.ts'
import { EncodedScanner } from './encoded-scanner.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { MatchCursor, type Found } from './match-cursor.ts'

/** Longer pieces are read little by little, so many units at a time. */
const LONG = 1 << 14
const SLICE = 64
/** Up to so many symbols are walked back at once when a match has ended: a few milliseconds, however hostile it is. */
const NEAR = 1 << 10

/** What is read at once, where nobody else keeps it. */
const scratch = new Uint16Array(1 << 10)

/**
 * A scan whose reader can wait. After `pushSliced` or `endSliced` has returned a promise, nothing may be pushed until it
 * is settled; if it rejects, the scan is of no further use.
 */
export interface SlicedScan extends TextScan {
  /** {@link TextScan.push} in time slices: a promise only if it takes longer than one. */
  pushSliced(text: string, proceed?: () => void): ScanProgress | Promise<ScanProgress>
  /** {@link TextScan.end} likewise. */
  endSliced(proceed?: () => void): ScanProgress | Promise<ScanProgress>
  take(text: string): ScanProgress | Task<ScanProgress>
  finish(): ScanProgress | Task<ScanProgress>
}

export type { SlicedScan as PatientScan }

/** One way of reading a text with {@link CompiledPatterns}. */
export class PatternScan implements SlicedScan {
  readonly #dfa: ProductDfa
  readonly #text: MatchCursor
  readonly #hidden: EncodedScanner | undefined
  /** How much has been read. */
  #position = 0
  /** The first half of a surrogate pair that waits for the second, or 0. */
  #high = 0
  #step: ScanProgress = { safeOffset: 0 }

  constructor({ text, decoded }: CompiledPatterns) {
    this.#dfa = text
    this.#text = new MatchCursor(text)
    this.#hidden = decoded && new EncodedScanner(decoded)
  }

  push(text: string): ScanProgress {
    if (this.#step.match) return this.#step
    this.#go(text)
    return this.#isOver ? runSync(this.#stop()) : this.#pass()
  }

  pushSliced(text: string, proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    const progress = this.take(text)
    return 'next' in progress ? runSliced(progress, proceed) : progress
  }

  endSliced(proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    const progress = this.finish()
    return 'next' in progress ? runSliced(progress, proceed) : progress
  }

  take(text: string): ScanProgress | Task<ScanProgress> {
    if (this.#step.match) return this.#step
    if (text.length > LONG) return this.#readLong(text)
    this.#go(text)
    if (!this.#isOver) return this.#pass()
    return this.#text.kept > NEAR ? this.#stop() : runSync(this.#stop())
  }

  end(): ScanProgress {
    const step = this.finish()
    return 'next' in step ? runSync(step) : step
  }

  finish(): ScanProgress | Task<ScanProgress> {
    if (this.#step.match) return this.#step
    if (!this.#finish()) return (this.#step = { safeOffset: this.#position })
    return this.#text.kept > NEAR ? this.#stop() : runSync(this.#stop())
  }

  /** The first match in all of a text, in steps. @param slice units at a time */
  *search(text: string, slice: number): Task<PatternMatch | undefined> {
    for (let at = 0; at < text.length && !this.#isOver; at += slice) {
      this.#go(text.slice(at, at + slice))
      yield* this.#text.forgetting()
      yield
    }
    return this.#isOver || this.#finish() ? hitOf(yield* this.#find()) : undefined
  }

  *#readLong(text: string): Task<ScanProgress> {
    for (let at = 0; at < text.length && !this.#isOver; at += SLICE) {
      this.#go(text.slice(at, at + SLICE))
      yield* this.#text.forgetting()
      yield
    }
    if (this.#isOver) return yield* this.#stop()
    const held = Math.min(this.#position, yield* this.#text.holding())
    return (this.#step = { safeOffset: Math.min(held, this.#hidden?.hold(false) ?? held) })
  }

  #pass(): ScanProgress {
    const safe = this.#hold(this.#position)
    // Most pieces of a text release something, but not all.
    return safe === this.#step.safeOffset ? this.#step : (this.#step = { safeOffset: safe })
  }

  get #isOver(): boolean {
    return this.#text.isOver || this.#hidden?.found !== undefined
  }

  /** Reads up to a match, or all of it. */
  #go(text: string): void {
    for (let at = 0; at < text.length && !this.#isOver;) {
      const from = at
      if (this.#high === 0) at = this.#run(text, from)
      if (at === from && !this.#isOver) this.#readUnit(text.charCodeAt(at++))
    }
  }

  /** The text is over. @returns whether there is a match */
  #finish(): boolean {
    if (this.#high > 0) this.#readHigh()
    return this.#isOver || this.#text.finish() || this.#hidden?.finish() === true
  }

  /** Reads as much of a piece as can be read at once. @returns up to where, or where a match ends */
  #run(text: string, from: number): number {
    const track = this.#text
    const hidden = this.#hidden
    const count = hidden ? hidden.skip(text, from, track.since) : copy(text, from)
    const units = hidden ? hidden.tail : scratch
    const end = hidden ? hidden.kept : count
    const at = track.run(units, end - count, end, this.#position)
    const missing = end - at
    this.#position += count - missing
    if (track.isOver) hidden?.unread(missing)
    return from + count - missing
  }

  #readUnit(unit: number): void {
    if (this.#high > 0) {
      if ((unit & 0xfc00) === 0xdc00) {
        const codePoint = 0x10000 + ((this.#high & 0x3ff) << 10) + (unit & 0x3ff)
        this.#high = 0
        return this.#read(codePoint, 2)
      }
      this.#readHigh()
      if (this.#isOver) return
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
    const codeClass = this.#dfa.classOf(codePoint)
    const { since } = this.#text
    const isHit =
      (codeClass !== UNSEEN_CLASS && this.#text.advance(codeClass, start, end)) ||
      (this.#hidden !== undefined && this.#hidden.read(codePoint, since))
    // A match is not read over.
    if (!isHit) this.#position = end
  }

  *#stop(): Task<ScanProgress> {
    const hit = hitOf(yield* this.#find())
    let safe = Math.min(this.#position, hit.start, this.#hidden?.hold(true) ?? hit.start)
    // Most matches begin where all that is alive does, and nothing has to be walked back once more.
    if (this.#text.since < safe) safe = Math.min(safe, yield* this.#text.holding())
    return (this.#step = { safeOffset: safe, match: hit })
  }

  *#find(): Task<Found> {
    return this.#text.isOver ? yield* this.#text.locate() : this.#hidden!.found!
  }

  #hold(position: number): number {
    const held = Math.min(position, this.#text.hold(false))
    return this.#hidden === undefined ? held : Math.min(held, this.#hidden.hold(false))
  }
}

/** Up to a surrogate. @returns how much */
function copy(text: string, from: number): number {
  const most = Math.min(text.length - from, scratch.length)
  let count = 0
  for (; count < most; count++) {
    const unit = text.charCodeAt(from + count)
    if ((unit & 0xf800) === 0xd800) break
    scratch[count] = unit
  }
  return count
}

function hitOf({ pattern, view, start, end }: Found): PatternMatch {
  return { pattern, view, start, end }
}
