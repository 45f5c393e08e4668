/**
 * What guards read of an order of documents: the query and every text of the documents, by exact rules only. Nothing is
 * produced, so subjects and categories have no meaning.
 */
import { otherItems, silentGuard } from '../shared/guard.ts'
import type { RerankPart } from './answer.ts'
import type { RerankRequest } from './read.ts'

const NONE: ReadonlySet<string> = new Set()

/** The guard adapter of rerank. */
export const guardAdapter = silentGuard<RerankRequest, RerankPart>((input) =>
  otherItems(input, NONE, 'annotation'),
)
