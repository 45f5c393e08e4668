/** Search engines for a first start: every one whose API key, or address, is in the environment. */
import type { ConfigContext, UserConfig } from '../src/index.ts'

type SearchSection = NonNullable<UserConfig['search']>
type Engines = NonNullable<SearchSection['engines']>

interface StarterEngine {
  /** Its name, and that of the plugin. */
  readonly name: string
  /** The engine is left out where this is not set. */
  readonly variable: string
  /** Which option holds it. */
  readonly option: string
  /** USD for one search of at most ten results: public list prices of August 2026. */
  readonly price: string
}

const ENGINES: readonly StarterEngine[] = [
  { name: 'parallel', variable: 'PARALLEL_API_KEY', option: 'apiKey', price: '0.005' },
  { name: 'exa', variable: 'EXA_API_KEY', option: 'apiKey', price: '0.007' },
  { name: 'perplexity', variable: 'PERPLEXITY_API_KEY', option: 'apiKey', price: '0.005' },
  { name: 'searxng', variable: 'SEARXNG_URL', option: 'baseURL', price: '0' },
]

/** The engines there are; the first of them is asked when a request names none. Nothing where there are none. */
export function starterSearch(env: ConfigContext['env']): { readonly search?: SearchSection } {
  const engines: Engines = {}
  for (const { name, variable, option, price } of ENGINES) {
    if (env[variable])
      engines[name] = { use: name, options: { [option]: `\${${variable}}` }, price }
  }
  return Object.keys(engines).length > 0 ? { search: { engines } } : {}
}
