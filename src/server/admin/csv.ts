/** Lists of the admin API as CSV: one header line, then a line for each object, streamed. */

type Cell = unknown

const BATCH_ROWS = 200
/** Text that a spreadsheet takes for a formula. */
const FORMULA = /^[=+\-@\t\r]/

/**
 * An answer with objects as CSV. A nested member has a column `outer.inner`; a list or an object in a column is JSON. Amounts
 * are written with all their decimals.
 * @param name the name of the file, without its ending, such as `usage-2026-11-01-2026-12-01`
 */
export function csvResponse(
  name: string,
  columns: readonly string[],
  rows: Iterable<object> | AsyncIterable<object>,
): Response {
  const lines = ReadableStream.from(encoded(columns, rows))
  return new Response(lines, {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${name.replaceAll(/[^\w.-]/g, '_')}.csv"`,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
  })
}

async function* encoded(
  columns: readonly string[],
  rows: Iterable<object> | AsyncIterable<object>,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  const paths = columns.map((column) => column.split('.'))
  let lines = [csvLine(columns)]
  for await (const row of rows) {
    lines.push(csvLine(paths.map((path) => valueAt(row, path))))
    if (lines.length < BATCH_ROWS) continue
    yield encoder.encode(lines.join(''))
    lines = []
  }
  if (lines.length > 0) yield encoder.encode(lines.join(''))
}

/** One line with its end. A text that a spreadsheet would take for a formula begins with `'`. */
function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(cellText).join(',')}\r\n`
}

function cellText(value: Cell): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'string') return quoted(FORMULA.test(value) ? `'${value}` : value)
  if (typeof value === 'object') return quoted(JSON.stringify(value))
  return String(value)
}

/** Quotes a text. A rawJSON amount is an object whose JSON is its digits, which need no quotes. */
function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function valueAt(row: object, path: readonly string[]): Cell {
  let value: Cell = row
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}
