/** How many models of an installation are served: the first line of an import, and of the check of what it wrote. */
import { isWildcard, missingPrices, type ListedModel, type Modality } from '../models/entry.ts'
import { listedFor } from '../models/layers.ts'
import type { MigratedModel } from '../plugin.ts'

/** Why a model is not served. */
type Unserved = 'no price' | 'disabled'

/** Why a model of an import is not served; undefined for one that is. */
export function unservedReason(
  id: string,
  model: MigratedModel,
  listed: Readonly<Record<string, ListedModel>>,
): Unserved | undefined {
  if (model.enabled === false) return 'disabled'
  if (isWildcard(id)) {
    const prefix = id.slice(0, -1)
    const isPriced = model.pricing || Object.keys(listed).some((one) => one.startsWith(prefix))
    return isPriced ? undefined : 'no price'
  }
  const listedModel = listedFor(id, model, listed)
  const pricing = model.pricing ?? listedModel?.pricing
  if (pricing === undefined) return 'no price'
  const modality = (model.modality ?? listedModel?.modality) as Modality | undefined
  return missingPrices({ modality, pricing }).length > 0 ? 'no price' : undefined
}

/** Text such as `21 of 23 models served, 2 not (no price)`. @param reasons one for each model; undefined for one that is served */
export function servedInWords(reasons: readonly (string | undefined)[]): string {
  const counts = new Map<string, number>()
  for (const reason of reasons) {
    if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  }
  const not = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const models = reasons.length === 1 ? 'model' : 'models'
  const line = `${reasons.length - not} of ${reasons.length} ${models} served`
  if (not === 0) return line
  const [only] = counts.keys()
  const why =
    counts.size === 1
      ? only!
      : [...counts].map(([reason, count]) => `${count} ${reason}`).join(', ')
  return `${line}, ${not} not (${why})`
}
