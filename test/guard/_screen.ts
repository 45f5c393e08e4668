/** Screens for tests that set only what they are about. */
import { OutputScreen } from '../../src/guard/output-screen.ts'
import type { ScreenObserver, ScreenInit } from '../../src/guard/screen-types.ts'

export const LIMITS = { maxHeld: 1000, maxBuffer: 10_000, maxToolCall: 100 }

type Needed = 'codec' | 'scanners' | 'refuse'
export type Settings<Part> = Omit<Partial<ScreenInit<Part>>, Needed | 'observer'> &
  Pick<ScreenInit<Part>, Needed>

const ignore = () => {}

/** A screen of one choice that releases text as soon as it has passed. */
export function screenOf<Part>(
  settings: Settings<Part>,
  observer: Partial<ScreenObserver> = {},
): OutputScreen<Part> {
  return new OutputScreen<Part>({
    buffer: false,
    errorForm: false,
    choices: 1,
    onError: 'block',
    limits: LIMITS,
    ...settings,
    observer: {
      found: ignore,
      failed: ignore,
      removed: ignore,
      unscanned: ignore,
      released: ignore,
      withheld: ignore,
      ...observer,
    },
  })
}
