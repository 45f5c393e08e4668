/** The guard itself, which is loaded on first use. */
import type {
  CheckProgress,
  Guard,
  GuardHost,
  OutputCheck,
  Span,
  Verdict,
} from '../../../src/plugin.ts'
import { readInSlices, warmUp } from '../text/slices.ts'
import type { EntityClass } from './classes.ts'
import { EncodedWords } from './encoded.ts'
import { PersonalDataScan } from './scan.ts'

const PASS: Verdict = { action: 'pass' }

export interface PersonalDataOptions {
  readonly entities: readonly EntityClass[]
  readonly ignore: readonly string[]
  readonly weak: boolean
}

export async function createGuard(
  { entities, ignore, weak }: PersonalDataOptions,
  host: GuardHost,
): Promise<Required<Pick<Guard, 'checkInput' | 'checkOutput' | 'streamOutput' | 'locate'>>> {
  const classes = new Set<EntityClass>(entities)
  const isIgnored = ignoreMatcher(ignore)
  const newCheck = () => new PersonalDataCheck(classes, isIgnored, weak)
  await warmUp()
  return {
    checkInput: (items, context) => readInSlices(items, newCheck, () => host.yieldIfDue(context)),
    checkOutput({ text }) {
      const check = newCheck()
      check.push(text)
      return check.end().verdict ?? PASS
    },
    streamOutput: newCheck,
    async locate(text, context) {
      const search = new PersonalDataSearch(classes, isIgnored)
      for (let at = 0; at < text.length; at += SLICE) {
        search.push(text.slice(at, at + SLICE))
        const due = host.yieldIfDue(context)
        if (due) await due
      }
      return search.end()
    },
  }
}

const SLICE = 1 << 12

/** Finds all personal data of one text, shapes included; addresses of roles are none. */
class PersonalDataSearch {
  readonly #found: Span[] = []
  readonly #scan: PersonalDataScan
  readonly #encoded: EncodedWords

  constructor(classes: ReadonlySet<EntityClass>, isIgnored: (text: string) => boolean) {
    const settings = { classes, strict: true }
    this.#scan = new PersonalDataScan(settings, ({ start, end, label, tier }, text) => {
      if (tier < 3 && !isIgnored(text)) this.#found.push({ start, end, label })
      return true
    })
    this.#encoded = new EncodedWords(({ start, end, before, text }) => {
      const scan = new PersonalDataScan(settings, (entity, said) => {
        const isInside = entity.tier === 1 && entity.start >= before.length
        if (isInside && !isIgnored(said)) this.#found.push({ start, end, label: entity.label })
        return true
      })
      scan.push(before + text)
      scan.end()
      return true
    })
  }

  push(piece: string): void {
    this.#scan.push(piece)
    this.#encoded.push(piece)
  }

  end(): readonly Span[] {
    this.#scan.end()
    this.#encoded.end()
    return joined(this.#found)
  }
}

/** Checks one growing text. */
class PersonalDataCheck implements OutputCheck {
  readonly #scan: PersonalDataScan
  readonly #encoded: EncodedWords
  /** Shapes, and addresses of roles, that did not count alone. */
  readonly #shapes: Span[] = []
  #roles = 0
  /** Characters that were read. */
  #read = 0
  #verdict: Verdict | undefined = undefined

  constructor(
    classes: ReadonlySet<EntityClass>,
    isIgnored: (text: string) => boolean,
    weak: boolean,
  ) {
    this.#scan = new PersonalDataScan({ classes, strict: weak }, (entity, text) => {
      if (isIgnored(text)) return true
      const { start, end, label } = entity
      const spans = [...this.#shapes, { start, end, label }]
      if (entity.tier === 3) this.#roles++
      const isAlone = spans.length < 2 || spans.length === this.#roles
      if (entity.tier === 3 ? isAlone : entity.tier === 2 && !weak && isAlone) {
        this.#shapes.push({ start, end, label })
        return true
      }
      this.#verdict = { action: 'block', rule: 'deny:personal-data', spans, reason: label }
      return false
    })
    this.#encoded = new EncodedWords(({ start, end, before, text: said }) => {
      const scan = new PersonalDataScan({ classes, strict: weak }, (entity, text) => {
        const { tier, label } = entity
        if (tier > 1 || entity.start < before.length || isIgnored(text)) return true
        const spans = [{ start, end, label }]
        this.#verdict ??= { action: 'block', rule: 'deny:personal-data', spans, reason: label }
        return false
      })
      scan.push(before + said)
      scan.end()
      return !this.#verdict
    })
  }

  push(text: string): CheckProgress {
    for (let at = 0; at < text.length && !this.#verdict;) {
      const piece = text.slice(at, (at += this.#encoded.reach(text.slice(at))))
      const from = this.#read
      this.#scan.push(piece)
      this.#read += piece.length
      // Both stop at the same character, however the text is split.
      this.#encoded.push(this.#verdict ? piece.slice(0, this.#scan.at - from) : piece)
    }
    return this.#progress()
  }

  end(): CheckProgress {
    this.#scan.end()
    if (!this.#verdict) this.#encoded.end()
    return this.#progress()
  }

  #progress(): CheckProgress {
    const safe = Math.min(this.#scan.safe, this.#encoded.safe)
    return this.#verdict ? { safeOffset: safe, verdict: this.#verdict } : { safeOffset: safe }
  }
}

/** Matches ignored entries regardless of case and of separators between digits. */
function ignoreMatcher(entries: readonly string[]): (text: string) => boolean {
  const known = entries.map(normalize)
  return (text) => {
    if (known.length === 0) return false
    const given = normalize(text)
    return known.some((entry) => (/^[@.]/.test(entry) ? given.endsWith(entry) : given === entry))
  }
}

function normalize(text: string): string {
  const lower = text.trim().toLowerCase()
  return lower.includes('@') || !/\d/.test(lower) ? lower : lower.replaceAll(/[^\p{L}\p{N}]/gu, '')
}

/** Ranges in their order, those that overlap as one; the first gives its label. */
function joined(spans: readonly Span[]): readonly Span[] {
  const all: Span[] = []
  for (const span of spans.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = all.at(-1)
    if (last && span.start < last.end)
      all[all.length - 1] = { ...last, end: Math.max(last.end, span.end) }
    else all.push(span)
  }
  return all
}
