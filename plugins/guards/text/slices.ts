/** Local guards read a long input in slices, with turns for other calls in between. */
import type { CheckProgress, TextItem, Verdict } from '../../../src/plugin.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_READ: Verdict = { action: 'abstain', why: 'not-applicable' }

/** Characters that are read between two looks at the clock. */
const SLICE = 256

/** Reads one text, piece by piece, and answers at once. */
export interface LocalCheck {
  push(text: string): CheckProgress
  end(): CheckProgress
}

/**
 * The verdicts of a guard on an input, in order.
 * @param open begins to read a text; nothing for a text that the guard does not read
 * @param yieldIfDue see `GuardHost.yieldIfDue`
 * @returns a promise only if reading takes longer than a slice of time
 */
export function readInSlices(
  items: readonly TextItem[],
  open: (item: TextItem) => LocalCheck | undefined,
  yieldIfDue: () => void | Promise<void>,
): readonly Verdict[] | Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = []
  let check: LocalCheck | undefined
  let verdict: Verdict | undefined
  let at = 0
  const readOn = (): readonly Verdict[] | Promise<readonly Verdict[]> => {
    for (const item of items.slice(verdicts.length)) {
      check ??= open(item)
      while (!verdict && at < item.text.length) {
        if (!check) break
        verdict = check.push(item.text.slice(at, at + SLICE)).verdict
        at += SLICE
        const due = yieldIfDue()
        if (due) return due.then(readOn)
      }
      verdicts.push(check ? (verdict ?? check.end().verdict ?? PASS) : NOT_READ)
      check = verdict = undefined
      at = 0
    }
    return verdicts
  }
  return readOn()
}
