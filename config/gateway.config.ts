/**
 * The configuration that is used as long as there is no other one. It serves the mock models without any secret, and
 * real ones for every API key that is set, and searches the web with every engine that is: see starter.ts and
 * starter-search.ts.
 */
import type { ConfigContext, UserConfig } from '../src/index.ts'
import { starter } from './starter.ts'
import { starterSearch } from './starter-search.ts'

/** One file, beside this folder; only one process may own it. */
const STATE: UserConfig['state'] = { driver: 'file', path: '../data' }

export default async function configure({ env }: ConfigContext): Promise<UserConfig> {
  return {
    server: { host: '127.0.0.1', port: 8787 },
    state: STATE,
    ...(await starter(env)),
    ...starterSearch(env),
    ...(env.SLUICEGATE_ADMIN_TOKEN ? { admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' } } : {}),
  }
}
