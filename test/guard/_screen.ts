/** Screens for tests that set only what they are about. */
import { Screen, type ScreenInit } from '../../src/guard/screen.ts'
import type { ScreenObserver } from '../../src/guard/decision.ts'
import { Chain } from '../../src/stream/chain.ts'
import { run } from '../../src/stream/flow.ts'

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
): Screen<Part> {
  return new Screen<Part>({
    enforce: true,
    buffer: false,
    errorForm: false,
    choices: 1,
    limits: LIMITS,
    idleMs: 60_000,
    stallMs: 60_000,
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

/** What comes out of a screen. */
export interface Passed<Part> {
  readonly out: readonly Part[]
  /** Rejects with what the answer failed with. */
  readonly over: Promise<void>
}

/** Takes what comes out of a screen. */
function sinkOf<Part>() {
  const out: Part[] = []
  const { promise: over, resolve, reject } = Promise.withResolvers<void>()
  // Also for those who do not look.
  over.catch(ignore)
  const sink = {
    push: (part: Part) => void out.push(part),
    batchEnd: () => true,
    end: resolve,
    fail: (error: unknown) => reject(error as Error),
  }
  return { sink, passed: { out, over } }
}

/**
 * Pushes parts through a screen.
 * @param apart which of the parts come apart from those after them, in turn; what comes together is looked at together
 * @param ends false: more could come
 */
export function through<Part>(
  screen: Screen<Part>,
  parts: readonly Part[],
  { apart = [true], ends = true }: { apart?: readonly boolean[]; ends?: boolean } = {},
): Passed<Part> {
  const { sink, passed } = sinkOf<Part>()
  const chain = new Chain<Part>([screen], sink)
  for (const [i, part] of parts.entries()) {
    chain.push(part)
    if (apart[i % apart.length]) chain.batchEnd()
  }
  if (ends) chain.end()
  return passed
}

/** Has a screen read parts as they come; it says when no more should come. */
export function reading<Part>(
  screen: Screen<Part>,
  parts: AsyncIterable<Part>,
): Passed<Part> & { readonly chain: Chain } {
  const { sink, passed } = sinkOf<Part>()
  return { ...passed, chain: run(parts, [screen], sink) }
}
