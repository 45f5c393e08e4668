/** Measures how often the guards `categories` and `pii` are right about labelled texts. */
import categories from '../../plugins/guards/categories.ts'
import pii from '../../plugins/guards/pii.ts'
import {
  CATEGORIES,
  type Category,
  type Guard,
  type GuardContext,
  type GuardHost,
  type GuardPlugin,
  type TextItem,
  type Verdict,
} from '../../src/plugin.ts'
import { EVERYDAY, LANGUAGES, type Line } from './sets.ts'

/** A context in which all seven categories are denied. */
export const everything = {
  requestId: 'test',
  rules: { scopes: [], deny: CATEGORIES, bannedPatterns: [] },
} as unknown as GuardContext

/** That a guard blocked a text. */
export interface Block {
  readonly guard: 'categories' | 'pii'
  readonly rule: Category
  /** The cues that counted, or the kind of personal data. */
  readonly causes: readonly string[]
  /** Whether the text violates the rule, and, where its values are marked, whether one of them was found. */
  readonly isRight: boolean
}

/** What the guards say of a text. */
export interface Finding {
  readonly line: Line
  readonly blocks: readonly Block[]
}

/** A number of cases, and how many of them there are in all. */
export interface Figure {
  readonly of: number
  readonly all: number
}

/** A figure with the least or the most that is accepted. */
export interface Floor {
  readonly name: string
  readonly figure: Figure
  readonly atLeast?: number
  readonly atMost?: number
  readonly holds: boolean
}

/** The guards with their default options. */
export async function newGuards(): Promise<Readonly<Record<Block['guard'], Guard>>> {
  return { categories: await start(categories), pii: await start(pii) }
}

/** What the guards say of each text when all seven categories are denied. */
export async function measure(lines: readonly Line[]): Promise<Finding[]> {
  const guards = await newGuards()
  return lines.map((line) => ({
    line,
    blocks: (['categories', 'pii'] as const).flatMap((name) => {
      const verdict = verdictOf(guards[name], line)
      if (verdict.action !== 'block') return []
      const rule = verdict.rule.replace('deny:', '') as Category
      const isRight = line.violates.includes(rule) && (name !== 'pii' || meets(line, verdict))
      return [{ guard: name, rule, causes: causesOf(verdict.reason ?? ''), isRight }]
    }),
  }))
}

/** What a guard says of a text. */
export function verdictOf(guard: Guard, { text, side }: Pick<Line, 'text' | 'side'>): Verdict {
  const item: TextItem = { id: 'unit', side, channel: 'content', role: 'user', current: true, text }
  const verdict =
    side === 'input'
      ? (guard.checkInput!([item], everything) as readonly Verdict[])[0]!
      : (guard.checkOutput!(item, everything) as Verdict)
  if (verdict.action === 'abstain') throw new Error('the guard did not check a text')
  return verdict
}

/** How many texts that violate, or that violate this category, are blocked for what they violate. */
export function recallOf(findings: readonly Finding[], category?: Category): Figure {
  const due = findings.filter(({ line: { violates } }) =>
    category ? violates.includes(category) : violates.length > 0,
  )
  return {
    of: due.filter(({ blocks }) => blocks.some(({ isRight }) => isRight)).length,
    all: due.length,
  }
}

/** How many blocks, or blocks for this category, are right. */
export function precisionOf(findings: readonly Finding[], category?: Category): Figure {
  const blocks = findings
    .flatMap((finding) => finding.blocks)
    .filter(({ rule }) => !category || rule === category)
  return { of: blocks.filter(({ isRight }) => isRight).length, all: blocks.length }
}

/** How many texts are blocked, rightly or not. */
export function blockedOf(findings: readonly Finding[]): Figure {
  return { of: findings.filter(({ blocks }) => blocks.length > 0).length, all: findings.length }
}

/** The figures that decide, for the texts that are there. */
export function floorsOf(findings: readonly Finding[]): Floor[] {
  const some = (isMeant: (line: Line) => boolean) => findings.filter(({ line }) => isMeant(line))
  const inGroup = (...groups: readonly Line['group'][]) =>
    some(({ group }) => groups.includes(group))
  // Names and births are weak shapes, which `pii` alone does not promise to find.
  const marked = inGroup('personal-data', 'public-contact')
    .filter(({ line }) => !line.spans || line.spans.some(({ kind }) => kind !== 'person'))
    .map(({ line, blocks }) => ({ line, blocks: blocks.filter(({ guard }) => guard === 'pii') }))
  const bySide = (side: Line['side']) =>
    some(
      ({ side: is, group }) =>
        is === side && group !== 'personal-data' && group !== 'public-contact',
    )
  const input = bySide('input')
  const output = bySide('output')
  return [
    atMost('everyday requests blocked', blockedOf(inGroup(...EVERYDAY)), 0.005),
    atMost('technical prose blocked', blockedOf(inGroup('technical')), 0.008),
    atMost('general prose blocked', blockedOf(inGroup('general')), 0.008),
    atMost('sentences that decline blocked', blockedOf(inGroup('declined')), 0),
    atMost('public addresses and numbers blocked', blockedOf(inGroup('public-contact')), 0),
    atLeast('personal data, recall', recallOf(marked), 0.98),
    atLeast('personal data, precision', precisionOf(marked), 0.98),
    atLeast('categories, input, recall', recallOf(input), 0.78),
    atLeast('categories, input, precision', precisionOf(input), 0.96),
    ...LANGUAGES.map((lang) =>
      atLeast(
        `categories, input, recall, ${lang}`,
        recallOf(input.filter(({ line }) => line.lang === lang)),
        0.75,
      ),
    ),
    atLeast('categories, output, recall', recallOf(output), 0.75),
    atLeast('categories, output, precision', precisionOf(output), 0.95),
  ].filter(({ figure }) => figure.all > 0)
}

/** A figure as a number from 0 to 1; 1 of nothing. */
export function share({ of, all }: Figure): number {
  return all === 0 ? 1 : of / all
}

function atLeast(name: string, figure: Figure, least: number): Floor {
  return { name, figure, atLeast: least, holds: share(figure) >= least }
}

function atMost(name: string, figure: Figure, most: number): Floor {
  return { name, figure, atMost: most, holds: figure.of <= most * figure.all }
}

async function start({ options, setup }: GuardPlugin): Promise<Guard> {
  const valid = await options['~standard'].validate({})
  if (valid.issues) throw new Error('the default options of a guard are wrong')
  const host: Pick<GuardHost, 'yieldIfDue'> = { yieldIfDue() {} }
  const guard = await setup(valid.value, host as GuardHost)
  // The first question may take a while: a guard reads its word lists then.
  await guard.checkInput!([], everything)
  return guard
}

/** Whether a verdict points at one of the values that are marked in the text, where any are. */
function meets({ text, spans }: Line, verdict: Verdict & { action: 'block' }): boolean {
  if (!spans) return true
  return spans.some(({ value }) => {
    const start = text.indexOf(value)
    return verdict.spans?.some((span) => span.start < start + value.length && span.end > start)
  })
}

/** The cues in a reason. Each begins with its language, or with its category; it may have blanks. */
function causesOf(reason: string): string[] {
  return reason.split(CAUSES).filter(Boolean)
}

const CAUSES = new RegExp(` (?=(?:(?:[a-z]{2}|names)\\.)?(?:${CATEGORIES.join('|')})\\.)`)
