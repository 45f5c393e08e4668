/** Checks a long input in slices, so that other calls run in between. */
import type { CheckProgress, TextItem, Verdict } from '../../../src/plugin.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_CHECKED: Verdict = { action: 'abstain', why: 'not-applicable' }

/** Characters between two calls of `yieldIfDue`. */
const SLICE = 256

/** Checks one text, piece by piece, without waiting. */
interface LocalCheck {
  push(text: string): CheckProgress
  end(): CheckProgress
}

/**
 * The verdicts of a guard on an input, in order.
 * @param open starts the check of a text; undefined for a text that the guard does not check
 * @param yieldIfDue see `GuardHost.yieldIfDue`
 * @returns a promise only when the check takes longer than a time slice
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
      verdicts.push(check ? (verdict ?? check.end().verdict ?? PASS) : NOT_CHECKED)
      check = verdict = undefined
      at = 0
    }
    return verdicts
  }
  return readOn()
}
