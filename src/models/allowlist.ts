/** Which models a key may use, and what to tell it about the others. */
import type { Catalog, Model } from './catalog.ts'
import { Forbidden } from '../errors/errors.ts'

/** How many model names a message lists. */
const SHOWN = 20

/** An entry is a model id, or `vendor/*` for all of a vendor's. */
export function isAllowed(models: readonly string[], id: string): boolean {
  return models.some(
    (entry) => entry === id || (entry.endsWith('/*') && id.startsWith(entry.slice(0, -1))),
  )
}

/** Names for a message: the first few, and how many more there are. */
export function modelNames(models: readonly Model[]): string {
  if (models.length === 0) return 'none'
  const names = models.slice(0, SHOWN).map((model) => model.id)
  const more = models.length - names.length
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '')
}

/** 403: the account is on the free tier and the model is not. */
export function tierRefusal(catalog: Catalog, model: Model): Forbidden {
  const usable = modelNames(catalog.freeTier())
  return new Forbidden(
    'model_not_allowed',
    `${model.id} is not on the free tier. Models available on the free tier: ${usable}.`,
  )
}
