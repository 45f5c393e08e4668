/** Checks a long input in slices, so that other calls run in between. */
import { setImmediate as nextTurn } from 'node:timers/promises'
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

// Regular expressions that are compiled in advance. V8 compiles on first use, again on the second, and again for text
// beyond Latin-1, a few milliseconds each time. `matchAll` is avoided because it copies the expression, which may be
// compiled again.

/** Expressions that are not compiled yet. */
const uncompiled: RegExp[] = []

/** An expression that {@link warmUp} compiles in advance. */
export function expression(source: string | RegExp, flags?: string): RegExp {
  const pattern = new RegExp(source, flags)
  uncompiled.push(pattern)
  return pattern
}

/** All matches in a text, in order. No match may be empty. @param global must not be used elsewhere meanwhile */
export function* matchesOf(text: string, global: RegExp): Generator<RegExpExecArray> {
  global.lastIndex = 0
  for (let match = global.exec(text); match !== null; match = global.exec(text)) yield match
}

/**
 * Compiles all expressions, one step per turn of the event loop, because it takes some tenths of a second: only the call that
 * needs the guard first waits for it.
 */
export async function warmUp(): Promise<void> {
  for (let pattern = uncompiled.pop(); pattern; pattern = uncompiled.pop()) {
    for (const text of ['x', 'x', '\u2013', '\u2013']) {
      pattern.lastIndex = 0
      pattern.test(text)
      pattern.lastIndex = 0
      await nextTurn()
    }
  }
}
