/**
 * Screens one answer while it goes by (guard design, 3). Text goes out when all guards agree; what they hold is held, what
 * they block becomes a refusal. Synchronous: while all guards are local it is a step of the reply's flow; where guards
 * answer later, somebody calls `update` when they have.
 */
import type { Channel, Step } from '../plugin.ts'
import { Choice, hasPassed, partOf, type Fragments } from './choice.ts'
import type { Scout } from './follower.ts'
import { Lane, type Halt } from './lane.ts'
import type { FragmentPiece, MarkPiece, Piece, TextPiece, WholePiece } from './lanes.ts'
import type { ScreenInit } from './screening.ts'
import { GuardFault, isForgiven } from './verdicts.ts'
import type { Origin } from './watch.ts'

const ORIGINS: readonly Origin[] = ['key', 'request']

export class Screen<Part> implements Step<Part, Part> {
  /** Nothing more is wanted. */
  done = false
  /** Called when a guard that was waited for has answered. */
  changed: () => void = () => {}
  /** The most that was held at any time, in characters. */
  mostHeld = 0
  readonly #init: ScreenInit<Part>
  readonly #choices: Choice<Part>[] = []
  readonly #readers = new Map<Channel, readonly Scout[]>()
  #scouts: readonly Scout[]
  /** The answer, where it goes out as a whole. */
  #buffer: Piece<Part>[] = []
  #buffering: boolean
  #held = 0
  #ended = false
  #like: Part | undefined
  #emit: (part: Part) => void = () => {}
  readonly #take = (piece: Piece<Part>): void => this.#piece(piece)
  readonly #removed = (field: string): void => this.#init.notes.removed(field)
  readonly #changed = (): void => this.changed()

  constructor(init: ScreenInit<Part>) {
    this.#init = init
    this.#scouts = init.scouts
    this.#buffering = init.buffer
  }

  /** Characters that came in and did not go out. */
  get held(): number {
    return this.#held
  }

  /** Some guard may still answer. */
  get waiting(): boolean {
    return this.waitsFor('key') || this.waitsFor('request')
  }

  /** Some guard that looks after these rules may still answer. */
  waitsFor(origin: Origin): boolean {
    return this.#choices.some(
      (choice) =>
        !choice.over &&
        choice.allLanes.some((lane) => lane.late.some((follower) => follower.origin === origin)),
    )
  }

  /** Whether more of the answer may come before guards have answered. */
  get hungry(): boolean {
    const { limits } = this.#init
    return this.#held < (this.#buffering ? limits.maxBuffer : limits.maxHeld) || !this.waiting
  }

  push(part: Part, emit: (part: Part) => void): void {
    this.#emit = emit
    this.#like = part
    this.#init.lanes.split(part, this.#take, this.#removed)
  }

  /** The answer is complete. With guards that answer later, `update` until nothing is `waiting`. */
  end(emit: (part: Part) => void): void {
    this.#emit = emit
    this.#ended = true
    for (const choice of this.#choices) this.#finish(choice)
    this.#flush()
  }

  /** The answer broke off: what is held stays held. */
  fail(error: unknown): unknown {
    this.leave()
    return error
  }

  /** Some guard has answered. */
  update(emit: (part: Part) => void): void {
    this.#emit = emit
    for (const choice of this.#choices) {
      this.#look(choice)
      this.#settle(choice)
    }
    this.#flush()
  }

  /** No text came for a while: what there is may be judged. */
  idle(): void {
    for (const { lanes } of this.#choices) for (const lane of lanes.values()) lane.idle()
  }

  /** Guards that look after these rules have taken too long. */
  giveUp(origin: Origin, fault: GuardFault, emit: (part: Part) => void): void {
    this.#emit = emit
    for (const choice of this.#choices) {
      for (const lane of choice.allLanes) {
        for (const follower of lane.late) {
          if (choice.over || follower.origin !== origin) continue
          if (!this.#deny(choice, follower.name, fault)) lane.without(follower)
        }
      }
      this.#settle(choice)
    }
    this.#flush()
  }

  /** Nobody reads on. */
  leave(): void {
    this.done = true
    for (const { allLanes } of this.#choices) for (const lane of allLanes) lane.drop()
  }

  #piece(piece: Piece<Part>): void {
    if (this.done) return
    const choice = this.#choices[piece.choice] ?? this.#openUpTo(piece.choice)
    if (choice.over) return
    if (this.#buffering) this.#buffer.push(piece)
    switch (piece.kind) {
      case 'text':
        return this.#text(choice, piece)
      case 'mark':
        return this.#mark(choice, piece)
      case 'fragment':
        return this.#fragment(choice, piece)
      case 'whole':
        this.#whole(choice, piece)
        return this.#settle(choice)
      case 'finish':
        choice.finish = piece.part
        return this.#finish(choice)
    }
  }

  #openUpTo(index: number): Choice<Part> {
    for (let i = this.#choices.length; i <= index; i++) {
      this.#choices.push(new Choice<Part>(i, (part) => this.#emit(part)))
    }
    return this.#choices[index]!
  }

  #text(choice: Choice<Part>, piece: TextPiece<Part>): void {
    const { channel, text, droppable } = piece
    if (choice.dropped.has(channel)) return this.#init.notes.withheld(text.length)
    let lane = choice.lanes.get(channel)
    if (!lane) {
      const info = { channel, choice: choice.index, index: 0 }
      lane = new Lane<Part>(info, this.#readersOf(channel), this.#changed, droppable)
      choice.lanes.set(channel, lane)
    }
    lane.push(text)
    const { halt } = lane
    if (!halt && !this.#buffering && lane.empty && lane.safe >= lane.length) {
      lane.released = lane.length
      this.#init.notes.released(text.length)
      return choice.outOf(channel)(piece.part)
    }
    this.#hold(choice, text.length)
    lane.hold(piece)
    if (halt) this.#halted(choice, lane, text)
    if (choice.over) return
    if (choice.lanes.has(channel)) this.#release(choice, lane)
    this.#checkHeld(choice)
  }

  #mark(choice: Choice<Part>, piece: MarkPiece<Part>): void {
    const { channel, opens, part } = piece
    if (channel && choice.dropped.has(channel)) return
    const lane = channel && choice.lanes.get(channel)
    if (lane && !lane.empty) return lane.hold(piece)
    if (this.#buffering || (opens && this.#init.errorForm)) choice.opening.push(part)
    else choice.emit(part)
  }

  #fragment(choice: Choice<Part>, piece: FragmentPiece<Part>): void {
    const { channel, index, size } = piece
    const key = `${channel}:${index}`
    let fragments = choice.fragments.get(key)
    if (!fragments) choice.fragments.set(key, (fragments = { pieces: [], size: 0, loose: false }))
    fragments.pieces.push(piece)
    fragments.size += size
    this.#hold(choice, size)
    const [reader] = this.#readersOf(channel)
    const { maxToolCall, maxBuffer } = this.#init.limits
    if (reader && !fragments.loose) {
      if (fragments.size <= maxToolCall && this.#held <= maxBuffer) return
      if (this.#deny(choice, reader.name, tooLarge())) return
    }
    fragments.loose = true
    this.#loosen(choice, fragments)
  }

  /** Fragments that nobody reads go out as they are. */
  #loosen(choice: Choice<Part>, fragments: Fragments<Part>): void {
    if (this.#buffering) return
    for (const { part } of fragments.pieces.splice(0)) choice.emit(part)
    this.#hold(choice, -fragments.size)
    fragments.size = 0
  }

  /** @param held characters of it that are held already */
  #whole(choice: Choice<Part>, piece: WholePiece<Part>, held = 0): void {
    const { channel, index, texts, unscanned } = piece
    if (unscanned) this.#init.notes.unscanned(unscanned)
    const readers = this.#readersOf(channel)
    const locals = readers.filter((scout) => scout.local)
    const info = { channel, choice: choice.index, index }
    let size = held
    const lanes = texts.map(({ text, again, item = 0 }) => {
      const lane = new Lane<Part>(info, again ? locals : readers, this.#changed)
      lane.push(text)
      lane.hold({ kind: 'text', choice: choice.index, part: piece.part, channel, text })
      lane.end()
      if (!held && !again) size += text.length
      return { lane, index: item }
    })
    this.#hold(choice, size - held)
    choice.items.push({ piece, lanes, size, dropped: new Set() })
    this.#lookAtItems(choice)
    if (!choice.over && this.#buffering) this.#checkHeld(choice)
  }

  #finish(choice: Choice<Part>): void {
    if (choice.over || choice.finished) return
    choice.finished = true
    for (const lane of choice.lanes.values()) lane.end()
    this.#look(choice)
    for (const { pieces, size, loose } of choice.fragments.values()) {
      if (choice.over) return
      if (pieces.length > 0 && !loose) this.#whole(choice, this.#init.lanes.gather!(pieces), size)
    }
    this.#settle(choice)
  }

  /** Sees what guards have said. */
  #look(choice: Choice<Part>): void {
    for (const lane of choice.lanes.values()) if (!choice.over) this.#halted(choice, lane, '')
    if (!choice.over) this.#lookAtItems(choice)
  }

  /** @param last the text that came last */
  #halted(choice: Choice<Part>, lane: Lane<Part>, last: string): void {
    for (let halt = lane.halt; halt; halt = lane.halt) {
      const { follower, stop } = halt
      if (stop.fault) {
        if (this.#deny(choice, follower.name, stop.fault)) return
        lane.without(follower)
        continue
      }
      const blocked = lane.blocked(halt, last)
      this.#release(choice, lane, blocked.safe)
      this.#note(blocked, lane, lane.droppable)
      if (!lane.droppable) return this.#refuse(choice, undefined)
      choice.dropped.add(lane.info.channel)
      choice.lanes.delete(lane.info.channel)
      this.#withhold(choice, lane.drop())
    }
  }

  #lookAtItems(choice: Choice<Part>): void {
    for (const { piece, lanes, dropped } of choice.items) {
      for (const { lane, index } of lanes) {
        for (let halt = lane.halt; halt; halt = lane.halt) {
          const { follower, stop } = halt
          if (stop.fault) {
            if (this.#deny(choice, follower.name, stop.fault)) return
            lane.without(follower)
            continue
          }
          this.#note(halt, lane, piece.without !== undefined)
          if (!piece.without) return this.#refuse(choice, undefined)
          dropped.add(index)
          lane.drop()
        }
      }
    }
  }

  /** Lets go of what all guards agree to. */
  #settle(choice: Choice<Part>): void {
    if (choice.over) return
    for (const lane of choice.lanes.values()) this.#release(choice, lane)
    if (!choice.clear) return
    const { items } = choice
    if (this.#buffering) {
      choice.over = choice.finished && items.every(hasPassed)
      return
    }
    while (items.length > 0 && hasPassed(items[0]!)) {
      const item = items.shift()!
      this.#hold(choice, -item.size)
      this.#init.notes.released(item.size)
      const part = partOf(item)
      if (part !== undefined) choice.emit(part)
    }
    if (!choice.finished || items.length > 0) return
    choice.over = true
    if (choice.finish !== undefined) choice.emit(choice.finish)
  }

  #release(choice: Choice<Part>, lane: Lane<Part>, safe: number = lane.safe): void {
    if (this.#buffering) return
    const released = lane.release(safe, this.#init.lanes, choice.outOf(lane.info.channel))
    if (released === 0) return
    this.#hold(choice, -released)
    this.#init.notes.released(released)
  }

  #hold(choice: Choice<Part>, count: number): void {
    choice.held += count
    this.#held += count
    if (this.#held > this.mostHeld) this.mostHeld = this.#held
  }

  #withhold(choice: Choice<Part>, count: number): void {
    this.#hold(choice, -count)
    this.#init.notes.withheld(count)
  }

  /** What is held has bounds: for each lane, for the rules of each origin in all lanes, and for a buffered answer. */
  #checkHeld(choice: Choice<Part>): void {
    const { maxHeld, maxBuffer } = this.#init.limits
    if (this.#buffering) {
      if (this.#held > maxBuffer) this.#stopBuffering(choice)
      return
    }
    if (this.#held <= maxHeld) return
    for (const lane of choice.lanes.values()) {
      for (const follower of lane.holding(maxHeld)) {
        if (this.#deny(choice, follower.name, tooLarge())) return
        lane.without(follower)
      }
    }
    if (this.#held > 4 * maxHeld) {
      for (const origin of ORIGINS) this.#checkHeldFor(origin, 4 * maxHeld)
    }
    this.#settle(choice)
  }

  /** Rules of a request must not cost the key its guards: each origin has its own share. */
  #checkHeldFor(origin: Origin, limit: number): void {
    const holds = this.#choices.flatMap((choice) =>
      [...choice.lanes.values()].flatMap((lane) =>
        lane
          .holding(0)
          .filter((follower) => follower.origin === origin)
          .map((follower) => ({ choice, lane, follower, length: lane.length - follower.safe })),
      ),
    )
    if (holds.reduce((sum, { length }) => sum + length, 0) <= limit) return
    const { choice, lane, follower } = holds.sort((a, b) => b.length - a.length)[0]!
    if (!this.#deny(choice, follower.name, tooLarge())) lane.without(follower)
  }

  /** Too much for guards that want to see the whole. If the answer may go on without them, it goes on as it comes. */
  #stopBuffering(choice: Choice<Part>): void {
    const whole = this.#scouts.filter((scout) => scout.whole)
    const { name } = whole[0] ?? this.#scouts[0]!
    if (this.#deny(choice, name, tooLarge())) return
    this.#scouts = this.#scouts.filter((scout) => !scout.whole)
    this.#readers.clear()
    this.#buffering = false
    this.#buffer = []
    for (const one of this.#choices) {
      for (const lane of one.allLanes) lane.withoutAny(whole)
      for (const fragments of one.fragments.values())
        if (fragments.loose) this.#loosen(one, fragments)
      if (one.denial) this.#sayNo(one)
      else one.over = false
      this.#settle(one)
    }
  }

  /** Lets an answer that was buffered go once it is complete. */
  #flush(): void {
    if (!this.#buffering) return
    if (!this.done && !(this.#ended && this.#choices.every(({ over }) => over))) return
    this.#buffering = false
    for (const choice of this.#choices) choice.opening.length = 0
    for (const piece of this.#buffer) this.#pour(this.#choices[piece.choice]!, piece)
    this.#buffer = []
    for (const choice of this.#choices) {
      if (choice.denial) this.#sayNo(choice)
      else this.#init.notes.released(choice.held)
    }
  }

  #pour(choice: Choice<Part>, piece: Piece<Part>): void {
    const channel = 'channel' in piece ? piece.channel : undefined
    if (choice.denial || (channel && choice.dropped.has(channel))) return
    const item = choice.items.find((one) => one.piece === piece)
    const part = item ? partOf(item) : piece.part
    if (part === undefined) return
    if (piece.kind === 'text') choice.outOf(piece.channel)(part)
    else choice.emit(part)
  }

  #note(halt: Halt, lane: Lane<Part>, dropped: boolean): void {
    const spans = halt.stop.block?.spans ?? []
    const matched = spans.map(({ start, end }) => lane.textBetween(start, end))
    const { choice, channel } = lane.info
    this.#init.notes.found(halt, { choice, channel, matched }, dropped)
  }

  /** A guard could not look. @returns whether that ended the choice */
  #deny(choice: Choice<Part>, guard: string, fault: GuardFault): boolean {
    this.#init.notes.failed(guard, fault)
    if (isForgiven(fault, this.#init.onError)) return false
    this.#refuse(choice, fault)
    return true
  }

  #refuse(choice: Choice<Part>, fault: GuardFault | undefined): void {
    choice.over = true
    choice.denial = { fault }
    for (const lane of choice.allLanes) lane.drop()
    this.#withhold(choice, choice.held)
    if (!this.#buffering || this.#init.errorForm) this.#sayNo(choice)
    if (this.#choices.filter(({ denial }) => denial).length < this.#init.choices) return
    this.done = true
    this.#flush()
  }

  #sayNo({ index, opened, said, denial, emit }: Choice<Part>): void {
    const { fault } = denial!
    const parts = this.#init.refuse({ choice: index, like: this.#like, opened, said, fault })
    for (const part of parts) emit(part)
  }

  #readersOf(channel: Channel): readonly Scout[] {
    let readers = this.#readers.get(channel)
    if (!readers) {
      readers = this.#scouts.filter((scout) => scout.reads(channel))
      this.#readers.set(channel, readers)
    }
    return readers
  }
}

function tooLarge(): GuardFault {
  return new GuardFault('too_large', 'more text than may be held')
}
