/** What a new configuration does to models, for the log. */
import { priceChanges, type PriceChange } from '../models/price-changes.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import { logNotices } from './notices.ts'

/** What has a current configuration. */
interface Running {
  readonly runtime: Runtime
}

/** Logs the effects of a new configuration on models. @param change replaces the configuration */
export async function withChangesLogged(
  gateway: Running,
  change: () => Promise<void> | void,
): Promise<void> {
  const { prices, catalog } = gateway.runtime
  const before = catalog.at().all()
  await change()
  const after = gateway.runtime.catalog.at().all()
  logPrices(gateway.runtime, priceChanges(before, after))
  logNotices(gateway.runtime)
  await prices.exchange(after)
}

/** Models that a person wrote, or that were called, have a line for each change; the others of a vendor one line together. */
export function logPrices(
  { log, catalog, metrics }: Runtime,
  changes: readonly PriceChange[],
): void {
  const called = metrics.calls.outcomes()
  const isTold = (model: string) => called.has(model) || catalog.get(model)?.wildcard === undefined
  const others = changes.filter(({ model }) => !isTold(model))
  for (const [vendor, some] of Map.groupBy(others, ({ model }) =>
    model.slice(0, model.indexOf('/')),
  )) {
    const models = new Set(some.map(({ model }) => model)).size
    log.info(
      `price: ${vendor}/*: ${models === 1 ? '1 model has' : `${models} models have`} other prices`,
    )
  }
  for (const { text, isSuspicious } of changes.filter(({ model }) => isTold(model))) {
    if (isSuspicious) log.warn(`price-moved: ${text}`)
    else log.info(`price: ${text}`)
  }
}
