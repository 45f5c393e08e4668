/** What may be set up at run time: built-in plugins that describe their options, and what an entry may say. */
import { pluginOf, VENDORS, vendorOf, type Vendor } from '../../providers/vendors.ts'
import type { Section } from '../config/managed.ts'
import { isLinkLocal } from '../errors/addresses.ts'
import { isObject } from '../errors/checks.ts'
import type { ConfigIssue } from '../errors/errors.ts'
import { didYouMean, show } from '../errors/issues.ts'
import type { OptionField, ProviderPlugin } from '../plugin.ts'
import { builtInPlugins, importPlugin, locate, type AnyPlugin } from './plugin-code.ts'

interface Manageable {
  readonly kind: 'provider' | 'search' | 'sink'
  /** The value of `use`. */
  readonly name: string
  /** The plugin that it is or has. */
  readonly plugin: string
  readonly fields: readonly OptionField[]
  readonly deploymentFields: readonly OptionField[]
}

type Options = Readonly<Record<string, unknown>>

const KINDS = { providers: 'provider', engines: 'search', sinks: 'sink' } as const
/** Members of an entry. What else a configuration has is set in the file. */
const MEMBERS: Readonly<Record<keyof typeof KINDS, readonly string[]>> = {
  providers: [
    'use',
    'options',
    'timeout',
    'firstPartTimeout',
    'idleTimeout',
    'connections',
    'forwardTrace',
    'maxAnswer',
    'maxStream',
  ],
  engines: ['use', 'options', 'price', 'timeout'],
  sinks: ['use', 'options'],
}
/** The option with the address of a server, and the one with its kind: a vendor's own are in the table of vendors. */
const ADDRESS = 'baseURL'
const KEY = 'apiKey'
const KIND = 'quirks'

let all: Promise<readonly Manageable[]> | undefined

/** All plugins and vendors that can be set up at run time. */
export function manageablePlugins(): Promise<readonly Manageable[]> {
  return (all ??= readAll())
}

async function readAll(): Promise<readonly Manageable[]> {
  const names = await builtInPlugins()
  const read = names.map(async ([kind, name]): Promise<Manageable[]> => {
    if (kind === 'guard' || kind === 'payments') return []
    const { url } = await locate(kind, name, '.', 'plugin')
    const { fields, ...plugin } = (await importPlugin(url, 'plugin')) as AnyPlugin
    if (!fields) return []
    const { deploymentFields = [] } = plugin as Partial<ProviderPlugin>
    return [{ kind, name, plugin: name, fields, deploymentFields }]
  })
  const plugins = (await Promise.all(read)).flat()
  const vendors = VENDORS.filter(({ name, plugin }) => vendorOf(name) && plugin === undefined)
  return [...plugins, ...vendors.flatMap((vendor) => vendorAs(vendor, plugins))]
}

/** A vendor that speaks the API of others: its address is known, unless the operator runs it. */
function vendorAs(vendor: Vendor, plugins: readonly Manageable[]): Manageable[] {
  const base = plugins.find(({ kind, name }) => kind === 'provider' && name === pluginOf(vendor))
  if (!base) return []
  const fields = base.fields
    .filter(({ name }) => name !== KIND && (name !== ADDRESS || vendor.local))
    .map((field) => {
      if (field.name === ADDRESS) return { ...field, required: vendor.baseURL === undefined }
      return field.name === KEY ? { ...field, required: !vendor.local } : field
    })
  return [{ ...base, name: vendor.name, fields }]
}

/** The plugin or vendor of an entry; undefined where `use` is something else. */
export async function manageableOf(
  section: Exclude<Section, 'models'>,
  use: unknown,
): Promise<Manageable | undefined> {
  const kind = KINDS[section]
  return (await manageablePlugins()).find((one) => one.kind === kind && one.name === use)
}

/** The value of an option. @param name the name of its field */
export function optionOf(options: unknown, name: string): unknown {
  const [first = '', second] = name.split('.')
  const value = isObject(options) ? (options as Options)[first] : undefined
  if (second === undefined) return value
  return isObject(value) ? (value as Options)[second] : undefined
}

/** Options with another value; undefined removes it. */
export function withOption(options: Options, name: string, value: unknown): Options {
  const [first = '', second] = name.split('.')
  const inner = (isObject(options[first]) ? options[first] : {}) as Options
  const whole = second === undefined ? value : withOption(inner, second, value)
  const { [first]: _, ...others } = options
  return whole === undefined ? others : { ...others, [first]: whole }
}

/**
 * The issues of an entry beyond those of a file. Secrets may be absent, a text, or sealed.
 * @param providerOf the plugin name of a provider, for options of deployments
 */
export async function checkEntry(
  section: Section,
  name: string,
  value: Options,
  deploymentFieldsOf: (provider: unknown) => Promise<readonly OptionField[]>,
): Promise<ConfigIssue[]> {
  const path = `${section}.${name}`
  if (section === 'models') return checkModel(path, value, deploymentFieldsOf)
  const unknown = Object.keys(value)
    .filter((member) => !MEMBERS[section].includes(member))
    .map((member) => ({
      path: `${path}.${member}`,
      message: `cannot be set here; ${didYouMean(member, MEMBERS[section])}, or set it in the configuration file`,
    }))
  const plugin = await manageableOf(section, value.use)
  if (plugin) return [...unknown, ...checkOptions(`${path}.options`, value.options, plugin.fields)]
  const kind = KINDS[section]
  const candidates = (await manageablePlugins()).filter((one) => one.kind === kind)
  const near = didYouMean(
    typeof value.use === 'string' ? value.use : '',
    candidates.map((one) => one.name),
  )
  const message = `expected a built-in plugin or a vendor, found ${show(value.use)}; ${near}. Plugins of your own are set in the configuration file`
  return [...unknown, { path: `${path}.use`, message }]
}

async function checkModel(
  path: string,
  { deployments }: Options,
  fieldsOf: (provider: unknown) => Promise<readonly OptionField[]>,
): Promise<ConfigIssue[]> {
  if (!Array.isArray(deployments)) return []
  const checks = deployments.map(async (deployment: unknown, index) => {
    if (!isObject(deployment)) return []
    const { provider, options } = deployment as Options
    if (options === undefined) return []
    return checkOptions(`${path}.deployments.${index}.options`, options, await fieldsOf(provider))
  })
  return (await Promise.all(checks)).flat()
}

function checkOptions(path: string, options: unknown, fields: readonly OptionField[]) {
  if (options !== undefined && !isObject(options)) {
    return [{ path, message: `expected an object, found ${show(options)}` }]
  }
  const names = namesIn((options ?? {}) as Options, fields)
  const fieldNames = fields.map(({ name }) => name)
  const unknown = names
    .filter((name) => !fieldNames.includes(name))
    .map((name) => ({
      path: `${path}.${name}`,
      message: `cannot be set here; ${didYouMean(name, fieldNames)}`,
    }))
  const wrong = fields.flatMap((field) => {
    const message = problemOf(optionOf(options, field.name), field)
    return message === undefined ? [] : [{ path: `${path}.${field.name}`, message }]
  })
  return [...unknown, ...wrong]
}

/** Names of options as fields have them. */
function namesIn(options: Options, fields: readonly OptionField[]): string[] {
  return Object.entries(options).flatMap(([name, value]) => {
    const isNested = fields.some((field) => field.name.startsWith(`${name}.`))
    return isNested && isObject(value)
      ? Object.keys(value).map((inner) => `${name}.${inner}`)
      : [name]
  })
}

function problemOf(value: unknown, { kind, required, choices = [] }: OptionField) {
  if (value === undefined) return required ? 'is needed' : undefined
  const isText = typeof value === 'string'
  switch (kind) {
    case 'secret':
      return isText ? secretProblem(value) : isObject(value) ? undefined : 'expected a text'
    case 'address':
      return isText ? addressProblem(value) : `expected an address, found ${show(value)}`
    case 'text':
      return isText ? undefined : `expected a text, found ${show(value)}`
    case 'number':
      return typeof value === 'number' ? undefined : `expected a number, found ${show(value)}`
    case 'flag':
      return typeof value === 'boolean' ? undefined : `expected true or false, found ${show(value)}`
    case 'choice':
      return choices.some((one) => one === value)
        ? undefined
        : `expected one of ${choices.join(', ')}, found ${show(value)}`
    case 'list':
      return Array.isArray(value) && value.every((one) => typeof one === 'string')
        ? undefined
        : `expected a list of texts, found ${show(value)}`
  }
}

/** An address may be a secret. The message does not show it. */
function secretProblem(text: string): string | undefined {
  if (text === '') return 'expected a text that is not empty'
  const url = /^https?:/i.test(text) ? URL.parse(text) : null
  return url && isLinkLocal(url.hostname) ? LINK_LOCAL : undefined
}

const LINK_LOCAL = 'expected another address: this one is only valid on the machine’s own link'

/** Why a text cannot be the address of a managed entry. */
function addressProblem(text: string): string | undefined {
  const url = /^https?:\/\//i.test(text) ? URL.parse(text) : null
  if (!url) return 'expected an address that begins with https:// or http://'
  if (url.username !== '' || url.password !== '') return 'expected an address without a password'
  if (/[?#]/.test(text)) return 'expected an address without "?" and "#"'
  return isLinkLocal(url.hostname) ? LINK_LOCAL : undefined
}
