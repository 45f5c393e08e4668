/**
 * Regular expressions that are compiled before they are needed. Each costs up to a few milliseconds when it is first used,
 * once more when it is used again, and once more for texts beyond Latin-1: all in all far longer than others may have to
 * wait. `matchAll` is not for them: it makes a copy, which is compiled anew whenever memory was tidied up meanwhile.
 */
import { setImmediate as turn } from 'node:timers/promises'

/** Those that nobody has got ready. */
const cold: RegExp[] = []

/** An expression that {@link getReady} gets ready. */
export function expression(source: string | RegExp, flags?: string): RegExp {
  const one = new RegExp(source, flags)
  cold.push(one)
  return one
}

/** All matches in a text, in order; none may be empty. @param global nobody else may use it meanwhile */
export function* matchesOf(text: string, global: RegExp): Generator<RegExpExecArray> {
  global.lastIndex = 0
  for (let match = global.exec(text); match !== null; match = global.exec(text)) yield match
}

/** Gets all expressions ready, little by little, so that nobody has to wait for it later. */
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
