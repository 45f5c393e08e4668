/** Watches the files of a configuration, and loads it again when they change. */
import { watch as watchFolder, type FSWatcher } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { dirname, extname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { readEnvironment } from './environment.ts'
import { localState } from './starter.ts'
import { EXTENSIONS, loadConfig, type LoadedConfig, type LoadOptions } from './config.ts'

/** Editors write a file in several steps: the reload starts after this many ms without a further event. */
const QUIET_MS = 100
/** Time between two looks for servers of the operator's own. */
const LOCAL_MS = 60_000

/** Watches the files of a configuration. */
export interface ConfigWatcher {
  /** Reads the configuration now, and reports it also when it has the same values. */
  reload(): void
  close(): Promise<void>
}

/**
 * Reloads the configuration when a file in one of its folders has changed or was replaced. An invalid configuration is
 * reported to `onError` and otherwise ignored. A configuration with the same values as before is not reported. With the starter it
 * is also loaded again when a local server is found.
 * @param options the options with which `loaded` was loaded
 */
export async function watchConfig(
  loaded: LoadedConfig,
  onChange: (next: LoadedConfig) => void,
  onError: (error: unknown) => void,
  options: LoadOptions = {},
  localMs = LOCAL_MS,
): Promise<ConfigWatcher> {
  let current = loaded
  let closed = false
  let timer: NodeJS.Timeout | undefined
  let working = Promise.resolve()
  const soon = () => {
    clearTimeout(timer)
    timer = setTimeout(() => (working = working.then(() => reload())), QUIET_MS)
  }
  let watchers = watchAll(current.folders, soon, onError)
  let seen = await fingerprint(current)

  const looking = setInterval(() => (working = working.then(() => look())), localMs)
  looking.unref()
  let local = stateOf(current, options)

  async function look(): Promise<void> {
    const before = await local
    local = stateOf(current, options)
    if (!closed && (await local) !== before) await reload(false, true)
  }

  async function reload(always = false, changed = always): Promise<void> {
    try {
      const now = await fingerprint(current)
      if (closed || (now === seen && !changed)) return
      seen = now
      const next = await loadConfig({ ...options, file: loaded.file })
      if (closed || (isEqual(next, current) && !always)) return
      if (!isDeepStrictEqual(next.folders, current.folders)) {
        for (const watcher of watchers) watcher.close()
        watchers = watchAll(next.folders, soon, onError)
        seen = await fingerprint(next)
      }
      current = next
      onChange(next)
    } catch (error) {
      if (!closed) onError(error)
    }
  }

  return {
    reload() {
      working = working.then(() => reload(true))
    },
    async close() {
      closed = true
      clearTimeout(timer)
      clearInterval(looking)
      for (const watcher of watchers) watcher.close()
      await working
    },
  }
}

function isEqual(one: LoadedConfig, other: LoadedConfig): boolean {
  const { variables, pem } = one.network
  return isDeepStrictEqual(
    [one.config, variables, pem],
    [other.config, other.network.variables, other.network.pem],
  )
}

/** What the starter finds on local servers; empty without the starter. Never rejects. */
async function stateOf(
  { config, file }: LoadedConfig,
  { env = process.env, cwd = process.cwd() }: LoadOptions,
): Promise<string> {
  if (config.extends !== 'starter') return ''
  const environment = await readEnvironment(env, [cwd, dirname(file)])
  return localState(environment).catch(() => '')
}

function watchAll(
  folders: readonly string[],
  onEvent: () => void,
  onError: (error: unknown) => void,
): FSWatcher[] {
  return folders.map((folder) => watchFolder(folder, onEvent).on('error', onError))
}

/** A text that changes whenever a file changes that can be part of the configuration. */
async function fingerprint({ folders, certificates }: LoadedConfig): Promise<string> {
  const names = await Promise.all(
    folders.map(async (folder) => {
      const entries = await readdir(folder).catch(() => [])
      const own = entries.filter((name) => name === '.env' || EXTENSIONS.includes(extname(name)))
      return own.map((name) => join(folder, name))
    }),
  )
  const stamps = [...names.flat(), ...certificates].map(async (path) => {
    const stats = await stat(path, { bigint: true }).catch(() => undefined)
    return stats ? `${path}:${stats.ino}:${stats.mtimeNs}:${stats.size}` : path
  })
  return (await Promise.all(stamps)).join('\n')
}
