/**
 * The layer that writes what commands say: JSON with exact numbers, and for people tables, cards and sentences that fit the terminal.
 * Elsewhere nothing is cut, left out or shortened.
 */
import { stripVTControlCharacters, styleText } from 'node:util'
import type { Arguments } from './command.ts'

declare global {
  interface JSON {
    /** ECMAScript proposal "JSON.parse source text access", in Node 24. */
    isRawJSON(value: unknown): boolean
  }
}

const LEAST_WIDTH = 40
/** The least width of a column whose texts are cut. */
const LEAST_CELL = 8
/** Nesting that a text shows; what is deeper is counted. */
const DEPTH = 4
const GAP = 2
/** Control characters, and marks that change the direction of a text. */
const UNSEEN = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
const MARKS = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u
const NO_WIDTH = /\p{Mn}|\p{Me}|\u200b|\u200c|\u200d/u
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/
/** A moment as lists show it. */
const SHORT_MOMENT = /^\d{4}-\d\d-\d\d(?: \d\d:\d\d)?$/
const NUMBER = /^-?\d+(?:\.\d+)?$/
const ID = /^(?:key|acc|team|mem)_[0-9A-Za-z]{12,}$/
/** What has to be pasted whole. */
const WHOLE = /^\(?(?:sk-|sat-|https?:|req_|tok_|ses_|[0-9a-f]{32})/
const BAD = new Set(['disabled', 'archived', 'expired', 'blocked', 'limited', 'rejected', 'failed'])

/** What `--wide` says of the command that runs. */
export const page = { isWide: false }

/** Parses JSON so that {@link toJson} prints every number unchanged. */
export function parseExact(text: string): any {
  // TypeScript does not know the third argument of the callback yet.
  return JSON.parse(text, asWritten as (key: string, value: unknown) => unknown)
}

export function print(args: Arguments, value: unknown, forPeople: () => string): void {
  if (args.on.has('json')) process.stdout.write(toJson(value))
  else say(forPeople())
}

/** Writes text for people: lines that are longer than the terminal are wrapped at blanks. */
export function say(text: string): void {
  process.stdout.write(wrapped(text, width()))
}

/** The columns of the terminal; undefined where the output is none. */
export function width(): number | undefined {
  const { isTTY, columns } = process.stdout
  return isTTY && !page.isWide ? Math.max(LEAST_WIDTH, columns || 80) : undefined
}

/** JSON in which marks that a terminal would obey are escaped; the values are the same. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value, null, 2)
  return `${text.replaceAll(MARKS, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

/** The text of any JSON value on one line; a dash for an absent one. */
export function cell(value: unknown, depth = 0): string {
  if (value === null || value === undefined || value === '') return '-'
  if (JSON.isRawJSON(value)) return JSON.stringify(value)
  if (typeof value !== 'object') return String(value).replaceAll(UNSEEN, escaped)
  const entries = Object.entries(value)
  if (entries.length === 0) return '-'
  if (depth >= DEPTH) return entries.length === 1 ? '1 entry' : `${entries.length} entries`
  if (!Array.isArray(value)) {
    const texts = entries.map(([name, one]) => [cell(name), cell(one, depth + 1)])
    return (
      texts.flatMap(([name, text]) => (text === '-' ? [] : `${name} ${text}`)).join(', ') || '-'
    )
  }
  const isOfObjects = value.some((one) => typeof one === 'object' && !JSON.isRawJSON(one))
  return value.map((one) => cell(one, depth + 1)).join(isOfObjects ? '; ' : ', ')
}

/**
 * Rows below their headings. Where the terminal is narrower, the columns of `spare` are left out, the first of them first; then texts
 * are cut in their middle; at last each row becomes a card.
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly unknown[])[],
  spare: readonly string[] = [],
): string {
  const room = width()
  if (room === undefined) return grid(columnsOf(headings, rows))
  let columns = columnsOf(headings, rows).filter(({ texts }) => texts.some((text) => text !== '-'))
  columns = columns.map(shortened)
  const missing: string[] = []
  for (const head of spare) {
    if (widthOf(columns) <= room) break
    // The head of a column of times names their zone.
    const isIt = (one: Column) => one.head === head || one.head === `${head} UTC`
    if (!columns.some(isIt)) continue
    columns = columns.filter((one) => !isIt(one))
    missing.push(head)
  }
  const fitting = cut(columns, room)
  const isGrid = widthOf(fitting) <= room
  const text = isGrid ? grid(fitting) : cards(columns.filter(({ texts }) => texts.length))
  const short = isGrid ? fitting.filter((one) => !columns.includes(one)) : []
  const notes = [
    ...(missing.length > 0 ? [`Not shown: ${missing.join(', ')}. `] : []),
    ...(short.length > 0 ? [`Cut: ${short.map(({ head }) => head).join(', ')}. `] : []),
  ]
  return notes.length > 0 ? `${text}${notes.join('')}--wide shows all.\n` : text
}

/** Names and values, one per line; without those of no value, such as null. */
export function card(members: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(members)
    .map(([name, value]) => [name, cell(value)] as const)
    .filter(([, text]) => text !== '-')
  const names = Math.max(...entries.map(([name]) => size(name)))
  const room = width()
  const lines = entries.map(([name, text]) => {
    const line = `${padded(name, names)}${' '.repeat(GAP)}${text}`.trimEnd()
    return wrapped(`${line}\n`, room, names + GAP)
  })
  return lines.join('')
}

/** Rows without headings, whose numbers are aligned; an empty cell stays empty. */
export function aligned(rows: readonly (readonly unknown[])[]): string {
  return grid(columnsOf(rows[0]?.map(() => '') ?? [], rows, ''), false)
}

interface Column {
  readonly head: string
  readonly texts: readonly string[]
  readonly size: number
}

function columnsOf(
  headings: readonly string[],
  rows: readonly (readonly unknown[])[],
  none = '-',
): Column[] {
  return headings.map((head, at) => {
    const texts = rows.map((row) => (row[at] === '' ? none : cell(row[at])))
    return columnOf(head, atPoint(texts))
  })
}

function columnOf(head: string, texts: readonly string[]): Column {
  return { head, texts, size: Math.max(size(head), ...texts.map(size)) }
}

/** Numbers aligned at their point. */
function atPoint(texts: readonly string[]): readonly string[] {
  const numbers = texts.filter((text) => NUMBER.test(text)).map((text) => text.split('.'))
  if (numbers.length === 0) return texts
  const whole = Math.max(...numbers.map(([before]) => before!.length))
  return texts.map((text) =>
    NUMBER.test(text) ? ' '.repeat(whole - text.split('.')[0]!.length) + text : text,
  )
}

function grid(columns: readonly Column[], hasHead = true): string {
  const rows = columns[0]?.texts ?? []
  const lineOf = (texts: readonly string[]) =>
    texts
      .map((text, at) => padded(text, columns[at]!.size))
      .join(' '.repeat(GAP))
      .trimEnd()
  const head = lineOf(columns.map((one) => one.head))
  const lines = rows.map((_, row) => lineOf(columns.map(({ texts }) => texts[row]!)))
  const all = [...(hasHead ? [styled('bold', head)] : []), ...lines.map(coloured)]
  return all.map((line) => `${line}\n`).join('')
}

/** Each row as a card, where the columns do not stand beside each other. */
function cards(columns: readonly Column[]): string {
  const rows = columns[0]?.texts ?? []
  return rows
    .map((_, row) =>
      card(Object.fromEntries(columns.map(({ head, texts }) => [head, texts[row]!.trim()]))),
    )
    .join('\n')
}

function widthOf(columns: readonly Column[]): number {
  return columns.reduce((sum, one) => sum + one.size + GAP, -GAP)
}

/** A column of moments or ids in the shortest form that says the same. */
function shortened(column: Column): Column {
  const { head, texts } = column
  const shown = texts.filter((text) => text !== '-')
  if (shown.length > 0 && shown.every((text) => MOMENT.test(text) || text.length < LEAST_CELL)) {
    if (!shown.some((text) => MOMENT.test(text))) return column
    const today = new Date().toISOString().slice(0, 10)
    const short = texts.map((text) => {
      if (!MOMENT.test(text)) return text
      if (text.endsWith('T00:00:00Z')) return text.slice(0, 10)
      return text.startsWith(today) ? text.slice(11, 19) : text.slice(0, 16).replace('T', ' ')
    })
    return columnOf(`${head} UTC`.trim(), short)
  }
  return columnOf(head, shortIds(texts))
}

/** Ids by the shortest beginnings that only one of them has. */
export function shortIds(texts: readonly string[]): readonly string[] {
  const ids = [...new Set(texts.filter((text) => ID.test(text)))].toSorted()
  const short = new Map(
    ids.map((id, at) => {
      const shared = [ids[at - 1], ids[at + 1]].map((other) => sameLetters(id, other ?? ''))
      return [id, id.slice(0, Math.max(id.indexOf('_') + 5, ...shared.map((n) => n + 1)))]
    }),
  )
  return texts.map((text) => short.get(text) ?? text)
}

function sameLetters(one: string, other: string): number {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  return at
}

/** The widest columns of texts, cut so that all have room, as far as that is possible. */
function cut(columns: readonly Column[], room: number): Column[] {
  const result = [...columns]
  for (let over = widthOf(result) - room; over > 0; over = widthOf(result) - room) {
    const at = result
      .map((one, index) => ({ one, index }))
      .filter(({ one }) => isCuttable(one))
      .toSorted((a, b) => b.one.size - a.one.size)[0]?.index
    if (at === undefined) return result
    const { head, texts, size: was } = result[at]!
    const next = result.filter((one, index) => index !== at && isCuttable(one)).map((o) => o.size)
    const to = Math.max(LEAST_CELL, size(head), Math.min(was - 1, Math.max(was - over, ...next)))
    result[at] = columnOf(
      head,
      texts.map((text) => middleCut(text, to)),
    )
  }
  return result
}

function isCuttable({ head, texts, size: own }: Column): boolean {
  if (own <= Math.max(LEAST_CELL, size(head))) return false
  return !texts.some((text) => {
    const word = text.trim()
    return [WHOLE, ID, NUMBER, MOMENT, SHORT_MOMENT].some((one) => one.test(word))
  })
}

function middleCut(text: string, to: number): string {
  if (size(text) <= to) return text
  const letters = [...text]
  const take = (from: Iterable<string>, room: number) => {
    let prefix = ''
    for (const letter of from) {
      if (size(prefix + letter) > room) break
      prefix += letter
    }
    return prefix
  }
  const end = [...take(letters.toReversed(), Math.floor((to - 1) / 2))].toReversed().join('')
  return `${take(letters, to - 1 - size(end))}…${end}`
}

/** Lines no longer than the terminal, but for what has to be pasted whole. @param indent blanks before the rest of a line */
export function wrapped(text: string, room: number | undefined, indent = 0): string {
  if (room === undefined) return text
  const before = indent > room / 2 ? GAP : indent
  return text
    .split('\n')
    .map((line) => (size(line) <= room ? line : wrappedLine(line, room, before)))
    .join('\n')
}

function wrappedLine(text: string, room: number, indent: number): string {
  const lines: string[] = []
  let line = /^ */.exec(text)![0]
  let isFresh = true
  const margin = ' '.repeat(Math.max(indent, line.length))
  for (const part of text.trimStart().split(/(?<=\s)(?=\S)/)) {
    let word = part
    if (!isFresh && size(line + word.trimEnd()) > room) {
      lines.push(line.trimEnd())
      line = margin
    }
    while (size(line + word.trimEnd()) > room && !WHOLE.test(word)) {
      const letters = [...word]
      let count = 1
      while (size(line + letters.slice(0, count + 1).join('')) <= room) count++
      lines.push(line + letters.slice(0, count).join(''))
      line = margin
      word = letters.slice(count).join('')
    }
    line += word
    isFresh = false
  }
  return [...lines, line.trimEnd()].join('\n')
}

/** Columns of a text on a terminal: wide characters take two. */
export function size(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let columns = 0
  for (const letter of stripVTControlCharacters(text)) {
    columns += NO_WIDTH.test(letter) ? 0 : WIDE.test(letter) ? 2 : 1
  }
  return columns
}

export function padded(text: string, to: number): string {
  return text + ' '.repeat(Math.max(0, to - size(text)))
}

function escaped(letter: string): string {
  return `\\u{${letter.codePointAt(0)!.toString(16)}}`
}

/** States that want attention in colour, on a terminal that has colours. */
function coloured(line: string): string {
  if (width() === undefined) return line
  return line.replaceAll(/(?<= {2})[a-z]+(?= {2}|$)/g, (word) =>
    BAD.has(word) ? styled('red', word) : word,
  )
}

export function styled(style: 'bold' | 'red' | 'dim', text: string): string {
  return styleText(style, text, { stream: process.stdout })
}

function asWritten(_: string, value: unknown, context?: { source: string }): unknown {
  return typeof value === 'number' && context ? JSON.rawJSON(context.source) : value
}
