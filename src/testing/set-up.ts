/** Sets up a provider whose option names are not known. */
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { namesSecret, toConfigIssues } from '../errors/issues.ts'
import { loadProvider } from '../gateway/loader.ts'
import type { Plugin, ProviderPlugin, Schema } from '../plugin.ts'
import { ProviderUnderTest, type Attempt } from './provider-under-test.ts'
import { IsolatedHost } from './hosts.ts'
import type { Patience } from './report.ts'

export interface ProviderSetup {
  /** A path that begins with `./`, the name of a built-in plugin or of a package, or the plugin itself. */
  readonly provider: string | ProviderPlugin
  /** Folder in which paths and packages are resolved. */
  readonly directory: string
  /** Options of the provider; when absent, an address is tried, and a random key in each option whose name is that of a secret. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Name of the option with the vendor's address; by default the first of `baseURL`, `url` and `endpoint` that works. */
  readonly addressOption?: string
}

const ADDRESS_OPTIONS = ['baseURL', 'url', 'endpoint']
/**
 * Sets up the provider with the vendor at `url`, and with `key` where it needs a key and no options are given.
 * @throws ConfigError that names the missing options, or the reason why the provider cannot be loaded
 */
export async function setUp(
  options: ProviderSetup,
  url: string,
  key: string,
  patience: Patience,
): Promise<ProviderUnderTest> {
  const refusals: ConfigError[] = []
  const tried = attempts(options, url, key)
  for (const attempt of tried) {
    const host = new IsolatedHost(url)
    const settings = { use: options.provider, options: attempt.options }
    try {
      const loaded = await loadProvider('provider', settings, {
        directory: options.directory,
        secrets: new Set(),
        createHost: (name) => host.hostOf(name),
      })
      return new ProviderUnderTest(loaded, attempt, host, patience)
    } catch (error) {
      await host.close()
      if (!(error instanceof ConfigError) || !error.issues.every(isAboutOptions))
        throw unprefixed(error)
      refusals.push(error)
      if (!options.options) tried.push(...withKeys(attempt, error.issues, key))
    }
  }
  // The attempt with the fewest issues shows best which options are missing.
  const [best] = refusals.toSorted((a, b) => a.issues.length - b.issues.length)
  throw unprefixed(best)
}

interface ValidOptions {
  readonly given: Readonly<Record<string, unknown>>
  readonly value: unknown
  readonly addressOption: string | undefined
}

/**
 * Options with the service at `url`, and with `key` where a key is needed and no options are given.
 * @param asTheyAre whether valid options are taken as they are
 * @throws ConfigError with the issues of the options that come nearest
 */
export async function optionsWithAddress(
  { name, options: schema }: Pick<Plugin<string, Schema<any>, unknown>, 'name' | 'options'>,
  options: Pick<ProviderSetup, 'options' | 'addressOption'>,
  url: string,
  key: string,
  asTheyAre = false,
): Promise<ValidOptions> {
  const refusals: ConfigIssue[][] = []
  const plain = { addressOption: undefined, options: options.options ?? {} }
  const addressed = attempts(options, url, key)
  const tried = asTheyAre ? [plain, ...addressed] : [...addressed, plain]
  for (const attempt of tried) {
    const given = attempt.options
    const result = await schema['~standard'].validate(given)
    if (!result.issues) return { given, value: result.value, addressOption: attempt.addressOption }
    const source = { path: ['options'], value: given, secrets: new Set<string>() }
    const issues = toConfigIssues(result.issues, source, schema)
    refusals.push(issues)
    if (!options.options) tried.push(...withKeys(attempt, issues, key))
  }
  throw new ConfigError(name, refusals.toSorted((a, b) => a.length - b.length)[0]!)
}

/** Sets of options to try, in this order. */
function attempts(
  options: Pick<ProviderSetup, 'options' | 'addressOption'>,
  url: string,
  key: string,
): Attempt[] {
  const { options: given, addressOption } = options
  const configured = ADDRESS_OPTIONS.find((name) => given && Object.hasOwn(given, name))
  const names = addressOption ?? configured
  const addressed = (names === undefined ? ADDRESS_OPTIONS : [names]).flatMap((name) => {
    const address = { [name]: movedTo(url, given?.[name]) }
    const forms = given ? [{ ...given, ...address }] : [{ apiKey: key, ...address }, address]
    return forms.map((one) => ({ addressOption: name, options: one }))
  })
  // A provider may work without a vendor.
  return names === undefined
    ? [...addressed, { addressOption: undefined, options: given ?? {} }]
    : addressed
}

/** The attempt once more, with the key in those options for secrets that its refusal names. */
function withKeys(
  { addressOption, options }: Attempt,
  issues: readonly ConfigIssue[],
  key: string,
): Attempt[] {
  const names = issues
    .map(({ path }) => path.replace(/^.*?options\./, ''))
    .filter((name) => namesSecret(name) && !name.includes('.') && !Object.hasOwn(options, name))
  const keys = Object.fromEntries(names.map((name) => [name, key]))
  return names.length > 0 ? [{ addressOption, options: { ...options, ...keys } }] : []
}

function movedTo(url: string, address: unknown): string {
  if (typeof address !== 'string' || !URL.canParse(address)) return url
  const { pathname, search } = new URL(address)
  return url + (pathname === '/' ? '' : pathname) + search
}

const PREFIX = 'providers.provider.'

function isAboutOptions({ path }: { readonly path: string }): boolean {
  return path.startsWith(`${PREFIX}options`)
}

/** Removes the path of the configuration from issues, because the kit has no configuration file. */
function unprefixed(error: unknown): unknown {
  if (!(error instanceof ConfigError)) return error
  return new ConfigError(
    'the provider',
    error.issues.map(({ path, message }) => ({ path: path.replace(PREFIX, ''), message })),
  )
}
