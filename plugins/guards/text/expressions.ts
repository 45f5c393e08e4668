/**
 * Regular expressions that are compiled in advance. V8 compiles on first use, again on the second, and again for text
 * beyond Latin-1, a few milliseconds each time. `matchAll` is avoided because it copies the expression, which may be
 * compiled again.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** By then a start is over, and its first requests are answered. */
const AFTER_START_MS = 2000

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
 * Compiles all expressions, one step per turn of the event loop, so that no request has to wait for it. It takes some tenths
 * of a second, which a start does not have, nor a process that only checks its configuration.
 */
export async function warmUp(): Promise<void> {
  await sleep(AFTER_START_MS, undefined, { ref: false })
  for (let pattern = uncompiled.pop(); pattern; pattern = uncompiled.pop()) {
    for (const text of ['x', 'x', '\u2013', '\u2013']) {
      pattern.lastIndex = 0
      pattern.test(text)
      pattern.lastIndex = 0
      await nextTurn()
    }
  }
}
