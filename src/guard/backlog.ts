/** Which guards retain how much of an answer. */
import type { Origin } from '../plugin.ts'
import type { ScanSession } from './scan-session.ts'
import type { ScreenedChoice } from './screened-choice.ts'
import type { ScreenedText } from './screened-text.ts'

/** Text that a guard retains. */
interface Backlog<Part> {
  readonly choice: ScreenedChoice<Part>
  readonly text: ScreenedText<Part>
  readonly session: ScanSession
}

const ORIGINS: readonly Origin[] = ['key', 'request']

/** Guards that retain more than `limit` characters of a growing text and wait for nothing but more of it. */
export function backlogsOf<Part>(
  choice: ScreenedChoice<Part>,
  limit: number,
): readonly Backlog<Part>[] {
  return [...choice.texts.values()].flatMap((text) =>
    text.retaining(limit).map((session) => ({ choice, text, session })),
  )
}

/**
 * For each origin whose guards together retain more than `limit` characters of all texts, the guard that retains most.
 * Each origin has a share of its own, so that rules of a request cannot cost the key its guards.
 */
export function largestBacklogs<Part>(
  choices: readonly ScreenedChoice<Part>[],
  limit: number,
): readonly Backlog<Part>[] {
  const all = choices.flatMap((choice) => backlogsOf(choice, 0))
  return ORIGINS.flatMap((origin) => {
    const own = all.filter(({ session }) => session.origin === origin)
    const sum = own.reduce((total, one) => total + sizeOf(one), 0)
    return sum > limit ? own.sort((a, b) => sizeOf(b) - sizeOf(a)).slice(0, 1) : []
  })
}

function sizeOf<Part>({ text, session }: Backlog<Part>): number {
  return text.length - session.safeOffset
}
