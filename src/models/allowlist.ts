/** Which models a key may use, and the messages about the others. */
import type { Catalog, Model } from './catalog.ts'
import { withoutOnline } from './names.ts'
import type { NewKeySettings } from '../server/admin/resources/team.ts'
import { Forbidden, NotFound } from '../errors/errors.ts'

/** Model names that a message lists. */
const MAX_LISTED = 20
/** Models that a message names of those with the same name. */
export const MAX_CANDIDATES = 10

export { isAllowed } from './names.ts'

/** Lists of models, of a key or of an account for all of its keys. Entries are ids, other names, or `vendor/*`. */
export interface ModelLists {
  /** The only models that may be used; absent: all. */
  readonly models?: readonly string[] | undefined
  /** Models that may not be used, also where `models` has them. */
  readonly denyModels?: readonly string[] | undefined
}

/** A key with its team and its account: a model has to pass the lists of all. */
export interface ListChain {
  readonly key: ModelLists
  readonly team?: ModelLists | undefined
  readonly account: ModelLists
}

/** Whether no list of the chain keeps the key from a model. */
export function mayUse(chain: ListChain, id: string, catalog: Catalog): boolean {
  return refusing(chain, id, catalog) === undefined
}

/** @throws Forbidden for a model that a list of the chain keeps the key from; its message says whose list it is */
export function checkLists(chain: ListChain, { id }: Model, catalog: Catalog): void {
  const refused = refusing(chain, id, catalog)
  if (refused === undefined) return
  const usable = catalog.offered().filter((one) => mayUse(chain, one.id, catalog))
  throw new Forbidden(
    'model_not_allowed',
    `${id} ${refused}. Models that this key may use: ${modelNames(usable)}.`,
  )
}

/** Whether any list of the chain narrows the models. */
export function hasLists({ key, team, account }: ListChain): boolean {
  return [key, team, account].some((one) => one?.models ?? one?.denyModels)
}

/** The words for the first list that keeps the key from a model. */
function refusing(
  { key, team, account }: ListChain,
  id: string,
  catalog: Catalog,
): string | undefined {
  return (
    refusingOf(key, id, catalog, 'this key') ??
    (team && refusingOf(team, id, catalog, 'the team of this key')) ??
    refusingOf(account, id, catalog, 'the account of this key')
  )
}

function refusingOf(
  { models, denyModels }: ModelLists,
  id: string,
  catalog: Catalog,
  owner: string,
): string | undefined {
  if (models && !catalog.allows(models, id)) return `is not among the models of ${owner}`
  if (denyModels && catalog.allows(denyModels, id)) return `is denied for ${owner}`
  return undefined
}

/**
 * An allowlist with the ids of models that it names in another way, each once. An entry that means no model stays as it is.
 * @param entries ids, other names, or `vendor/*`
 */
function allowlistOf(catalog: Catalog, entries: readonly string[]): string[] {
  return [...new Set(entries.map((entry) => catalog.find(withoutOnline(entry))?.id ?? entry))]
}

/** A change of lists with the ids of models. Members that are absent or null stay so. */
export function withIds<
  Change extends Nullable<ModelLists> & {
    readonly limits?:
      | readonly { readonly models?: readonly string[] | undefined }[]
      | null
      | undefined
    readonly newKeys?: NewKeySettings | null | undefined
  },
>(catalog: Catalog, change: Change): Change {
  const { models, denyModels, limits, newKeys } = change
  return {
    ...change,
    models: models && allowlistOf(catalog, models),
    denyModels: denyModels && allowlistOf(catalog, denyModels),
    ...(limits && {
      limits: limits.map((limit) =>
        limit.models ? { ...limit, models: allowlistOf(catalog, limit.models) } : limit,
      ),
    }),
    ...(newKeys && { newKeys: newKeysWithIds(catalog, newKeys) }),
  }
}

function newKeysWithIds(catalog: Catalog, newKeys: NewKeySettings): NewKeySettings {
  const { deny_models: denied, ...more } = newKeys
  const { denyModels, ...settings } = withIds(catalog, { ...more, denyModels: denied })
  return { ...settings, ...(denyModels && { deny_models: denyModels }) }
}

type Nullable<T> = { readonly [Name in keyof T]?: T[Name] | null }

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

/** 404 for a name that means no model, or several. @param lister what lists the models, for the message */
export function unknownModel(catalog: Catalog, name: string, lister = 'GET /v1/models'): NotFound {
  const shown = JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}…` : name)
  const { candidates, charged } = catalog.missOf(name)
  return new NotFound('model_not_found', missing(shown, candidates, charged, catalog, name, lister))
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
  lister: string,
): string {
  if (charged !== undefined) {
    const plain = JSON.stringify(name.replace(/:free(?=$|:)/, ''))
    return `There is no free model ${shown}. ${plain} is charged: ask for it by that name.`
  }
  const several = candidates.slice(0, MAX_CANDIDATES)
  if (several.length > 0)
    return `Several models are called ${shown}. Ask for one of ${several.join(', ')}.`
  const suggestion = catalog.suggest(name)
  const hint = suggestion ? `Did you mean ${JSON.stringify(suggestion)}?` : `${lister} lists them.`
  return `There is no model ${shown}. ${hint}`
}
