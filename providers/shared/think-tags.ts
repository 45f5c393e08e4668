/**
 * Separates reasoning from text for models that write it into the answer as `<think>…</think>`. Tags count only at the
 * start of an answer, because later text may quote them.
 */

/**
 * How the tags come: written by the model as `<think>` or as `<thinking>`; or the chat template has already written the
 * opening tag.
 */
export const THINK_TAGS = ['tags', 'thinking-tags', 'prefilled-tags'] as const
/** One of these forms of tags. */
export type ThinkTags = (typeof THINK_TAGS)[number]

/** The reasoning and the text in a piece of an answer. Either may be empty. */
interface Thought {
  readonly reasoning: string
  readonly content: string
}

/** Splits an answer that arrives in pieces of any size. */
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

  /** Returns what is certain so far. A piece that may be the start of a tag is held back. */
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

  /** Returns what was held back. */
  end(): Thought {
    const held = this.#held
    this.#held = ''
    return this.#state === 'thinking'
      ? { reasoning: held, content: '' }
      : { reasoning: '', content: held }
  }
}

/** Number of characters at the end of the text that may be the start of this tag. */
function heldLength(text: string, tag: string): number {
  const start = text.lastIndexOf('<')
  if (start < 0) return 0
  const tail = text.slice(start)
  return tag.startsWith(tail) ? tail.length : 0
}
