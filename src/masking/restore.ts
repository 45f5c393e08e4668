/** Puts values back in place of placeholders, in texts that grow. The result does not depend on how a text is cut. */
import type { Placeholder } from './placeholders.ts'

/** The placeholders of one call, and how often each form of one was replaced. */
export interface Restorable {
  readonly byNumber: ReadonlyMap<string, Placeholder>
  readonly kinds: readonly string[]
  /** Digits of a number. */
  readonly width: number
  /** It is called for each placeholder that was replaced. */
  restored(exact: boolean): void
}

/** A growing text: what `push` and `end` return goes out, in this order. */
export interface Restorer {
  push(text: string): string
  end(): string
}

interface Edit {
  readonly start: number
  readonly end: number
  readonly placeholder: Placeholder
}

interface Scanned {
  readonly edits: readonly Edit[]
  /** Nothing from here on can go out yet. */
  readonly safe: number
}

const [UNDERSCORE, HYPHEN, BLANK, BACKSLASH, OPEN, CLOSE, ZERO, NINE] = [...'_- \\[]09'].map(
  (one) => one.charCodeAt(0),
) as [number, number, number, number, number, number, number, number]

/** A letter or digit of a script that sets blanks between words, beside which a name without brackets is part of a word. */
const IN_WORD =
  /^(?![\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}])[\p{L}\p{N}\p{M}_]/u

export function isInWord(character: string): boolean {
  return character.charCodeAt(0) < 128 ? ASCII_WORD.test(character) : IN_WORD.test(character)
}

const ASCII_WORD = /^\w/

/**
 * Finds placeholders, also as models alter them: in another case, with `\_`, a blank or `-` for `_`, without brackets.
 * Texts of one call may share it.
 */
export class Matcher {
  readonly #all: Restorable
  readonly #exact: boolean
  readonly #starts: RegExp

  /** @param exact whether only the form counts that was sent */
  constructor(all: Restorable, exact: boolean) {
    this.#all = all
    this.#exact = exact
    const letters = new Set(all.kinds.flatMap((kind) => [kind[0]!, kind[0]!.toLowerCase()]))
    this.#starts = exact ? /\[/g : new RegExp(`[\\[\\\\${[...letters].join('')}]`, 'g')
  }

  /**
   * @param before the characters before the text
   * @param ended whether nothing follows the text
   */
  scan(text: string, before: string, ended: boolean): Scanned {
    const edits: Edit[] = []
    const starts = this.#starts
    starts.lastIndex = 0
    for (let match = starts.exec(text); match; match = starts.exec(text)) {
      const { index } = match
      const end = this.#matchAt(text, index, before, ended)
      if (end === 'partial') return { edits, safe: index }
      if (!end) continue
      edits.push(end)
      this.#all.restored(text.slice(end.start, end.end) === end.placeholder.text)
      starts.lastIndex = end.end
    }
    return { edits, safe: text.length }
  }

  #matchAt(
    text: string,
    start: number,
    before: string,
    ended: boolean,
  ): Edit | 'partial' | undefined {
    let at = start
    if (text.charCodeAt(at) === BACKSLASH && ++at === text.length)
      return ended ? undefined : 'partial'
    const hasBracket = text.charCodeAt(at) === OPEN
    if (hasBracket) at++
    else if (at > start || isInWord(characterBefore(text, start, before))) return undefined
    let partial = false
    for (const kind of this.#all.kinds) {
      const end = this.#core(text, at, kind)
      if (typeof end === 'number') {
        const placeholder = this.#all.byNumber.get(text.slice(end - this.#all.width, end))
        if (placeholder?.kind !== kind) return undefined
        const last = hasBracket ? this.#closed(text, end, ended) : afterWord(text, end, ended)
        return typeof last === 'number' ? { start, end: last, placeholder } : last
      }
      if (end === 'partial') partial = true
    }
    return partial && !ended ? 'partial' : undefined
  }

  /** The end of kind and number. */
  #core(text: string, start: number, kind: string): number | 'partial' | undefined {
    let at = start
    for (let index = 0; index <= kind.length; index++) {
      const wanted = index === kind.length ? UNDERSCORE : kind.charCodeAt(index)
      if (at >= text.length) return 'partial'
      const code = text.charCodeAt(at++)
      if (code === wanted) continue
      if (this.#exact) return undefined
      if (wanted !== UNDERSCORE) {
        if (code !== (wanted | 0x20)) return undefined
      } else if (code === BACKSLASH) {
        if (at >= text.length) return 'partial'
        if (text.charCodeAt(at++) !== UNDERSCORE) return undefined
      } else if (code !== HYPHEN && code !== BLANK) return undefined
    }
    for (const end = at + this.#all.width; at < end; at++) {
      if (at >= text.length) return 'partial'
      const code = text.charCodeAt(at)
      if (code < ZERO || code > NINE) return undefined
    }
    return at
  }

  #closed(text: string, start: number, ended: boolean): number | 'partial' | undefined {
    let at = start
    if (!this.#exact && text.charCodeAt(at) === BACKSLASH) at++
    if (at >= text.length) return ended ? undefined : 'partial'
    return text.charCodeAt(at) === CLOSE ? at + 1 : undefined
  }
}

function afterWord(text: string, end: number, ended: boolean): number | 'partial' | undefined {
  if (end >= text.length) return ended ? end : 'partial'
  const next = text.slice(end, end + 2)
  if (next.length === 1 && !ended && isHighSurrogate(next)) return 'partial'
  return isInWord(next) ? undefined : end
}

function isHighSurrogate(text: string): boolean {
  return text >= '\ud800' && text <= '\udbff'
}

/** @param before the characters before the text */
function characterBefore(text: string, at: number, before: string): string {
  if (at > 0 && text.charCodeAt(at - 1) < 128) return text[at - 1]!
  return lastOf(before + text.slice(Math.max(0, at - 2), at))
}

/** The last character, which may be a pair of code units. */
export function lastOf(text: string): string {
  return /[^]$/u.exec(text.slice(-2))?.[0] ?? ''
}

/** A restorer of plain text. */
export function plainRestorer(matcher: Matcher): Restorer {
  let held = ''
  let before = ''
  const take = (text: string, ended: boolean) => {
    held += text
    const { edits, safe } = matcher.scan(held, before, ended)
    let out = ''
    let at = 0
    for (const { start, end, placeholder } of edits) {
      out += held.slice(at, start) + placeholder.value
      at = end
    }
    out += held.slice(at, safe)
    before = (before + held.slice(Math.max(0, safe - 2), safe)).slice(-2)
    held = held.slice(safe)
    return out
  }
  return { push: (text) => take(text, false), end: () => take('', true) }
}

/** A restorer of JSON text: placeholders are found in what string literals say, and values are written as JSON. */
export function jsonRestorer(matcher: Matcher): Restorer {
  let inString = false
  /** An escape sequence that is not complete. */
  let escape = ''
  /** What the held text says, and how it is written, for each character. */
  let heldText = ''
  let written: string[] = []
  let before = ''
  const release = (ended: boolean): string => {
    const { edits, safe } = matcher.scan(heldText, before, ended)
    let out = ''
    let at = 0
    for (const { start, end, placeholder } of edits) {
      const { value } = placeholder
      out += written.slice(at, start).join('')
      out += inString ? JSON.stringify(value).slice(1, -1) : value
      at = end
    }
    out += written.slice(at, safe).join('')
    before = ended ? '' : (before + heldText.slice(Math.max(0, safe - 2), safe)).slice(-2)
    heldText = heldText.slice(safe)
    written = written.slice(safe)
    return out
  }
  const take = (text: string): string => {
    let out = ''
    for (let at = 0; at < text.length; at++) {
      const character = text[at]!
      if (escape !== '') {
        escape += character
        if (escape.length < (escape[1] === 'u' ? 6 : 2)) continue
        heldText += decoded(escape)
        written.push(escape)
        escape = ''
      } else if (character === '"') {
        out += `${release(true)}"`
        inString = !inString
      } else if (inString && character === '\\') escape = character
      else {
        heldText += character
        written.push(character)
      }
    }
    return out + release(false)
  }
  return { push: take, end: () => release(true) + escape }
}

/** What an escape sequence says; one that is none says nothing that could be part of a placeholder. */
function decoded(escape: string): string {
  try {
    return JSON.parse(`"${escape}"`) as string
  } catch {
    return '\0'
  }
}
