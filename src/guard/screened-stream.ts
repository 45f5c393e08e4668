/** An answer while guards look at it: reads, waits for guards, and gives out what they agree to. */
import type { Batch, Flow, Origin, Source } from '../plugin.ts'
import type { OutputScreen } from './output-screen.ts'

export interface ScreenedStreamInit<Part> {
  readonly parts: Flow<Part>
  /** Absent where no guard reads the answer. */
  readonly screen?: OutputScreen<Part> | undefined
  /** False: parts pass unchanged, findings are recorded, and nothing waits. */
  readonly enforce: boolean
  /** The first part waits for it. A flow takes the place of the answer. */
  readonly inputVerdict?: Promise<Flow<Part> | undefined> | undefined
  /** ms without new parts after which guards judge an unfinished segment. */
  readonly idleMs: number
  /** ms that the guards of one origin may keep the answer waiting in all. */
  readonly stallMs: number
  /**
   * Called once, when guards look at nothing more.
   * @param stalledMs that the answer waited for guards only
   * @param complete guards have seen the whole answer, or refused it
   */
  readonly closed?: (stalledMs: number, complete: boolean) => void
}

type Wake = Origin | 'idle' | 'news'
const ORIGINS: readonly Origin[] = ['key', 'request']
const END: Batch<never> = { parts: [], last: true }
const ignore = () => {}

/** Parts that every guard agreed to, or all parts where nothing is enforced. */
export class ScreenedStream<Part> implements Source<Part> {
  readonly #init: ScreenedStreamInit<Part>
  #verdict: Promise<Flow<Part> | undefined> | undefined
  #replacement: Flow<Part> | undefined
  /** Parts that guards agreed to. */
  #released: Part[] = []
  /** A batch that has arrived, less the parts that were pushed. */
  #arrived: Batch<Part> | undefined
  #reading = false
  #failure: { readonly error: unknown } | undefined
  /** All parts were pushed. */
  #ended = false
  #closed = false
  /** Guards look at nothing more. */
  #screened: boolean
  /** A guard has answered. */
  #hasNews = false
  #wake: (wake: Wake) => void = ignore
  readonly #stalledMs = { key: 0, request: 0 }

  constructor(init: ScreenedStreamInit<Part>) {
    const { screen, enforce, inputVerdict } = init
    this.#init = init
    this.#verdict = inputVerdict
    // It may fail before the first part is asked for.
    inputVerdict?.catch(ignore)
    this.#screened = screen === undefined
    if (!screen) return
    if (enforce) screen.emit = (part) => void this.#released.push(part)
    screen.changed = () => {
      this.#hasNews = true
      if (enforce) this.#wake('news')
      else this.#observe(screen)
    }
  }

  next(): Promise<Batch<Part>> {
    if (this.#replacement) return this.#replacement.next()
    return this.#verdict ? this.#nextAfter(this.#verdict) : this.#next()
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    if (this.#init.enforce || !this.#ended) this.#finish(this.#isComplete)
    this.#wake('news')
    await this.#init.parts.close()
  }

  #next(): Promise<Batch<Part>> {
    const { screen, enforce, parts } = this.#init
    if (!screen) return parts.next()
    return enforce ? this.#nextReleased(screen) : this.#nextObserved(screen)
  }

  /** The answer is read and screened while the verdict on the input is awaited. */
  async #nextAfter(verdict: Promise<Flow<Part> | undefined>): Promise<Batch<Part>> {
    const first = this.#next()
    first.catch(ignore)
    try {
      this.#replacement = await verdict
    } catch (error) {
      await this.close()
      throw error
    }
    this.#verdict = undefined
    if (!this.#replacement) return first
    await this.close()
    return this.#replacement.next()
  }

  async #nextReleased(screen: OutputScreen<Part>): Promise<Batch<Part>> {
    try {
      for (;;) {
        if (this.#closed) return END
        this.#advance(screen)
        if (this.#released.length > 0 || this.#isComplete) break
        await this.#wait(screen)
      }
    } catch (error) {
      // What was released before a failure goes out before it.
      if (this.#released.length === 0) {
        await this.close()
        throw error
      }
      this.#failure = { error }
    }
    const parts = this.#released
    this.#released = []
    const last = !this.#failure && this.#isComplete
    if (last) await this.close()
    return { parts, last }
  }

  /** Takes in what guards have said, then what has arrived. */
  #advance(screen: OutputScreen<Part>): void {
    if (this.#failure) throw this.#failure.error
    if (this.#hasNews) {
      this.#hasNews = false
      screen.update()
    }
    if (this.#arrived) this.#arrived = this.#push(screen, this.#arrived)
  }

  /** Pushes a batch up to a part for which a guard takes its time. @returns what is left of it */
  #push(screen: OutputScreen<Part>, { parts, last }: Batch<Part>): Batch<Part> | undefined {
    let pushed = 0
    while (pushed < parts.length && !screen.busy && !screen.done) screen.push(parts[pushed++]!)
    if (!screen.busy) screen.batchEnd()
    if (screen.busy) return { parts: parts.slice(pushed), last }
    if (!last || screen.done) return undefined
    this.#ended = true
    screen.end()
    return undefined
  }

  /** Waits for parts, or for guards; for these no longer than they may take. */
  async #wait(screen: OutputScreen<Part>): Promise<void> {
    if (!this.#reading && !this.#arrived && !this.#ended && screen.wantsMore) {
      if (!screen.isRemote && !screen.pending) {
        this.#arrived = await this.#init.parts.next()
        return
      }
      this.#read()
    }
    if (this.#hasNews) return
    const { promise, resolve } = Promise.withResolvers<Wake>()
    this.#wake = resolve
    const waitsForParts = this.#reading && screen.buffering
    // A client that gets everything at the end waits for guards only once all of it has come.
    const origins = waitsForParts ? [] : ORIGINS.filter((origin) => screen.waitsFor(origin))
    const limits = origins.map((origin): [Wake, number] => {
      return [origin, this.#init.stallMs - this.#stalledMs[origin]]
    })
    if (this.#reading && screen.isRemote && !screen.buffering) {
      limits.push(['idle', this.#init.idleMs])
    }
    const [first] = limits.sort(([, a], [, b]) => a - b)
    const timer = first && setTimeout(() => resolve(first[0]), first[1])
    const started = performance.now()
    const wake = await promise
    clearTimeout(timer)
    for (const origin of origins) this.#stalledMs[origin] += performance.now() - started
    if (this.#closed) return
    if (wake === 'idle') screen.idle()
    else if (wake !== 'news') screen.timeOut(wake)
  }

  #read(): void {
    this.#reading = true
    void this.#init.parts
      .next()
      .then(
        (batch) => void (this.#arrived = batch),
        (error: unknown) => void (this.#failure = { error }),
      )
      .then(() => {
        this.#reading = false
        this.#wake('news')
      })
  }

  async #nextObserved(screen: OutputScreen<Part>): Promise<Batch<Part>> {
    let batch: Batch<Part>
    try {
      batch = await this.#init.parts.next()
    } catch (error) {
      this.#finish(false)
      throw error
    }
    this.#observe(screen, batch)
    return batch
  }

  /** Has guards look at what has come, or act on what they have said. What fails there ends the looking and nothing else. */
  #observe(screen: OutputScreen<Part>, batch?: Batch<Part>): void {
    if (this.#screened) return
    try {
      if (batch) {
        for (const part of batch.parts) if (!screen.done) screen.push(part)
        screen.batchEnd()
        this.#ended = batch.last
        if (batch.last) screen.end()
      } else screen.update()
    } catch {
      return this.#finish(false)
    }
    if (this.#isComplete) this.#finish(true)
    else if (screen.overflows) this.#finish(false)
  }

  /** Nothing is left to look at. */
  get #isComplete(): boolean {
    const { screen } = this.#init
    return screen === undefined || screen.done || (this.#ended && !screen.pending)
  }

  #finish(complete: boolean): void {
    if (this.#screened) return
    this.#screened = true
    this.#init.screen!.close()
    const stalledMs = Math.max(this.#stalledMs.key, this.#stalledMs.request)
    this.#init.closed?.(stalledMs, complete)
  }
}
