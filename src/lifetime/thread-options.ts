import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import type { WorkerOptions } from 'node:worker_threads'

/**
 * No options of the main script: those of `-e` would keep a thread from starting. Nothing of its environment either: under
 * `--watch` a thread would report its imports among its answers. It shares the cache of compiled sources.
 */
export function threadOptions(): Pick<WorkerOptions, 'execArgv' | 'env'> {
  const folder = getCompileCacheDir()
  // Node adds a folder of its version to this path.
  const env = folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
  return { execArgv: [], env }
}
