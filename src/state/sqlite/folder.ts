/** The folder of a ledger: checks it, claims it for this process, and opens its database. Runs in the worker thread. */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { join, sep, dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { randomBytes } from 'node:crypto'
import { open, rm, statfs } from 'node:fs/promises'
import {
  CannotOpen,
  isDamage,
  lockFile,
  openDatabase,
  toCannotOpen,
  unusable,
  transact,
  codeOf,
} from './file.ts'
import type { Doubt } from '../ledger/ledger.ts'
import { rescueCopy } from './rescue.ts'

export interface OpenedFolder {
  readonly db: DatabaseSync
  readonly identity: string
  /** Whether there was no file before. */
  readonly isNew: boolean
  /** Number of rows of earlier processes that are missing: an older copy was put in place. */
  readonly rolledBack: number
  /** It is set for an older copy: it is not used before it was accepted. */
  readonly doubt: Doubt | undefined
  /** Goes on with an older copy, or with another identity. */
  accept(): void
  /** Forgets which ledger the folder has, before that gets another identity. */
  forget(): void
  /** Warnings for the operator, one sentence each. */
  readonly warnings: readonly string[]
  /** Records the present size of the ledger. */
  note(): void
  /** The loss of the open file; undefined while it is in its place. */
  loss(): Loss | undefined
  /** Writes a copy of the open database beside the place of the file. @returns its path */
  rescue(): string
  close(): void
}

/**
 * Why a ledger can only be ended. `moved`: its file is not in its place any more, but still open; `damaged`: nothing must be
 * written to it.
 */
export interface Loss {
  readonly what: 'moved' | 'damaged'
  readonly reason: string
}

export const LEDGER_FILE = 'ledger.db'
const OWNER_FILE = 'owner.db'
const GATEWAY_FILE = 'gateway.json'
/** Prefix of copies that were made of a ledger whose file was gone. */
const RESCUED = 'ledger.rescued-'
export const COPIES = 'copies'
const CHOOSE = 'Choose another folder with --data or SLUICEGATE_DATA.'
/** Names that identify a folder as a gateway's. */
const OWN_FILES: ReadonlySet<string> = new Set([
  LEDGER_FILE,
  OWNER_FILE,
  GATEWAY_FILE,
  COPIES,
  'admin-token',
])
/** Names of a gateway that other programs have too: they do not identify a folder. */
const COMMON_FILES: ReadonlySet<string> = new Set([
  'answers',
  'archive',
  'cache',
  'log',
  'outbox',
  'lost+found',
])
/** Suffixes that SQLite adds to the name of a database for the files beside it. */
const PARTS = ['', '-wal', '-shm']

/** Network file systems, by the type of statfs(2). They lack the shared memory that a write-ahead log needs. */
const NETWORK: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xfe534d42: 'SMB',
  0xff534d42: 'CIFS',
}
/** File systems that hide the disk behind them. */
const OPAQUE: Readonly<Record<number, string>> = { 0x65735546: 'FUSE', 0x01021997: '9P' }

/** Whether a folder has a ledger, or had one. */
export function hasLedger(path: string): boolean {
  return [LEDGER_FILE, OWNER_FILE].some((name) => existsSync(join(path, name)))
}

/**
 * Creates the folder if needed, claims it for this process, and opens its database.
 * @param expected the identity of the ledger that this process has used already: no other one is accepted, and none begun
 * @throws CannotOpen
 */
export function openFolder(path: string, expected?: string): OpenedFolder {
  const file = join(path, LEDGER_FILE)
  if (expected !== undefined && !existsSync(file)) throw new CannotOpen(`${file} is missing.`)
  prepareFolder(path)
  const warning = judgeFileSystem(path, statfsSync(path).type)
  const owner = claim(path)
  try {
    const recorded = recallIn(path, owner)
    const isNew = !existsSync(file)
    const db = openKnown(path, recorded)
    const { identity, seq } = describe(db)
    const rolledBack = Math.max(0, (recorded?.seq ?? 0) - seq)
    if (expected !== undefined && (identity !== expected || rolledBack > 0)) {
      throw new CannotOpen(`${file} was replaced.`)
    }
    let isAccepted = rolledBack === 0
    let noted = recorded?.seq
    const note = () => {
      try {
        const current = describe(db)
        if (!isAccepted || current.seq === noted) return
        remember(owner, current)
        noted = current.seq
      } catch {
        // A full disk, or a damaged ledger: the next booking reports it.
      }
    }
    note()
    const own = PARTS.map((part) => [file + part, inodeOf(file + part)] as const)
    return {
      db,
      identity,
      isNew,
      rolledBack,
      doubt: isAccepted ? undefined : doubtOf(recorded!, describe(db)),
      accept() {
        isAccepted = true
        noted = undefined
        note()
      },
      forget: () => forget(owner),
      warnings: warning === undefined ? [] : [warning],
      note,
      loss: () => lossOf(file, own[0]![1]),
      rescue() {
        mkdirSync(path, { recursive: true, mode: 0o700 })
        const target = join(path, `${RESCUED}${Date.now()}.db`)
        rescueCopy(db, target)
        // A remaining write-ahead log would be taken for one of the file that is put in its place.
        for (const [part, inode] of own) {
          if (inode !== undefined && inodeOf(part) === inode) rmSync(part)
        }
        return target
      },
      close() {
        note()
        db.close()
        owner.close()
      },
    }
  } catch (error) {
    owner.close()
    throw toCannotOpen(file, error)
  }
}

/**
 * Begins a new ledger in a folder. Files of the former one stay there under another name.
 * @param discard the identity of the former one, where one is known
 * @returns the new identity, and the new name of the former file
 * @throws CannotOpen
 */
export function beginLedger(
  path: string,
  discard: string | undefined,
): { readonly identity: string; readonly kept: string | undefined } {
  prepareFolder(path)
  judgeFileSystem(path, statfsSync(path).type)
  const owner = claim(path)
  const file = join(path, LEDGER_FILE)
  try {
    const recorded = recallIn(path, owner)
    if (recorded && discard !== recorded.identity) {
      throw new CannotOpen(
        `${path} belongs to the ledger ${recorded.identity}, which has ${sizeOf(recorded)}: to begin a new one, add --discard ${recorded.identity}.`,
      )
    }
    if (!recorded && existsSync(file)) {
      throw new CannotOpen(`${file} is a ledger already, which the next start takes.`)
    }
    const kept = setAside(file)
    forget(owner)
    const db = openDatabase(file, () => {})
    const fresh = describe(db)
    db.close()
    remember(owner, fresh)
    return { identity: fresh.identity, kept }
  } finally {
    owner.close()
  }
}

function doubtOf(recorded: KnownLedger, found: KnownLedger): Doubt {
  const known = { id: recorded.identity, at: recorded.written }
  return { kind: 'older', known, found: { id: found.identity, at: found.written } }
}

function inodeOf(file: string): string | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false })
  return stats && `${stats.dev}:${stats.ino}`
}

/** @param inode the inode of the open file */
function lossOf(file: string, inode: string | undefined): Loss | undefined {
  const now = inodeOf(file)
  if (now === undefined) return { what: 'moved', reason: `${file} was removed` }
  if (now !== inode) return { what: 'moved', reason: `${file} was replaced` }
  if (statSync(file, { throwIfNoEntry: false })?.size === 0) {
    return { what: 'damaged', reason: `${file} was emptied` }
  }
  return undefined
}

/** Renames the file. @returns its new name, if there is a file */
function setAside(file: string): string | undefined {
  const kept = file.replace(/\.db$/, `.discarded-${Date.now()}.db`)
  const there = PARTS.filter((part) => existsSync(file + part))
  for (const part of there) renameSync(file + part, kept + part)
  return there.includes('') ? kept : undefined
}

/** Opens the ledger of a folder, if its identity is the known one. @throws CannotOpen */
function openKnown(path: string, recorded: KnownLedger | undefined): DatabaseSync {
  const file = join(path, LEDGER_FILE)
  const refuse = (what: string): never => {
    throw new CannotOpen(gone(path, file, what, recorded!))
  }
  const bytes = statSync(file, { throwIfNoEntry: false })?.size
  const rescued = newestIn(path, isRescued)
  if (!recorded && !bytes && rescued) {
    throw new CannotOpen(
      `${file} is missing, but ${rescued} is a copy of it: rename it, or move it away.`,
    )
  }
  if (recorded && !bytes) refuse(bytes === undefined ? 'is missing' : 'is empty')
  return openDatabase(file, (db) => {
    if (recorded && identityOf(db) !== recorded.identity) refuse('is another ledger')
  })
}

function gone(path: string, file: string, what: string, recorded: KnownLedger): string {
  const copy = newestIn(path, isRescued) ?? newestIn(join(path, COPIES), isCopy)
  return (
    `${file} ${what}; this folder's ledger ${recorded.identity} had ${sizeOf(recorded)}. Put ${copy ?? 'a copy of it'} there, ` +
    `without files ${LEDGER_FILE}-wal and ${LEDGER_FILE}-shm beside it, or begin a new ledger: ` +
    `sluicegate ledger new --data ${path} --discard ${recorded.identity}`
  )
}

function sizeOf({ accounts, written }: KnownLedger): string {
  const count = accounts === 1 ? '1 account' : `${accounts} accounts`
  return `${count} and was last written ${new Date(written).toISOString()}`
}

const isCopy = (name: string) => /^ledger-\d{8}\.db$/.test(name)
const isRescued = (name: string) => name.startsWith(RESCUED) && name.endsWith('.db')

/** The file whose name sorts last; undefined if there is none. */
function newestIn(folder: string, isWanted: (name: string) => boolean): string | undefined {
  if (!existsSync(folder)) return undefined
  const newest = readdirSync(folder).filter(isWanted).sort().at(-1)
  return newest && join(folder, newest)
}

/** @throws CannotOpen when the file of the lock is damaged */
function recallIn(path: string, owner: DatabaseSync): KnownLedger | undefined {
  try {
    return recall(owner)
  } catch (error) {
    throw unreadableOwner(join(path, OWNER_FILE), error)
  }
}

function unreadableOwner(file: string, cause: unknown): CannotOpen {
  return new CannotOpen(
    `${file} is damaged (${(cause as Error).message}): make sure that ${LEDGER_FILE} beside it is the right ledger, then remove ${file}.`,
    { cause },
  )
}

/** @param type the type of statfs(2). @returns a warning for a file system that hides its disk. @throws CannotOpen for a network one */
export function judgeFileSystem(path: string, type: number): string | undefined {
  // The types have 32 bits; some systems extend their sign.
  const number = type >>> 0
  const network = NETWORK[number]
  if (network) {
    throw new CannotOpen(
      `${path} is on a network file system (${network}), where a ledger can be lost: take a folder on a local disk.`,
    )
  }
  const opaque = OPAQUE[number]
  return opaque && `${path} is on ${opaque}: make sure that a local disk is behind it.`
}

function prepareFolder(path: string): void {
  if (path.split(sep).includes('node_modules')) {
    throw new CannotOpen(
      `${path} is below node_modules, which the next installation deletes. ${CHOOSE}`,
    )
  }
  let names
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    names = readdirSync(path)
  } catch (error) {
    throw new CannotOpen(`${unusable(path, error).message} ${CHOOSE}`, { cause: error })
  }
  const foreign = names.filter((name) => !name.startsWith('.') && !COMMON_FILES.has(name))
  const isOwn = (name: string) => OWN_FILES.has(name) || name.startsWith(RESCUED)
  if (foreign.length > 0 && !foreign.some(isOwn)) {
    throw new CannotOpen(`${path} holds files of something else, such as ${foreign[0]}. ${CHOOSE}`)
  }
}

/** Locks the folder for the life of this process. */
function claim(path: string): DatabaseSync {
  const file = join(path, OWNER_FILE)
  let owner
  try {
    owner = lockFile(file)
  } catch (error) {
    if (isDamage(error)) throw unreadableOwner(file, error)
    throw toCannotOpen(file, error)
  }
  if (owner) return owner
  throw new CannotOpen(
    `${path} belongs to a process that is running: one process owns such a folder, several gateways need Redis.`,
  )
}

/** What a running gateway tells other processes about itself, in its folder. It only informs: the lock of the folder decides. */
interface RunningGateway {
  readonly url: string
  readonly pid: number
  /** ISO 8601 */
  readonly started_at: string
  readonly version: string
}

/** Writes what others may know about the gateway of a folder. @returns what removes it */
export function announceGateway(path: string, gateway: RunningGateway): () => void {
  const file = join(path, GATEWAY_FILE)
  rmSync(file, { force: true })
  writeFileSync(file, JSON.stringify(gateway), { mode: 0o600 })
  return () => rmSync(file, { force: true })
}

/** The gateway that runs on a folder; undefined where none holds its lock, or where it has not told. */
export function runningGateway(path: string): RunningGateway | undefined {
  try {
    const gateway = JSON.parse(readFileSync(join(path, GATEWAY_FILE), 'utf8')) as RunningGateway
    const lock = lockFile(join(path, OWNER_FILE))
    lock?.close()
    return lock ? undefined : gateway
  } catch {
    return undefined
  }
}

// Which ledger a folder holds. The ledger has an identity, and the file that locks the folder records it with its size, so that
// a ledger that is gone is not taken for a new one.

interface KnownLedger {
  readonly identity: string
  /** ms since epoch */
  readonly created: number
  readonly accounts: number
  /** Number of the newest row. */
  readonly seq: number
  /** Time of the newest row, ms since epoch; without rows that of the creation. */
  readonly written: number
}

/** The identity of a database; undefined for one without, such as a ledger of an older version. */
function identityOf(db: DatabaseSync): string | undefined {
  const table = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'identity'`).get()
  return table && (db.prepare('SELECT id FROM identity').get()?.id as string | undefined)
}

function describe(db: DatabaseSync): KnownLedger {
  const row = db
    .prepare(
      `SELECT id AS identity, created, (SELECT count(*) FROM account) AS accounts,
        max(folded_to, ifnull(newest.seq, 0)) AS seq, newest.at
      FROM identity LEFT JOIN (SELECT seq, at FROM usage ORDER BY seq DESC LIMIT 1) AS newest`,
    )
    .get()!
  const [created, accounts, seq] = [row.created, row.accounts, row.seq].map(Number)
  const written = Number(row.at ?? created)
  return { identity: String(row.identity), created, accounts, seq, written } as KnownLedger
}

/** The record in a lock file; undefined if there is none. */
function recall(lock: DatabaseSync): KnownLedger | undefined {
  if (!lock.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'known'`).get()) return undefined
  return lock.prepare('SELECT * FROM known').get() as KnownLedger | undefined
}

function remember(lock: DatabaseSync, ledger: KnownLedger): void {
  const { identity, created, accounts, seq, written } = ledger
  transact(lock, () => {
    lock.exec(`CREATE TABLE IF NOT EXISTS known (identity TEXT NOT NULL, created INTEGER NOT NULL,
      accounts INTEGER NOT NULL, seq INTEGER NOT NULL, written INTEGER NOT NULL) STRICT;
      DELETE FROM known`)
    const insert = lock.prepare('INSERT INTO known VALUES (?, ?, ?, ?, ?)')
    insert.run(identity, created, accounts, seq, written)
  })
}

function forget(lock: DatabaseSync): void {
  lock.exec('DROP TABLE IF EXISTS known')
}

// Room on a disk for the writes of running calls after the disk has become full.

const BYTES = 8 * 2 ** 20
/** Space that a disk must have for a reserve to be made on it. */
const ROOM_MIB = 64
/** It is written repeatedly. Random, so that a file system that compresses does not shrink it. */
const BLOCK_BYTES = 2 ** 20

/** Message for the operator while the reserve of a disk is in use. */
export const RESERVE_USED = `the disk is full, and its reserve is in use; it needs ${ROOM_MIB} MiB of free space`

export class Reserve {
  readonly #path: string
  #isThere: boolean
  #used = false
  #making: Promise<void> | undefined

  /** @param path the path of the file, in an existing folder */
  constructor(path: string) {
    this.#path = path
    this.#isThere = statSync(path, { throwIfNoEntry: false })?.size === BYTES
  }

  /** Whether its room was given to writes, and could not be reserved again yet. */
  get used(): boolean {
    return this.#used
  }

  /** Runs writes to a database. Where they meet a full disk, the reserve is deleted, and they run once more. */
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
      // It is tried again; part of it would be room that only this file uses.
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

const IO_ERROR = 10

/** A disk, or a database with a limit, without room. */
const FULL = 13
