/** Word lists of the categories. Entries are separated by commas; `*` at the end of an entry stands for any ending. */
import type { Category } from '../../../src/plugin.ts'

/** Cues of one category in one language. */
export interface CategoryCues {
  /** Requests typical of this category. Proof next to any of its topics. */
  readonly asks?: string
  /** Weaker requests. Proof only next to `topics`. */
  readonly leads?: string
  /** Topics of this category only. */
  readonly topics?: string
  /** Topics that may also belong elsewhere. */
  readonly loose?: string
  /** Proof by themselves. */
  readonly strong?: string
  /** Evidence against the category: idioms, names, logistics. */
  readonly against?: string
}

/** Word lists of one language. */
export interface Lexicon extends Readonly<Partial<Record<Category, CategoryCues>>> {
  readonly language: string
  /** General requests: `leads` of every category. */
  readonly asks: string
  /** Requests for information about a subject: `against` of every category. */
  readonly against: string
  /** Words for arithmetic operations between numbers. */
  readonly operators?: string
}

/** Roles of cues. */
export const ROLES = ['asks', 'leads', 'topics', 'loose', 'strong', 'against'] as const
/** What a cue contributes. */
export type Role = (typeof ROLES)[number]

/** One entry of a list. */
export interface Cue {
  /** Such as `en.code.topics.python`, shown to the operator. */
  readonly id: string
  /** Undefined for cues of every category. */
  readonly category: Category | undefined
  readonly role: Role
}

/** All entries of a lexicon. */
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

/** Splits one list into its entries. */
function split(table: string | undefined): string[] {
  return (table ?? '')
    .split(',')
    .map((entry) => entry.replace(/\s+/g, ' ').trim())
    .filter((entry) => entry !== '')
}
