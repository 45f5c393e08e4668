/**
 * The configuration that is used when there is no other one. It serves mock models without any secret, the models of every
 * vendor whose API key is in the environment (see starter.ts), and every search engine that is set (see starter-search.ts).
 * The ledger is in `data` of the working folder.
 */
import type { ConfigContext, UserConfig } from '../src/index.ts'

/** The configuration for this environment. */
export default function configure({ env }: ConfigContext): UserConfig {
  return {
    extends: 'starter',
    server: { host: '127.0.0.1', port: 8787 },
    ...(env.SLUICEGATE_ADMIN_TOKEN ? { admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' } } : {}),
  }
}
