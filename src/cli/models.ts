/** `models lint` and `models price`: commands on the entries of models that need no gateway. */
import { readPriceText } from '../config/price-files.ts'
import { buildCatalog, type Catalog, type Model } from '../models/catalog.ts'
import { isMoment } from '../errors/moments.ts'
import type { ListedModel, ModelEntry } from '../models/entry.ts'
import { isModality } from '../models/entry.ts'
import { unknownModel } from '../models/allowlist.ts'
import { lint, type Finding } from '../models/lint.ts'
import { readPriceList, type PriceList } from '../models/price-list.ts'
import { formatPrice, pricesAt, quantitiesOf, termsOf, tierOf, versionOf } from '../money/prices.ts'
import { formatPico, priceUsage } from '../money/money.ts'
import type { Usage } from '../plugin.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { print, table } from './output.ts'

/** The member of a usage that a kind of model counts in addition to tokens, if there is one. */
const UNITS: Readonly<Record<Model['modality'], keyof Usage | undefined>> = {
  chat: undefined,
  embedding: undefined,
  moderation: undefined,
  rerank: 'searchUnits',
  image: 'images',
  ocr: 'pages',
  speech: 'characters',
  transcription: 'seconds',
}

/** Reports mistakes in entries of models, or in a price list. @throws ConfigError, CommandError with --strict */
export async function lintModels(args: Arguments): Promise<void> {
  const [file] = args.positionals
  const catalog = file === undefined ? await catalogOf(args) : listedCatalog(await listedIn(file))
  const models = catalog.at().all()
  const findings = lint(models, catalog.naming)
  print(args, { models: models.length, findings }, () => summary(models.length, findings))
  const warnings = findings.filter(({ level }) => level === 'warning').length
  if (args.on.has('strict') && warnings > 0) {
    throw new CommandError(
      `${warnings === 1 ? '1 warning' : `${warnings} warnings`} with --strict.`,
    )
  }
}

const QUANTITIES = ['prompt', 'cached', 'completion', 'units'] as const

/** Shows what a call of a model would cost, line by line; without quantities its prices. @throws ConfigError, CommandError */
export async function showPrice(args: Arguments): Promise<void> {
  const [name = ''] = args.positionals
  const catalog = (await catalogOf(args)).at(timeOf(args.text.at))
  const model = catalog.find(name)
  if (!model) {
    throw new CommandError(unknownModel(catalog, name, '"sluicegate check --models"').message)
  }
  const usage = usageOf(args, model)
  const { prices } = model
  const tokens = usage.promptTokens ?? 0
  const bill = priceUsage([{ source: 'model', usage, prices }])
  const counts = quantitiesOf(usage)
  const isCall = QUANTITIES.some((name) => args.text[name] !== undefined)
  const lines = termsOf(pricesAt(prices, tokens)).flatMap(({ name: price, member, unit }) =>
    isCall && counts[price] === 0
      ? []
      : [{ price, quantity: isCall ? counts[price] : null, usd: formatPrice(unit), member }],
  )
  const tier = tierOf(prices, tokens)
  const version = versionOf(prices)
  const parts = bill.details.map(({ member, amount }) => [member, formatPico(amount)])
  const from = tier === 0 ? '' : `, prices from ${tier} tokens`
  const value = { model: model.id, version, tier, lines, cost: bill.text }
  print(
    args,
    value,
    () =>
      `${model.id}${from}, version ${version}\n\n` +
      table(
        ['PRICE', 'QUANTITY', 'USD PER UNIT', 'SHOWN AS'],
        lines.map(({ price, quantity, usd, member }) => [price, quantity, usd, member]),
      ) +
      (isCall ? `\n${table(['', 'USD'], [...parts, ['cost', bill.text]])}` : ''),
  )
}

async function catalogOf(args: Arguments): Promise<Catalog> {
  const { config } = (await configurationOf(args)).loaded
  return buildCatalog(
    config.models,
    { ...config.names, lists: config.prices.lists },
    config.wildcards,
  )
}

function listedCatalog(models: Readonly<Record<string, ListedModel>>): Catalog {
  const entries = Object.entries(models).flatMap(([id, listed]): [string, ModelEntry][] => {
    const { modality, pricing, capabilities: _, source, checked_at, ...members } = listed
    if (modality !== undefined && !isModality(modality)) return []
    const entry = {
      ...members,
      ...(modality && { modality }),
      created: 0,
      enabled: true,
      free_tier: false,
      aliases: [],
      deployments: [],
      pricing,
      price_source: { from: source, checked_at },
    }
    return [[id, entry]]
  })
  return buildCatalog(Object.fromEntries(entries))
}

/** @throws ConfigError, CommandError where there is no such file */
async function listedIn(file: string): Promise<PriceList['models']> {
  const text = await readPriceText(file, file)
  if (text === undefined) throw new CommandError(`There is no file ${JSON.stringify(file)}.`, 2)
  return readPriceList(text, file).models
}

/** @throws CommandError for an invalid time */
function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (isMoment(text)) return Date.parse(text)
  const example = 'a time such as "2027-01-31T00:00:00Z"'
  throw new CommandError(`--at takes ${example}, not ${JSON.stringify(text)}.`, 2)
}

function usageOf({ text }: Arguments, model: Model): Usage {
  const unit = UNITS[model.modality]
  if (text.units !== undefined && unit === undefined) {
    throw new CommandError(`${model.id} counts tokens alone: it takes no --units.`, 2)
  }
  return {
    promptTokens: countOf(text, 'prompt'),
    cachedTokens: countOf(text, 'cached'),
    completionTokens: countOf(text, 'completion'),
    ...(unit && { [unit]: countOf(text, 'units') }),
  }
}

function countOf(text: Arguments['text'], name: string): number {
  const option = text[name] ?? '0'
  if (/^\d{1,15}$/.test(option)) return Number(option)
  throw new CommandError(`--${name} takes a whole number, not ${JSON.stringify(option)}.`, 2)
}

function summary(models: number, findings: readonly Finding[]): string {
  const count = models === 1 ? '1 model' : `${models} models`
  const lines = findings.map(
    ({ model, code, level, message }) => `${level}: ${model}: ${message} (${code})\n`,
  )
  return `${count}, ${lines.length === 0 ? 'nothing found' : `${lines.length} found`}.\n${lines.join('')}`
}
