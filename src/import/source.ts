/** Reads files of other programs. Numbers stay the text that the file has, because a float between them and a price loses digits. */
import { parseYAML } from 'confbox/yaml'
import {
  aliasProblem,
  boundsProblem,
  MAX_FILE_BYTES,
  TOO_DEEP,
  TOO_LARGE,
} from '../errors/bounds.ts'

/** A file that cannot be read as what it should be. Its message shows nothing of the content. */
export class UnreadableSource extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'UnreadableSource'
  }
}

/** A row of a table by the names of its columns. */
export type Row = Readonly<Record<string, unknown>>

interface YamlState {
  readonly input: string
  readonly lineStart: number
  readonly position: number
  readonly kind: string | null
  result: unknown
}

/** A YAML document, or JSON, which is YAML too. @throws UnreadableSource */
export function readYaml(text: string): unknown {
  let document: unknown
  if (text.length > MAX_FILE_BYTES) throw new UnreadableSource(`it ${TOO_LARGE}`)
  const alias = aliasProblem(text)
  if (alias !== undefined) throw new UnreadableSource(`it ${alias}`)
  try {
    document = parseYAML(text, {
      listener(event: string, state: YamlState) {
        if (event !== 'close' || state.kind !== 'scalar' || typeof state.result !== 'number') return
        const written = lastWord(state)
        if (written !== '' && Number(written.replaceAll('_', '')) === state.result) {
          state.result = written
        }
      },
    })
  } catch (error) {
    // The parser is recursive.
    if (error instanceof RangeError) throw new UnreadableSource(`it ${TOO_DEEP}`)
    const { reason = 'it cannot be parsed', mark } = error as Partial<YamlError>
    const where = mark ? ` (line ${mark.line + 1})` : ''
    // What it quotes, such as the name of an anchor, may be a secret that begins with "*" or "!".
    const shown = reason.replaceAll(/ ?(["'`]|!?<).*/gs, '')
    throw new UnreadableSource(`it is not YAML: ${shown}${where}`)
  }
  const problem = boundsProblem(document)
  if (problem !== undefined) throw new UnreadableSource(`it ${problem}`)
  return document
}

interface YamlError {
  readonly reason: string
  readonly mark: { readonly line: number }
}

/** The word before the position of the parser. It walks back from there: a file may be one line with a million numbers. */
function lastWord({ input, lineStart, position }: YamlState): string {
  let end = position
  while (end > lineStart && /\s/.test(input[end - 1]!)) end--
  let start = end
  while (start > lineStart && /[-+.\w]/.test(input[start - 1]!)) start--
  return input.slice(start, end)
}

/** A JSON document. @throws UnreadableSource */
export function readJson(text: string): unknown {
  const asText = (_: string, value: unknown, context?: { source: string }) =>
    typeof value === 'number' && context ? context.source : value
  try {
    // TypeScript does not know the third argument of the callback yet.
    return JSON.parse(text, asText as (key: string, value: unknown) => unknown)
  } catch {
    throw new UnreadableSource('it is not JSON')
  }
}

/**
 * The rows of a table. The name of the file tells its form: CSV with a line of names, a JSON list, or JSON lines.
 * @throws UnreadableSource
 */
export function readTable(text: string, fileName: string): readonly Row[] {
  const extension = /\.(\w+)$/.exec(fileName)?.[1]?.toLowerCase()
  switch (extension) {
    case 'csv':
      return readCsv(text)
    case 'json':
      return rowsOf(readJson(text))
    case 'jsonl':
    case 'ndjson':
      return rowsOf(linesOf(text).map((line) => readJson(line)))
    default:
      throw new UnreadableSource('the name has to end in .csv, .json or .jsonl')
  }
}

/** The columns of a table: of CSV those that its first line names, else the members of its rows. */
export function columnsOf(rows: readonly Row[], text: string, fileName: string): readonly string[] {
  if (/\.csv$/i.test(fileName)) {
    return rows[0] ? Object.keys(rows[0]) : (recordsOf(withoutMark(text))[0] ?? [])
  }
  const columns = new Set<string>()
  for (const row of rows) for (const column of Object.keys(row)) columns.add(column)
  return [...columns]
}

function linesOf(text: string): string[] {
  return withoutMark(text)
    .split('\n')
    .filter((line) => line.trim() !== '')
}

function rowsOf(value: unknown): readonly Row[] {
  const isRow = (row: unknown) => typeof row === 'object' && row !== null && !Array.isArray(row)
  if (Array.isArray(value) && value.every(isRow)) return value as readonly Row[]
  throw new UnreadableSource('it is not a list of rows')
}

/** RFC 4180: quoted fields may hold commas, line ends and doubled quotes. */
function readCsv(text: string): readonly Row[] {
  const records = recordsOf(withoutMark(text))
  const [names, ...rows] = records
  if (!names) throw new UnreadableSource('it is empty; the first line has to name the columns')
  if (new Set(names).size < names.length) {
    throw new UnreadableSource('its first line names a column twice')
  }
  return rows.map((fields, index) => {
    if (fields.length !== names.length) {
      throw new UnreadableSource(
        `row ${index + 1} has ${fields.length} fields, and the first line names ${names.length} columns`,
      )
    }
    return Object.fromEntries(names.map((name, column) => [name, fields[column]]))
  })
}

function recordsOf(text: string): string[][] {
  const records: string[][] = []
  let record: string[] = []
  const PLAIN = /[^",\r\n]*/y
  const END = /,|\r?\n|$/y
  for (let at = 0; at < text.length || record.length > 0; at = END.lastIndex) {
    let field: string
    if (text[at] === '"') {
      const end = closingQuote(text, at)
      field = text.slice(at + 1, end).replaceAll('""', '"')
      END.lastIndex = end + 1
    } else {
      PLAIN.lastIndex = at
      field = PLAIN.exec(text)![0]
      END.lastIndex = at + field.length
    }
    record.push(field)
    const ended = END.exec(text)
    if (!ended) throw new UnreadableSource(`record ${records.length + 1} has a quote out of place`)
    if (ended[0] === ',') continue
    if (record.length > 1 || record[0] !== '') records.push(record)
    record = []
  }
  return records
}

/** Where a quoted field ends; two quotes stand for one. @returns the end of the text where it does not end */
function closingQuote(text: string, start: number): number {
  let at = text.indexOf('"', start + 1)
  while (at >= 0 && text[at + 1] === '"') at = text.indexOf('"', at + 2)
  return at < 0 ? text.length : at
}

function withoutMark(text: string): string {
  return text.startsWith('\u{FEFF}') ? text.slice(1) : text
}
