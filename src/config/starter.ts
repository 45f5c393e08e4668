/** `extends: starter`: the providers, models and search engines of the package, for what is in the environment. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from './environment.ts'
import { isRaw } from '../models/layers.ts'

const STARTER = new URL(`../../config/starter${extname(import.meta.url)}`, import.meta.url)

/** The module of the package that offers them: TypeScript in a checkout and JavaScript in a build, like this file. */
export const STARTER_FILE = fileURLToPath(STARTER)

interface Starter {
  starterHints(env: Environment): string[]
  localState(env: Environment): Promise<string>
}

/** What would bring further models of the starter in this environment, in words. */
export async function starterHints(env: Environment): Promise<string[]> {
  return ((await import(STARTER.href)) as Starter).starterHints(env)
}

/** Text that changes when the starter finds other models on servers of the operator's own. */
export async function localState(env: Environment): Promise<string> {
  return ((await import(STARTER.href)) as Starter).localState(env)
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
