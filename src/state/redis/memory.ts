/**
 * What this gateway knows of the ledger that it has used: in a file beside its outbox, so that it is known after a restart too.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { isObject } from '../../errors/checks.ts'
import { randomId } from '../ids.ts'
import type { Log } from '../ledger/ledger.ts'

export interface Known {
  /** Identity of the ledger. */
  readonly id: string
  /** The store's time of the last beat, ms since epoch. */
  readonly beat: number
  readonly epoch: number
}

/** Least time between two writes of the file. */
const WRITE_MS = 5000

export class Memory {
  /** A random name: the ledger keeps the last beat of each memory. */
  readonly name: string
  readonly #path: string
  readonly #log: Log
  #known: Known | undefined
  #isWritten = true
  #writtenAt = -Infinity

  /** @param path the path of its file, which may be missing */
  constructor(path: string, log: Log) {
    this.#path = path
    this.#log = log
    const stored = read(path)
    this.name = stored?.name ?? randomId('memory_')
    this.#known = stored?.known
  }

  get known(): Known | undefined {
    return this.#known
  }

  learn(known: Known): void {
    const isNew = this.#known?.id !== known.id || this.#known.epoch !== known.epoch
    this.#known = known
    this.#isWritten = false
    if (isNew || performance.now() - this.#writtenAt > WRITE_MS) this.write()
  }

  /** A failure is logged: the next write may succeed. */
  write(): void {
    if (this.#isWritten) return
    this.#writtenAt = performance.now()
    try {
      const { name } = this
      writeFileSync(`${this.#path}-new`, JSON.stringify({ name, ...this.#known }), { mode: 0o600 })
      renameSync(`${this.#path}-new`, this.#path)
      this.#isWritten = true
    } catch (error) {
      this.#log.warn(`${this.#path} cannot be written`, error)
    }
  }
}

/** It is undefined for a file that is missing or damaged: the gateway then knows nothing of a ledger. */
function read(path: string): { name: string; known: Known | undefined } | undefined {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
  if (!isObject(value) || typeof value.name !== 'string') return undefined
  const { name, id, beat, epoch } = value
  const isWhole = typeof id === 'string' && typeof beat === 'number' && typeof epoch === 'number'
  return { name, known: isWhole ? { id, beat, epoch } : undefined }
}
