/** The lists that `models import` reads: those that are built in, files, and https addresses. */
import { readdir } from 'node:fs/promises'
import { basename, extname, resolve } from 'node:path'
import { MAX_LIST_BYTES, readPriceList } from '../models/price-list.ts'
import { readPriceText } from '../config/price-files.ts'
import { isObject } from '../errors/checks.ts'
import { ConfigError } from '../errors/errors.ts'
import { didYouMean } from '../errors/issues.ts'
import { modelsOf, OWN_FORM, type SourcedModels } from '../import/rows.ts'
import { readJson } from '../import/source.ts'
import type { PriceSource } from '../plugin.ts'
import type { EgressRoute } from '../upstream/egress.ts'
import { openHttp } from '../upstream/http.ts'

/** Why prices cannot be taken over: a sentence for the operator. */
export class ImportRefused extends Error {
  /** What has to be changed: the name of the list or its form, the list itself, or a file that cannot be written. */
  readonly what: 'name' | 'list' | 'file'

  constructor(message: string, what: ImportRefused['what'] = 'list') {
    super(message)
    this.what = what
  }
}

/** A list that was read. */
export interface ReadList {
  /** The name that its prices carry. */
  readonly name: string
  readonly url?: string
  readonly licence?: string
  readonly text: string
  readonly read: SourcedModels
}

const FOLDER = new URL('../../plugins/import/', import.meta.url)
/** Built-in plugins are TypeScript in a checkout and JavaScript in a build, like this file. */
const EXTENSION = extname(import.meta.url)
const SECONDS = 20

/** The built-in price lists, by name. */
export async function priceSources(): Promise<ReadonlyMap<string, PriceSource>> {
  const files = (await readdir(FOLDER)).filter((name) => name.endsWith(EXTENSION)).toSorted()
  const sources = new Map<string, PriceSource>()
  for (const file of files) {
    const { default: source } = (await import(new URL(file, FOLDER).href)) as { default?: unknown }
    if (isSource(source)) sources.set(source.name, source)
  }
  return sources
}

/**
 * Reads one list.
 * @param from the name of a built-in list, a file, or an https address
 * @param format the name of its form; by default that which it looks like
 * @param route the way to addresses
 * @throws ImportRefused if it cannot be read or has no known form
 */
export async function readList(
  from: string,
  format: string | undefined,
  sources: ReadonlyMap<string, PriceSource>,
  route: EgressRoute,
): Promise<ReadList> {
  const source = sources.get(from)
  checkForm(format, sources)
  const text = source ? await fetched(source.url, route) : await textOf(from, sources, route)
  return parseList(from, text, source, format, sources)
}

/** @throws ImportRefused for the name of a form that there is not */
function checkForm(format: string | undefined, sources: ReadonlyMap<string, PriceSource>): void {
  const forms = new Map([...sources, [OWN_FORM.name, OWN_FORM] as const])
  if (format !== undefined && !forms.has(format)) {
    throw new ImportRefused(
      `There is no format ${JSON.stringify(format)}; ${didYouMean(format, [...forms.keys()])}.`,
      'name',
    )
  }
}

/**
 * Reads the text of a list.
 * @param from what it is called
 * @param source the source that it is from, where that is known
 * @throws ImportRefused if it has no known form
 */
export function parseList(
  from: string,
  text: string,
  source: PriceSource | undefined,
  format: string | undefined,
  sources: ReadonlyMap<string, PriceSource>,
): ReadList {
  const forms = new Map([...sources, [OWN_FORM.name, OWN_FORM] as const])
  const file = parsed(text, from)
  const chosen =
    source ??
    (format === undefined
      ? [...forms.values()].find((one) => one.matches(file))
      : forms.get(format))
  if (!chosen) {
    const names = [...forms.keys()].join(', ')
    throw new ImportRefused(`${from} is none of these price lists: ${names}.`)
  }
  const { name } = chosen
  const value = chosen === OWN_FORM ? validated(text, from) : file
  const read = modelsOf(chosen, value)
  if (read.rows === 0) throw new ImportRefused(`${from} has no models in the form ${name}.`)
  const { url, licence } = source ?? {}
  return {
    name,
    ...(url !== undefined && { url }),
    ...(licence !== undefined && { licence }),
    text,
    read,
  }
}

async function textOf(
  from: string,
  sources: ReadonlyMap<string, PriceSource>,
  route: EgressRoute,
): Promise<string> {
  if (/^[a-z][a-z\d+.-]*:\/\//i.test(from)) return fetched(from, route)
  try {
    const text = await readPriceText(resolve(from), from)
    if (text !== undefined) return text
  } catch (error) {
    if (error instanceof ConfigError)
      throw new ImportRefused(`${from} ${error.issues[0]!.message}.`)
    throw error
  }
  const names = [...sources.keys()]
  throw new ImportRefused(
    `There is no file ${from}, and no list of that name: ${didYouMean(basename(from), names)}.`,
  )
}

/** The operator has named the address, so it may also be inside the network. */
async function fetched(url: string, route: EgressRoute): Promise<string> {
  const http = openHttp(route, { timeoutMs: SECONDS * 1000, limitBytes: MAX_LIST_BYTES })
  try {
    if (!url.startsWith('https://')) throw new Error('not https')
    return await http.client(url, { responseType: 'text' })
  } catch (error) {
    const { cause } = error as { readonly cause?: unknown }
    const why = cause instanceof Error ? ` (${cause.message})` : ''
    throw new ImportRefused(
      `${url} could not be read${why}: expected an https address that answers with status 200 ` +
        `within ${SECONDS} seconds with at most ${MAX_LIST_BYTES / (1024 * 1024)} MiB. ` +
        'A list that was fetched in another way can be named as a file.',
    )
  } finally {
    await http.close()
  }
}

function parsed(text: string, from: string): unknown {
  try {
    return readJson(text)
  } catch {
    const cut = /[}\]]\s*$/.test(text) ? '' : ': it ends in the middle, so it was cut off'
    throw new ImportRefused(`${from} is not valid JSON${cut}. Nothing was changed.`)
  }
}

/** A list in the gateway's own form is checked as a whole, as a start does. */
function validated(text: string, from: string): unknown {
  try {
    return readPriceList(text, from)
  } catch (error) {
    throw error instanceof ConfigError ? new ImportRefused(error.message) : error
  }
}

function isSource(value: unknown): value is PriceSource {
  return isObject(value) && 'read' in value && 'matches' in value && 'licence' in value
}
