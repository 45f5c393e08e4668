/**
 * Files of the rows that a ledger has folded, one for each month: lines of an export, compressed with zstd. Each batch of lines is a frame
 * of its own behind a skippable frame that tells its length, so that one that a kill has cut off is found and removed. Rows may be there
 * twice, where a kill came between the file and the ledger.
 */
import { closeSync, existsSync, openSync, readSync, statSync, truncateSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import { DAY_MS } from './windows.ts'
import type { Log } from './ledger.ts'

interface ArchiveOptions {
  /** It is created with the first file. */
  readonly folder: string
  /** Days after the end of a month for which its file is kept. */
  readonly keepDays: number
  /** Bytes that all files may take; the newest file stays. */
  readonly sizeBytes: number
  /** The release that writes. */
  readonly release: string
  readonly log: Pick<Log, 'info'>
}

const [compress, decompress] = [promisify(zstdCompress), promisify(zstdDecompress)]
const NAME = /^(\d{4})-(\d\d)\.jsonl\.zst$/
/** A skippable frame (RFC 8878, 3.1.2): its magic number, the size of its content, and that content: the length of the frame after it. */
const SKIPPABLE = 0x184d2a50
const MARK_BYTES = 12

export class Archive {
  readonly #options: ArchiveOptions
  /** Files whose last frame is whole. */
  readonly #checked = new Set<string>()

  constructor(options: ArchiveOptions) {
    this.#options = options
  }

  /** Adds lines to the file of a month. They are on the disk when it resolves. @param ledger its identity */
  async append(month: string, lines: readonly string[], ledger: string): Promise<void> {
    const { folder, release } = this.#options
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const path = join(folder, `${month}.jsonl.zst`)
    if (!this.#checked.has(path)) removeTorn(path)
    this.#checked.add(path)
    const header = { kind: 'export', version: 2, at: Date.now(), ledger, release }
    const isNew = !existsSync(path) || statSync(path).size === 0
    const text = [...(isNew ? [JSON.stringify(header)] : []), ...lines].join('\n')
    const frame = await compress(`${text}\n`)
    const mark = Buffer.alloc(MARK_BYTES)
    mark.writeUInt32LE(SKIPPABLE, 0)
    mark.writeUInt32LE(MARK_BYTES - 8, 4)
    mark.writeUInt32LE(frame.length, 8)
    this.#checked.delete(path)
    await appendTo(path, Buffer.concat([mark, frame]))
    if (isNew && process.platform !== 'win32') await sync(folder)
    this.#checked.add(path)
  }

  /** Removes the files that are too old, then the oldest ones beyond the size. @param now ms since epoch */
  async prune(now: number): Promise<void> {
    const { folder, keepDays, sizeBytes, log } = this.#options
    if (!existsSync(folder)) return
    const names = (await readdir(folder)).filter((name) => NAME.test(name)).sort()
    const sizes = await Promise.all(
      names.map(async (name) => (await stat(join(folder, name))).size),
    )
    let bytes = sizes.reduce((sum, size) => sum + size, 0)
    for (const [i, name] of names.entries()) {
      const isOld = endOf(name) < now - keepDays * DAY_MS
      if (!isOld && (bytes <= sizeBytes || i === names.length - 1)) return
      await rm(join(folder, name))
      bytes -= sizes[i]!
      const why = isOld ? `is older than ${keepDays} days` : `did not fit into ${sizeBytes} bytes`
      log.info(`removed ${name} from the archive of folded rows: it ${why}`)
    }
  }
}

/** The lines of all files, the oldest first: those of one file at a time. @throws errors of the file system, and of damaged files */
export async function* readArchive(folder: string): AsyncGenerator<readonly string[]> {
  for (const name of (await readdir(folder)).filter((name) => NAME.test(name)).sort()) {
    const bytes = await readFile(join(folder, name))
    const lines: string[] = []
    for (let at = 0; at + MARK_BYTES < bytes.length;) {
      const begin = at + MARK_BYTES
      at = begin + bytes.readUInt32LE(begin - 4)
      // Cut off by a kill: its rows were not folded then.
      if (at > bytes.length) break
      const text = (await decompress(bytes.subarray(begin, at))).toString()
      lines.push(...text.trimEnd().split('\n'))
    }
    yield lines
  }
}

/** When the month of a file ended, ms since epoch. */
function endOf(name: string): number {
  const [, year, month] = NAME.exec(name)!
  return Date.UTC(Number(year), Number(month))
}

async function appendTo(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, 'a', 0o600)
  try {
    await file.appendFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function sync(folder: string): Promise<void> {
  const file = await open(folder, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Removes a last frame that is not whole. */
function removeTorn(path: string): void {
  if (!existsSync(path)) return
  const { size } = statSync(path)
  const file = openSync(path, 'r')
  let whole = 0
  try {
    const mark = Buffer.alloc(MARK_BYTES)
    while (readSync(file, mark, 0, MARK_BYTES, whole) === MARK_BYTES) {
      const next = whole + MARK_BYTES + mark.readUInt32LE(8)
      if (mark.readUInt32LE(0) !== SKIPPABLE || next > size) break
      whole = next
    }
  } finally {
    closeSync(file)
  }
  if (whole < size) truncateSync(path, whole)
}
