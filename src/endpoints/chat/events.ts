/**
 * Chunks of a chat as server-sent events. All chunks of an answer share all but their choices, and most choices are a
 * piece of text: what is around these is serialised once. Bytes are those of `JSON.stringify`.
 */
import type { ChatChunk, ChatChunkChoice } from '../../plugin.ts'
import type { EventFormat } from '../shared/write.ts'

const BEFORE = 'data: '
const AFTER = '\n\n'
/** A choice around a text. */
const BEFORE_TEXT = '[{"index":0,"delta":{"content":'
const AFTER_TEXT = '},"logprobs":null,"finish_reason":null}]'
const MEMBERS = ['index', 'delta', 'logprobs', 'finish_reason'] as const

/** Serves one answer. */
export class ChatEvents implements EventFormat<ChatChunk> {
  readonly last = `${BEFORE}[DONE]${AFTER}`
  /** Members of the last chunk that could be remembered. */
  #names: readonly string[] = []
  #values: readonly unknown[] = []
  #before = ''
  #after = ''
  #beforeText = ''
  #afterText = ''

  encode(chunk: ChatChunk): string {
    if (!this.#isLike(chunk) && !this.#remember(chunk)) {
      return BEFORE + JSON.stringify(chunk) + AFTER
    }
    const text = textOf(chunk.choices)
    return text === undefined
      ? this.#before + JSON.stringify(chunk.choices) + this.#after
      : this.#beforeText + quoted(text) + this.#afterText
  }

  /** Whether all but the choices is as it was in the last chunk. */
  #isLike(chunk: ChatChunk): boolean {
    const names = this.#names
    const values = this.#values
    let i = 0
    for (const name in chunk) {
      if (name !== names[i]) return false
      if (name === 'choices') {
        if (!Array.isArray(chunk.choices)) return false
      } else if (chunk[name] !== values[i]) return false
      i++
    }
    return i > 0 && i === names.length
  }

  /** Only what cannot change: no objects. */
  #remember(chunk: ChatChunk): boolean {
    const names = Object.keys(chunk)
    const values = names.map((name) => chunk[name])
    const place = names.indexOf('choices')
    if (!Array.isArray(chunk.choices)) return false
    if (values.some((value, i) => i !== place && !isFixed(value))) return false
    const members = names.map((name, i) =>
      i === place ? '' : `${JSON.stringify(name)}:${JSON.stringify(values[i])}`,
    )
    const before = members.slice(0, place).map((member) => `${member},`)
    const after = members.slice(place + 1).map((member) => `,${member}`)
    this.#names = names
    this.#values = values
    this.#before = `${BEFORE}{${before.join('')}"choices":`
    this.#after = `${after.join('')}}${AFTER}`
    this.#beforeText = this.#before + BEFORE_TEXT
    this.#afterText = AFTER_TEXT + this.#after
    return true
  }
}

function isFixed(value: unknown): boolean {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

const SHORT = 32
const SPACE = 32
const QUOTE = 34
const BACKSLASH = 92
const SURROGATES = 0xd800

/** `JSON.stringify`, which costs more than looking at a few characters. */
function quoted(text: string): string {
  if (text.length > SHORT) return JSON.stringify(text)
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < SPACE || code === QUOTE || code === BACKSLASH || code >= SURROGATES) {
      return JSON.stringify(text)
    }
  }
  return `"${text}"`
}

/** The text where there is nothing else, in the form in which it is remembered. */
function textOf(choices: readonly ChatChunkChoice[]): string | undefined {
  const choice = choices[0]
  if (choices.length !== 1 || choice?.index !== 0) return undefined
  const { delta, logprobs, finish_reason } = choice
  if (!delta || logprobs !== null || finish_reason !== null) return undefined
  let i = 0
  for (const name in choice) if (name !== MEMBERS[i++]) return undefined
  for (const name in delta) if (name !== 'content') return undefined
  return typeof delta.content === 'string' ? delta.content : undefined
}
