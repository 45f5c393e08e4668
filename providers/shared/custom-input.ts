/** Characters within which the beginning of the arguments is recognised while they stream. */
const MAX_HEAD_CHARACTERS = 256
const HEAD = /^\s*\{\s*"input"\s*:\s*"/
const HIGH_SURROGATE = /[\ud800-\udbff]$/
const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/**
 * Reads the string member `input` of a call's arguments, which arrive in pieces of any size. Arguments that are not an
 * object with such a member come out as they are.
 */
export class CustomInput {
  #state: 'head' | 'text' | 'rest' | 'raw' = 'head'
  /** Text that is not read yet: the beginning, or part of an escape. */
  #held = ''
  /** A high surrogate whose other half has not arrived. */
  #half = ''

  /** The next characters of the input. */
  push(piece: string): string {
    if (this.#state === 'raw') return piece
    if (this.#state === 'rest') return ''
    this.#held += piece
    if (this.#state === 'head') {
      const start = this.#held.trimStart()
      if (start !== '' && !start.startsWith('{')) return this.#giveUp()
      const head = this.#held.length - piece.length < MAX_HEAD_CHARACTERS && HEAD.exec(this.#held)
      if (!head) return ''
      this.#state = 'text'
      this.#held = this.#held.slice(head[0].length)
    }
    return this.#whole(this.#decode())
  }

  /** What was held back. */
  end(): string {
    if (this.#state === 'text') return this.#half
    if (this.#state !== 'head') return ''
    const text = this.#giveUp()
    try {
      const { input } = JSON.parse(text) as { input?: unknown }
      return typeof input === 'string' ? input : text
    } catch {
      return text
    }
  }

  #giveUp(): string {
    const text = this.#held
    this.#held = ''
    this.#state = 'raw'
    return text
  }

  #decode(): string {
    const text = this.#held
    this.#held = ''
    const special = /["\\]/g
    let decoded = ''
    for (let at = 0; ;) {
      special.lastIndex = at
      const found = special.exec(text)
      if (!found) return decoded + text.slice(at)
      decoded += text.slice(at, found.index)
      if (found[0] === '"') {
        this.#state = 'rest'
        return decoded
      }
      const escape = text.slice(found.index, found.index + (text[found.index + 1] === 'u' ? 6 : 2))
      if (escape.length < 2 || (escape[1] === 'u' && escape.length < 6)) {
        this.#held = escape
        return decoded
      }
      decoded += unescaped(escape)
      at = found.index + escape.length
    }
  }

  /** Characters that are complete: a client would not join two halves of one. */
  #whole(decoded: string): string {
    const text = this.#half + decoded
    this.#half = this.#state === 'text' ? (HIGH_SURROGATE.exec(text)?.[0] ?? '') : ''
    return this.#half ? text.slice(0, -1) : text
  }
}

/** The text of an escape. Models also write invalid ones; these stand for themselves. */
function unescaped(escape: string): string {
  const letter = escape[1]!
  if (letter !== 'u') return ESCAPES[letter] ?? letter
  const hex = escape.slice(2)
  return /^[\da-f]{4}$/i.test(hex) ? String.fromCharCode(Number.parseInt(hex, 16)) : escape
}
