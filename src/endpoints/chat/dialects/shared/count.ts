import type { WireFormat } from '../../../../pipeline/pipeline.ts'
import { writeJson } from '../../../shared/write.ts'
import type { TokenCount } from '../../count.ts'

/** Writes the count of a prompt. @param bodyOf the form of the answer */
export function countWriter(
  bodyOf: (tokens: number) => object,
): WireFormat<unknown, TokenCount>['write'] {
  return async (call, reply, out) => {
    const { parts } = await reply.parts.next()
    await writeJson(call, out, JSON.stringify(bodyOf(parts[0]!.tokens)))
  }
}
