/** Watches the files of a plugin: its code, as far as it lies in its folder, and its cases. */
import { watch, type FSWatcher } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

/** The silence that ends a change: editors write a file in several steps. */
const QUIET_MS = 40
const IMPORT = /\b(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g

interface PluginWatch {
  /** Resolves with the changed files once they have been left alone for a moment. */
  next(): Promise<readonly string[]>
  close(): void
}

/** @param file the file of the plugin. @param cases folder of its cases, which need not exist */
export async function watchPlugin(file: string, cases: string): Promise<PluginWatch> {
  const changed = new Set<string>()
  let code = await modulesOf(file)
  let timer: NodeJS.Timeout | undefined
  let wake: (() => void) | undefined
  const watchers = new Map<string, FSWatcher>()
  const note = (path: string) => {
    if (!code.has(path) && dirname(path) !== cases) return
    changed.add(path)
    wait()
  }
  const wait = () => {
    clearTimeout(timer)
    timer = setTimeout(() => wake?.(), QUIET_MS)
  }
  /** Watches folders, because editors replace files. */
  const watchFolders = () => {
    for (const folder of new Set([...[...code].map((path) => dirname(path)), cases])) {
      if (watchers.has(folder)) continue
      try {
        const watcher = watch(folder, (_, name) => name && note(resolve(folder, name)))
        watchers.set(
          folder,
          watcher.on('error', () => watchers.delete(folder)),
        )
      } catch {
        // A folder that is not there has no files.
      }
    }
  }
  watchFolders()
  return {
    async next() {
      await new Promise<void>((resume) => {
        wake = resume
        // These files have changed since the last time.
        if (changed.size > 0) wait()
      })
      wake = undefined
      const files = [...changed]
      changed.clear()
      code = await modulesOf(file)
      watchFolders()
      return files
    },
    close() {
      clearTimeout(timer)
      for (const watcher of watchers.values()) watcher.close()
    },
  }
}

/** A module and those that it imports by relative paths. */
async function modulesOf(file: string): Promise<ReadonlySet<string>> {
  const modules = new Set<string>()
  const visit = async (path: string): Promise<void> => {
    if (modules.has(path)) return
    modules.add(path)
    const code = await readFile(path, 'utf8').catch(() => '')
    for (const [, name] of code.matchAll(IMPORT)) await visit(resolve(dirname(path), name!))
  }
  await visit(file)
  return modules
}
