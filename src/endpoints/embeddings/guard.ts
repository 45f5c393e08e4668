/**
 * What guards read of embeddings: every text of the input, by exact rules only. Nothing is asked and nothing is produced, so
 * subjects and categories have no meaning.
 */
import { InvalidRequest } from '../../errors/errors.ts'
import type { GuardAdapter } from '../../guard/adapter.ts'
import { exactItem, otherItems, silentGuard } from '../shared/guard.ts'
import type { EmbeddingPart } from './answer.ts'
import type { EmbeddingRequest } from './read.ts'

const READ_SEPARATELY = new Set(['input', 'encoding_format'])

/** The guard adapter of embeddings. */
export const guardAdapter: GuardAdapter<EmbeddingRequest, EmbeddingPart> = {
  ...silentGuard<EmbeddingRequest, EmbeddingPart>((input) => [
    ...input.input.flatMap((text, index) =>
      typeof text === 'string' ? exactItem(`input[${index}]`, text) : [],
    ),
    ...otherItems(input, READ_SEPARATELY, 'annotation'),
  ]),

  unreadable({ input }) {
    if (typeof input[0] === 'string') return undefined
    const message = "This key's rules cannot be checked on tokens: send text instead of tokens."
    return new InvalidRequest('unsupported_value', message, { param: 'input' })
  },
}
