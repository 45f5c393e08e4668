/** Prompt caching. The client marks places; the vendor accepts four markers per request. */
import type { Marked } from './blocks.ts'

const MAX_MARKERS = 4

/**
 * Removes the first markers above the limit, because later ones cover the prompt before them. Markers of an hour after one
 * of five minutes become such: the vendor refuses that order.
 * @param places everything that may carry a marker, in the order of the prompt
 */
export function limitMarkers(places: Iterable<Marked>): void {
  const marked = [...places].filter(({ cache_control }) => cache_control !== undefined)
  for (const place of marked.splice(0, Math.max(0, marked.length - MAX_MARKERS))) {
    delete place.cache_control
  }
  const firstShort = marked.findIndex(({ cache_control }) => !isLong(cache_control))
  if (firstShort < 0) return
  for (const place of marked.slice(firstShort)) {
    if (isLong(place.cache_control)) place.cache_control = { ...place.cache_control, ttl: '5m' }
  }
}

function isLong(marker: unknown): marker is { ttl: '1h' } {
  return Object(marker).ttl === '1h'
}
