/** Watches the space of the disks that the gateway writes to. */
import { statfs } from 'node:fs/promises'
import type { Config } from '../config/config.ts'
import type { Finding } from '../observe/alerts.ts'

const LOOK_MS = 10_000
const MIB = 1024 * 1024
const LOW_BYTES = 256 * MIB
const ENOUGH_BYTES = 512 * MIB

/** The folders of one gateway. The owner calls {@link DiskSpace.tick} from time to time. */
export class DiskSpace {
  readonly #folders: readonly string[]
  readonly #freeBytes: (folder: string) => Promise<number>
  readonly #free = new Map<string, number>()
  #lookedAt = -Infinity

  /** @param freeBytes of the disk of a folder */
  constructor(folders: readonly string[], freeBytes = freeBytesOf) {
    this.#folders = folders
    this.#freeBytes = freeBytes
  }

  /** @param now steady ms */
  tick(now: number): void {
    if (now - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = now
    for (const folder of this.#folders) {
      this.#freeBytes(folder).then(
        (bytes) => this.#free.set(folder, bytes),
        // A folder that is not there yet.
        () => this.#free.delete(folder),
      )
    }
  }

  findings(): Finding[] {
    return [...this.#free].map(([folder, bytes]) => ({
      kind: 'disk.low',
      object: folder,
      state: bytes < LOW_BYTES ? 'wrong' : bytes > ENOUGH_BYTES ? 'well' : 'between',
      message: `the disk of ${folder} has ${Math.floor(bytes / MIB)} MiB left`,
    }))
  }
}

/** The folders that a configuration writes to. */
export function foldersOf({ state, log }: Config): string[] {
  const own =
    state.driver === 'file' ? [state.path] : state.driver === 'redis' ? [state.outbox] : []
  return [...new Set([...own, ...(log.path === undefined ? [] : [log.path])])]
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}
