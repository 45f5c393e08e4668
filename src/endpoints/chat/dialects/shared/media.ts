/** Media of a body that goes out as it came: its base64 is repaired at its place, and all other bytes stay. */
import { itemsOf, membersOf } from '../../../../stream/raw-json.ts'
import { isBase64 } from '../../../shared/media.ts'
import { neutralFile, neutralSound, neutralUrl } from '../../neutral.ts'

/** Members on the way from a message or an item to its media. */
const WAYS: ReadonlySet<unknown> = new Set(['content', 'output', 'source', 'input_audio'])
/** Media stands no deeper than an image in a document in the result of a tool. */
const MAX_DEPTH = 12

/** New texts, by their members and places on the way to them. */
type Repairs = ReadonlyMap<string | number, Repairs | string>

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** @param list the top-level member with the messages or items @returns the same text where nothing has to be repaired */
export function withNeutralMedia(
  text: string,
  body: Readonly<Record<string, unknown>>,
  list: string,
): string {
  const repairs = repairsIn(body[list], 0)
  if (!repairs) return text
  const edits: Edit[] = []
  collect(text, 0, new Map([[list, repairs]]), edits)
  let next = ''
  let from = 0
  for (const { start, end, text: value } of edits) {
    next += text.slice(from, start) + value
    from = end
  }
  return next + text.slice(from)
}

function repairsIn(value: unknown, depth: number): Repairs | undefined {
  if (depth > MAX_DEPTH || typeof value !== 'object' || value === null) return undefined
  const repairs = new Map<string | number, Repairs | string>()
  const members = Array.isArray(value) ? value.entries() : Object.entries(value)
  for (const [name, member] of members) {
    if (typeof member === 'string') {
      const repaired = repairedMember(value as Record<string, unknown>, name, member)
      if (repaired !== member) repairs.set(name, repaired)
    } else if (typeof name === 'number' || WAYS.has(name)) {
      const inner = repairsIn(member, depth + 1)
      if (inner) repairs.set(name, inner)
    }
  }
  return repairs.size > 0 ? repairs : undefined
}

/** Items and blocks of unknown types are not checked by the readers: what is no base64 there stays. */
function repairedMember(
  { type, format, filename }: Readonly<Record<string, unknown>>,
  name: string | number,
  source: string,
): string {
  switch (name) {
    case 'data':
      return (type === 'base64' || format !== undefined) && isMedia(source)
        ? neutralSound(source)
        : source
    case 'image_url':
      return isMedia(source) ? neutralUrl(source) : source
    case 'file_data':
      return isMedia(source)
        ? neutralFile(source, typeof filename === 'string' ? filename : undefined)
        : source
    default:
      return source
  }
}

/** Whether a text is base64, bare or in a data URL. */
function isMedia(source: string): boolean {
  if (!/^data:/i.test(source.slice(0, 5))) return isBase64(source)
  const comma = source.indexOf(',')
  return /;base64$/i.test(source.slice(0, comma)) && isBase64(source.slice(comma + 1))
}

function collect(text: string, at: number, repairs: Repairs, edits: Edit[]): void {
  const members =
    text[at] === '['
      ? itemsOf(text, at).map((item, name) => ({ name, ...item }))
      : membersOf(text, at)
  for (const { name, start, end } of members) {
    const repair = repairs.get(name)
    if (repair === undefined) continue
    if (typeof repair !== 'string') collect(text, start, repair, edits)
    else edits.push({ start, end, text: JSON.stringify(repair) })
  }
}
