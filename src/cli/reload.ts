/** Changes of the configuration while a gateway serves. */
import type { ConsolaInstance } from 'consola'
import { isDeepStrictEqual } from 'node:util'
import { type LoadedConfig, type LoadOptions } from '../config/config.ts'
import { watchConfig, type ConfigWatcher } from '../config/watch.ts'
import { logEvent } from '../observe/events.ts'
import { issuesOf } from './fatal.ts'

const MOST_PATHS = 50

interface Watched {
  readonly log: ConsolaInstance
  readonly loaded: LoadedConfig
  readonly options: LoadOptions
}

/** Paths of the settings that differ, two levels deep; never their values. */
function changedPaths(before: object, after: object): string[] {
  const paths: string[] = []
  for (const section of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, now] = [before, after].map((one) => (one as Record<string, object>)[section] ?? {})
    for (const name of new Set([...Object.keys(old!), ...Object.keys(now!)])) {
      const [from, to] = [old, now].map((one) => (one as Record<string, unknown>)[name])
      if (!isDeepStrictEqual(from, to)) paths.push(`${section}.${name}`)
    }
  }
  return paths.slice(0, MOST_PATHS)
}

/** Applies changes of the configuration one after the other. @param use replaces it, or throws and changes nothing */
export function keepUpToDate(
  { log, loaded, options }: Watched,
  use: (next: LoadedConfig) => Promise<void>,
): Promise<ConfigWatcher> {
  let working = Promise.resolve()
  let settings = loaded
  const apply = async (next: LoadedConfig) => {
    try {
      await use(next)
      logEvent(log, 'info', {
        event: 'config.reloaded',
        message: 'the configuration was reloaded',
        members: { changed: changedPaths(settings.config, next.config) },
      })
      settings = next
    } catch (error) {
      refuse(error)
    }
  }
  const refuse = (error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    logEvent(log, 'error', {
      event: 'config.refused',
      message: `the configuration was not reloaded, the previous one stays in use: ${reason}`,
      members: { paths: issuesOf(error).map(({ path }) => path) },
    })
  }
  return watchConfig(
    loaded,
    (next) => {
      working = working.then(() => apply(next))
    },
    refuse,
    options,
  )
}
