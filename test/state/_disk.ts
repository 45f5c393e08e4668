/** A small disk that a test can fill. Only root may mount it. */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { folder } from '../_folder.ts'

const SIZE = '4m'
const BLOCK = Buffer.alloc(4096, 'x')

/** A disk of a few megabytes. */
export interface Disk {
  readonly path: string
  /** Fills the disk. */
  fill(): void
  /** Frees the space again. */
  empty(): void
}

/** A disk that is unmounted with the test. */
export async function mountDisk(): Promise<Disk> {
  const path = join(await folder({}), 'disk')
  mkdirSync(path)
  const mount = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', path])
  if (mount.status !== 0) throw new Error(`mount: ${mount.stderr}`)
  // Lazily, because a failed test may have files open.
  onTestFinished(() => void spawnSync('umount', ['-l', path]))
  const filler = join(path, 'filler')
  return {
    path,
    fill() {
      const file = openSync(filler, 'a')
      try {
        for (const size of [BLOCK.length, 1]) {
          while (takes(file, size));
        }
      } finally {
        closeSync(file)
      }
    },
    empty: () => rmSync(filler),
  }
}

function takes(file: number, size: number): boolean {
  try {
    return writeSync(file, BLOCK, 0, size) > 0
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false
    throw error
  }
}

/** Why no disk can be mounted here; undefined if one can. */
export function hindrance(): string | undefined {
  if (process.platform !== 'linux') return 'only Linux has tmpfs'
  const probe = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'])
  if (probe.status === 0) return undefined
  return 'this user may not mount a disk to fill'
}
