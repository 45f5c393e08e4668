/** Sets a provider up without knowing what its options are called. */
import { ConfigError } from '../errors/errors.ts'
import { loadProvider } from '../gateway/loader.ts'
import type { ProviderPlugin } from '../plugin.ts'
import { ProviderUnderTest, type Attempt } from './provider-under-test.ts'
import { IsolatedHost } from './isolated-host.ts'

/** Which provider, and how it is set up. */
export interface SubjectOptions {
  /** A path that begins with `./`, a built-in, a package, or the plugin itself. */
  readonly provider: string | ProviderPlugin
  /** Where paths and packages are looked for. */
  readonly directory: string
  /** The provider's options; without them the address and a made-up key are tried. */
  readonly options?: Readonly<Record<string, unknown>>
  /** The option that holds the vendor's address; by default the first of `baseURL`, `url` and `endpoint` that it takes. */
  readonly addressOption?: string
}

const ADDRESS_OPTIONS = ['baseURL', 'url', 'endpoint']
const SETTINGS = { timeout: 60, firstPartTimeout: 60, idleTimeout: 60, connections: 16 }

/**
 * Sets the provider up against the vendor at `url`, with `key` wherever a key is needed and none is given.
 * @throws ConfigError that says which options are missing, or why it cannot be loaded
 */
export async function setUp(
  options: SubjectOptions,
  url: string,
  key: string,
  patienceMs: number,
): Promise<ProviderUnderTest> {
  const refusals: ConfigError[] = []
  for (const attempt of attempts(options, url, key)) {
    const surroundings = new IsolatedHost(url)
    const settings = { ...SETTINGS, use: options.provider, options: attempt.options }
    try {
      const loaded = await loadProvider('provider', settings, {
        directory: options.directory,
        secrets: new Set(),
        createHost: (name) => surroundings.hostOf(name),
      })
      return new ProviderUnderTest(loaded, attempt, surroundings, patienceMs)
    } catch (error) {
      await surroundings.close()
      if (!(error instanceof ConfigError) || !error.issues.every(isAboutOptions))
        throw unprefixed(error)
      refusals.push(error)
    }
  }
  // The attempt that failed least says best what is missing.
  const [best] = refusals.toSorted((a, b) => a.issues.length - b.issues.length)
  throw unprefixed(best)
}

/** Ways to tell the provider where its vendor is. */
function attempts(options: SubjectOptions, url: string, key: string): Attempt[] {
  const { options: given, addressOption } = options
  const named = ADDRESS_OPTIONS.find((name) => given && Object.hasOwn(given, name))
  const names = addressOption ?? named
  const addressed = (names === undefined ? ADDRESS_OPTIONS : [names]).flatMap((name) => {
    const address = { [name]: movedTo(url, given?.[name]) }
    const forms = given ? [{ ...given, ...address }] : [{ apiKey: key, ...address }, address]
    return forms.map((one) => ({ addressOption: name, options: one }))
  })
  // A provider may have no vendor at all.
  return names === undefined
    ? [...addressed, { addressOption: undefined, options: given ?? {} }]
    : addressed
}

/** The address given, at the origin of the vendor. */
function movedTo(url: string, given: unknown): string {
  if (typeof given !== 'string' || !URL.canParse(given)) return url
  const { pathname, search } = new URL(given)
  return url + (pathname === '/' ? '' : pathname) + search
}

const PREFIX = 'providers.provider.'

function isAboutOptions({ path }: { readonly path: string }): boolean {
  return path.startsWith(`${PREFIX}options`)
}

/** Where no configuration is, nobody should read of one. */
function unprefixed(error: unknown): unknown {
  if (!(error instanceof ConfigError)) return error
  return new ConfigError(
    'the provider',
    error.issues.map(({ path, message }) => ({ path: path.replace(PREFIX, ''), message })),
  )
}
