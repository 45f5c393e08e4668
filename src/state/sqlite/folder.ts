/** The folder of a ledger: checks it, claims it for this process, and opens its database. Runs in the worker thread. */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { join, sep } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { CannotOpen, isDamage, lockFile, openDatabase, toCannotOpen, unusable } from './file.ts'
import { rescueCopy } from './rescue.ts'
import { describe, forget, identityOf, recall, remember, type KnownLedger } from './identity.ts'

/** The database of a folder that belongs to this process. */
export interface OpenedFolder {
  readonly db: DatabaseSync
  readonly identity: string
  /** Rows that this process's predecessors wrote and that are not there: an older copy was put in place. */
  readonly rolledBack: number
  /** Warnings for the operator, one sentence each. */
  readonly warnings: readonly string[]
  /** Remembers how large the ledger is now. */
  note(): void
  /** What became of the file that is open; undefined while it is in its place. */
  loss(): Loss | undefined
  /** Writes a copy of what is open beside the place of the file. @returns its path */
  rescue(): string
  /** Moves the write-ahead log into the database file, closes it, and releases the folder. */
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

/** Name of the database in its folder. */
export const LEDGER_FILE = 'ledger.db'
const OWNER_FILE = 'owner.db'
/** How the names of copies begin that were made of a ledger whose file was gone. */
const RESCUED = 'ledger.rescued-'
/** Folder of the dated copies. */
export const COPIES = 'copies'
const CHOOSE = 'Choose another folder with --data or SLUICEGATE_DATA.'
/** Names by which a folder is known as one of a gateway. */
const OWN_FILES: ReadonlySet<string> = new Set([LEDGER_FILE, OWNER_FILE, COPIES, 'admin-token'])
/** Names of a gateway that other programs have too: they tell nothing of a folder. */
const COMMON_FILES: ReadonlySet<string> = new Set(['cache', 'log', 'outbox', 'lost+found'])
/** What SQLite adds to the name of a database for the files beside it. */
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
 * @param expected the identity of the ledger that this process has used already: then no other one is taken, and none begun
 * @throws CannotOpen
 */
export function openFolder(path: string, expected?: string): OpenedFolder {
  const file = join(path, LEDGER_FILE)
  if (expected !== undefined && !existsSync(file)) throw new CannotOpen(`${file} is missing.`)
  prepareFolder(path)
  const warning = judgeFileSystem(path, statfsSync(path).type)
  const owner = claim(path)
  try {
    const known = recallIn(path, owner)
    const db = openKnown(path, known)
    const { identity, seq } = describe(db)
    const rolledBack = Math.max(0, (known?.seq ?? 0) - seq)
    if (expected !== undefined && (identity !== expected || rolledBack > 0)) {
      throw new CannotOpen(`${file} was replaced.`)
    }
    const note = () => {
      try {
        remember(owner, describe(db))
      } catch {
        // A disk that is full, or a damaged ledger: whatever is booked next reports it.
      }
    }
    note()
    const own = PARTS.map((part) => [file + part, inodeOf(file + part)] as const)
    return {
      db,
      identity,
      rolledBack,
      warnings: warning === undefined ? [] : [warning],
      note,
      loss: () => lossOf(file, own[0]![1]),
      rescue() {
        mkdirSync(path, { recursive: true, mode: 0o700 })
        const target = join(path, `${RESCUED}${Date.now()}.db`)
        rescueCopy(db, target)
        // A write-ahead log that stays would be taken for one of the file that is put in its place.
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
    const known = recallIn(path, owner)
    if (known && discard !== known.identity) {
      throw new CannotOpen(
        `${path} belongs to the ledger ${known.identity}, which has ${sizeOf(known)}: to begin a new one, add --discard ${known.identity}.`,
      )
    }
    if (!known && existsSync(file)) {
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

/** Device and inode; undefined for a file that does not exist. */
function inodeOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false })
  return found && `${found.dev}:${found.ino}`
}

/** @param inode of the file that is open */
function lossOf(file: string, inode: string | undefined): Loss | undefined {
  const now = inodeOf(file)
  if (now === undefined) return { what: 'moved', reason: `${file} was removed` }
  if (now !== inode) return { what: 'moved', reason: `${file} was replaced` }
  if (statSync(file, { throwIfNoEntry: false })?.size === 0) {
    return { what: 'damaged', reason: `${file} was emptied` }
  }
  return undefined
}

/** @returns the new name of the file, if there is one */
function setAside(file: string): string | undefined {
  const kept = file.replace(/\.db$/, `.discarded-${Date.now()}.db`)
  const there = PARTS.filter((part) => existsSync(file + part))
  for (const part of there) renameSync(file + part, kept + part)
  return there.includes('') ? kept : undefined
}

/** Opens the ledger of a folder, if it is the one that is known. @throws CannotOpen */
function openKnown(path: string, known: KnownLedger | undefined): DatabaseSync {
  const file = join(path, LEDGER_FILE)
  const refuse = (what: string): never => {
    throw new CannotOpen(gone(path, file, what, known!))
  }
  const bytes = statSync(file, { throwIfNoEntry: false })?.size
  const rescued = newestIn(path, isRescued)
  if (!known && !bytes && rescued) {
    throw new CannotOpen(
      `${file} is missing, but ${rescued} is a copy of it: rename it, or move it away.`,
    )
  }
  if (known && !bytes) refuse(bytes === undefined ? 'is missing' : 'is empty')
  return openDatabase(file, (db) => {
    if (known && identityOf(db) !== known.identity) refuse('is another ledger')
  })
}

function gone(path: string, file: string, what: string, known: KnownLedger): string {
  const copy = newestIn(path, isRescued) ?? newestIn(join(path, COPIES), isCopy)
  return (
    `${file} ${what}; this folder's ledger ${known.identity} had ${sizeOf(known)}. Put ${copy ?? 'a copy of it'} there, ` +
    `without files ${LEDGER_FILE}-wal and ${LEDGER_FILE}-shm beside it, or begin a new ledger: ` +
    `sluicegate ledger new --data ${path} --discard ${known.identity}`
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

/** @param type of statfs(2). @returns a warning for a file system that hides its disk. @throws CannotOpen for a network one */
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
