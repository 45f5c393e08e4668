/** Requests for an order of documents: validated, and in the form that providers get. */
import { boolean, either, filledText, integer, list, object, text } from '../../errors/checks.ts'
import type { Incoming } from '../../pipeline/pipeline.ts'
import type { RerankInput } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import { outboundMembers, readValid } from '../shared/body.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface RerankRequest extends RerankInput {
  readonly model: string
  readonly return_documents?: boolean
  readonly policy?: Policy
}

const LIMIT_BYTES = 10 * 1024 * 1024
const MAX_DOCUMENTS = 1000

const document = either('a text, or an object with its text', {
  string: text,
  object: object({ text }, ['text']),
})

/** The members of a body. */
export const rerankBody = object(
  {
    model: filledText,
    query: filledText,
    documents: list(document, 1, MAX_DOCUMENTS),
    top_n: integer(1, Number.MAX_SAFE_INTEGER),
    return_documents: boolean,
  },
  ['model', 'query', 'documents'],
)

/** @throws InvalidRequest */
export function readRerank(incoming: Incoming): Promise<RerankRequest> {
  return readValid(incoming, LIMIT_BYTES, rerankBody)
}

/** The request for providers: the gateway itself copies documents into the answer. */
export function outboundRerank(request: RerankRequest): RerankInput {
  const outbound = outboundMembers(request, ['return_documents']) as RerankInput
  const { top_n, documents } = outbound
  return top_n === undefined ? outbound : { ...outbound, top_n: Math.min(top_n, documents.length) }
}
