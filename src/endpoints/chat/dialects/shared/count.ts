import type { WireFormat } from '../../../../pipeline/pipeline.ts'
import { jsonWriter } from '../../../shared/write.ts'
import type { TokenCount } from '../../count.ts'

/** @param bodyOf the form of the answer */
export function countWriter(
  bodyOf: (tokens: number) => object,
): WireFormat<unknown, TokenCount>['write'] {
  return jsonWriter(([count]) => bodyOf(count!.tokens))
}
