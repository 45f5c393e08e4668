/** `extends: starter`: the providers, models and search engines of the package, for what is in the environment. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from './environment.ts'
import { isRaw } from '../models/layers.ts'

/** The module of the package that offers them: TypeScript in a checkout and JavaScript in a build, like this file. */
export const STARTER_FILE = fileURLToPath(inConfig('starter'))
const MODELS_FILE = inConfig('starter-models').href

function inConfig(name: string): URL {
  return new URL(`../../config/${name}${extname(import.meta.url)}`, import.meta.url)
}

/** Environment variables that bring the models of further vendors, those of this environment left out. */
export async function starterVariables(env: Environment): Promise<string[]> {
  const { VENDORS } = (await import(MODELS_FILE)) as { VENDORS: readonly { variable: string }[] }
  return VENDORS.map(({ variable }) => variable).filter((variable) => !env[variable])
}

/**
 * A configuration with the providers and search engines of the starter beside its own. Of two with the same name the own one
 * is taken, whole. Sections that are no objects are left as they are, so that the schema can say what is wrong.
 */
export function extendBy(own: unknown, starter: unknown): unknown {
  if (!isRaw(own) || !isRaw(starter)) return own
  const search = mergeNames(own.search, starter.search)
  return {
    ...own,
    providers: mergeNames(own.providers, starter.providers),
    ...(search !== undefined && {
      search: isRaw(search)
        ? {
            ...search,
            engines: mergeNames(member(own.search, 'engines'), member(starter.search, 'engines')),
          }
        : search,
    }),
  }
}

function mergeNames(own: unknown, starter: unknown): unknown {
  if (own === undefined) return starter
  return isRaw(own) && isRaw(starter) ? { ...starter, ...own } : own
}

function member(value: unknown, name: string): unknown {
  return isRaw(value) ? value[name] : undefined
}
