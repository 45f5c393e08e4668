/**
 * Models without a reasoning parser write their thoughts into the answer: `<think>…</think>`, then the text.
 * Tags are honoured at the head of an answer only, so that an answer may speak about them.
 */

/**
 * How the tags come: written out by the model, as `<think>` or as `<thinking>`, or the opening one already put there by
 * the chat template.
 */
export const THINK_TAGS = ['tags', 'thinking-tags', 'prefilled-tags'] as const
export type ThinkTags = (typeof THINK_TAGS)[number]

/** What a piece of an answer turned out to be. Either may be empty. */
export interface Thought {
  readonly reasoning: string
  readonly content: string
}

/** Splits an answer that arrives in pieces, wherever they are cut. */
export class ThinkSplitter {
  readonly #opening: string
  readonly #closing: string
  #state: 'head' | 'thinking' | 'gap' | 'answer'
  #held = ''

  constructor(tags: ThinkTags) {
    const name = tags === 'thinking-tags' ? 'thinking' : 'think'
    this.#opening = `<${name}>`
    this.#closing = `</${name}>`
    this.#state = tags === 'prefilled-tags' ? 'thinking' : 'head'
  }

  /** What is certain by now; a piece that may be the start of a tag is held back. */
  push(piece: string): Thought {
    if (this.#state === 'answer') return { reasoning: '', content: piece }
    let rest = this.#held + piece
    this.#held = ''
    let reasoning = ''
    if (this.#state === 'head') {
      const text = rest.trimStart()
      if (this.#opening.startsWith(text) && text !== this.#opening) {
        this.#held = rest
        return { reasoning, content: '' }
      }
      this.#state = text.startsWith(this.#opening) ? 'thinking' : 'answer'
      if (this.#state === 'thinking') rest = text.slice(this.#opening.length)
    }
    if (this.#state === 'thinking') {
      const end = rest.indexOf(this.#closing)
      if (end < 0) {
        const cut = rest.length - heldLength(rest, this.#closing)
        this.#held = rest.slice(cut)
        return { reasoning: rest.slice(0, cut), content: '' }
      }
      reasoning = rest.slice(0, end)
      rest = rest.slice(end + this.#closing.length)
      this.#state = 'gap'
    }
    if (this.#state === 'gap') {
      rest = rest.trimStart()
      if (rest) this.#state = 'answer'
    }
    return { reasoning, content: rest }
  }

  /** What was held back, now that nothing follows. */
  end(): Thought {
    const held = this.#held
    this.#held = ''
    return this.#state === 'thinking'
      ? { reasoning: held, content: '' }
      : { reasoning: '', content: held }
  }
}

/** How many characters at the end may be the start of this tag. */
function heldLength(text: string, tag: string): number {
  const start = text.lastIndexOf('<')
  if (start < 0) return 0
  const tail = text.slice(start)
  return tag.startsWith(tail) ? tail.length : 0
}
