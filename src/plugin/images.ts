/** Help for providers whose vendor makes one image per request. */
import type { ImageResult } from './media.ts'

/**
 * Makes `times` requests at the same time and joins their images and usage. The first request that fails aborts the others.
 * @param ask makes one request; must pass its signal on. @throws the error of the first failed request
 */
export async function requestEach(
  times: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<ImageResult>,
): Promise<ImageResult> {
  if (times === 1) return ask(signal)
  const failure = new AbortController()
  const either = AbortSignal.any([signal, failure.signal])
  try {
    return joined(await Promise.all(Array.from({ length: times }, () => ask(either))))
  } catch (error) {
    failure.abort(error)
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
