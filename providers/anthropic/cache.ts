/** Prompt caching: the client says where, and the vendor takes no more than four marks in a request. */
import type { Marked } from './blocks.ts'

const MOST = 4

/**
 * Takes the earliest markers off until the rest is few enough: each later one covers all that stands before it.
 * @param places everything that may carry one, in the order of the prompt
 * @param automatic the request is marked as a whole, too, which counts
 */
export function limitMarkers(places: Iterable<Marked>, automatic: boolean): void {
  const marked = [...places].filter(({ cache_control }) => cache_control !== undefined)
  const surplus = marked.length - (automatic ? MOST - 1 : MOST)
  for (const place of marked.slice(0, Math.max(0, surplus))) delete place.cache_control
}
