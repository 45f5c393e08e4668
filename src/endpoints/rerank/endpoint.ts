/** `POST /v1/rerank`, in the common form of Cohere and Jina: paid by the token, or by the search unit. */
import { boolean, either, filledText, integer, list, object, text } from '../../errors/checks.ts'
import type { Model } from '../../models/catalog.ts'
import { costJson } from '../../money/money.ts'
import type { UsageReport } from '../../money/plausible.ts'
import type { Call, Receipt } from '../../pipeline/pipeline.ts'
import type { RerankInput, RerankResult, RerankDocument } from '../../plugin.ts'
import type { Policy } from '../../policy/policy.ts'
import { outboundMembers, readValid } from '../shared/body.ts'
import { otherItems } from '../shared/guard.ts'
import { defineUnitEndpoint, wholeAnswer } from '../shared/unit.ts'
import { brokenAnswer } from '../../errors/errors.ts'
import {
  type Billed,
  consumedIn,
  promptBounds,
  promptEstimate,
  promptSizeOf,
  type PromptSize,
} from '../shared/billing.ts'

/** A valid request without members that are null. Unknown members are kept. */
interface RerankRequest extends RerankInput {
  readonly model: string
  readonly return_documents?: boolean
  readonly policy?: Policy
}

const LIMIT_BYTES = 10 * 1024 * 1024
const MAX_DOCUMENTS = 1000
const DOCUMENTS_PER_UNIT = 100
/** Vendors count a long document as several. */
const UNITS_PER_DOCUMENT = 100

const document = either('a text, or an object with its text', {
  string: text,
  object: object({ text }, ['text']),
})

const body = object(
  {
    model: filledText,
    query: filledText,
    documents: list(document, 1, MAX_DOCUMENTS),
    top_n: integer(1, Number.MAX_SAFE_INTEGER),
    return_documents: boolean,
  },
  ['model', 'query', 'documents'],
)

const NONE: ReadonlySet<string> = new Set()

/** The rerank endpoint. Tokens and units are estimated by the request, and charged as the vendor counts them. */
export const rerank = defineUnitEndpoint<RerankRequest, RerankInput, RerankPart>({
  path: '/v1/rerank',
  operation: 'rerank',
  stored: true,
  mask: {
    // The client gets documents as it sent them.
    restoring: (call) => ({
      push: (part: RerankPart, emit: (part: RerankPart) => void) =>
        emit({ ...part, results: part.results.map((one) => ofClient(one, call)) }),
    }),
  },
  modality: 'rerank',
  errorField: 'documents',
  body,
  toInput: (incoming) => readValid(incoming, LIMIT_BYTES, body),

  // The gateway itself copies documents into the answer.
  toUpstream(request) {
    const outbound = outboundMembers(request, ['return_documents']) as RerankInput
    const { top_n, documents } = outbound
    return top_n === undefined
      ? outbound
      : { ...outbound, top_n: Math.min(top_n, documents.length) }
  },

  content: { query: '', documents: [] },

  estimate(input) {
    const size = sizeOf(input)
    return promptEstimate(size, { searchUnits: size.units })
  },

  // Where tokens have no price and the vendor counts none, there are none.
  usage(receipt) {
    const { promptTokens } = consumedIn(receipt)
    return {
      ...(promptTokens !== undefined && { total_tokens: promptTokens }),
      search_units: unitsIn(receipt),
      ...costJson(receipt),
    }
  },

  answer({ input: { return_documents = true }, outbound, model }) {
    const size = sizeOf(outbound)
    return wholeAnswer(
      (result: RerankResult) => [rankedOf(result, outbound, return_documents)],
      (result) => usageOf(size, result, model),
    )
  },

  // Nothing is produced, so subjects and categories have no meaning: exact rules read every text.
  texts: (request) => otherItems(request, NONE, 'annotation'),

  json: ([part], { id, target }) => ({
    id: `rrk-${id.slice('req_'.length)}`,
    object: 'list',
    model: target.model.id,
    results: part!.results,
    meta: { billed_units: { search_units: unitsIn(part!.receipt!) } },
  }),
})

interface RerankSize extends PromptSize {
  readonly documents: number
  readonly units: number
}

/** Some vendors count the query once for each document. */
function sizeOf({ query, documents }: RerankInput): RerankSize {
  const count = documents.length
  const querySize = promptSizeOf([query])
  const { tokens, most } = promptSizeOf(
    documents.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))),
  )
  return {
    documents: count,
    units: Math.ceil(count / DOCUMENTS_PER_UNIT),
    tokens: tokens + querySize.tokens,
    most: most + count * querySize.most,
  }
}

/** Usage of an answer. Units are counted here where the vendor does not count them; tokens where they have a price. */
function usageOf(size: RerankSize, { usage }: RerankResult, { prices }: Model): UsageReport {
  const { units, documents } = size
  const soft = units + documents
  return {
    reported: usage && { ...usage },
    counted: { searchUnits: units },
    expected: {
      promptTokens: { ...promptBounds(size), needed: prices.prompt !== undefined },
      searchUnits: {
        estimate: units,
        soft,
        hard: UNITS_PER_DOCUMENT * soft,
        needed: false,
      },
    },
  }
}

function unitsIn(receipt: Receipt): number {
  return consumedIn(receipt).searchUnits ?? 0
}

function ofClient(ranked: Ranked, { target }: Call): Ranked {
  if (!ranked.document) return ranked
  const { documents } = target.masked!.original as RerankInput
  const document = documents[ranked.index]!
  return { ...ranked, document: { text: typeof document === 'string' ? document : document.text } }
}

// The documents in a provider's order: best first, as many as the client wants.

/** The whole answer: it has one part. */
interface RerankPart extends Billed {
  readonly results: readonly Ranked[]
}

interface Ranked {
  readonly index: number
  readonly relevance_score: number
  /** The document as the client sent it; only where it wants it back. */
  readonly document?: { readonly text: string }
}

/** The answer to a request, each document once at most. @throws UpstreamFailure for none, or unknown documents */
export function rankedOf(
  { results }: RerankResult,
  { documents, top_n = documents.length }: RerankInput,
  returnsDocuments: boolean,
): RerankPart {
  if (!Array.isArray(results) || results.length === 0) {
    throw brokenAnswer('The model provider sent no order of the documents.')
  }
  const ranked = new Map<number, Ranked>()
  for (const one of results) {
    const { index, relevance_score: score } = Object(one)
    const document: RerankDocument | undefined = documents[index]
    if (!Number.isInteger(index) || document === undefined || !Number.isFinite(score)) {
      throw brokenAnswer('The model provider sent an order with a result that is no document.')
    }
    if (ranked.has(index)) continue
    const text = typeof document === 'string' ? document : document.text
    const shown = returnsDocuments && { document: { text } }
    ranked.set(index, { index, relevance_score: score, ...shown })
  }
  const best = [...ranked.values()].toSorted((a, b) => b.relevance_score - a.relevance_score)
  return { results: best.slice(0, top_n) }
}
