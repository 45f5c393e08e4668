/** Screens for tests that set only what they are about. */
import { Screen } from '../../src/guard/screen.ts'
import type { ScreenObserver, ScreenInit } from '../../src/guard/screen-types.ts'

export const LIMITS = { maxHeld: 1000, maxBuffer: 10_000, maxToolCall: 100 }

type Needed = 'lanes' | 'scouts' | 'refuse'
export type Settings<Part> = Omit<Partial<ScreenInit<Part>>, Needed | 'notes'> &
  Pick<ScreenInit<Part>, Needed>

const ignore = () => {}

/** A screen of one choice that lets go as it goes along, and tells only those who ask. */
export function screenOf<Part>(
  settings: Settings<Part>,
  notes: Partial<ScreenObserver> = {},
): Screen<Part> {
  return new Screen<Part>({
    buffer: false,
    errorForm: false,
    choices: 1,
    onError: 'block',
    limits: LIMITS,
    ...settings,
    notes: {
      found: ignore,
      failed: ignore,
      removed: ignore,
      unscanned: ignore,
      released: ignore,
      withheld: ignore,
      ...notes,
    },
  })
}
