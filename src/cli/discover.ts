/** `models discover`: asks the vendors for their models, and compares these with what is served. Nothing is written. */
import { readPriceFiles } from '../config/price-files.ts'
import { didYouMean } from '../errors/issues.ts'
import { askForModels } from '../gateway/discovery.ts'
import { createGateway, type Gateway } from '../gateway/gateway.ts'
import { compareOffers, type OfferReport } from '../models/offers.ts'
import type { PriceList } from '../models/price-list.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { print } from './output.ts'

/** Names that a line has before it says how many more there are. */
const SHOWN = 8

/** A vendor that was asked. */
type Result = OfferReport | { readonly provider: string; readonly error: string }

/**
 * Sets up the configured providers as `check` does, and asks each of them.
 * @throws CommandError with status 1 where a vendor did not answer, with status 3 where what is served and what is offered differ
 */
export async function discoverModels(args: Arguments): Promise<void> {
  const { loaded } = await configurationOf(args)
  const { config, directory } = loaded
  const { models: listed } = await readPriceFiles(directory, (path) => path, config.prices.packaged)
  const state = { driver: 'memory' } as const
  const gateway = await createGateway({ ...loaded, config: { ...config, state } })
  const results = await askAll(gateway, args.positionals, listed).finally(() => gateway.close())
  print(args, results, () => results.map(inWords).join('\n'))
  const failed = results.filter((one) => 'error' in one).length
  if (failed > 0) {
    const vendors = failed === 1 ? 'One vendor' : `${failed} vendors`
    throw new CommandError(`${vendors} did not name any models.`)
  }
  if (results.some(isDifferent)) throw new CommandError('Some models are not served.', 3)
}

/** @throws CommandError for a name that no provider has */
async function askAll(
  { runtime }: Gateway,
  wanted: readonly string[],
  listed: PriceList['models'],
): Promise<readonly Result[]> {
  const { providers, catalog, config, mask } = runtime
  for (const name of wanted) {
    const provider = providers.get(name)
    if (provider?.models) continue
    const near = didYouMean(name, [...providers.keys()])
    throw new CommandError(
      provider
        ? `${name} cannot be asked for its models: its plugin has no list of them.`
        : `There is no provider ${JSON.stringify(name)}; ${near}.`,
      2,
    )
  }
  const discoverable = [...providers].filter(
    ([name, { models }]) => models && (wanted.length === 0 || wanted.includes(name)),
  )
  const served = catalog.at().all()
  return Promise.all(
    discoverable.map(async ([provider, instance]) => {
      try {
        const offers = await askForModels(instance, config.providers[provider]!)
        return compareOffers(provider, offers, served, listed)
      } catch (error) {
        return { provider, error: mask.clean((error as Error).message) }
      }
    }),
  )
}

function isDifferent(result: Result): boolean {
  return (
    !('error' in result) && result.listed.length + result.unpriced.length + result.gone.length > 0
  )
}

function inWords(result: Result): string {
  const { provider } = result
  if ('error' in result) return `${provider}: ${result.error}\n`
  const { offered, served, listed, unpriced, gone } = result
  const head = `${provider}: ${offered === 1 ? '1 model' : `${offered} models`} offered, ${served.length} served\n`
  const [first] = unpriced
  return (
    head +
    lineOf('listed, not served', listed) +
    lineOf('no price', unpriced) +
    (first === undefined
      ? ''
      : `    sluicegate models import --only ${JSON.stringify(`${provider}/${unpriced.length > 1 ? '*' : first}`)} --write\n`) +
    lineOf('served, and gone at the vendor', gone)
  )
}

function lineOf(title: string, names: readonly string[]): string {
  if (names.length === 0) return ''
  const more = names.length - SHOWN
  const some = names.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '')
  return `  ${title} (${names.length}): ${some}\n`
}
