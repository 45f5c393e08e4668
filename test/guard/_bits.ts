/** Answers made of plain texts, to test a screen without an endpoint. */
import type { OutputCodec, OutputPiece } from '../../src/guard/adapter.ts'
import type { Channel } from '../../src/plugin.ts'

export interface Bit {
  readonly choice?: number
  readonly channel?: Channel
  readonly text?: string
  readonly finish?: boolean
  /** The text of a refusal. */
  readonly refused?: string
}

export const bitCodec: OutputCodec<Bit> = {
  split(part, take) {
    const { choice = 0, channel = 'content', text, finish } = part
    let piece: OutputPiece<Bit>
    if (finish) piece = { kind: 'finish', choice, part }
    else if (text === undefined) piece = { kind: 'mark', choice, opens: true, part }
    else if (channel === 'tool_call') {
      piece = { kind: 'fragment', choice, channel, index: 0, size: text.length, part }
    } else {
      const droppable = channel === 'reasoning'
      piece = { kind: 'text', choice, channel, text, droppable, part }
    }
    take(piece)
  },
  cut: ({ part, text }, start, end) => ({ ...part, text: text.slice(start, end) }),
  assemble(fragments) {
    const [{ part, choice, channel, index }] = fragments as [(typeof fragments)[0]]
    const text = fragments.map((fragment) => fragment.part.text).join('')
    const whole = { ...part, text }
    return { kind: 'whole', choice, channel, index, part: whole, texts: [{ text }] }
  },
}
