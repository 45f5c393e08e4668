/** `extends: starter`: the providers, models and search engines of the package, for what is in the environment. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from './environment.ts'

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

/** Text that changes when the starter finds a server of the operator's own. */
export async function localState(env: Environment): Promise<string> {
  return ((await import(STARTER.href)) as Starter).localState(env)
}
