/** Where the state of a ledger goes that can no longer stay in its file. */
import { closeSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { bookableRow } from '../ledger/unconfirmed.ts'
import type { Settlement } from '../ledger/ledger.ts'
import type { Pico } from '../../money/money.ts'
import { createFile } from './file.ts'
const HEADER = `${JSON.stringify({ kind: 'rescue', version: 1 })}\n`

/** Settlements as lines that `ledger import` books. Each is on the disk before its client gets the cost. */
export class RescueFile {
  readonly path: string
  #file: number | undefined
  #bytes = 0

  /** @param path created with the first line */
  constructor(path: string) {
    this.path = path
  }

  /** Whether this process has written a line. */
  get used(): boolean {
    return this.#bytes > 0
  }

  /** Writes the line before it returns. @returns the cost. @throws the error of the file system */
  async append(settlement: Settlement): Promise<Pico> {
    this.#file ??= this.#open()
    this.#write(`${bookableRow(settlement)}\n`)
    return settlement.cost
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }

  #open(): number {
    createFile(this.path)
    const text = readFileSync(this.path)
    const file = openSync(this.path, 'r+')
    // A line without its end was not on the disk in time; its settlement was answered in another way.
    this.#bytes = text.lastIndexOf('\n') + 1
    try {
      ftruncateSync(file, this.#bytes)
      this.#file = file
      if (this.#bytes === 0) this.#write(HEADER)
      syncFolder(dirname(this.path))
      return file
    } catch (error) {
      closeSync(file)
      this.#file = undefined
      throw error
    }
  }

  #write(line: string): void {
    const bytes = Buffer.from(line)
    try {
      for (let at = 0; at < bytes.length;) {
        at += writeSync(this.#file!, bytes, at, bytes.length - at, this.#bytes + at)
      }
      fsyncSync(this.#file!)
      this.#bytes += bytes.length
    } catch (error) {
      ftruncateSync(this.#file!, this.#bytes)
      throw error
    }
  }
}

/** Writes a whole copy of an open database, even of a deleted file. It is on the disk when this returns. */
export function rescueCopy(db: DatabaseSync, target: string): void {
  createFile(target)
  db.prepare('VACUUM INTO ?').run(target)
  sync(target)
  syncFolder(dirname(target))
}

function sync(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Syncs a folder, so that the name of a new file is on the disk too. */
function syncFolder(path: string): void {
  // Windows opens no folders.
  if (process.platform !== 'win32') sync(path)
}
