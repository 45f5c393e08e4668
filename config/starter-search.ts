/** Search engines for a first start: each one whose API key or address is in the environment. */
import type { ConfigContext, UserConfig } from '../src/index.ts'

type SearchSection = NonNullable<UserConfig['search']>
type Engines = NonNullable<SearchSection['engines']>

/** A search engine that is offered when its variable is set. */
export interface StarterEngine {
  /** Name of the engine and of its plugin. */
  readonly name: string
  /** Environment variable of the API key or address; the engine is left out without it. */
  readonly variable: string
  /** Option of the plugin that takes the value of the variable. */
  readonly option: string
  /** USD per search of at most ten results: public list prices of August 2026. */
  readonly price: string
}

/** The search engines of a first start, in the order in which one becomes the default. */
export const ENGINES: readonly StarterEngine[] = [
  { name: 'parallel', variable: 'PARALLEL_API_KEY', option: 'apiKey', price: '0.005' },
  { name: 'exa', variable: 'EXA_API_KEY', option: 'apiKey', price: '0.007' },
  { name: 'perplexity', variable: 'PERPLEXITY_API_KEY', option: 'apiKey', price: '0.005' },
  { name: 'searxng', variable: 'SEARXNG_URL', option: 'baseURL', price: '0' },
]

/** The section `search` with all engines that are set, the first one being the default; empty without an engine. */
export function starterSearch(env: ConfigContext['env']): { readonly search?: SearchSection } {
  const engines: Engines = {}
  for (const { name, variable, option, price } of ENGINES) {
    if (env[variable])
      engines[name] = { use: name, options: { [option]: `\${${variable}}` }, price }
  }
  return Object.keys(engines).length > 0 ? { search: { engines } } : {}
}
