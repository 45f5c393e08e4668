/** Something of an answer that goes out whole or not at all, such as a tool call, with the guards that read it. */
import type { AtomicPiece } from './adapter.ts'
import type { OutputScanner } from './scan-session.ts'
import { ScreenedText } from './screened-text.ts'

export class AtomicItem<Part> {
  readonly piece: AtomicPiece<Part>
  readonly texts: readonly { readonly text: ScreenedText<Part>; readonly index: number }[]
  /** Characters that are retained for it. */
  readonly size: number
  readonly #dropped = new Set<number>()

  /**
   * @param scanners local ones first
   * @param changed called when a guard has answered that was waited for
   * @param retained characters of it that are retained already
   */
  constructor(
    piece: AtomicPiece<Part>,
    scanners: readonly OutputScanner[],
    changed: () => void,
    retained: number,
  ) {
    const { choice, channel, index, part } = piece
    const locals = scanners.filter((scanner) => scanner.local)
    let size = retained
    this.piece = piece
    this.texts = piece.texts.map(({ text: said, duplicate, item = 0 }) => {
      const stream = { channel, choice, index }
      const readers = duplicate ? locals : scanners
      const text = new ScreenedText<Part>(stream, readers, changed, { atOnce: true })
      text.retain({ kind: 'text', choice, part, channel, text: said })
      text.tell()
      text.end()
      if (!retained && !duplicate) size += said.length
      return { text, index: item }
    })
    this.size = size
  }

  /** All guards have agreed to it, or to what is left of it. */
  get hasPassed(): boolean {
    return this.texts.every(({ text }) => !text.isPending)
  }

  /** The part that goes out; nothing if nothing is left. */
  get part(): Part | undefined {
    return this.#dropped.size > 0 ? this.piece.withoutItems!(this.#dropped) : this.piece.part
  }

  /** Leaves one item of several out. */
  drop(index: number, text: ScreenedText<Part>): void {
    this.#dropped.add(index)
    text.drop()
  }
}
