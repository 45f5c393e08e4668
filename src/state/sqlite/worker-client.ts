/** The main thread's side of the store: collects writes and reads, and hands them over in batches. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { cannotBook } from '../../errors/errors.ts'
import { sentenceOf } from '../ledger/doubt.ts'
import type { Doubt, Log } from '../ledger/ledger.ts'
import type { Verification } from '../ledger/sums.ts'
import type {
  CommandResult,
  ReadName,
  Store,
  StoreCommand,
  ToStore,
  WorkerBatchResult,
  WriteName,
} from './store.ts'
import type { Snapshot } from './snapshot.ts'
import { COPIES, LEDGER_FILE, type Loss, RESERVE_USED } from './folder.ts'
import type { Audit, Foldable, History } from './reader.ts'
import type {
  FileJob,
  HistoryAnswer,
  HistoryQuestion,
  Opened,
  WorkerInit,
  WorkerMessage,
} from './worker.ts'
import { startAlone, type WorkThread } from '../../threads/client.ts'
import { CannotOpen } from './file.ts'

// Starts the thread that owns the file of a ledger.

/** A thread, with the state that it has read from the file. It takes {@link ToStore}, one at a time. */
interface StartedThread {
  readonly worker: WorkThread
  readonly snapshot: Snapshot
  readonly identity: string
  /** Whether there was no file before. */
  readonly isNew: boolean
  /** Number of rows that an older copy lacks. */
  readonly rolledBack: number
  readonly doubt: Doubt | undefined
}

const SCRIPT = new URL(`./worker${extname(import.meta.url)}`, import.meta.url)

let prepared: WorkThread | undefined

/** Starts the thread of the next ledger, so that it loads its script beside what this thread loads meanwhile. */
export function prepareThread(): void {
  const worker = startIdle('ledger')
  // Its client listens for the reason of its end; until there is one, the first message does.
  worker.on('error', () => {})
  worker.on('exit', () => {
    if (prepared === worker) prepared = undefined
  })
  prepared = worker
}

/** Starts a thread that waits for its work. The end of the process does not wait for it. */
function startIdle(name: string): WorkThread {
  const worker = startAlone(name, SCRIPT, undefined)
  worker.unref()
  return worker
}

/** Opens the file of a folder in a new thread. @throws CannotOpen; Error when the thread ends before its first answer */
export async function startThread(init: WorkerInit, log: Log): Promise<StartedThread> {
  if (prepared === undefined) prepareThread()
  const worker = prepared!
  prepared = undefined
  worker.ref()
  worker.send(init)
  const opened = await firstMessage(worker)
  if ('refused' in opened) {
    // Only the end of the thread closes everything it has opened.
    await worker.terminate?.()
    throw new CannotOpen(opened.refused)
  }
  const { warnings, ...state } = opened
  for (const warning of warnings) log.warn(warning)
  const { doubt, rolledBack } = state
  if (doubt) {
    const what = rolledBack === 1 ? 'its newest row is' : `its newest ${rolledBack} rows are`
    log.error(`${sentenceOf(doubt, init.path)} (${what} missing)`)
  }
  return { worker, ...state }
}

/** Most attempts at a new thread, and the time between two: all are over before a waiting charge is given up, after ten seconds. */
const MOST_ATTEMPTS = 3
const ATTEMPT_MS = 2000
/** Time without an attempt after which they are counted anew. */
const STABLE_MS = 60_000

class Restarts<Started> {
  readonly #start: () => Promise<Started>
  readonly #log: Log
  readonly #givenUp = new AbortController()
  #attempts = 0
  /** Steady ms. */
  #attemptAt = -Infinity

  constructor(start: () => Promise<Started>, log: Log) {
    this.#start = start
    this.#log = log
  }

  /** @throws Error when no thread could be started */
  async next(): Promise<Started> {
    const { signal } = this.#givenUp
    if (performance.now() - this.#attemptAt > STABLE_MS) this.#attempts = 0
    while (this.#attempts < MOST_ATTEMPTS) {
      const waitMs = Math.max(0, this.#attemptAt + ATTEMPT_MS - performance.now())
      if (waitMs > 0) await passed(waitMs, signal)
      if (signal.aborted) break
      this.#attempts++
      this.#attemptAt = performance.now()
      try {
        return await this.#start()
      } catch (error) {
        this.#log.error('the ledger could not be opened by another thread', error)
      }
    }
    throw new Error('its thread has ended, and no other one could be started')
  }

  giveUp(): void {
    this.#givenUp.abort()
  }
}

/** Resolves after a time, or when the signal is aborted. */
function passed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms).unref()
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

async function firstMessage(worker: WorkThread): Promise<Opened> {
  const decided = new AbortController()
  const ended = once(worker, 'exit', decided).then(() => {
    throw new Error('the thread has ended while it opened the file')
  })
  ended.catch(() => undefined)
  try {
    const [opened] = await Promise.race([once(worker, 'message', decided), ended])
    return opened as Opened
  } finally {
    decided.abort()
  }
}

interface PendingWrite {
  readonly command: StoreCommand<WriteName>
  /** Steady ms. */
  readonly since: number
  finish(result: CommandResult): void
  reject(error: Error): void
}

interface PendingRead {
  readonly command: StoreCommand<ReadName>
  resolve(value: unknown): void
  reject(error: Error): void
}

/** Pause between attempts at a batch that could not be written. */
const RETRY_MS = 250
/** Time that a closing ledger waits for the disk. Its settlements go to the log then, which the process has time for. */
const CLOSE_MS = 4000
type NewThread = Pick<StartedThread, 'worker' | 'snapshot'>

interface ClientOptions {
  /** Most writes of one batch; a store in this thread keeps the event loop waiting for a batch. */
  readonly maxWrites?: number
  readonly restart?: () => Promise<NewThread>
}

/**
 * Hands over one batch at a time. Commands that arrive while a batch is under way go into the next one, so a slow disk makes
 * larger batches, and no settlement waits for a batch to fill.
 */
export class WorkerClient {
  #worker: WorkThread
  readonly #log: Log
  readonly #maxWrites: number
  readonly #restarts: Restarts<NewThread> | undefined
  #reload: (snapshot: Snapshot) => void = () => {}
  /** The time from the end of a thread until another has the file. */
  #restarting: Promise<void> | undefined
  #writes: PendingWrite[] = []
  #reads: PendingRead[] = []
  #batch: { readonly writes: PendingWrite[]; readonly reads: PendingRead[] } | undefined
  #scheduled = false
  #commits = 0
  /** Timer from a failed batch until the next attempt. */
  #retry: NodeJS.Timeout | undefined
  /** Why the last batch could not be written; '' where it was. */
  #failing = ''
  /** Whether running calls are charged in the reserve of a full disk. */
  #reserveUsed = false
  /** Whether the thread has ended for good, and not because of `close`. */
  #broken = false
  #ended: Error | undefined
  #closing: Promise<unknown> | undefined
  #loss: Loss | undefined
  readonly #lost = Promise.withResolvers<string>()
  /** Path of the copy of a ledger whose file was moved. */
  #rescued: string | undefined

  constructor(worker: WorkThread, log: Log, options: ClientOptions = {}) {
    this.#log = log
    this.#maxWrites = options.maxWrites ?? Infinity
    this.#restarts = options.restart && new Restarts(options.restart, log)
    this.#worker = this.#use(worker)
  }

  get ok(): boolean {
    const writable = this.#failing === '' && !this.#reserveUsed && !this.#restarting
    return writable && !this.#ended && !this.#loss
  }

  /** The cause while it is not {@link ok}. */
  get why(): string | undefined {
    if (this.#loss) return this.loss
    if (this.#ended) return this.#ended.message
    if (this.#restarting) return 'the thread of the ledger has ended, another one is started'
    if (this.#failing) return `the ledger cannot be written: ${this.#failing}`
    return this.#reserveUsed ? 'the disk is full, running calls use the reserve' : undefined
  }

  /** Whether nothing can be written any more, although the ledger was not closed. */
  get broken(): boolean {
    return this.#loss?.what === 'damaged' || this.#broken
  }

  /** Resolves when the ledger can only be ended, with the reason. */
  get lost(): Promise<string> {
    return this.#lost.promise
  }

  /** Message for the operator about a lost ledger; undefined for one that is in its place. */
  get loss(): string | undefined {
    if (!this.#loss) return undefined
    const { what, reason } = this.#loss
    if (what === 'damaged') return `the ledger is damaged: ${reason}`
    return `${reason} while the gateway used it; ${this.#rescued ?? 'no file'} has all of it`
  }

  get commits(): number {
    return this.#commits
  }

  /** Number of writes that are not on disk yet, and the age of the oldest. */
  get backlog(): { readonly count: number; readonly oldestMs: number } {
    const writes = [...(this.#batch?.writes ?? []), ...this.#writes]
    const oldestMs = writes[0] ? performance.now() - writes[0].since : 0
    return { count: writes.length, oldestMs }
  }

  /** @throws Unavailable while the disk cannot be written */
  check(): void {
    if (this.ok) return
    throw cannotBook()
  }

  /**
   * Queues a write.
   * @param finish called with the result once it is on disk, in the order of the writes and with nothing in between
   * @returns the value of `finish`
   */
  write<Name extends WriteName, Result>(
    name: Name,
    args: StoreCommand<Name>['args'],
    finish: (result: CommandResult<Name>) => Result,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.queue(name, args, (result) => resolve(finish(result)), reject)
    })
  }

  /**
   * Queues a write without a promise; see {@link write}. @param reject called when it will not be written, and with an error of
   * `finish`
   */
  queue<Name extends WriteName>(
    name: Name,
    args: StoreCommand<Name>['args'],
    finish: (result: CommandResult<Name>) => void,
    reject: (error: Error) => void,
  ): void {
    const refused = this.#ended ?? this.#damage()
    if (refused) return reject(refused)
    this.#writes.push({
      command: { name, args } as StoreCommand<WriteName>,
      since: performance.now(),
      finish: finish as (result: CommandResult) => void,
      reject,
    })
    this.#schedule()
  }

  /** Takes back a write that is not under way. @param args its arguments. @returns whether it was taken back */
  withdraw(args: StoreCommand['args']): boolean {
    const i = this.#writes.findIndex(({ command }) => command.args === args)
    if (i >= 0) this.#writes.splice(i, 1)
    return i >= 0
  }

  /** Queues a read. Its answer includes every write that was queued before it, unless that write failed. */
  read<Name extends ReadName>(
    name: Name,
    ...args: StoreCommand<Name>['args']
  ): Promise<ReturnType<Store[Name]>> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      const command = { name, args } as StoreCommand<ReadName>
      this.#reads.push({ command, resolve: resolve as (value: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Ends admission. To a damaged ledger nothing is written; a moved one takes the remaining writes. */
  lose(loss: Loss): void {
    if (this.#loss || this.#ended) return
    this.#loss = loss
    this.#log.error(`the ledger is lost, the gateway ends: ${loss.reason}`)
    const damage = this.#damage()
    if (damage) for (const { reject } of this.#writes.splice(0)) reject(damage)
    this.#lost.resolve(loss.reason)
  }

  /** @param reload takes the state that a new thread has read from the file; unwritten commands are written again then */
  onRestart(reload: (snapshot: Snapshot) => void): void {
    this.#reload = reload
  }

  /** Writes the remaining commands, if the disk lets it, and closes the database. */
  close(): Promise<unknown> {
    if (this.#closing) return this.#closing
    if (this.#restarting) {
      this.#restarts!.giveUp()
      return this.#restarting.then(() => this.close())
    }
    this.#closing = this.#ended ? Promise.resolve() : this.#exit()
    clearTimeout(this.#retry)
    this.#retry = undefined
    this.#worker.ref()
    this.#send()
    this.#finish()
    this.#ended ??= new Error('the ledger is closed')
    return this.#closing
  }

  /** Waits for the end of the thread; one that does not answer writes is given up. */
  async #exit(): Promise<void> {
    const gaveUp = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      if (this.backlog.count === 0) return
      this.#worker.unref()
      this.#ended = undefined
      this.#end(new Error('the disk has not answered in time'))
      // It runs after the writes that were rejected just now.
      setImmediate(gaveUp.resolve)
    }, CLOSE_MS)
    await Promise.race([once(this.#worker, 'exit'), gaveUp.promise])
    clearTimeout(timer)
  }

  /** Runs after this turn of the event loop, so that all its commands share one batch. */
  #schedule(): void {
    if (this.#scheduled || this.#batch) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#send()
    })
  }

  #send(): void {
    if (this.#batch || this.#restarting) return
    const writes = this.#retry ? [] : this.#writes.splice(0, this.#maxWrites)
    // Reads wait for the writes before them.
    const reads = this.#retry || this.#writes.length === 0 ? this.#reads.splice(0) : []
    if (writes.length + reads.length === 0) return
    this.#batch = { writes, reads }
    if (!this.#closing) this.#worker.ref()
    const commandOf = <Command>({ command }: { readonly command: Command }) => command
    const batch: ToStore = { writes: writes.map(commandOf), reads: reads.map(commandOf) }
    this.#worker.send(batch)
  }

  #hear(message: WorkerMessage): void {
    if ('outcomes' in message) return this.#receive(message)
    if ('loss' in message) return this.lose(message.loss)
    if ('reserveUsed' in message) this.#noteReserve(message.reserveUsed)
    else if ('rescued' in message) this.#rescued = message.rescued
    else this.#log.error(`the ledger could not be copied: ${message.unrescued}`)
  }

  #noteReserve(used: boolean): void {
    this.#reserveUsed = used
    if (used) this.#log.error(`no calls are admitted to the ledger: ${RESERVE_USED}`)
    else this.#log.info('the disk of the ledger has room again')
  }

  #damage(): Error | undefined {
    if (this.#loss?.what !== 'damaged') return undefined
    return new Error(`the ledger is damaged: ${this.#loss.reason}`)
  }

  #receive({ outcomes, answers, damage }: WorkerBatchResult): void {
    // The thread was given up.
    if (!this.#batch) return
    const { writes, reads } = this.#batch
    this.#batch = undefined
    if (damage !== undefined) this.lose({ what: 'damaged', reason: damage })
    if (!this.#closing) this.#worker.unref()
    if ('failure' in outcomes) {
      this.#fail(writes, outcomes.failure)
    } else if (writes.length > 0) {
      this.#commits++
      if (this.#failing !== '') this.#log.info('the ledger can be written again')
      this.#failing = ''
      writes.forEach(({ finish, reject }, i) => {
        try {
          finish(outcomes[i]!)
        } catch (error) {
          reject(error as Error)
        }
      })
    }
    reads.forEach(({ resolve, reject }, i) => {
      const answer = answers[i]!
      if ('error' in answer) reject(new Error(`the ledger cannot be read: ${answer.error}`))
      else resolve(answer.value)
    })
    this.#send()
    this.#finish()
  }

  #finish(): void {
    if (this.#closing && !this.#batch) this.#worker.send({ close: true } satisfies ToStore)
  }

  #fail(writes: readonly PendingWrite[], reason: string): void {
    const damage = this.#damage()
    if (damage) {
      for (const { reject } of writes) reject(damage)
      return
    }
    if (this.#closing) {
      this.#log.error(`the ledger was closed with ${writes.length} entries unwritten: ${reason}`)
      for (const { reject } of writes) reject(new Error(`the ledger cannot be written: ${reason}`))
      return
    }
    if (this.#failing === '') {
      this.#log.error(`the ledger cannot be written, no calls are admitted until it can: ${reason}`)
    }
    this.#failing = reason
    this.#writes = [...writes, ...this.#writes]
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#send()
    }, RETRY_MS)
  }

  #use(worker: WorkThread): WorkThread {
    let reason = new Error('its thread has ended')
    worker.on('message', (message: WorkerMessage) => this.#hear(message))
    worker.on('error', (error: Error) => (reason = error))
    worker.on('exit', () => this.#threadEnded(reason))
    // A ledger with nothing to do keeps no process alive.
    worker.unref()
    return worker
  }

  #threadEnded(reason: Error): void {
    if (this.#closing || this.#ended || this.#loss || !this.#restarts) return this.#end(reason)
    this.#log.error('the thread of the ledger has ended, another one is started', reason)
    // The thread may have written this batch. To write it once more changes nothing.
    const { writes, reads } = this.#batch ?? { writes: [], reads: [] }
    this.#batch = undefined
    this.#writes = [...writes, ...this.#writes]
    this.#reads = [...reads, ...this.#reads]
    clearTimeout(this.#retry)
    this.#retry = undefined
    this.#restarting = this.#startAgain(this.#restarts)
  }

  async #startAgain(restarts: Restarts<NewThread>): Promise<void> {
    try {
      const { worker, snapshot } = await restarts.next()
      this.#worker = this.#use(worker)
      this.#reload(snapshot)
      this.#failing = ''
      this.#reserveUsed = false
      this.#log.info('the ledger has a thread again')
    } catch (error) {
      this.#end(error as Error)
    }
    this.#restarting = undefined
    this.#send()
  }

  #end(error: Error): void {
    if (!this.#ended) {
      this.#broken = this.#closing === undefined
      this.#log.error('the thread of the ledger has ended, the gateway ends', error)
      this.#lost.resolve('its thread has ended')
    }
    this.#ended ??= error
    const pending = [...(this.#batch?.writes ?? []), ...this.#writes, ...(this.#batch?.reads ?? [])]
    for (const { reject } of [...pending, ...this.#reads]) reject(this.#ended)
    this.#batch = undefined
    this.#writes = []
    this.#reads = []
  }
}

// Threads beside that of the ledger: dated copies, checks of its pages, its history.

const NAME = /^ledger-\d{8}\.db$/

interface CopyOptions {
  readonly folder: string
  /** `YYYYMMDD` */
  readonly day: string
  readonly keep: number
  /** The inode of the file that the ledger has open. */
  readonly inode: number
  readonly signal: AbortSignal
}

/**
 * Writes a day's copy of a folder's ledger, unless there is one, and then removes the oldest copies. A copy has the ledger
 * as of one moment. It is checked before it gets its name, so an older copy is never given up for a damaged one.
 * @throws Error when a copy cannot be written, or is damaged; the reason of the signal
 */
export async function copyLedger({ folder, inode, day, keep, signal }: CopyOptions): Promise<void> {
  const copies = join(folder, COPIES)
  const file = join(copies, `ledger-${day}.db`)
  if (existsSync(file)) return
  await mkdir(copies, { recursive: true, mode: 0o700 })
  const unfinished = join(copies, 'unfinished.db')
  await rm(unfinished, { force: true })
  await run({ copy: join(folder, LEDGER_FILE), inode, to: unfinished }, signal)
  await rename(unfinished, file)
  const names = (await readdir(copies)).filter((name) => NAME.test(name)).sort()
  for (const name of names.slice(0, -keep)) await rm(join(copies, name))
}

/**
 * Checks the pages of a ledger, unless another file takes its place.
 * @param inode the inode of the file that the ledger has open
 * @returns the damage, if there is any. @throws Error when it cannot be read; the reason of the signal
 */
export async function checkPages(
  file: string,
  inode: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  return (await run({ check: file, inode }, signal)) as string | undefined
}

/** Does a job in a thread of its own. @returns its last message */
async function run(job: FileJob, signal: AbortSignal): Promise<unknown> {
  signal.throwIfAborted()
  const worker = startJob(job)
  const end = () => void worker.terminate?.()
  signal.addEventListener('abort', end)
  let answer: unknown
  worker.on('message', (message) => (answer = message))
  try {
    await once(worker, 'exit')
  } finally {
    signal.removeEventListener('abort', end)
  }
  signal.throwIfAborted()
  return answer
}

/** Starts a thread beside that of the ledger. The end of the process does not wait for it. */
function startJob(job: FileJob): WorkThread {
  const worker = startIdle('ledger-reader')
  worker.send(job)
  return worker
}

/** Reads the history of a ledger. */
export interface HistoryReader {
  accounts(): Promise<readonly string[]>
  rows(): Promise<number>
  audit(of: Audit): Promise<ReadonlyMap<string, Verification>>
  /** See {@link History.foldable}. */
  foldable(...of: Parameters<History['foldable']>): Promise<Foldable>
  close(): void
}

/** A file was found damaged. The message is what is wrong. */
export class Damage extends Error {}

/**
 * Reads a history in a thread of its own, which works a fifth of the time. Its methods throw {@link Damage} for a damaged file.
 * @param inode the inode of the file that the ledger has open
 */
export async function openHistory(
  file: string,
  inode: number,
  signal: AbortSignal,
): Promise<HistoryReader> {
  signal.throwIfAborted()
  const worker = startJob({ history: file, inode })
  const end = () => void worker.terminate?.()
  signal.addEventListener('abort', end)
  const ended = once(worker, 'exit').then(() => {
    signal.removeEventListener('abort', end)
    signal.throwIfAborted()
    throw new Error('the thread that reads the ledger has ended')
  })
  ended.catch(() => undefined)
  const ask = async (question: HistoryQuestion) => {
    worker.ref()
    worker.send(question as object)
    const [answer] = (await Promise.race([once(worker, 'message'), ended])) as [HistoryAnswer]
    worker.unref()
    if (!('error' in answer)) return answer.value as never
    if (answer.isDamage) throw new Damage(answer.error)
    throw new Error(`the ledger cannot be read: ${answer.error}`)
  }
  return {
    accounts: () => ask('accounts'),
    rows: () => ask('rows'),
    audit: (audit) => ask({ audit }),
    foldable: (...of) => ask({ foldable: of }),
    close: () => worker.send('end' as unknown as object),
  }
}
