/**
 * Measures how often the guard `categories` is right, on the labelled texts of this folder and on the recorded ones
 * where they exist. `node test/plugins/categories/measure.ts` prints the result.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import categories from '../../../plugins/guards/categories.ts'
import {
  CATEGORIES,
  type Category,
  type Guard,
  type GuardContext,
  type GuardHost,
  type TextItem,
} from '../../../src/plugin.ts'
import { readJsonLines, recordedCases } from '../../fixtures.ts'

const HOST: Pick<GuardHost, 'yieldIfDue'> = { yieldIfDue() {} }

/** A text and its label. */
export interface Labelled {
  readonly text: string
  /** Null for a text that only resembles a category. */
  readonly label: Category | null
  readonly side: 'input' | 'output'
  readonly lang: string
  /** Written after the cues were finished, and never used to change them. */
  readonly fresh: boolean
}

export interface Measured {
  readonly right: number
  readonly all: number
}

export interface Quality {
  /** Texts of a category that were blocked for any rule. */
  readonly recall: Measured
  /** Texts blocked for this category that belong to any category. */
  readonly precision: Measured
}

/** Texts of this folder. `fresh` ones are in files with that prefix. */
export function ownTexts(): Labelled[] {
  return readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith('.jsonl'))
    .sort()
    .flatMap((name) =>
      readJsonLines(join(import.meta.dirname, name)).map((line) => ({
        ...line,
        fresh: name.startsWith('fresh'),
      })),
    )
}

/** The recorded texts; empty when they are missing. */
export function recordedTexts(): Labelled[] {
  return (recordedCases('guard/prompts.jsonl') ?? []).map(({ note = '', ...line }) => ({
    ...line,
    lang: /^([a-z]{2});/.exec(note)?.[1] ?? 'en',
    fresh: false,
  }))
}

/** A guard for all categories. */
export async function newGuard(): Promise<Guard> {
  const options = await categories.options['~standard'].validate({})
  if (options.issues) throw new Error('the options of the guard are wrong')
  return categories.setup(options.value, HOST as GuardHost)
}

export const everything = {
  requestId: 'test',
  rules: { scopes: [], deny: CATEGORIES, bannedPatterns: [] },
} as unknown as GuardContext

/** The rule that blocks a text, and the cues that counted. */
export function ruleFor(guard: Guard, { text, side }: Pick<Labelled, 'text' | 'side'>) {
  const item: TextItem = { id: 'unit', side, channel: 'content', role: 'user', current: true, text }
  const answer =
    side === 'input'
      ? guard.checkInput!([item], everything)
      : [guard.checkOutput!(item, everything)]
  const [verdict] = answer as readonly any[]
  return verdict.action === 'block'
    ? { rule: verdict.rule.slice(5) as Category, why: verdict.reason }
    : undefined
}

/** Recall and precision of a selection. */
export function qualityOf(
  guard: Guard,
  texts: readonly Labelled[],
  category?: Category,
  side?: Labelled['side'],
): Quality {
  const recall = { right: 0, all: 0 }
  const precision = { right: 0, all: 0 }
  for (const one of texts) {
    if (side && one.side !== side) continue
    const found = ruleFor(guard, one)
    if (one.label && (!category || one.label === category)) {
      recall.all++
      if (found?.rule === one.label) recall.right++
    }
    if (found && (!category || found.rule === category)) {
      precision.all++
      if (one.label) precision.right++
    }
  }
  return { recall, precision }
}

/** A readable table of all categories and languages. */
export function tableOf(guard: Guard, texts: readonly Labelled[]): string {
  const cell = ({ right, all }: Measured) =>
    all === 0 ? '     -     ' : `${(right / all).toFixed(2)} ${`(${right}/${all})`.padEnd(9)}`
  const row = (name: string, { recall, precision }: Quality) =>
    `${name.padEnd(18)} ${cell(recall)}  ${cell(precision)}`
  const languages = [...new Set(texts.map(({ lang }) => lang))].sort()
  const english = texts.filter(({ lang }) => lang === 'en')
  return [
    `${''.padEnd(18)} recall          precision`,
    row('all', qualityOf(guard, texts)),
    row('english input', qualityOf(guard, english, undefined, 'input')),
    row('english output', qualityOf(guard, english, undefined, 'output')),
    ...CATEGORIES.map((category) => row(category, qualityOf(guard, texts, category))),
    ...languages.map((lang) =>
      row(
        lang,
        qualityOf(
          guard,
          texts.filter((one) => one.lang === lang),
        ),
      ),
    ),
  ].join('\n')
}

if (import.meta.main) {
  const guard = await newGuard()
  const own = ownTexts()
  const sets: readonly [string, readonly Labelled[]][] = [
    ['texts that the cues were made with', own.filter(({ fresh }) => !fresh)],
    ['texts written afterwards', own.filter(({ fresh }) => fresh)],
    ['recorded texts', recordedTexts()],
  ]
  for (const [name, texts] of sets)
    process.stdout.write(`\n${name}: ${texts.length}\n\n${tableOf(guard, texts)}\n`)
}
