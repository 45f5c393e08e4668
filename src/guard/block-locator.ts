/**
 * Finds out where a text is blocked when several local guards read it. The guard that happens to be asked first would win,
 * and more text would go out, the longer the pieces are in which text comes. So the guards read the text again, character
 * by character, and the text alone decides.
 */
import { wholeCharacters } from '../errors/checks.ts'
import type { TextStream } from '../plugin.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import { ScanSession, andThen, type BlockedAt, type OutputScanner } from './scan-session.ts'

/** Characters that guards are told of at a time where the exact place does not matter. */
const STRIDE = 256
/** Texts up to this length are read again in one go. */
const LONG = 1 << 14

/**
 * Where a text is blocked, and by which guard. A promise only for long texts, which give other calls their turn.
 * @param from no guard blocks before it
 * @param known what is known without it, and holds where no guard blocks again
 * @param proceed throws when the answer is no longer wanted
 */
export function locateBlock(
  scanners: readonly OutputScanner[],
  stream: TextStream,
  text: string,
  from: number,
  known: BlockedAt,
  proceed: () => void,
): BlockedAt | Promise<BlockedAt> {
  const read = (from: number, step: number) => {
    const sessions = scanners.map((scanner) => new ScanSession(scanner, stream))
    return readAgain(sessions, text, from, step, text.length > LONG ? proceed : undefined)
  }
  const exact = (start: number) =>
    andThen(read(start, 1), ({ sessions, blocking }) => {
      if (!blocking) return known
      const others = sessions.filter(({ stop }) => !stop?.fault)
      const offsets = others.map(({ safeOffset }) => safeOffset)
      return { session: blocking, safeOffset: Math.min(known.safeOffset, ...offsets) }
    })
  const start = wholeCharacters(text, from)
  // Character by character takes many times as long: where there is much to read, strides come first.
  if (text.length - start <= STRIDE) return exact(start)
  return andThen(read(start, STRIDE), ({ blockedFrom }) => exact(blockedFrom))
}

/** What became of a text that was read again. */
interface Rereading {
  readonly sessions: readonly ScanSession[]
  /** The first session that blocks. */
  readonly blocking: ScanSession | undefined
  /** Where the piece begins in which one blocked; the end of the text where none did. */
  readonly blockedFrom: number
}

/**
 * Has new sessions read a text until one of them blocks.
 * @param step characters at a time from `from` on
 * @param proceed where it is given, other calls get their turn now and then
 * @param at where to begin
 */
function readAgain(
  sessions: readonly ScanSession[],
  text: string,
  from: number,
  step: number,
  proceed: (() => void) | undefined,
  at = 0,
): Rereading | Promise<Rereading> {
  const blocking = () => sessions.find(({ stop }) => stop?.block)
  for (let start = at; start < text.length;) {
    let end = start < from ? Math.min(from, start + STRIDE) : start + step
    if (wholeCharacters(text, end) < end) end++
    for (const session of sessions) session.push(text.slice(start, end))
    if (start >= from && blocking()) return { sessions, blocking: blocking(), blockedFrom: start }
    start = end
    const due = proceed && yieldIfDue(proceed)
    if (due) return due.then(() => readAgain(sessions, text, from, step, proceed, end))
  }
  return { sessions, blocking: blocking(), blockedFrom: text.length }
}
