/** Finds the configuration that a command uses. */
import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { loadConfig, type LoadedConfig, type LoadOptions } from '../config/config.ts'
import type { Arguments } from './command.ts'

/**
 * The file that `--config` names, else the one in the working folder, else the one of the package.
 * @throws ConfigError
 */
export async function configurationOf(
  args: Arguments,
): Promise<{ readonly loaded: LoadedConfig; readonly options: LoadOptions }> {
  const options = optionsOf(args)
  return { loaded: await loadConfig(options), options }
}

function optionsOf({ text }: Arguments): LoadOptions {
  if (text.config !== undefined) return { file: text.config }
  if (globSync(['gateway.config.*', 'config/gateway.config.*']).length > 0) return {}
  // A checkout has its configuration one level above `src/`, a build two above `dist/src/`.
  const [file] = ['../../config/', '../../../config/']
    .map((folder) => fileURLToPath(new URL(folder, import.meta.url)))
    .flatMap((cwd) => globSync('gateway.config.*', { cwd }).map((name) => `${cwd}${name}`))
  return file === undefined ? {} : { file }
}
