/** Room on a disk for what running calls have to write after the disk has become full. */
import { randomBytes } from 'node:crypto'
import { rmSync, statfsSync, statSync } from 'node:fs'
import { open, rm, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf, FULL, IO_ERROR } from './file.ts'

const BYTES = 8 * 2 ** 20
/** Space that a disk must have for a reserve to be made on it. */
const ROOM_MIB = 64
/** Written again and again. Random, so that a file system that compresses does not shrink it. */
const BLOCK_BYTES = 2 ** 20

/** What an operator reads of a disk whose reserve is in use. */
export const RESERVE_USED = `the disk is full, and its reserve is in use; it needs ${ROOM_MIB} MiB of free space`

/** A file of 8 MiB that is deleted when its disk is full. */
export class Reserve {
  readonly #path: string
  #isThere: boolean
  #used = false
  #making: Promise<void> | undefined

  /** @param path of the file, in a folder that exists */
  constructor(path: string) {
    this.#path = path
    this.#isThere = statSync(path, { throwIfNoEntry: false })?.size === BYTES
  }

  /** Whether it was given to writes, and could not be made again yet. */
  get used(): boolean {
    return this.#used
  }

  /** Runs writes to a database. Where they find the disk full, the reserve is deleted, and they run once more. */
  lend<Result>(write: () => Result): Result {
    try {
      return write()
    } catch (error) {
      if (!this.#isThere || !this.#isFull(error)) throw error
      this.#used = true
      this.remove()
      return write()
    }
  }

  /** Makes the file if it is missing and the disk has room. Never rejects. */
  make(): Promise<void> {
    if (this.#isThere) return Promise.resolve()
    this.#making ??= this.#write().finally(() => (this.#making = undefined))
    return this.#making
  }

  /** Deletes the file. */
  remove(): void {
    this.#isThere = false
    rmSync(this.#path, { force: true })
  }

  async #write(): Promise<void> {
    try {
      const { bavail, bsize } = await statfs(dirname(this.#path))
      if (bavail * bsize < ROOM_MIB * 2 ** 20) return
      await using file = await open(this.#path, 'w', 0o600)
      const block = randomBytes(BLOCK_BYTES)
      for (let at = 0; at < BYTES; at += BLOCK_BYTES) await file.write(block, 0, BLOCK_BYTES, at)
      this.#isThere = (await file.stat()).size === BYTES
      if (this.#isThere) this.#used = false
    } catch {
      // It is tried again; a part of it would be room that only this file uses.
      await rm(this.#path, { force: true }).catch(() => undefined)
    }
  }

  #isFull(error: unknown): boolean {
    const code = codeOf(error)
    if (code !== IO_ERROR) return code === FULL
    // Memory shared through a file, and a sync, report a full disk as any other failure.
    const { bavail, bsize } = statfsSync(dirname(this.#path))
    return bavail * bsize < BYTES
  }
}
