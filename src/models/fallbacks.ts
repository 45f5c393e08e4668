/** Models that answer in place of one that cannot: which of them a call may be given. */
import type { FailureClass } from '../plugin.ts'
import type { Catalog, Model } from './catalog.ts'
import type { Fallback, When } from './fallback-list.ts'

/** Why a fallback is passed over, in the order of the tests. */
export type Skip = 'not_allowed' | 'lacks' | 'window' | 'out' | 'money'

/** A fallback of one model. */
export interface FallbackModel {
  readonly model: Model
  readonly when: readonly When[]
}

/** The condition that a failure of all deployments meets; undefined where no other model is asked. */
export function whenOf(failure: FailureClass, failover: boolean): When | undefined {
  if (failure === 'context_length') return 'context'
  if (failure === 'content_blocked') return 'filter'
  return failover ? 'down' : undefined
}

/** The models that may answer in place of one, in the order of asking. @param shared the fallbacks of models without a list of their own */
export function fallbacksOf(
  model: Model,
  catalog: Catalog,
  shared: readonly Fallback[] | undefined,
): readonly FallbackModel[] {
  const listed = model.fallbacks ?? shared ?? []
  return listed.flatMap(({ model: name, when }) => {
    const other = catalog.find(nameFor(name, model.id))
    const fits = other && other.id !== model.id && other.modality === model.modality
    return fits ? [{ model: other, when }] : []
  })
}

/**
 * Whether the window of a fallback is too small, or not known to be large enough.
 * @param promptTokens estimate for the request
 */
export function isTooSmall(
  { contextLength }: Model,
  when: When,
  original: Model,
  promptTokens: number,
): boolean {
  if (contextLength !== undefined && contextLength < promptTokens) return true
  return when === 'context' && (contextLength ?? 0) <= (original.contextLength ?? 0)
}

/** What is wrong with a list: the place in it, and the message. @param model whose list it is; absent for a list of several */
export function fallbackIssues(
  listed: readonly Fallback[],
  catalog: Catalog,
  model?: Model,
): { readonly index: number; readonly message: string }[] {
  const ids = listed.map(({ model: name }) => catalog.find(name)?.id ?? name)
  return listed.flatMap(({ model: name, when }, index) => {
    const message =
      issueOf(name, catalog, model) ??
      twice(ids.indexOf(ids[index]!), index, listed, when, ids[index]!)
    return message === undefined ? [] : [{ index, message }]
  })
}

function twice(
  first: number,
  index: number,
  listed: readonly Fallback[],
  when: readonly When[],
  id: string,
): string | undefined {
  const common = first < index ? when.find((one) => listed[first]!.when.includes(one)) : undefined
  return (
    common && `expected each model once for a condition, but ${id} stands twice for "${common}"`
  )
}

function issueOf(name: string, catalog: Catalog, model: Model | undefined): string | undefined {
  const shown = JSON.stringify(name)
  if (name.endsWith('/*')) {
    const prefix = name.slice(0, -1)
    const isServed = catalog.all().some(({ id }) => id.startsWith(prefix))
    const covered = catalog.find(`${prefix}any`) !== undefined
    return isServed || covered ? undefined : `expected models below ${shown}, found none`
  }
  const other = catalog.find(name)
  if (!other) {
    const several = catalog.candidates(name)
    if (several.length > 0) {
      return `expected one model, but ${shown} may mean ${several.join(' or ')}`
    }
    const near = catalog.suggest(name)
    const hint = near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`
    return `expected the name of a model that is served, found ${shown}${hint}`
  }
  if (!model) return undefined
  if (other.id === model.id) return `expected another model, but ${shown} is ${model.id} itself`
  if (other.modality === model.modality) return undefined
  return `expected a model of the kind ${model.modality}, but ${other.id} is of the kind ${other.modality}`
}

function nameFor(name: string, id: string): string {
  return name.endsWith('/*') ? name.slice(0, -1) + id.slice(id.indexOf('/') + 1) : name
}
