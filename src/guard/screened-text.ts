/** One text as it grows, the guards that follow it, and what of it is still held (guard design, 3.1 and 3.3). */
import type { TextStream } from '../plugin.ts'
import type { Follower, Scout, Stop } from './scan-session.ts'
import type { OutputCodec, PassthroughPiece, TextPiece } from './adapter.ts'
import type { Steps } from '../patterns/time-slice.ts'

/** Who stopped a lane, and why. */
export interface Halt {
  readonly follower: Follower
  readonly stop: Stop
}

/** What of a lane may still go out. */
export interface Blocked extends Halt {
  /** Offset. */
  readonly safe: number
}

/** Longer texts are not kept for the sake of the exact place where several guards stop them. */
const MOST_KEPT = 1_048_576
/** So many characters guards are told again in one step. */
const STRETCH = 256

interface Held<Part> {
  readonly piece: TextPiece<Part> | PassthroughPiece<Part>
  readonly start: number
  readonly end: number
}

export interface LaneOptions {
  /** A violation ends the lane only. */
  readonly droppable?: boolean | undefined
  /** Nothing goes out before the text is complete, which as a rule comes in one piece. */
  readonly atOnce?: boolean
}

export class Lane<Part> {
  readonly info: TextStream
  /** A violation ends the lane only. */
  readonly droppable: boolean
  /** Characters so far, those included that guards have not been told yet. */
  length = 0
  /** How many of them went out. */
  released = 0
  #ended = false
  #followers: readonly Follower[]
  readonly #scouts: readonly Scout[]
  /** All of it, kept only where several guards may stop it at once. */
  #text = ''
  /** What guards have not been told yet. */
  #untold = ''
  #tellings = 0
  readonly #keeps: boolean
  readonly #held: Held<Part>[] = []

  constructor(
    info: TextStream,
    scouts: readonly Scout[],
    changed: (() => void) | undefined,
    { droppable = false, atOnce = false }: LaneOptions = {},
  ) {
    this.info = info
    this.droppable = droppable
    this.#scouts = scouts
    this.#followers = scouts.map((scout) => scout.follow(info, changed, atOnce))
    this.#keeps = scouts.filter((scout) => scout.local).length > 1
  }

  /** Offset up to which all guards agree. */
  get safe(): number {
    let safe = this.length
    for (const follower of this.#followers) if (follower.safe < safe) safe = follower.safe
    return safe
  }

  /** Nothing is held. */
  get empty(): boolean {
    return this.#held.length === 0
  }

  /** Guards that may agree or stop without more text. */
  get late(): readonly Follower[] {
    return this.#followers.filter((follower) => follower.waiting)
  }

  /** Some guard has not come to the end of what was pushed: what follows has to wait. */
  get looking(): boolean {
    return this.#followers.some((follower) => follower.looking)
  }

  /** The first guard that stopped, in the order of guards. */
  get halt(): Halt | undefined {
    for (const follower of this.#followers) {
      if (follower.stop) return { follower, stop: follower.stop }
    }
    return undefined
  }

  /** A further piece of the text, which is held until guards have been told, or a mark. */
  hold(piece: TextPiece<Part> | PassthroughPiece<Part>): void {
    const start = this.length
    if (piece.kind === 'text') {
      this.length += piece.text.length
      this.#untold += piece.text
    }
    const held = this.#held
    // Here V8 would call it for each piece of a text.
    held[held.length] = { piece, start, end: this.length }
  }

  /** Tells guards what came since they were told last. @returns that */
  tell(): string {
    const text = this.#untold
    this.#untold = ''
    this.#tellings++
    if (this.#keeps && this.length <= MOST_KEPT) this.#text += text
    for (const follower of this.#followers) follower.push(text)
    return text
  }

  /** Nothing follows. Idempotent. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const follower of this.#followers) follower.end()
  }

  idle(): void {
    for (const follower of this.#followers) follower.idle?.()
  }

  /** Goes on without this guard. */
  without(follower: Follower): void {
    follower.leave()
    this.#followers = this.#followers.filter((one) => one !== follower)
  }

  /** Goes on without any guard of these. */
  withoutAny(scouts: readonly Scout[]): void {
    for (const follower of this.#followers) {
      if (scouts.some((scout) => isOf(scout, follower))) this.without(follower)
    }
  }

  /** Guards that hold more than `limit` characters back, and wait for nothing but more of them. */
  holding(limit: number): readonly Follower[] {
    return this.#followers.filter(
      (follower) => !follower.waiting && this.length - follower.safe > limit,
    )
  }

  /**
   * Where and by whom the lane is blocked. If several guards look on, whoever is asked first would win, and more would go
   * out, when more comes at once: so they are told the last piece again, character by character, and text alone decides.
   * @param piece in which a guard blocked; none at the end, when a text that came at once is looked at as a whole
   */
  *blocked(halt: Halt, piece: string): Steps<Blocked> {
    const found = { ...halt, safe: this.safe }
    const text = this.#text
    const last = piece === '' && this.#tellings === 1 ? text : piece
    if (!this.#keeps || !halt.stop.block || last.length < 2 || text.length < this.length) {
      return found
    }
    const earliest = Math.max(text.length - last.length, this.#blockedUpTo() - 1)
    const from = wholeCharacters(text, earliest)
    let locals = (yield* this.#replay(text, from, 1, from + STRETCH)).followers
    if (text.length - from > STRETCH && !locals.some(({ stop }) => stop?.block)) {
      // In stretches at first: character by character takes many times as long.
      const stretch = yield* this.#replay(text, from, STRETCH)
      locals = (yield* this.#replay(text, stretch.from, 1)).followers
    }
    const follower = locals.find(({ stop }) => stop?.block)
    if (!follower) return found
    const safes = locals.filter(({ stop }) => !stop?.fault).map(({ safe }) => safe)
    return { follower, stop: follower.stop!, safe: Math.min(found.safe, ...safes) }
  }

  /**
   * Tells local guards all of a text again, up to a place: what is before a place in stretches, then so many characters at
   * a time, until one of them blocks.
   * @returns those guards, and where what they were told last begins
   */
  *#replay(
    text: string,
    start: number,
    size: number,
    end = text.length,
  ): Steps<{ followers: readonly Follower[]; from: number }> {
    const followers = this.#scouts
      .filter((scout) => scout.local && this.#followers.some((one) => isOf(scout, one)))
      .map((scout) => scout.follow(this.info, undefined, false))
    for (let from = 0, to = from, told = 0; from < Math.min(end, text.length); from = to) {
      to = from < start ? Math.min(start, from + STRETCH) : from + size
      // Not between the halves of a character.
      if (wholeCharacters(text, to) < to) to++
      for (const follower of followers) follower.push(text.slice(from, to))
      if (from >= start && followers.some(({ stop }) => stop?.block)) return { followers, from }
      told += to - from
      if (told < STRETCH) continue
      told = 0
      yield
    }
    return { followers, from: text.length }
  }

  /** Where the first text ends that a guard blocks for: it cannot do so earlier. 0 if one does not say. */
  #blockedUpTo(): number {
    const blocks = this.#followers.flatMap(({ stop }) => stop?.block ?? [])
    return Math.min(
      ...blocks.flatMap(({ spans }) => (spans?.length ? spans.map(({ end }) => end) : 0)),
    )
  }

  /** Lets go of what lies before an offset, in its own cuts where it can. @returns characters */
  release(safe: number, lanes: OutputCodec<Part>, emit: (part: Part) => void): number {
    const held = this.#held
    const before = this.released
    let rest = ''
    let gone = 0
    for (; gone < held.length; gone++) {
      const { piece, start, end } = held[gone]!
      if (safe < end) break
      if (piece.kind === 'mark' || this.released <= start) emit(piece.part)
      else if (piece.textOnly && stretchOf(held[gone + 1], safe) > 0) {
        // Said together with the beginning of the next: what comes in one part goes out in one.
        rest = piece.text.slice(this.released - start)
      } else emit(lanes.cut(piece, this.released - start, end - start))
      this.released = end
    }
    if (gone === held.length) held.length = 0
    else if (gone > 0) held.splice(0, gone)
    const next = held[0]
    const to = stretchOf(next, safe)
    if (to > 0 && next!.start + to > this.released) {
      const piece = next!.piece as TextPiece<Part>
      const from = Math.max(0, this.released - next!.start)
      if (rest === '') emit(lanes.cut(piece, from, to))
      else {
        const text = rest + piece.text.slice(0, to)
        emit(lanes.cut({ ...piece, text }, 0, text.length))
      }
      this.released = next!.start + to
    }
    return this.released - before
  }

  /** What is held and goes out even if the lane is dropped. */
  get lasting(): readonly Part[] {
    return this.#held.flatMap(({ piece }) =>
      piece.kind === 'mark' && piece.keptWhenDropped ? [piece.part] : [],
    )
  }

  /** What stands in the held text between two offsets. */
  textBetween(start: number, end: number): string {
    let text = ''
    for (const { piece, start: from } of this.#held) {
      if (piece.kind !== 'text' || end <= from) continue
      text += piece.text.slice(Math.max(0, start - from), end - from)
    }
    return text
  }

  /** Nobody looks on any more, and nothing more goes out. @returns characters that were held */
  drop(): number {
    for (const follower of this.#followers) follower.leave()
    this.#followers = []
    this.#held.length = 0
    return this.length - this.released
  }
}

/** How many characters of a piece lie before an offset that lies in it. */
function stretchOf<Part>(held: Held<Part> | undefined, safe: number): number {
  if (held?.piece.kind !== 'text' || safe <= held.start || safe >= held.end) return 0
  return wholeCharacters(held.piece.text, safe - held.start)
}

/** A guard may put its offset between the halves of a character. */
function wholeCharacters(text: string, end: number): number {
  const code = text.charCodeAt(end - 1)
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end
}

function isOf(scout: Scout, { name, origin }: Follower): boolean {
  return scout.name === name && scout.origin === origin
}
