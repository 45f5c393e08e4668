/** Formats the output of commands. Amounts are printed exactly as received, because a double loses digits of large ones. */
import type { Arguments } from './command.ts'

declare global {
  interface JSON {
    /** ECMAScript proposal "JSON.parse source text access", in Node 24. */
    isRawJSON(value: unknown): boolean
  }
}

/** Parses JSON so that {@link toJson} prints every number unchanged. */
export function parseExact(text: string): any {
  // TypeScript does not know the third argument of the callback yet.
  return JSON.parse(text, asWritten as (key: string, value: unknown) => unknown)
}

export function print(args: Arguments, value: unknown, forPeople: () => string): void {
  process.stdout.write(args.on.has('json') ? toJson(value) : forPeople())
}

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** The text of a table cell; a dash for an absent value. */
export function cell(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (JSON.isRawJSON(value)) return JSON.stringify(value)
  if (Array.isArray(value)) {
    const isOfObjects = value.some((one) => typeof one === 'object' && !JSON.isRawJSON(one))
    return value.length > 0 ? value.map(cell).join(isOfObjects ? '; ' : ', ') : '-'
  }
  if (typeof value !== 'object') return String(value)
  const members = Object.entries(value).map(([name, member]) => `${name} ${cell(member)}`)
  return members.join(', ')
}

export function table(headings: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const cells = [headings, ...rows.map((row) => row.map(cell))]
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  return cells.map((row) => line(row, widths)).join('')
}

/** Rows without headings: numbers are aligned at the point, and an empty cell stays empty. */
export function aligned(rows: readonly (readonly unknown[])[]): string {
  const cells = rows.map((row) => row.map((value) => (value === '' ? '' : cell(value))))
  const parts = cells.map((row) => row.map((text) => (isNumber(text) ? text.split('.') : [text])))
  const columns = cells[0]?.map((_, column) => column) ?? []
  const whole = columns.map((column) => Math.max(...parts.map((row) => row[column]![0]!.length)))
  const fraction = columns.map((column) =>
    Math.max(...parts.map((row) => row[column]![1]?.length ?? -1)),
  )
  return cells
    .map((row) => {
      const padded = row.map((text, column) => {
        const [before = '', after] = isNumber(text) ? text.split('.') : [text]
        const width = whole[column]! + fraction[column]! + 1
        if (!isNumber(text)) return text.padEnd(width)
        return `${before.padStart(whole[column]!)}${after === undefined ? '' : `.${after}`}`.padEnd(
          width,
        )
      })
      return `${padded.join('  ').trimEnd()}\n`
    })
    .join('')
}

function isNumber(text: string): boolean {
  return /^\d+(\.\d+)?$/.test(text)
}

/** Names and values, one per line. */
export function card(members: Readonly<Record<string, unknown>>): string {
  const width = Math.max(...Object.keys(members).map((name) => name.length))
  return Object.entries(members)
    .map(([name, value]) => line([name, cell(value)], [width, 0]))
    .join('')
}

function line(cells: readonly string[], widths: readonly number[]): string {
  return `${cells
    .map((text, column) => text.padEnd(widths[column]!))
    .join('  ')
    .trimEnd()}\n`
}

function asWritten(_: string, value: unknown, context?: { source: string }): unknown {
  return typeof value === 'number' && context ? JSON.rawJSON(context.source) : value
}
