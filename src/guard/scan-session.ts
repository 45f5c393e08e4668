/** One guard reading one text of an answer: what it has agreed to, whether it stopped the text, what it is waiting for. */
import type { Channel, Origin, TextStream } from '../plugin.ts'
import { toFault, type BlockVerdict, type GuardFault } from './verdicts.ts'

/** Why nothing more of a text may pass: a guard blocked it, or could not look. `view`: the reading a pattern matched in. */
export type StopReason =
  | { readonly block: BlockVerdict; readonly fault?: undefined; readonly view?: string | undefined }
  | { readonly fault: GuardFault; readonly block?: undefined; readonly view?: undefined }

/** What a check knows of its text. */
export interface TextProgress {
  /** Offset up to which the guard agrees; never decreases. */
  readonly safeOffset: number
  readonly verdict?: BlockVerdict
  /** The reading of the text in which a pattern matched. */
  readonly view?: string
}

/** A promise where the answer takes time. */
export type Answer = TextProgress | Promise<TextProgress>

/**
 * How a guard is asked about one text. A promise means that the answer takes time: for local guards because other calls
 * get their turn, for remote ones because they ask a service.
 * @throws GuardFault or any error of the guard, also as a rejection: it could not look
 */
export interface TextCheck {
  /**
   * Whether more text may be pushed while an answer is outstanding. The promise then stands for the next answer, and an
   * empty `push` asks what came after it.
   */
  readonly concurrent?: boolean
  push(text: string): Answer
  /** The text is complete. */
  end(): Answer
  /** No text came for a while: what is there may be judged. */
  idle?(): void
}

/** A guard that reads output. */
export interface OutputScanner {
  /** The instance's name. */
  readonly guard: string
  readonly origin: Origin
  readonly local: boolean
  /** Needs the complete text before it agrees to any of it. */
  readonly needsFullText: boolean
  reads(channel: Channel): boolean
  /**
   * Begins to read a text.
   * @param atOnce nothing of the text goes out before it is complete, so it may be asked about once, at its end
   * @param proceed throws when the answer is no longer wanted; without it a local guard answers at once, however long it takes
   */
  check(stream: TextStream, atOnce: boolean, proceed?: () => void): TextCheck
}

/** A guard that stopped a text, and why. */
export interface Stopped {
  readonly session: ScanSession
  readonly stop: StopReason
}

/** The same, with the offset up to which text may still go out. */
export interface BlockedAt extends Stopped {
  readonly safeOffset: number
}

interface SessionOptions {
  /** See {@link OutputScanner.check}. */
  readonly atOnce: boolean
  /** Called when an answer that was outstanding has come. */
  readonly changed: () => void
}

/** Ends sliced work of a session that was closed. */
const CLOSED = new Error('the scan session is closed')

/** One guard on one text. Text that is pushed while an answer is outstanding is queued. */
export class ScanSession {
  readonly guard: string
  readonly origin: Origin
  /** Offset up to which the guard agrees; never decreases. */
  safeOffset = 0
  stop: StopReason | undefined = undefined
  /** `busy`: later text of the answer has to wait for this guard. `pending`: the guard may answer without more text. */
  state: 'ready' | 'busy' | 'pending' = 'ready'
  readonly #check: TextCheck
  readonly #waiting: 'busy' | 'pending'
  readonly #changed: (() => void) | undefined
  #outstanding: Promise<TextProgress> | undefined
  #queue = ''
  #ending = false
  #closed = false

  /** @param options without them every answer of a local guard comes at once */
  constructor(scanner: OutputScanner, stream: TextStream, options?: SessionOptions) {
    this.guard = scanner.guard
    this.origin = scanner.origin
    this.#waiting = scanner.local ? 'busy' : 'pending'
    this.#changed = options?.changed
    this.#check = options
      ? scanner.check(stream, options.atOnce, this.#proceed.bind(this))
      : scanner.check(stream, false)
  }

  push(text: string): void {
    if (this.stop || this.#closed) return
    if (this.#outstanding && !this.#check.concurrent) {
      this.#queue += text
      return
    }
    try {
      this.#take(this.#check.push(text))
    } catch (error) {
      this.#fail(error)
    }
  }

  /** The text is complete. */
  end(): void {
    if (this.stop || this.#closed) return
    if (this.#outstanding && !this.#check.concurrent) {
      this.#ending = true
      return
    }
    try {
      this.#take(this.#check.end())
    } catch (error) {
      this.#fail(error)
    }
  }

  /** No text came for a while: what is there may be judged. */
  idle(): void {
    if (!this.#check.idle) return
    this.#check.idle()
    this.push('')
  }

  /** The guard's answer does not matter any more. */
  close(): void {
    this.#closed = true
    this.state = 'ready'
  }

  #take(answer: Answer): void {
    if (!(answer instanceof Promise)) this.#advance(answer)
    else if (answer !== this.#outstanding) void this.#wait(answer)
  }

  #advance({ safeOffset, verdict, view }: TextProgress): void {
    if (safeOffset > this.safeOffset) this.safeOffset = safeOffset
    if (verdict) this.stop ??= { block: verdict, view }
  }

  async #wait(answer: Promise<TextProgress>): Promise<void> {
    this.#outstanding = answer
    this.state = this.#waiting
    try {
      this.#advance(await answer)
    } catch (error) {
      this.#fail(error)
    }
    if (this.#closed) return
    if (this.#outstanding === answer) {
      this.#outstanding = undefined
      this.state = 'ready'
      this.#goOn()
    }
    this.#changed?.()
  }

  /** Hands on what was queued, and asks a concurrent check whether there is more to wait for. */
  #goOn(): void {
    const text = this.#queue
    this.#queue = ''
    if (text !== '' || this.#check.concurrent) this.push(text)
    if (!this.#ending || this.#outstanding) return
    this.#ending = false
    this.end()
  }

  #fail(error: unknown): void {
    this.stop ??= { fault: toFault(error) }
  }

  #proceed(): void {
    if (this.#closed) throw CLOSED
  }
}
