/** Screens for tests that set only what they are about. */
import { OutputScreen } from '../../src/guard/output-screen.ts'
import type { ScreenObserver } from '../../src/guard/decision.ts'
import type { ScreenInit } from '../../src/guard/screened-choice.ts'

export const LIMITS = { maxHeld: 1000, maxBuffer: 10_000, maxToolCall: 100 }

type Needed = 'codec' | 'scanners' | 'refuse'
export type Settings<Part> = Omit<Partial<ScreenInit<Part>>, Needed | 'observer'> &
  Pick<ScreenInit<Part>, Needed> & { readonly onError?: 'block' | 'allow' }

/** `failed` says nothing: that is up to `onError`. */
export type Observer = Omit<ScreenObserver, 'failed'> & {
  failed(...failure: Parameters<ScreenObserver['failed']>): void
}

const ignore = () => {}

/** A screen of one choice that releases text as soon as it has passed. */
export function screenOf<Part>(
  { onError = 'block', ...settings }: Settings<Part>,
  observer: Partial<Observer> = {},
): OutputScreen<Part> {
  return new OutputScreen<Part>({
    buffer: false,
    errorForm: false,
    choices: 1,
    limits: LIMITS,
    ...settings,
    observer: {
      found: ignore,
      removed: ignore,
      unscanned: ignore,
      released: ignore,
      withheld: ignore,
      ...observer,
      failed(guard, fault) {
        observer.failed?.(guard, fault)
        return onError === 'block'
      },
    },
  })
}
