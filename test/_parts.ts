/** Reads what a provider answers, as the gateway does. */
import type { ProviderAnswer } from '../src/pipeline/pipeline.ts'
import { run } from '../src/stream/flow.ts'

/** All parts of an answer in normal form. @throws what ends it */
export async function partsOf<Part>(
  answer: ProviderAnswer<Part>,
  given: any,
): Promise<readonly Part[]> {
  const parts = answer.open ? answer.open(given) : given
  if (!(Symbol.asyncIterator in parts)) return answer.whole(parts)
  const { promise, resolve, reject } = Promise.withResolvers<readonly Part[]>()
  const all: Part[] = []
  run(parts, answer.steps, {
    push: (part: Part) => void all.push(part),
    batchEnd: () => true,
    end: () => resolve(all),
    fail: reject,
  })
  return promise
}
