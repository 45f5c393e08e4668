import { vi } from 'vitest'
import { patience } from './_patience.ts'

/** Waits until a check holds. The limit is for a check that never does: it is far above what a busy machine needs. */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 60_000 * patience() })
}
