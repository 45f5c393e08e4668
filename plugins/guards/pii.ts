/**
 * Personal data, by its forms: mail addresses, telephone, card, account and identity numbers with their check digits,
 * addresses of machines, zones of travel documents. Names, births, homes and plates are shapes that prove nothing alone:
 * they count from the second on, or with `weak`. Exact, local, and the same however an answer is cut.
 *
 * What it cannot see: names in running text, requests to find somebody, health or family of a person. It asks for a
 * judge.
 */
import * as v from 'valibot'
import {
  defineGuard,
  type CheckProgress,
  type OutputCheck,
  type Span,
  type Verdict,
} from '../../src/plugin.ts'
import { CLASSES, type EntityClass } from './pii/numbers.ts'
import { PersonalDataScan } from './pii/scan.ts'
import { getReady } from './text/expressions.ts'
import { readInSlices } from './text/slices.ts'

const PASS: Verdict = { action: 'pass' }

const options = v.strictObject({
  /** What to look for; everything where it is absent. */
  entities: v.optional(v.pipe(v.array(v.picklist(CLASSES)), v.minLength(1))),
  /**
   * What is no secret: an address or number as it is written anywhere, or the end of addresses, such as
   * `@ourcompany.example`.
   */
  ignore: v.optional(v.array(v.pipe(v.string(), v.minLength(3))), []),
  /** Whether one shape alone counts: a name after "my name is", a date of birth, a home, a plate, a place. */
  weak: v.optional(v.boolean(), false),
})

export default defineGuard({
  name: 'pii',
  options,
  setup({ entities = CLASSES, ignore, weak }, host) {
    const classes = new Set<EntityClass>(entities)
    const isIgnored = ignoring(ignore)
    const look = () => new Look(classes, isIgnored, weak)
    void getReady()
    return {
      enforces: ['deny:personal-data'],
      execution: 'local',
      checkInput: (items, context) =>
        readInSlices(
          items,
          // Texts of tools are for patterns alone.
          ({ channel }) => (channel === 'tool_schema' ? undefined : look()),
          () => host.yieldIfDue(context),
        ),
      checkOutput({ text }) {
        const one = look()
        one.push(text)
        return one.end().verdict ?? PASS
      },
      streamOutput: look,
    }
  },
})

/** One text, looked at as it grows. */
class Look implements OutputCheck {
  readonly #scan: PersonalDataScan
  readonly #shapes: Span[] = []
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
      if (entity.tier === 2 && !weak && spans.length < 2) {
        this.#shapes.push(...spans)
        return true
      }
      this.#verdict = { action: 'block', rule: 'deny:personal-data', spans, reason: label }
      return false
    })
  }

  push(text: string): CheckProgress {
    this.#scan.push(text)
    return this.#step()
  }

  end(): CheckProgress {
    this.#scan.end()
    return this.#step()
  }

  #step(): CheckProgress {
    const { safe } = this.#scan
    return this.#verdict ? { safeOffset: safe, verdict: this.#verdict } : { safeOffset: safe }
  }
}

/** Spelling does not matter: case, and what stands between the digits of a number. */
function ignoring(entries: readonly string[]): (text: string) => boolean {
  const known = entries.map(plain)
  return (text) => {
    if (known.length === 0) return false
    const given = plain(text)
    return known.some((entry) => (/^[@.]/.test(entry) ? given.endsWith(entry) : given === entry))
  }
}

function plain(text: string): string {
  const lower = text.trim().toLowerCase()
  return lower.includes('@') || !/\d/.test(lower) ? lower : lower.replaceAll(/[^\p{L}\p{N}]/gu, '')
}
