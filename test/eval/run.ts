/**
 * `npm run eval:guard` measures the guards `categories` and `pii` on the texts of this folder and fails when a floor does
 * not hold. `--json` prints the same figures as JSON. README.md says what they mean.
 */
import { CATEGORIES } from '../../src/plugin.ts'
import {
  blockedOf,
  floorsOf,
  measure,
  precisionOf,
  recallOf,
  share,
  type Block,
  type Figure,
  type Finding,
  type Floor,
} from './measure.ts'
import { LANGUAGES, heldBackSets, readSet, recordedSet, type Half, type Line } from './sets.ts'

/** A row of a table; a figure is absent where there is nothing to measure. */
interface Row {
  readonly name: string
  readonly texts: number
  readonly recall: Figure
  readonly precision: Figure
  readonly blocked: Figure
}

interface FalseBlock
  extends Pick<Block, 'guard' | 'rule' | 'causes'>, Pick<Line, 'lang' | 'group'> {
  /** The text, where it is of the open half. */
  readonly text?: string
}

interface Report {
  readonly texts: number
  readonly rows: readonly Row[]
  readonly causes: readonly {
    readonly cause: string
    readonly right: number
    readonly wrong: number
  }[]
  readonly falseBlocks: readonly FalseBlock[]
  readonly floors: readonly Floor[]
}

const isJson = process.argv.includes('--json')
const reports: Record<string, Report> = {}
reports.open = reportOf(await measure(readSet('open')), 'open')
for (const [name, lines] of heldBackSets()) {
  reports[`held-back, ${name} set`] = reportOf(await measure(lines), 'held-back')
}
const recorded = recordedSet()
// They have no floors of their own here: they are not part of the repository.
if (recorded.length > 0) {
  reports.recorded = { ...reportOf(await measure(recorded), 'open'), floors: [] }
}
process.stdout.write(
  isJson
    ? `${JSON.stringify(reports, undefined, 2)}\n`
    : Object.entries(reports)
        .map(([name, report]) => printed(name, report))
        .join('\n'),
)
const failed = Object.values(reports).flatMap(({ floors }) => floors.filter(({ holds }) => !holds))
if (failed.length > 0) {
  process.stderr.write(`${failed.length} floors do not hold\n`)
  process.exitCode = 1
}

function reportOf(findings: readonly Finding[], half: Half): Report {
  const row = (name: string, isMeant: (line: Line) => boolean): Row => {
    const some = findings.filter(({ line }) => isMeant(line))
    return {
      name,
      texts: some.length,
      recall: recallOf(some),
      precision: precisionOf(some),
      blocked: blockedOf(some),
    }
  }
  const groups = [...new Set(findings.map(({ line }) => line.group))]
  const kinds = new Set(findings.flatMap(({ line }) => line.spans?.map(({ kind }) => kind) ?? []))
  return {
    texts: findings.length,
    rows: [
      row('all', () => true),
      ...CATEGORIES.flatMap((category) =>
        (['input', 'output'] as const).map((side) => {
          const name = `${category}, ${side}`
          const some = findings.filter(({ line }) => line.side === side)
          return {
            ...row(name, (line) => line.side === side && line.violates.includes(category)),
            recall: recallOf(some, category),
            precision: precisionOf(some, category),
          }
        }),
      ),
      ...LANGUAGES.flatMap((lang) =>
        (['input', 'output'] as const).map((side) =>
          row(`${lang}, ${side}`, (line) => line.lang === lang && line.side === side),
        ),
      ),
      ...groups.map((group) => row(group, (line) => line.group === group)),
      ...[...kinds].map((of) =>
        row(`spans: ${of}`, ({ spans }) => spans?.some(({ kind }) => kind === of) ?? false),
      ),
    ].filter(({ texts }) => texts > 0),
    causes: causesOf(findings),
    falseBlocks: findings.flatMap(({ line: { text, lang, group }, blocks }) =>
      blocks
        .filter(({ isRight }) => !isRight)
        .map(({ guard, rule, causes }) => ({
          guard,
          rule,
          causes,
          lang,
          group,
          ...(half === 'open' && { text }),
        })),
    ),
    floors: floorsOf(findings),
  }
}

/** The cues of false blocks, with how often each was part of a right one. */
function causesOf(findings: readonly Finding[]): Report['causes'] {
  const counts = new Map<string, { right: number; wrong: number }>()
  for (const { guard, causes, isRight } of findings.flatMap(({ blocks }) => blocks)) {
    for (const cause of new Set(causes)) {
      const name = `${guard} ${cause}`
      const count = counts.get(name) ?? { right: 0, wrong: 0 }
      count[isRight ? 'right' : 'wrong']++
      counts.set(name, count)
    }
  }
  return [...counts]
    .map(([cause, count]) => ({ cause, ...count }))
    .filter(({ wrong }) => wrong > 0)
    .sort((a, b) => b.wrong - a.wrong || a.right - b.right)
}

function printed(name: string, { texts, rows, causes, falseBlocks, floors }: Report): string {
  const lines = [
    `== ${name}: ${texts} texts`,
    '',
    `${''.padEnd(26)} texts  recall             precision          blocked`,
    ...rows.map(
      (row) =>
        `${row.name.padEnd(26)} ${String(row.texts).padStart(5)}  ` +
        `${cell(row.recall)}  ${cell(row.precision)}  ${cell(row.blocked)}`.trimEnd(),
    ),
    '',
    'false blocks by cue: false, right',
    ...causes.map(
      ({ cause, right, wrong }) =>
        `${String(wrong).padStart(4)} ${String(right).padStart(4)}  ${cause}`,
    ),
    '',
    'false blocks',
    ...falseBlocks.map(
      ({ guard, rule, causes: cues, lang, group, text }) =>
        `  ${lang} ${group}: ${guard} ${rule}: ${cues.join(', ')}${text ? `\n      ${JSON.stringify(text)}` : ''}`,
    ),
    '',
    ...(floors.length > 0 ? ['floors'] : []),
    ...floors.map(
      ({ name: of, figure, atLeast, atMost, holds }) =>
        `${holds ? 'ok  ' : 'FAIL'} ${of.padEnd(40)} ${cell(figure)}  ` +
        (atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`),
    ),
  ]
  return `${lines.join('\n')}\n`
}

function cell(figure: Figure): string {
  if (figure.all === 0) return '-'.padEnd(17)
  return `${share(figure).toFixed(3)} (${figure.of}/${figure.all})`.padEnd(17)
}
