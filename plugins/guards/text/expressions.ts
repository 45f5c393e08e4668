/**
 * Regular expressions that are compiled in advance. V8 compiles on first use, again on the second, and again for text
 * beyond Latin-1, a few milliseconds each time. `matchAll` is avoided because it copies the expression, which may be
 * compiled again.
 */
import { setImmediate as turn } from 'node:timers/promises'

/** Expressions that are not compiled yet. */
const cold: RegExp[] = []

/** An expression that {@link getReady} compiles in advance. */
export function expression(source: string | RegExp, flags?: string): RegExp {
  const one = new RegExp(source, flags)
  cold.push(one)
  return one
}

/** All matches in a text, in order. No match may be empty. @param global must not be used elsewhere meanwhile */
export function* matchesOf(text: string, global: RegExp): Generator<RegExpExecArray> {
  global.lastIndex = 0
  for (let match = global.exec(text); match !== null; match = global.exec(text)) yield match
}

/** Compiles all expressions, one step per turn of the event loop, so that no request has to wait for it. */
export async function getReady(): Promise<void> {
  for (let one = cold.pop(); one; one = cold.pop()) {
    for (const text of ['x', 'x', '\u2013', '\u2013']) {
      one.lastIndex = 0
      one.test(text)
      one.lastIndex = 0
      await turn()
    }
  }
}
