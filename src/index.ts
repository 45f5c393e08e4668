/** Entry point of the package, for configurations and plugins. */
import type { ConfigContext, UserConfig } from './config/config.ts'

export { defineGuard, definePayments, defineProvider, defineSearch, defineSink } from './plugin.ts'
export type * from './plugin.ts'
export type { ConfigContext, UserConfig } from './config/config.ts'

/** A configuration that is computed, for example from the environment. */
type Configure = (context: ConfigContext) => UserConfig | Promise<UserConfig>

/**
 * Gives types to a configuration, or to a function that returns one. Returns its argument.
 * @example export default defineConfig({ server: { port: 9000 }, models: './models.yaml' })
 */
export function defineConfig(config: UserConfig): UserConfig
export function defineConfig(config: Configure): Configure
export function defineConfig(config: UserConfig | Configure): UserConfig | Configure {
  return config
}
