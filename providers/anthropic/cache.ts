/** Prompt caching. The client marks places; the vendor accepts four markers per request. */
import type { Marked } from './blocks.ts'

const MAX_MARKERS = 4

/**
 * Removes the first markers above the limit. Later markers cover the prompt before them.
 * @param places everything that may carry a marker, in the order of the prompt
 * @param automatic whether the request as a whole is marked, which counts as one marker
 */
export function limitMarkers(places: Iterable<Marked>, automatic: boolean): void {
  const marked = [...places].filter(({ cache_control }) => cache_control !== undefined)
  const surplus = marked.length - (automatic ? MAX_MARKERS - 1 : MAX_MARKERS)
  for (const place of marked.slice(0, Math.max(0, surplus))) delete place.cache_control
}
