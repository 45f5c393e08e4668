/**
 * Words that speak for a category, in tables that can be read: entries are separated by commas, `*` at the end of one
 * stands for any ending.
 */
import type { Category } from '../../../src/plugin.ts'

/** Cues of one category in one language. */
export interface CategoryCues {
  /** What is asked for, in words that this category is asked in: proof next to any of its subjects. */
  readonly asks?: string
  /** Softer ones: proof next to `topics` only. */
  readonly leads?: string
  /** Subjects that belong to the category. */
  readonly topics?: string
  /** Subjects that may belong elsewhere. */
  readonly loose?: string
  /** Enough by themselves. */
  readonly strong?: string
  /** Speak against it: idioms, names, logistics. */
  readonly against?: string
}

export interface Lexicon extends Readonly<Partial<Record<Category, CategoryCues>>> {
  readonly language: string
  /** Ways to ask for anything: `leads` of every category. */
  readonly asks: string
  /** What people ask who want to know about something, not to have it done: `against` of every category. */
  readonly against: string
  /** Words between numbers that are an operation. */
  readonly operators?: string
}

export const ROLES = ['asks', 'leads', 'topics', 'loose', 'strong', 'against'] as const
export type Role = (typeof ROLES)[number]

/** One entry of a table. */
export interface Cue {
  /** Such as `en.code.topics.python`, for the operator's record. */
  readonly id: string
  /** Nothing: of every category. */
  readonly category: Category | undefined
  readonly role: Role
}

/** All entries of a lexicon, as they are written. */
export function* entriesOf(
  lexicon: Lexicon,
  categories: readonly Category[],
): Generator<{ readonly text: string; readonly cue: Cue }> {
  const { language, asks, against } = lexicon
  const common = { leads: asks, against }
  for (const role of ['leads', 'against'] as const) {
    for (const text of split(common[role])) {
      yield { text, cue: { id: `${language}.${role}.${text}`, category: undefined, role } }
    }
  }
  for (const category of categories) {
    const cues = lexicon[category]
    for (const role of ROLES) {
      for (const text of split(cues?.[role])) {
        yield { text, cue: { id: `${language}.${category}.${role}.${text}`, category, role } }
      }
    }
  }
}

/** The entries of one table. */
export function split(table: string | undefined): string[] {
  return (table ?? '')
    .split(',')
    .map((entry) => entry.replace(/\s+/g, ' ').trim())
    .filter((entry) => entry !== '')
}
