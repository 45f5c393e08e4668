/** One scan of a text for patterns: in pieces as they come, or as a whole. */
import type { PatternMatch, ScanProgress, TextScan } from '../plugin.ts'
import type { CompiledPatterns } from './build.ts'
import { MatchCursor } from './cursor.ts'
import { EncodedScanner } from './encoded-scanner.ts'
import { UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { runSliced, runSync, type Task } from './time-slice.ts'

/** Longer pieces are read in steps of so many units. */
const LONG = 1 << 14
const STEP = 64
/** With up to so many symbols kept, a match is located at once: a few milliseconds with hostile patterns. */
const NEAR = 1 << 10

/**
 * A scan whose reader can wait. After `pushSliced` or `endSliced` has returned a promise, nothing may be pushed until it
 * is settled; if it rejects, the scan is of no further use.
 */
interface SlicedScan extends TextScan {
  /** {@link TextScan.push} in time slices: a promise only if it takes longer than one. */
  pushSliced(text: string, proceed?: () => void): ScanProgress | Promise<ScanProgress>
  /** {@link TextScan.end} likewise. */
  endSliced(proceed?: () => void): ScanProgress | Promise<ScanProgress>
}

/** Reads the text itself with one cursor, and what is encoded in it beside. */
export class PatternScan implements SlicedScan {
  readonly #dfa: ProductDfa
  readonly #cursor: MatchCursor
  readonly #encoded: EncodedScanner | undefined
  #position = 0
  /** The first half of a surrogate pair that waits for the second, or 0. */
  #high = 0
  #progress: ScanProgress = { safeOffset: 0 }

  constructor({ text, decoded }: CompiledPatterns) {
    this.#dfa = text
    this.#cursor = new MatchCursor(text)
    this.#encoded = decoded && new EncodedScanner(decoded)
  }

  push(text: string): ScanProgress {
    return this.#pushed(text) ?? runSync(this.#stop())
  }

  end(): ScanProgress {
    return this.#ended() ?? runSync(this.#stop())
  }

  pushSliced(text: string, proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    const isLong = text.length > LONG && !this.#progress.match
    if (isLong) return runSliced(this.#readLong(text), proceed)
    return this.#pushed(text) ?? this.#stopSliced(proceed)
  }

  endSliced(proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    return this.#ended() ?? this.#stopSliced(proceed)
  }

  /** The first match in a whole text. @param step units between two pauses */
  *search(text: string, step: number): Task<PatternMatch | undefined> {
    yield* this.#readSteps(text, step)
    return this.#isOver || this.#finish() ? yield* this.#locate() : undefined
  }

  /** @returns nothing where a match has ended that is to be located */
  #pushed(text: string): ScanProgress | undefined {
    if (this.#progress.match) return this.#progress
    this.#read(text)
    return this.#isOver ? undefined : this.#pass()
  }

  #ended(): ScanProgress | undefined {
    if (this.#progress.match) return this.#progress
    return this.#finish() ? undefined : (this.#progress = { safeOffset: this.#position })
  }

  *#readLong(text: string): Task<ScanProgress> {
    yield* this.#readSteps(text, STEP)
    if (this.#isOver) return yield* this.#stop()
    yield* this.#cursor.pendingStartTask()
    return this.#pass()
  }

  *#readSteps(text: string, step: number): Task<void> {
    for (let at = 0; at < text.length && !this.#isOver; at += step) {
      this.#read(text.slice(at, at + step))
      if (!this.#isOver) yield* this.#cursor.dropIfShort()
      yield
    }
  }

  get #isOver(): boolean {
    return this.#cursor.isOver || this.#encoded?.found !== undefined
  }

  /** Reads up to a match, or all of it. */
  #read(text: string): void {
    for (let at = 0; at < text.length && !this.#isOver; at++) this.#readUnit(text.charCodeAt(at))
  }

  #readUnit(unit: number): void {
    if (this.#high > 0) {
      if ((unit & 0xfc00) === 0xdc00) {
        const codePoint = 0x10000 + ((this.#high & 0x3ff) << 10) + (unit & 0x3ff)
        this.#high = 0
        return this.#readCodePoint(codePoint, 2)
      }
      this.#readHigh()
      if (this.#isOver) return
    }
    if ((unit & 0xfc00) === 0xd800) this.#high = unit
    else this.#readCodePoint(unit, 1)
  }

  #readHigh(): void {
    const unit = this.#high
    this.#high = 0
    this.#readCodePoint(unit, 1)
  }

  #readCodePoint(codePoint: number, units: number): void {
    const start = this.#position
    const end = start + units
    const codeClass = this.#dfa.classOf(codePoint)
    const { since } = this.#cursor
    const isMatch =
      (codeClass !== UNSEEN_CLASS && this.#cursor.advance(codeClass, start, end)) ||
      (this.#encoded !== undefined && this.#encoded.read(codePoint, since))
    // The character that completes a match is not released.
    if (!isMatch) this.#position = end
  }

  /** The text is over. @returns whether there is a match */
  #finish(): boolean {
    if (this.#high > 0) this.#readHigh()
    return this.#isOver || this.#cursor.finish() || this.#encoded?.finish() === true
  }

  #pass(): ScanProgress {
    const pending = this.#cursor.pendingStart(false)
    const encoded = this.#encoded ? this.#encoded.pendingStart(false) : Infinity
    const safeOffset = Math.min(this.#position, pending, encoded)
    return safeOffset === this.#progress.safeOffset
      ? this.#progress
      : (this.#progress = { safeOffset })
  }

  #stopSliced(proceed?: () => void): ScanProgress | Promise<ScanProgress> {
    return this.#cursor.kept > NEAR ? runSliced(this.#stop(), proceed) : runSync(this.#stop())
  }

  *#stop(): Task<ScanProgress> {
    const match = yield* this.#locate()
    const encoded = this.#encoded?.pendingStart(true) ?? Infinity
    let safeOffset = Math.min(this.#position, match.start, encoded)
    // Most matches begin where the oldest match under way does: then there is nothing to walk back over.
    if (this.#cursor.since < safeOffset) {
      safeOffset = Math.min(safeOffset, yield* this.#cursor.pendingStartTask())
    }
    return (this.#progress = { safeOffset, match })
  }

  *#locate(): Task<PatternMatch> {
    return this.#cursor.isOver ? yield* this.#cursor.locate() : this.#encoded!.found!
  }
}
