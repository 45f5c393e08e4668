/** Reads the labelled texts of this folder. README.md has their shape. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { CLASSES } from '../../plugins/guards/pii/classes.ts'
import { CATEGORIES } from '../../src/plugin.ts'
import { readJsonLines, recordedCases } from '../fixtures.ts'

/** `held-back` texts are never read by those who change a guard. */
export const HALVES = ['open', 'held-back'] as const
export type Half = (typeof HALVES)[number]

/** Languages that the guard `categories` has words of. */
export const LANGUAGES = 'ar de en es fr hi it ja ko nl pl pt ru zh'.split(' ')

/** Requests of every day. `other` has those of no particular place. */
export const EVERYDAY = [
  'household',
  'office',
  'school',
  'travel',
  'shopping',
  'small-talk',
  'other',
] as const

const GROUPS = [
  ...EVERYDAY,
  'technical',
  'general',
  'near-miss',
  'declined',
  'violating',
  'personal-data',
  'public-contact',
] as const

const lineSchema = v.strictObject({
  id: v.pipe(v.string(), v.regex(/^[a-z0-9-]+$/)),
  lang: v.picklist(LANGUAGES),
  side: v.picklist(['input', 'output']),
  group: v.picklist(GROUPS),
  text: v.pipe(v.string(), v.minLength(2), v.maxLength(1500)),
  violates: v.array(v.picklist(CATEGORIES)),
  spans: v.optional(
    v.array(
      v.strictObject({ kind: v.picklist(CLASSES), value: v.pipe(v.string(), v.minLength(4)) }),
    ),
  ),
})

/** A text and what is true of it. */
export type Line = v.InferOutput<typeof lineSchema>

/** All texts of a half, or of one file of it. Throws an error with the ids of lines that have the wrong shape. */
export function readSet(half: Half, file?: string): Line[] {
  const folder = join(import.meta.dirname, half)
  const wrong: string[] = []
  const lines = readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl') && (file === undefined || name === file))
    .sort()
    .flatMap((name) =>
      readJsonLines(join(folder, name)).map((value, i) => {
        const fault = faultOf(value)
        // The text stays out of the message: those who change a guard read it.
        if (fault) wrong.push(`${half}/${name}:${i + 1}: ${fault}`)
        return value as Line
      }),
    )
  if (wrong.length > 0) throw new Error(wrong.join('\n'))
  return lines
}

/**
 * Sets of the half that is held back, by name: files named `second-….jsonl` and `third-….jsonl` are sets of their own, which
 * were written later. Each has its own floors, because a guard may have been changed with the figures of earlier ones in view.
 */
export function heldBackSets(): ReadonlyMap<string, readonly Line[]> {
  const sets = new Map<string, Line[]>()
  for (const file of readdirSync(join(import.meta.dirname, 'held-back')).sort()) {
    if (!file.endsWith('.jsonl')) continue
    const name = /^(second|third)-/.exec(file)?.[1] ?? 'first'
    sets.set(name, [...(sets.get(name) ?? []), ...readSet('held-back', file)])
  }
  return sets
}

/** The recorded texts; empty when they are missing. */
export function recordedSet(): Line[] {
  return (recordedCases('guard/prompts.jsonl') ?? []).map(
    ({ text, label, side, note = '' }, i) => ({
      id: `recorded-${i}`,
      lang: /^([a-z]{2});/.exec(note)?.[1] ?? 'en',
      side,
      group: label ? 'violating' : 'near-miss',
      text,
      violates: label ? [label] : [],
    }),
  )
}

function faultOf(value: unknown): string | undefined {
  const { success, issues, output } = v.safeParse(lineSchema, value)
  if (!success) return issues.map((issue) => `${v.getDotPath(issue)} is wrong`).join(', ')
  const { text, spans = [], group, violates } = output
  if (spans.some(({ value: span }) => text.split(span).length !== 2)) {
    return 'a value of spans has to be in the text exactly once'
  }
  const isHarmless = !['violating', 'personal-data', 'public-contact'].includes(group)
  if (isHarmless && violates.length > 0) return `a text of the group ${group} violates nothing`
  if (group === 'violating' && violates.length === 0) return 'violates is empty'
  if (spans.length > 0 && !violates.includes('personal-data')) {
    return 'a text with spans violates personal-data'
  }
  return undefined
}
