/** One answer of several while it is screened: its lanes, what waits to go out whole, and how far it has come. */
import type { Channel } from '../plugin.ts'
import type { Scout } from './scan-session.ts'
import { Lane } from './screened-text.ts'
import type { FragmentPiece, OutputPiece, AtomicPiece } from './adapter.ts'
import type { GuardFault } from './verdicts.ts'

/** Something that goes out whole. */
export interface Item<Part> {
  readonly piece: AtomicPiece<Part>
  readonly lanes: readonly { readonly lane: Lane<Part>; readonly index: number }[]
  /** Characters that are held for it. */
  readonly size: number
  /** Items of it that are left out. */
  readonly dropped: Set<number>
}

/** Pieces of something that makes sense as a whole only. */
export interface Fragments<Part> {
  readonly pieces: FragmentPiece<Part>[]
  size: number
  /** Too large, and that is allowed. */
  loose: boolean
}

export class Choice<Part> {
  readonly index: number
  readonly lanes = new Map<Channel, Lane<Part>>()
  /** Channels that were left out for a violation. */
  readonly dropped = new Set<Channel>()
  readonly fragments = new Map<string, Fragments<Part>>()
  readonly items: Item<Part>[] = []
  /** First parts that wait for the next. */
  readonly opening: Part[] = []
  /** Whether a part went out, and whether one with content did. */
  opened = false
  said = false
  finish: Part | undefined = undefined
  /** The vendor has finished it. */
  finished = false
  /** Nothing more of it is looked at. */
  over = false
  /** Why it is refused. */
  denial: { readonly fault: GuardFault | undefined } | undefined = undefined
  /** Characters that came in and did not go out. */
  held = 0
  readonly #out: (part: Part) => void

  constructor(index: number, out: (part: Part) => void) {
    this.index = index
    this.#out = out
  }

  /** Lanes of texts that grow, and of those that are there as a whole. */
  get allLanes(): readonly Lane<Part>[] {
    return [
      ...this.lanes.values(),
      ...this.items.flatMap((item) => item.lanes.map(({ lane }) => lane)),
    ]
  }

  /** Guards agree to all of its text so far. */
  get clear(): boolean {
    for (const lane of this.lanes.values()) if (lane.safe < lane.length) return false
    return true
  }

  /** Gives out a part. */
  readonly emit = (part: Part): void => {
    this.opened = true
    this.#out(part)
  }

  /** Gives out first parts that wait. */
  open(out: (part: Part) => void): void {
    if (this.opening.length === 0) return
    this.opened = true
    for (const first of this.opening.splice(0)) out(first)
  }

  /** Gives out a part with content. */
  readonly say = (part: Part): void => {
    this.said = true
    this.emit(part)
  }

  /** Takes in a piece of something that makes sense as a whole only. @returns all there is of it */
  gather(piece: FragmentPiece<Part>): Fragments<Part> {
    const key = `${piece.channel}:${piece.index}`
    let fragments = this.fragments.get(key)
    if (!fragments) this.fragments.set(key, (fragments = { pieces: [], size: 0, loose: false }))
    fragments.pieces.push(piece)
    fragments.size += piece.size
    return fragments
  }

  /** Gives out what is left of a piece that was looked at before. */
  pour(piece: OutputPiece<Part>): void {
    const channel = 'channel' in piece ? piece.channel : undefined
    const lasts = piece.kind === 'mark' && piece.keptWhenDropped
    if (channel && !lasts && this.dropped.has(channel)) return
    const item = this.items.find((one) => one.piece === piece)
    const part = item ? partOf(item) : piece.part
    if (part === undefined) return
    if (piece.kind === 'text') this.outOf(piece.channel)(part)
    else this.emit(part)
  }

  /** How text of a channel goes out. */
  outOf(channel: Channel): (part: Part) => void {
    return channel === 'content' ? this.say : this.emit
  }
}

/**
 * Something that goes out whole, with the guards that read it.
 * @param readers local ones first
 * @param changed called when one that was waited for has answered
 * @param held characters of it that are held already
 */
export function itemOf<Part>(
  piece: AtomicPiece<Part>,
  readers: readonly Scout[],
  changed: () => void,
  held: number,
): Item<Part> {
  const { choice, channel, index, part } = piece
  const locals = readers.filter((scout) => scout.local)
  let size = held
  const lanes = piece.texts.map(({ text, duplicate: again, item = 0 }) => {
    const info = { channel, choice, index }
    const lane = new Lane<Part>(info, again ? locals : readers, changed, { atOnce: true })
    lane.hold({ kind: 'text', choice, part, channel, text })
    lane.tell()
    lane.end()
    if (!held && !again) size += text.length
    return { lane, index: item }
  })
  return { piece, lanes, size, dropped: new Set() }
}

/** All guards have agreed to an item, or to what is left of it. */
export function hasPassed<Part>({ lanes }: Item<Part>): boolean {
  return lanes.every(({ lane }) => lane.late.length === 0)
}

/** What goes out of an item; nothing if nothing is left. */
export function partOf<Part>({ piece, dropped }: Item<Part>): Part | undefined {
  return dropped.size > 0 ? piece.withoutItems!(dropped) : piece.part
}
