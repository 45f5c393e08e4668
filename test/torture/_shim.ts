/** A disk that takes its time: see fsync-delay.c. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Compiles the shim into a folder.
 * @returns the environment of a process that is to be slowed down; undefined, and said loudly, where that cannot be done
 */
export function buildShim(folder: string, delayMs: number): Record<string, string> | undefined {
  const library = join(folder, 'fsync-delay.so')
  const source = join(import.meta.dirname, 'fsync-delay.c')
  const built = spawnSync('gcc', ['-O2', '-shared', '-fPIC', '-o', library, source, '-ldl'])
  if (built.status !== 0) {
    const reason = built.error?.message ?? built.stderr.toString()
    process.stderr.write(`SKIPPED: the slow disk needs gcc, which did not do: ${reason}\n`)
    return undefined
  }
  return {
    LD_PRELOAD: library,
    FSYNC_DELAY_US: String(Math.round(delayMs * 1000)),
    FSYNC_COUNT_FILE: join(folder, 'syncs'),
  }
}

/** How many syncs this process has made, if it is slowed down. */
export function countSyncs(): number {
  return Number(readFileSync(process.env.FSYNC_COUNT_FILE!).readBigUInt64LE())
}
