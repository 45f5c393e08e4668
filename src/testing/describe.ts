/** The methods and options of a plugin, found without a request to a service. */
import { findPlugin, type FoundPlugin } from '../gateway/plugin-code.ts'
import type { Guard, Schema } from '../plugin.ts'
import { IsolatedHost, TestHost } from './hosts.ts'
import { optionsWithAddress } from './set-up.ts'

export interface DescribedOption {
  readonly name: string
  readonly type: string
  readonly required: boolean
  readonly default?: unknown
}

export interface PluginDescription {
  readonly kind: FoundPlugin['kind']
  readonly name: string
  readonly api: number
  /** Methods of the object that `setup` returns; null where it cannot be set up without options. */
  readonly methods: readonly string[] | null
  readonly options: readonly DescribedOption[]
  readonly deploymentOptions?: readonly DescribedOption[]
  readonly enforces?: readonly string[]
  readonly execution?: string
  /** Members of requests that a provider's vendor does not support. */
  readonly ignores?: readonly string[]
  /** The domains by which a search engine can narrow a search. */
  readonly narrows?: string
}

/** The discard port (RFC 863), of a service that nothing uses any more. */
const NO_SERVICE = 'http://127.0.0.1:9'
const KEY = 'key-for-a-description'

/**
 * Describes a plugin of any kind.
 * @param use a path, the name of a built-in plugin, or a package
 * @throws ConfigError for a missing plugin, or invalid options
 */
export async function describePlugin(
  use: string,
  options?: Readonly<Record<string, unknown>>,
): Promise<PluginDescription> {
  const loaded = await findPlugin(use, process.cwd())
  const { kind, name, api, options: schema } = loaded.plugin
  const made = await setUp(loaded, options)
  const methods = made && Object.keys(made).filter((member) => typeof made[member] === 'function')
  const declared = loaded.kind === 'provider' ? loaded.plugin.deploymentOptions : undefined
  const deployment = (made?.deploymentOptions as Schema | undefined) ?? declared
  return {
    kind,
    name,
    api,
    methods: methods ?? null,
    options: optionsIn(schema),
    ...(deployment && { deploymentOptions: optionsIn(deployment) }),
    ...(loaded.kind === 'guard' && made && factsOf(made as unknown as Guard)),
  }
}

function factsOf({ enforces, execution }: Guard) {
  return { enforces, execution }
}

async function setUp(
  { kind, plugin }: FoundPlugin,
  options?: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown> | undefined> {
  // A sink gets another host than those of the kits.
  if (kind === 'sink') return undefined
  const setup = options ? { options } : {}
  const valid = await optionsWithAddress(plugin, setup, NO_SERVICE, KEY).catch((error) => {
    if (options) throw error
    return undefined
  })
  if (!valid) return undefined
  const host = kind === 'guard' ? new TestHost(NO_SERVICE, undefined) : new IsolatedHost(NO_SERVICE)
  try {
    const made = await plugin.setup(valid.value, host.hostOf(plugin.name) as never)
    await made.close?.()
    return { ...made }
  } catch {
    return undefined
  } finally {
    await host.close()
  }
}

interface Node {
  readonly type?: string
  readonly entries?: Readonly<Record<string, Node>>
  readonly wrapped?: Node
  readonly default?: unknown
  readonly options?: readonly unknown[]
  readonly item?: Node
  readonly literal?: unknown
  readonly pipe?: readonly Node[]
}

const WRAPPERS = new Set(['optional', 'nullish', 'exact_optional', 'undefinedable', 'nullable'])

/** The options of a valibot schema; for other validators none are known. */
function optionsIn(schema: unknown, prefix = ''): DescribedOption[] {
  const { entries } = unwrapped(schema as Node)
  return Object.entries(entries ?? {}).flatMap(([name, node]) => {
    const inner = unwrapped(node)
    const path = prefix + name
    if (inner.entries) return optionsIn(inner, `${path}.`)
    const isOptional = WRAPPERS.has(node.type ?? '')
    const preset = isOptional && typeof node.default !== 'function' ? node.default : undefined
    return [
      {
        name: path,
        type: typeOf(inner),
        required: !isOptional,
        ...(preset !== undefined && { default: preset }),
      },
    ]
  })
}

function unwrapped(node: Node): Node {
  if (node.wrapped && WRAPPERS.has(node.type ?? '')) return unwrapped(node.wrapped)
  return node
}

function typeOf(node: Node): string {
  const { type = 'unknown', options = [], item, literal } = unwrapped(node)
  if (type === 'picklist') return options.map((one) => JSON.stringify(one)).join(' | ')
  if (type === 'literal') return JSON.stringify(literal)
  if (type === 'array') return `list of ${item ? typeOf(item) : 'values'}`
  if (type === 'union' || type === 'variant') {
    return options.map((one) => typeOf(one as Node)).join(' | ')
  }
  return type.replace(/^(?:strict|loose)_/, '')
}
