/** Which models a key may use, and the messages about the others. */
import type { Catalog, Model } from './catalog.ts'
import { withoutOnline } from './names.ts'
import { Forbidden, NotFound } from '../errors/errors.ts'

/** Model names that a message lists. */
const MAX_LISTED = 20
/** Models that a message names of those with the same name. */
export const MAX_CANDIDATES = 10

export { isAllowed } from './names.ts'

/**
 * An allowlist with the ids of models that it names in another way, each once. An entry that means no model stays as it is.
 * @param entries ids, other names, or `vendor/*`
 */
export function allowlistOf(catalog: Catalog, entries: readonly string[]): string[] {
  return [...new Set(entries.map((entry) => catalog.find(withoutOnline(entry))?.id ?? entry))]
}

/** Model names for a message: the first ones, and the number of further ones. */
export function modelNames(models: readonly Model[]): string {
  if (models.length === 0) return 'none'
  const names = models.slice(0, MAX_LISTED).map((model) => model.id)
  const more = models.length - names.length
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '')
}

/** 403 for an account on the free tier that asks for another model. */
export function tierRefusal(catalog: Catalog, model: Model): Forbidden {
  const usable = modelNames(catalog.freeTier())
  return new Forbidden(
    'model_not_allowed',
    `${model.id} is not on the free tier. Models available on the free tier: ${usable}.`,
  )
}

/** 404 for a name that means no model, or several. */
export function unknownModel(catalog: Catalog, name: string): NotFound {
  const shown = JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}…` : name)
  const { candidates, charged } = catalog.missOf(name)
  return new NotFound('model_not_found', missing(shown, candidates, charged, catalog, name))
}

/** 404 for a model that its vendor no longer offers. */
export function goneModel(catalog: Catalog, { id, vendor, listed }: Model): NotFound {
  const successor = listed?.successor
  const next = successor && (catalog.get(`${vendor}/${successor}`) ?? catalog.find(successor))
  const hint = next ? ` Did you mean ${JSON.stringify(next.id)}?` : ''
  return new NotFound(
    'model_not_found',
    `The vendor no longer offers ${JSON.stringify(id)}.${hint}`,
  )
}

function missing(
  shown: string,
  candidates: readonly string[],
  charged: string | undefined,
  catalog: Catalog,
  name: string,
): string {
  if (charged !== undefined) {
    const plain = JSON.stringify(name.replace(/:free(?=$|:)/, ''))
    return `There is no free model ${shown}. ${plain} is charged: ask for it by that name.`
  }
  const several = candidates.slice(0, MAX_CANDIDATES)
  if (several.length > 0)
    return `Several models are called ${shown}. Ask for one of ${several.join(', ')}.`
  const suggestion = catalog.suggest(name)
  const hint = suggestion
    ? `Did you mean ${JSON.stringify(suggestion)}?`
    : 'GET /v1/models lists them.'
  return `There is no model ${shown}. ${hint}`
}
