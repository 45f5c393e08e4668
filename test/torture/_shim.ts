/** Libraries that a process is started with, so that its disk or its clock misbehaves. */
import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'

/**
 * Compiles the slow disk of `fsync-delay.c` into a folder.
 * @returns the environment of a process that is to be slowed down; undefined, and said loudly, where that cannot be done
 */
export function buildShim(folder: string, delayMs: number): Record<string, string> | undefined {
  const library = compile(folder, 'fsync-delay')
  if (library === undefined) return undefined
  return {
    LD_PRELOAD: library,
    FSYNC_DELAY_US: String(Math.round(delayMs * 1000)),
    FSYNC_COUNT_FILE: join(folder, 'syncs'),
  }
}

/** What befalls a process that was started with a {@link Machine}. */
export class Machine {
  readonly env: Readonly<Record<string, string>>
  readonly #file: string

  /** Compiles `machine.c` into a folder. @returns undefined, and said loudly, where that cannot be done */
  static build(folder: string): Machine | undefined {
    const library = compile(folder, 'machine')
    return library === undefined ? undefined : new Machine(library, join(folder, 'machine'))
  }

  private constructor(library: string, file: string) {
    this.#file = file
    this.env = { LD_PRELOAD: library, MACHINE_FILE: file }
    writeFileSync(file, Buffer.alloc(24))
  }

  /** @param error the error of every write and sync, such as `EROFS`; undefined ends it */
  failWrites(error: 'EROFS' | 'EIO' | undefined): void {
    this.#set(0, error === undefined ? 0 : constants.errno[error])
  }

  /** Delays every sync. */
  delaySyncs(ms: number): void {
    this.#set(1, ms * 1000)
  }

  /** How far the wall clock is set forward, or back. */
  setClock(seconds: number): void {
    this.#set(2, seconds)
  }

  #set(place: number, value: number): void {
    const word = Buffer.alloc(8)
    word.writeBigInt64LE(BigInt(value))
    const file = openSync(this.#file, 'r+')
    writeSync(file, word, 0, 8, place * 8)
    closeSync(file)
  }
}

function compile(folder: string, name: string): string | undefined {
  const library = join(folder, `${name}.so`)
  const source = join(import.meta.dirname, `${name}.c`)
  const built = spawnSync('gcc', ['-O2', '-shared', '-fPIC', '-o', library, source, '-ldl'])
  if (built.status === 0) return library
  const reason = built.error?.message ?? built.stderr.toString()
  process.stderr.write(`SKIPPED: ${name}.c needs gcc, which did not do: ${reason}\n`)
  return undefined
}

/** How many syncs this process has made, if it is slowed down. */
export function countSyncs(): number {
  return Number(readFileSync(process.env.FSYNC_COUNT_FILE!).readBigUInt64LE())
}
