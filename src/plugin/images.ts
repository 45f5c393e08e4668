/** For providers of images whose vendor makes one for each request. */
import type { ImageResult } from './media.ts'

/**
 * Asks `times` times at once and puts the images and counts together. The first request that fails ends the others.
 * @throws what that one threw
 */
export async function requestEach(
  times: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<ImageResult>,
): Promise<ImageResult> {
  if (times === 1) return ask(signal)
  const others = new AbortController()
  const either = AbortSignal.any([signal, others.signal])
  try {
    return joined(await Promise.all(Array.from({ length: times }, () => ask(either))))
  } catch (error) {
    others.abort(error)
    throw error
  }
}

function joined(results: readonly ImageResult[]): ImageResult {
  const usage: Record<string, number> = {}
  for (const result of results) {
    for (const [name, value] of Object.entries(result.usage ?? {})) {
      if (typeof value === 'number') usage[name] = (usage[name] ?? 0) + value
    }
  }
  const data = results.flatMap((result) => result.data)
  return { ...results[0]!, data, ...(Object.keys(usage).length > 0 && { usage }) }
}
