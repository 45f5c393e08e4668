/** One answer of several while it is screened: its lanes, what waits to go out whole, and how far it has come. */
import type { Channel } from '../plugin.ts'
import type { Lane } from './lane.ts'
import type { FragmentPiece, WholePiece } from './lanes.ts'
import type { GuardFault } from './verdicts.ts'

/** Something that goes out whole. */
export interface Item<Part> {
  readonly piece: WholePiece<Part>
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
    if (this.opening.length > 0) for (const first of this.opening.splice(0)) this.#out(first)
    this.#out(part)
  }

  /** Gives out a part with content. */
  readonly say = (part: Part): void => {
    this.said = true
    this.emit(part)
  }

  /** How text of a channel goes out. */
  outOf(channel: Channel): (part: Part) => void {
    return channel === 'content' ? this.say : this.emit
  }
}

/** All guards have agreed to an item, or to what is left of it. */
export function hasPassed<Part>({ lanes }: Item<Part>): boolean {
  return lanes.every(({ lane }) => lane.late.length === 0)
}

/** What goes out of an item; nothing if nothing is left. */
export function partOf<Part>({ piece, dropped }: Item<Part>): Part | undefined {
  return dropped.size > 0 ? piece.without!(dropped) : piece.part
}
