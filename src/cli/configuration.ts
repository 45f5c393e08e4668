import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadConfig, type LoadedConfig, type LoadOptions } from '../config/config.ts'
import { networkOfEnvironment } from '../config/network.ts'
import { Egress, type EgressRoute } from '../upstream/egress.ts'
import { addressOf } from './address.ts'
import type { Arguments } from './command.ts'

/** The configuration of the package: TypeScript in a checkout and JavaScript in a build, like this file. */
const BUILT_IN = fileURLToPath(
  new URL(`../../config/gateway.config${extname(import.meta.url)}`, import.meta.url),
)

/** The way of a command's own requests: that of a configuration, else that of the environment. */
export function routeOf(loaded?: LoadedConfig): EgressRoute {
  const network = loaded?.network ?? networkOfEnvironment(process.env)
  return new Egress(loaded?.config.egress ?? {}, network).route()
}

/**
 * The file of `--config`, else in the working folder, else of the package; with `--data`, `--port` and `--host`.
 * @throws ConfigError, or CommandError for an invalid port
 */
export async function configurationOf(
  args: Arguments,
): Promise<{ readonly loaded: LoadedConfig; readonly options: LoadOptions }> {
  const { config: file, data } = args.text
  const options: LoadOptions = {
    builtIn: BUILT_IN,
    address: addressOf(args),
    ...(file !== undefined && { file }),
    ...(data !== undefined && { data }),
  }
  return { loaded: await loadConfig(options), options }
}
