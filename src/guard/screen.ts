/**
 * Screens one answer while it goes by (guard design, 3). Text goes out when all guards agree; what they hold is held, what
 * they block becomes a refusal. Synchronous: while all guards are local it is a step of the reply's flow; where guards
 * answer later, somebody calls `update` when they have.
 */
import type { Origin, Step } from '../plugin.ts'
import { holdsOf, tooLarge, worstHolds, type Hold } from './bounds.ts'
import { Choice, hasPassed, itemOf, partOf, type Fragments } from './screened-choice.ts'
import { Lane, type Blocked, type Halt } from './screened-text.ts'
import type {
  FragmentPiece,
  PassthroughPiece,
  OutputPiece,
  TextPiece,
  AtomicPiece,
} from './adapter.ts'
import { Readers } from './scanners.ts'
import type { ScreenInit } from './screen-types.ts'
import { atOnce, inTurns } from '../patterns/time-slice.ts'
import { isTolerated, type GuardFault } from './verdicts.ts'

/** Where a longer text is blocked is found out in turns with others. */
const LONG = 1 << 14
const nothing = () => {}
/** Said to whom nobody listens. */
const LEFT = new Error('nobody waits for this screen')

export class Screen<Part> implements Step<Part, Part> {
  /** Nothing more is wanted. */
  done = false
  /** Called when a guard that was waited for has answered. */
  changed: () => void = nothing
  /** Characters that came in and did not go out. */
  held = 0
  /** The most of them after any part. */
  mostHeld = 0
  readonly #init: ScreenInit<Part>
  readonly #choices: Choice<Part>[] = []
  #readers: Readers
  /** The answer, where it goes out as a whole. */
  #buffer: OutputPiece<Part>[] = []
  #buffering: boolean
  #ended = false
  /** The lane to which text came that guards have not been told yet. */
  #untold: Lane<Part> | undefined
  /** The lane to which text came last. */
  #looked: Lane<Part> | undefined
  /** Lanes that are blocked, of which it takes a while to find out where; nothing until that is known. */
  readonly #blocked = new Map<Lane<Part>, Blocked | undefined>()
  #locating = 0
  #like: Part | undefined
  #emit: (part: Part) => void = nothing
  // Bound, not made: of functions that are made and never called V8 keeps all that they see until a full collection.
  readonly #take = this.#piece.bind(this)
  readonly #removed = this.#remove.bind(this)
  readonly #changed = this.#change.bind(this)

  constructor(init: ScreenInit<Part>) {
    this.#init = init
    this.#readers = new Readers(init.scouts)
    this.#buffering = init.buffer
  }

  /** Some guard may still answer. */
  get waiting(): boolean {
    return this.#locating > 0 || this.waitsFor('key') || this.waitsFor('request')
  }

  /** Some guard that looks after these rules may still answer. */
  waitsFor(origin: Origin): boolean {
    return this.#choices.some(
      (choice) =>
        !choice.over &&
        choice.allLanes.some((lane) => lane.late.some((follower) => follower.origin === origin)),
    )
  }

  /** Some guard looks at text that has come, and what follows has to wait: else it mattered how fast it is. */
  get looking(): boolean {
    return (this.#locating > 0 || this.#looked?.looking === true) && !this.done
  }

  /** Whether more of the answer may come before guards have answered. */
  get hungry(): boolean {
    const { limits } = this.#init
    return this.held < (this.#buffering ? limits.maxBuffer : limits.maxHeld) || !this.waiting
  }

  push(part: Part, emit: (part: Part) => void): void {
    this.gather(part, emit)
    this.batchEnd(emit)
  }

  /** Takes a part in. Texts of one lane that come together are looked at together, at the latest by `flush`. */
  gather(part: Part, emit: (part: Part) => void): void {
    this.#emit = emit
    this.#like = part
    this.#init.lanes.split(part, this.#take, this.#removed)
  }

  batchEnd(emit: (part: Part) => void): void {
    this.#emit = emit
    this.#tell()
    if (this.held > this.mostHeld) this.mostHeld = this.held
  }

  /** The answer is complete. With guards that answer later, `update` until nothing is `waiting`. */
  end(emit: (part: Part) => void): void {
    this.#emit = emit
    this.#tell()
    this.#ended = true
    for (const choice of this.#choices) this.#finish(choice)
    this.#pour()
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
      if (!choice.over) this.#checkHeld(choice)
    }
    this.#pour()
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
          this.#excuse({ choice, lane, follower }, fault)
        }
      }
      this.#settle(choice)
    }
    this.#pour()
  }

  /** Nobody reads on. */
  leave(): void {
    this.done = true
    for (const { allLanes } of this.#choices) for (const lane of allLanes) lane.drop()
  }

  #remove(field: string): void {
    this.#init.notes.removed(field)
  }

  #change(): void {
    this.changed()
  }

  #piece(piece: OutputPiece<Part>): void {
    if (this.#untold && !isOf(this.#untold, piece)) this.#tell()
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
      this.#choices.push(new Choice<Part>(i, (part) => this.#say(i, part)))
    }
    return this.#choices[index]!
  }

  /** Choices open in ascending order (wire contract, S3). */
  #say(index: number, part: Part): void {
    for (let i = 0; i <= index; i++) this.#choices[i]!.open(this.#emit)
    this.#emit(part)
  }

  #text(choice: Choice<Part>, piece: TextPiece<Part>): void {
    const { channel, text } = piece
    if (choice.dropped.size > 0 && choice.dropped.has(channel)) {
      return this.#init.notes.withheld(text.length)
    }
    this.#untold ??= choice.lanes.get(channel) ?? this.#openLane(choice, piece)
    this.#untold.hold(piece)
  }

  #openLane(choice: Choice<Part>, { channel, droppable }: TextPiece<Part>): Lane<Part> {
    const info = { channel, choice: choice.index, index: 0 }
    const { atOnce } = this.#init
    const readers = this.#readers.of(channel)
    const lane = new Lane<Part>(info, readers, this.#changed, { droppable, atOnce })
    choice.lanes.set(channel, lane)
    return lane
  }

  /** Has guards look at the texts of one lane that came together. */
  #tell(): void {
    const lane = this.#untold
    if (!lane) return
    this.#untold = undefined
    const choice = this.#choices[lane.info.choice]!
    const text = lane.tell()
    this.#looked = lane
    this.#hold(choice, text.length)
    if (!lane.looking) this.#halted(choice, lane, text)
    if (choice.over || this.#blocked.has(lane)) return
    if (choice.lanes.has(lane.info.channel)) this.#release(choice, lane)
    this.#checkHeld(choice)
  }

  #mark(choice: Choice<Part>, piece: PassthroughPiece<Part>): void {
    const { channel, opens, keptWhenDropped: lasting, part } = piece
    if (channel && !lasting && choice.dropped.has(channel)) return
    const lane = channel && choice.lanes.get(channel)
    if (lane && !lane.empty) return lane.hold(piece)
    if (this.#buffering || (opens && this.#init.errorForm)) choice.opening.push(part)
    else choice.emit(part)
  }

  #fragment(choice: Choice<Part>, piece: FragmentPiece<Part>): void {
    const { channel, size } = piece
    const fragments = choice.gather(piece)
    this.#hold(choice, size)
    const [reader] = this.#readers.of(channel)
    const { maxToolCall, maxBuffer } = this.#init.limits
    if (reader && !fragments.loose) {
      if (fragments.size <= maxToolCall && this.held <= maxBuffer) return
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
  #whole(choice: Choice<Part>, piece: AtomicPiece<Part>, held = 0): void {
    if (piece.unscanned) this.#init.notes.unscanned(piece.unscanned)
    const item = itemOf(piece, this.#readers.of(piece.channel), this.#changed, held)
    this.#hold(choice, item.size - held)
    choice.items.push(item)
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
      if (pieces.length > 0 && !loose) this.#whole(choice, this.#init.lanes.assemble!(pieces), size)
    }
    this.#settle(choice)
  }

  /** Sees what guards have said. */
  #look(choice: Choice<Part>): void {
    for (const lane of choice.lanes.values()) {
      if (!choice.over && !lane.looking) this.#halted(choice, lane, '')
    }
    if (!choice.over) this.#lookAtItems(choice)
  }

  /** @param last the text that came last */
  #halted(choice: Choice<Part>, lane: Lane<Part>, last: string): void {
    const halt = this.#blockOf(choice, lane)
    if (!halt) return
    const blocked = this.#blockedIn(choice, lane, halt, last)
    if (!blocked) return
    this.#release(choice, lane, blocked.safe)
    this.#note(blocked, lane, lane.droppable)
    if (!lane.droppable) return this.#refuse(choice, undefined)
    choice.dropped.add(lane.info.channel)
    choice.lanes.delete(lane.info.channel)
    const { lasting } = lane
    this.#withhold(choice, lane.drop())
    if (!this.#buffering) for (const part of lasting) choice.emit(part)
  }

  /** Where a lane is blocked, as far as that is known. */
  #blockedIn(
    choice: Choice<Part>,
    lane: Lane<Part>,
    halt: Halt,
    last: string,
  ): Blocked | undefined {
    if (this.#blocked.has(lane)) return this.#blocked.get(lane)
    const steps = lane.blocked(halt, last)
    if (lane.length <= LONG) return atOnce(steps)
    const blocked = inTurns(steps, () => {
      if (this.done || choice.over) throw LEFT
    })
    if (!(blocked instanceof Promise)) return blocked
    this.#blocked.set(lane, undefined)
    this.#locating++
    void blocked
      .catch(() => ({ ...halt, safe: lane.released }))
      .then((found) => {
        this.#blocked.set(lane, found)
        this.#locating--
        this.changed()
      })
    return undefined
  }

  #lookAtItems(choice: Choice<Part>): void {
    for (const { piece, lanes, dropped } of choice.items) {
      for (const { lane, index } of lanes) {
        const halt = this.#blockOf(choice, lane)
        if (choice.over) return
        if (!halt) continue
        this.#note(halt, lane, piece.withoutItems !== undefined)
        if (!piece.withoutItems) return this.#refuse(choice, undefined)
        dropped.add(index)
        lane.drop()
      }
    }
  }

  /** Who blocks a lane, if anybody does; nobody where a guard could not look and that ended the choice. */
  #blockOf(choice: Choice<Part>, lane: Lane<Part>): Halt | undefined {
    for (let halt = lane.halt; halt; halt = lane.halt) {
      const { follower, stop } = halt
      if (!stop.fault) return halt
      if (this.#excuse({ choice, lane, follower }, stop.fault)) return undefined
    }
    return undefined
  }

  /** Lets go of what all guards agree to. */
  #settle(choice: Choice<Part>): void {
    if (choice.over) return
    for (const lane of choice.lanes.values()) {
      if (this.#blocked.has(lane)) return
      this.#release(choice, lane)
    }
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
    this.held += count
  }

  #withhold(choice: Choice<Part>, count: number): void {
    this.#hold(choice, -count)
    this.#init.notes.withheld(count)
  }

  /** What is held has bounds: for each lane, for the rules of each origin in all lanes, and for a buffered answer. */
  #checkHeld(choice: Choice<Part>): void {
    // What is blocked holds nothing for long.
    if (this.#locating > 0) return
    const { maxHeld, maxBuffer } = this.#init.limits
    if (this.#buffering) {
      if (this.held > maxBuffer) this.#stopBuffering(choice)
      return
    }
    // What came at once is in memory anyway, and is looked at when it is complete.
    if (this.held <= maxHeld || this.#init.atOnce) return
    for (const hold of holdsOf(choice, maxHeld)) if (this.#excuse(hold, tooLarge())) return
    if (this.held > 4 * maxHeld) {
      for (const hold of worstHolds(this.#choices, 4 * maxHeld)) this.#excuse(hold, tooLarge())
    }
    this.#settle(choice)
  }

  /** Too much for guards that want to see the whole. If the answer may go on without them, it goes on as it comes. */
  #stopBuffering(choice: Choice<Part>): void {
    const { all } = this.#readers
    const whole = all.filter((scout) => scout.whole)
    const { name } = whole[0] ?? all[0]!
    if (this.#deny(choice, name, tooLarge())) return
    this.#readers = new Readers(all.filter((scout) => !scout.whole))
    this.#buffering = false
    this.#buffer = []
    for (const one of this.#choices) {
      for (const lane of one.allLanes) lane.withoutAny(whole)
      for (const fragments of one.fragments.values())
        if (fragments.loose) this.#loosen(one, fragments)
      if (one.denial) {
        one.opening.length = 0
        this.#sayNo(one)
      } else one.over = false
      this.#settle(one)
    }
  }

  /** Lets an answer that was buffered go once it is complete. */
  #pour(): void {
    if (!this.#buffering) return
    if (!this.done && !(this.#ended && this.#choices.every(({ over }) => over))) return
    this.#buffering = false
    for (const choice of this.#choices) choice.opening.length = 0
    // A choice that is refused has its place all the same: they open in order.
    const refuse = (choice: Choice<Part>) => choice.opened || this.#sayNo(choice)
    for (const piece of this.#buffer) {
      const choice = this.#choices[piece.choice]!
      if (choice.denial) refuse(choice)
      else choice.pour(piece)
    }
    this.#buffer = []
    for (const choice of this.#choices) {
      if (choice.denial) refuse(choice)
      else this.#init.notes.released(choice.held)
    }
  }

  #note(halt: Halt, lane: Lane<Part>, dropped: boolean): void {
    const spans = halt.stop.block?.spans ?? []
    const matched = spans.map(({ start, end }) => lane.textBetween(start, end))
    const { choice, channel } = lane.info
    this.#init.notes.found(halt, { choice, channel, matched }, dropped)
  }

  /** Goes on without a guard that could not look, where that is allowed. @returns whether it ended the choice */
  #excuse({ choice, lane, follower }: Hold<Part>, fault: GuardFault): boolean {
    if (this.#deny(choice, follower.name, fault)) return true
    lane.without(follower)
    return false
  }

  /** A guard could not look. @returns whether that ended the choice */
  #deny(choice: Choice<Part>, guard: string, fault: GuardFault): boolean {
    this.#init.notes.failed(guard, fault)
    if (isTolerated(fault, this.#init.onError)) return false
    this.#refuse(choice, fault)
    return true
  }

  #refuse(choice: Choice<Part>, fault: GuardFault | undefined): void {
    choice.over = true
    choice.denial = { fault }
    for (const lane of choice.allLanes) lane.drop()
    this.#withhold(choice, choice.held)
    if (!this.#buffering || this.#init.errorForm) this.#sayNo(choice)
    // Some vendors answer more often than they were asked to.
    const all = Math.max(this.#init.choices, this.#choices.length)
    if (this.#choices.filter(({ denial }) => denial).length < all) return
    this.done = true
    this.#pour()
  }

  #sayNo({ index, opened, said, denial, emit }: Choice<Part>): void {
    const { fault } = denial!
    const parts = this.#init.refuse({
      choice: index,
      sample: this.#like,
      opened,
      hasText: said,
      fault,
    })
    for (const part of parts) emit(part)
  }
}

/** Whether a piece is a further text of a lane. */
function isOf<Part>({ info }: Lane<Part>, piece: OutputPiece<Part>): boolean {
  return piece.kind === 'text' && piece.channel === info.channel && piece.choice === info.choice
}
