/** Runs of the bench as tables: one setting for a terminal, all of them side by side, and for a page. */
import { SYSTEMS, type Measured, type Row, type Run, type Setting, type Spread } from './judge.ts'

/** A figure with at most three digits that mean something, nothing for one that is not there. */
export function show(value: number | null): string {
  if (value === null) return ''
  const digits =
    Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3
  return value.toLocaleString('en-US', { maximumFractionDigits: digits })
}

function withQuartiles({ median, from, to }: Spread): string {
  return median === null ? '' : `${show(median)} (${show(from)}..${show(to)})`
}

/** How the systems of a setting ran, for a heading. */
export function titleOf({ state, pinned }: Setting): string {
  const cores = pinned ? 'pinned: the system on core 0, all else on core 1' : 'shared cores'
  return `state ${state}${state === 'file' ? ' (the default)' : ''}, ${cores}`
}

/** All figures of one setting, with gates and targets. */
export function tableOf(measured: Measured): string {
  const lines = measured.rows.map((row) => {
    const { label, judged } = row
    const medians = SYSTEMS.map((system) => show(row[system].median))
    if (!judged) return [label, ...medians, '', '', '']
    const { compared, gate, verdict, target, reached } = judged
    const bounds = [`${show(gate)} ${verdict}`, `${show(target)} ${reached ? 'yes ' : 'no  '}`]
    return [label, ...medians, withQuartiles(compared), ...bounds]
  })
  const head = ['medians', ...SYSTEMS, 'to bare (quartiles)', 'gate', 'target']
  return columns([head, ...lines], [38, 11, 11, 11, 26, 14, 12])
}

/** All settings of a run side by side: those that are pinned, then the others. */
export function combined({ settings }: Run): string {
  return [true, false]
    .map((pinned) => settings.filter((one) => one.pinned === pinned))
    .filter((some) => some.length > 0)
    .map(sideBySide)
    .join('\n')
}

function sideBySide(settings: readonly Measured[]): string {
  const cores = settings[0]!.pinned ? 'pinned' : 'shared cores'
  const head = [`${cores}: medians (quartiles)`, 'bare', ...settings.map(({ state }) => state)]
  const lines = labelsOf(settings).flatMap(({ label, figure }) => {
    const found = settings.map(({ rows }) => rows.find((row) => row.figure === figure))
    const bare = withQuartiles(firstOf(found).bare)
    const all = [[label, bare, ...found.map((row) => (row ? withQuartiles(row.gateway) : ''))]]
    const how = firstOf(found).judged?.how
    // Alone, it is the figure itself that was judged.
    if (how) all.push(['    to bare', how, ...found.map(judgedOf)])
    else if (how === '') all.push(['    gate', '', ...found.map(verdictOf)])
    return all
  })
  return columns([head, ...lines], [40, 26, ...settings.map(() => 38)])
}

function judgedOf(row: Row | undefined): string {
  return row?.judged ? `${withQuartiles(row.judged.compared)} ${verdictOf(row)}` : ''
}

function verdictOf(row: Row | undefined): string {
  if (!row?.judged) return ''
  const { verdict, gate, reached } = row.judged
  return `${reached ? 'target' : verdict} of ${show(gate)}`
}

function firstOf(rows: readonly (Row | undefined)[]): Row {
  return rows.find((row) => row !== undefined)!
}

/** Labels of all rows that a setting has, in their order. */
function labelsOf(settings: readonly Measured[]): Pick<Row, 'label' | 'figure'>[] {
  const longest = settings.toSorted((a, b) => b.rows.length - a.rows.length)[0]!
  return longest.rows.map(({ label, figure }) => ({ label, figure }))
}

function columns(lines: readonly (readonly string[])[], widths: readonly number[]): string {
  return lines
    .map((line) => line.map((cell, i) => (i ? cell.padStart(widths[i]!) : cell.padEnd(widths[0]!))))
    .map((cells) => `${cells.join('').trimEnd()}\n`)
    .join('')
}
