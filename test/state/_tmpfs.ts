/** A small disk that can be filled. Only root may mount it. */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Blocks to fill it with, the largest first. */
const BLOCKS = [2 ** 20, 4096, 1].map((size) => Buffer.alloc(size, 'x'))

/** A disk of its own. */
export interface Disk {
  readonly path: string
  /** Fills the disk. @param spareMib how much stays free */
  fill(spareMib?: number): void
  /** Frees the space again. */
  empty(): void
  /** Files may still be open on it. */
  unmount(): void
}

/** Mounts a disk on a new folder. The caller unmounts it. */
export function mountAt(path: string, mib: number): Disk {
  mkdirSync(path)
  const mount = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', path])
  if (mount.status !== 0) throw new Error(`mount: ${mount.stderr}`)
  const filler = join(path, 'filler')
  return {
    path,
    fill(spareMib = 0) {
      const file = openSync(filler, 'a')
      const hasRoomFor = (bytes: number) => {
        const { bavail, bsize } = statfsSync(path)
        return spareMib === 0 || bavail * bsize >= spareMib * 2 ** 20 + bytes
      }
      try {
        for (const block of BLOCKS) {
          while (hasRoomFor(block.length) && takes(file, block));
        }
      } finally {
        closeSync(file)
      }
    },
    empty: () => rmSync(filler),
    // Lazily, because a process may have files open.
    unmount: () => void spawnSync('umount', ['-l', path]),
  }
}

function takes(file: number, block: Buffer): boolean {
  try {
    return writeSync(file, block) > 0
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
