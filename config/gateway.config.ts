/**
 * The configuration that is used when there is no other one. It serves mock models without any secret, the models of every
 * vendor whose API key is in the environment (see starter.ts), and every search engine that is set (see starter-search.ts).
 * The ledger is in `data` of the working folder.
 */
import type { ConfigContext, UserConfig } from '../src/index.ts'
import { starter } from './starter.ts'
import { starterSearch } from './starter-search.ts'

/** The configuration for this environment. */
export default async function configure({ env }: ConfigContext): Promise<UserConfig> {
  return {
    server: { host: '127.0.0.1', port: 8787 },
    ...(await starter(env)),
    ...starterSearch(env),
    ...(env.SLUICEGATE_ADMIN_TOKEN ? { admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' } } : {}),
  }
}
