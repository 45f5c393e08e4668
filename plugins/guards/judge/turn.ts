/** What of a request is judged, what is shown with it, and how both are cut into questions (guard design, 1.3 and 5.4). */
import type { TextItem } from '../../../src/plugin.ts'
import { TooLarge, type Material, type Said } from './brain.ts'
import { clean } from './clean.ts'

const WINDOW = 6000
const OVERLAP = 400
const MOST_WINDOWS = 8
const MOST_IMAGES = 8
/** Of what was said before: of its head, and of the rest. */
const HEAD = 600
const TAIL = 2400

/** What is judged of the current turn. */
const JUDGED = new Set<TextItem['channel']>(['content', 'document', 'prompt', 'search', 'speech'])
/** What is shown of the rest. */
const SHOWN = new Set<TextItem['channel']>(['content', 'document', 'tool_call'])

/** A question about part of a turn. */
export interface Window {
  readonly material: Material
  /** The last of the units that it is about. */
  readonly unit: number
}

/** @returns whether a unit is judged, not only shown */
export function isJudged({ channel, current, role, text }: TextItem): boolean {
  return current && JUDGED.has(channel) && !(role === 'system') && text.trim() !== ''
}

/** Whether there is something in a unit that a judge cannot read. */
export function isUnreadable({ media = [] }: TextItem, readsImages: boolean): boolean {
  return media.some(({ kind, url }) => !(readsImages && kind === 'image' && url))
}

/**
 * Questions about the judged units, in order.
 * @throws TooLarge
 */
export function windowsOf(units: readonly TextItem[], readsImages: boolean): Window[] {
  const images = readsImages ? imagesIn(units) : []
  const judged = units.flatMap((unit, index) =>
    isJudged(unit) ? [{ from: unit.role ?? unit.channel, text: clean(unit.text), index }] : [],
  )
  const before = spokenBefore(units)
  const length = judged.reduce((sum, { text }) => sum + text.length, 0)
  if (length === 0 && images.length === 0) return []
  const count = length <= WINDOW ? 1 : Math.ceil((length - OVERLAP) / (WINDOW - OVERLAP))
  if (count > MOST_WINDOWS) {
    throw new TooLarge(`the turn has more than ${MOST_WINDOWS} windows of ${WINDOW} characters`)
  }
  return Array.from({ length: count }, (_, i) => {
    const from = i * (WINDOW - OVERLAP)
    const texts = slices(judged, from, from + WINDOW)
    const unit = texts.at(-1)?.index ?? units.findLastIndex(({ media }) => media?.length)
    const said = texts.map(({ from: speaker, text }) => ({ from: speaker, text }))
    const shown = i === 0 ? images : []
    return { unit, material: { side: 'input', texts: said, images: shown, before, question: '' } }
  })
}

/** The question about a stretch of an answer, or about all of it. @throws TooLarge */
export function windowsOfAnswer({ text, channel, context, role }: TextItem): Window[] {
  const unit: TextItem = {
    id: '',
    side: 'input',
    channel: 'content',
    current: true,
    text,
    role: 'user',
  }
  const from = channel === 'content' ? (role ?? 'assistant') : channel
  const before = context?.before ? [{ from: 'assistant', text: clean(context.before) }] : []
  const question = clean(context?.question ?? '')
  return windowsOf([unit], false).map(({ material }) => ({
    unit: 0,
    material: {
      side: 'output',
      texts: material.texts.map((said) => ({ ...said, from })),
      images: [],
      before,
      question,
    },
  }))
}

interface Piece extends Said {
  readonly index: number
}

/** The part of all texts, as if they stood in a row, between two offsets. */
function slices(pieces: readonly Piece[], start: number, end: number): Piece[] {
  const found: Piece[] = []
  let at = 0
  for (const piece of pieces) {
    const { length } = piece.text
    const from = wholeBefore(piece.text, Math.max(0, start - at))
    const to = wholeBefore(piece.text, Math.min(length, end - at))
    if (from < to) found.push({ ...piece, text: piece.text.slice(from, to) })
    at += length
  }
  return found
}

/** Never between the halves of a character. */
function wholeBefore(text: string, at: number): number {
  const code = at > 0 && at < text.length ? text.charCodeAt(at) : 0
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}

/** The head of the conversation and its last words, as far as they are not judged. */
function spokenBefore(units: readonly TextItem[]): Said[] {
  const shown = units.filter(
    (unit) =>
      !isJudged(unit) && SHOWN.has(unit.channel) && unit.text !== '' && !unit.id.includes('#'),
  )
  const head: Said[] = []
  const rest: Said[] = []
  let room = HEAD
  for (const { role, text } of shown) {
    if (role !== 'system' || room <= 0) continue
    const part = clean(text).slice(0, room)
    head.push({ from: 'system', text: part })
    room -= part.length
  }
  room = TAIL
  for (const { role = 'user', text } of shown.toReversed()) {
    if (role === 'system' || room <= 0) continue
    const part = clean(text).slice(-room)
    rest.unshift({ from: role, text: part })
    room -= part.length
  }
  return [...head, ...rest]
}

function imagesIn(units: readonly TextItem[]): string[] {
  const urls = units.flatMap(({ media = [] }) =>
    media.flatMap(({ kind, url }) => (kind === 'image' && url ? [url] : [])),
  )
  if (urls.length > MOST_IMAGES) throw new TooLarge(`there are more than ${MOST_IMAGES} images`)
  return urls
}
