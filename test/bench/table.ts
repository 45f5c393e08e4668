/** Results of the bench as tables: for a terminal, and for a page. */
import type { Line, Spread } from './judge.ts'

/** Lines that compare the same systems. */
export interface Panel {
  /** The system that is compared with the others. */
  readonly subject: string
  readonly lines: readonly Line[]
}

/** A figure with at most three digits that mean something. */
function show(value: number | undefined): string {
  if (value === undefined) return ''
  const size = Math.abs(value)
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3
  return value.toLocaleString('en-US', { maximumFractionDigits: digits })
}

function withQuartiles(spread: Spread | undefined): string {
  return spread ? `${show(spread.median)} (${show(spread.from)}–${show(spread.to)})` : ''
}

/** A head, then a row of cells for each line; nothing, if there are no lines. */
function cellsOf({ subject, lines }: Panel): string[][] {
  const systems = [...new Set(lines.flatMap(({ medians }) => Object.keys(medians)))]
  const others = systems.filter((system) => system !== subject)
  const head = ['medians', ...systems, ...others.map((other) => `to ${other}`), 'gate']
  const rows = lines.map(({ label, medians, compared, verdict = '' }) => [
    label,
    ...systems.map((system) => show(medians[system]?.median)),
    ...others.map((other) => withQuartiles(compared[other])),
    verdict,
  ])
  return lines.length > 0 ? [head, ...rows] : []
}

export function forTerminal(panel: Panel): string {
  const cells = cellsOf(panel)
  const widths = cells[0]?.map((_, i) => Math.max(...cells.map((row) => row[i]!.length))) ?? []
  return cells
    .map((row) =>
      row.map((cell, i) => (i > 0 ? cell.padStart(widths[i]!) : cell.padEnd(widths[0]!))),
    )
    .map((row) => `${row.join('  ').trimEnd()}\n`)
    .join('')
}

/** Medians alone; the page has the gates elsewhere. */
export function forPage(panel: Panel): string {
  const rows = cellsOf(panel).map((row) =>
    row.slice(0, -1).map((cell) => cell.trim().replace(/ \(.*–.*\)$/, '')),
  )
  const rule = rows.slice(0, 1).map((head) => head.map((_, i) => (i > 0 ? '--:' : '---')))
  // Without blanks, which would count as words of the page.
  return [...rows.slice(0, 1), ...rule, ...rows.slice(1)]
    .map((row) => `|${row.join('|')}|`)
    .join('\n')
}
