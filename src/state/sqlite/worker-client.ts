/** The way to the thread that owns the file: collects what has to be written, and hands it over batch by batch. */
import { once } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { ConfigError, Unavailable } from '../../errors/errors.ts'
import type { StoreCommand, CommandResult, ReadName, Snapshot, Store, WriteName } from './store.ts'
import type { Log } from '../ledger/ledger.ts'
import type { Opened, WorkerInit, WorkerBatch, WorkerBatchResult } from './worker.ts'

interface PendingWrite {
  readonly job: StoreCommand<WriteName>
  /** Steady ms. */
  readonly since: number
  take(outcome: CommandResult): void
  reject(error: Error): void
}

interface PendingRead {
  readonly job: StoreCommand<ReadName>
  resolve(value: unknown): void
  reject(error: Error): void
}

/** Between attempts at a batch that could not be written. */
const RETRY_MS = 250

/**
 * One turn is under way at a time; what comes up meanwhile goes with the next one. So the longer a disk takes, the more
 * settlements share its sync, and nobody waits for a batch to fill.
 */
export class WorkerClient {
  readonly #worker: Worker
  readonly #log: Log
  #writes: PendingWrite[] = []
  #reads: PendingRead[] = []
  #turn: { readonly writes: PendingWrite[]; readonly reads: PendingRead[] } | undefined
  #scheduled = false
  #commits = 0
  /** While the last batch could not be written, until the next attempt. */
  #retry: NodeJS.Timeout | undefined
  #failing = false
  /** Why nothing more is taken. */
  #ended: Error | undefined
  #closing: Promise<unknown> | undefined

  /**
   * Starts the thread.
   * @returns with what the file has told it
   * @throws ConfigError for a path that cannot be used
   */
  static async open(
    start: WorkerInit,
    log: Log,
  ): Promise<{ link: WorkerClient; snapshot: Snapshot }> {
    const script = new URL(`./worker${extname(import.meta.url)}`, import.meta.url)
    // Options of the main script, such as those of "-e", would not let it start; under "--watch" the environment would
    // have it report its imports among its answers. What this process keeps of compiled sources is good for it as well.
    const own = { execArgv: [], env: compileCache() }
    const worker = new Worker(script, { name: 'ledger', workerData: start, ...own })
    const [opened] = (await once(worker, 'message')) as [Opened]
    if ('refused' in opened) {
      // Only with the thread is everything it has opened closed.
      await worker.terminate()
      throw new ConfigError('the configuration', [{ path: 'state.path', message: opened.refused }])
    }
    for (const warning of opened.warnings) log.warn(warning)
    return { link: new WorkerClient(worker, log), snapshot: opened.snapshot }
  }

  private constructor(worker: Worker, log: Log) {
    this.#worker = worker
    this.#log = log
    worker.on('message', (answer: WorkerBatchResult) => this.#receive(answer))
    worker.on('error', (error) => this.#end(error))
    worker.on('exit', () => this.#end(new Error('the ledger is closed')))
    // A ledger with nothing to do keeps no process alive.
    worker.unref()
  }

  /** Whether what is handed over now can be expected to be written. */
  get ok(): boolean {
    return !this.#failing && !this.#ended
  }

  /** Batches written since the start. */
  get commits(): number {
    return this.#commits
  }

  /** How much is not on disk yet, and since when. */
  get backlog(): { readonly count: number; readonly oldestMs: number } {
    const writes = [...(this.#turn?.writes ?? []), ...this.#writes]
    const oldestMs = writes[0] ? performance.now() - writes[0].since : 0
    return { count: writes.length, oldestMs }
  }

  /** @throws Unavailable while the disk cannot be written */
  check(): void {
    if (this.ok) return
    throw new Unavailable(
      'service_unavailable',
      'The gateway cannot write to its ledger right now. Try again later.',
    )
  }

  /**
   * Hands something over to be written.
   * @param take is told the outcome once it is on disk, in the order of the writes and with nothing in between
   * @returns what `take` makes of it
   */
  write<Name extends WriteName, Result>(
    name: Name,
    args: StoreCommand<Name>['args'],
    take: (outcome: CommandResult<Name>) => Result,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      this.#writes.push({
        job: { name, args } as StoreCommand<WriteName>,
        since: performance.now(),
        take(outcome) {
          try {
            resolve(take(outcome as CommandResult<Name>))
          } catch (error) {
            reject(error)
          }
        },
        reject,
      })
      this.#schedule()
    })
  }

  /** Asks for something, and is told it as it is after everything that was handed over before. */
  read<Name extends ReadName>(
    name: Name,
    ...args: StoreCommand<Name>['args']
  ): Promise<ReturnType<Store[Name]>> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      const job = { name, args } as StoreCommand<ReadName>
      this.#reads.push({ job, resolve: resolve as (value: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is left, if it can be written, and gives up the file. */
  close(): Promise<unknown> {
    if (this.#closing) return this.#closing
    this.#closing = this.#ended ? Promise.resolve() : once(this.#worker, 'exit')
    clearTimeout(this.#retry)
    this.#retry = undefined
    this.#worker.ref()
    this.#send()
    this.#finish()
    this.#ended ??= new Error('the ledger is closed')
    return this.#closing
  }

  /** At the end of this turn of the event loop, so that everything that comes up in it is one batch. */
  #schedule(): void {
    if (this.#scheduled || this.#turn) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#send()
    })
  }

  #send(): void {
    if (this.#turn) return
    const writes = this.#retry ? [] : this.#writes
    const reads = this.#reads
    if (writes.length + reads.length === 0) return
    if (!this.#retry) this.#writes = []
    this.#reads = []
    this.#turn = { writes, reads }
    if (!this.#closing) this.#worker.ref()
    const jobs = { writes: writes.map(({ job }) => job), reads: reads.map(({ job }) => job) }
    this.#post(jobs)
  }

  #receive({ outcomes, answers }: WorkerBatchResult): void {
    const { writes, reads } = this.#turn!
    this.#turn = undefined
    if (!this.#closing) this.#worker.unref()
    if ('failure' in outcomes) {
      this.#fail(writes, outcomes.failure)
    } else if (writes.length > 0) {
      this.#commits++
      if (this.#failing) this.#log.info('the ledger can be written again')
      this.#failing = false
      writes.forEach(({ take }, i) => take(outcomes[i]!))
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
    if (this.#closing && !this.#turn) this.#post('close')
  }

  #post(message: WorkerBatch | 'close'): void {
    this.#worker.postMessage(message)
  }

  #fail(writes: readonly PendingWrite[], reason: string): void {
    if (this.#closing) {
      this.#log.error(`the ledger was closed with ${writes.length} entries unwritten: ${reason}`)
      for (const { reject } of writes) reject(new Error(`the ledger cannot be written: ${reason}`))
      return
    }
    if (!this.#failing) {
      this.#log.error(`the ledger cannot be written, no calls are let in until it can: ${reason}`)
    }
    this.#failing = true
    this.#writes = [...writes, ...this.#writes]
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#send()
    }, RETRY_MS)
  }

  /** The thread is gone. */
  #end(error: Error): void {
    if (!this.#ended)
      this.#log.error('the ledger has stopped; the gateway has to be restarted', error)
    this.#ended ??= error
    const pending = [...(this.#turn?.writes ?? []), ...this.#writes, ...(this.#turn?.reads ?? [])]
    for (const { reject } of [...pending, ...this.#reads]) reject(this.#ended)
    this.#turn = undefined
    this.#writes = []
    this.#reads = []
  }
}

/** The variable that has a thread read, and keep, compiled sources where this process does, if it does. */
function compileCache(): NodeJS.ProcessEnv {
  const folder = getCompileCacheDir()
  // Node adds a folder of its version to what it is given.
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}
