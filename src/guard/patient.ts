/**
 * Drives a screen whose guards answer later (guard design, 3.4, 3.11, 3.12): reads on while they think, within bounds,
 * and lets go in order what they agree to.
 */
import type { Batch, Flow, Origin, Source } from '../plugin.ts'
import type { Screen } from './screen.ts'
import { nextTurn, someOf, type Steps } from '../patterns/time-slice.ts'
import { GuardFault } from './verdicts.ts'

export interface PatientInit<Part> {
  readonly screen: Screen<Part>
  readonly answer: Flow<Part>
  /** ms without new parts after which an unfinished segment is judged as it is. */
  readonly idleMs: number
  /** ms that guards may keep an answer waiting altogether, those of each origin. */
  readonly stallMs: number
  /** Whether the client would not get anything before the end anyway. */
  readonly buffer: boolean
  /** Told once at the end how long the client waited for guards only, in ms. */
  readonly left: (stalledMs: number) => void
}

type Wait = Origin | 'idle' | 'more'
const ORIGINS: readonly Origin[] = ['key', 'request']
const nobody = () => {}

/** Parts that have passed. Reads only while somebody waits for a part. */
export class Patient<Part> implements Source<Part> {
  readonly #init: PatientInit<Part>
  readonly #emit: (part: Part) => void
  #out: Part[] = []
  #reading = false
  #arrived: Batch<Part> | undefined
  /** What is left to do with that. */
  #taking: Steps<Batch<Part> | undefined> | undefined
  #failure: { readonly error: unknown } | undefined
  #ended = false
  #closed = false
  readonly #stalledMs = { key: 0, request: 0 }
  #wake: (wait: Wait) => void = nobody

  constructor(init: PatientInit<Part>) {
    this.#init = init
    // Bound, not made (see `Screen`).
    this.#emit = this.#keep.bind(this)
    init.screen.changed = this.#hear.bind(this)
  }

  async next(): Promise<Batch<Part>> {
    const { screen } = this.#init
    if (this.#closed) return { parts: [], last: true }
    try {
      if (this.#failure) throw this.#failure.error
      for (;;) {
        screen.update(this.#emit)
        if (this.#out.length > 0 || this.#finished()) return await this.#batch()
        if (!this.#reading && !this.#ended && !this.#arrived && screen.hungry) this.#read()
        const { looking } = screen
        const came = await this.#something()
        if (this.#closed) return { parts: [], last: true }
        // What was found counts before what follows it.
        if (looking && !screen.looking) continue
        if (came === 'idle') screen.idle()
        if (came === 'key' || came === 'request') {
          const fault = new GuardFault('timeout', 'guards kept the answer waiting')
          screen.giveUp(came, fault, this.#emit)
        }
        this.#takeIn()
      }
    } catch (error) {
      // What passed before the failure has to go out before it.
      if (this.#out.length > 0 && !this.#failure) {
        this.#failure = { error }
        return { parts: this.#out.splice(0), last: false }
      }
      await this.close()
      throw error
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const { screen, answer, left } = this.#init
    screen.leave()
    left(Math.max(this.#stalledMs.key, this.#stalledMs.request))
    this.#wake('more')
    await answer.close()
  }

  #keep(part: Part): void {
    this.#out.push(part)
  }

  #hear(): void {
    this.#wake('more')
  }

  async #batch(): Promise<Batch<Part>> {
    const parts = this.#out.splice(0)
    const last = this.#finished()
    if (last) await this.close()
    return { parts, last }
  }

  #finished(): boolean {
    return this.#init.screen.done || (this.#ended && !this.#init.screen.waiting)
  }

  #read(): void {
    this.#reading = true
    this.#init.answer
      .next()
      .then(
        (batch) => void (this.#arrived = batch),
        (error: unknown) => void (this.#failure = { error }),
      )
      .then(() => {
        this.#reading = false
        this.#wake('more')
      })
  }

  #takeIn(): void {
    if (this.#failure) throw this.#failure.error
    if (!this.#arrived || this.#init.screen.looking) return
    this.#taking ??= this.#take(this.#arrived)
    const { done, value } = someOf(this.#taking)
    if (!done) return
    this.#taking = undefined
    this.#arrived = value ?? undefined
  }

  /** @returns what has to wait for a guard */
  *#take({ parts, last }: Batch<Part>): Steps<Batch<Part> | undefined> {
    const { screen } = this.#init
    for (const [index, part] of parts.entries()) {
      screen.push(part, this.#emit)
      if (screen.done) return undefined
      if (screen.looking) return { parts: parts.slice(index + 1), last }
      yield
    }
    if (!last) return undefined
    this.#ended = true
    screen.end(this.#emit)
    return undefined
  }

  /** Waits for a part or an answer of a guard; at most for so long, and says for whom it was too long. */
  async #something(): Promise<Wait> {
    const { screen, idleMs, stallMs, buffer } = this.#init
    // Others have their turn before the rest of what has arrived is looked at.
    if (this.#taking) await new Promise<void>(nextTurn)
    if ((this.#arrived && !screen.looking) || this.#failure) return 'more'
    const { promise, resolve } = Promise.withResolvers<Wait>()
    this.#wake = resolve
    // A client that gets everything at the end waits for guards only once that has come.
    const stalled =
      buffer && this.#reading ? [] : ORIGINS.filter((origin) => screen.waitsFor(origin))
    const ends: [wait: Wait, ms: number][] = stalled.map((origin) => {
      return [origin, stallMs - this.#stalledMs[origin]]
    })
    if (this.#reading && !buffer) ends.push(['idle', idleMs])
    const [first] = ends.sort(([, a], [, b]) => a - b)
    const timer = first && setTimeout(() => resolve(first[0]), first[1])
    const started = performance.now()
    const came = await promise
    clearTimeout(timer)
    for (const origin of stalled) this.#stalledMs[origin] += performance.now() - started
    return came
  }
}
