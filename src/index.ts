/** What configurations and plugins import. */
import type { ConfigContext, UserConfig } from './config/config.ts'

export { defineGuard, defineProvider, defineSearch } from './plugin.ts'
export type * from './plugin.ts'
export type { ConfigContext, UserConfig } from './config/config.ts'

type Configure = (context: ConfigContext) => UserConfig | Promise<UserConfig>

/**
 * Gives types to a configuration, or to a function that makes one out of the environment.
 * @example export default defineConfig({ server: { port: 9000 }, models: './models.yaml' })
 */
export function defineConfig(config: UserConfig): UserConfig
export function defineConfig(config: Configure): Configure
export function defineConfig(config: UserConfig | Configure): UserConfig | Configure {
  return config
}
