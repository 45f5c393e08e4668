/** A thread that takes notices and answers questions: started when it is needed, and again after it has ended. */
import { EventEmitter, once } from 'node:events'
import { extname, dirname } from 'node:path'
import { MessageChannel, Worker, type MessagePort, type WorkerOptions } from 'node:worker_threads'
import type { ConsolaInstance } from 'consola'
import { getCompileCacheDir } from 'node:module'
import { Unavailable } from '../errors/errors.ts'
import { Channel, type Port } from './channel.ts'

export interface ThreadWork<Notice, Question> {
  take(notice: Notice): void
  answer(question: Question): unknown
  close(): void | Promise<void>
}

export interface WorkScript {
  /** Begins the work. It ends when it closes the port. */
  serve(port: MessagePort, workerData: any): void | Promise<void>
}

/** Where work runs: another thread, the process that starts the workers, or this thread. Emits `message`, `error`, `exit`. */
export interface WorkThread extends Port, NodeJS.EventEmitter {
  on(event: string, listener: (...args: any[]) => void): this
  terminate?(): unknown
  ref(): void
  unref(): void
}

/** Starts the work of a script in another thread. @param workerData its start data */
export type StartThread = (name: string, script: URL, workerData: unknown) => WorkThread

/** Starts a thread of this process for one script, which runs foreign code. */
export const startAlone: StartThread = (name, script, workerData) => {
  const worker = new Worker(script, { name, workerData, ...threadOptions() })
  return Object.assign(worker, { send: (message: object) => worker.postMessage(message) })
}

let start: StartThread = (_name, script, workerData) => startShared(script, workerData)

/** Sets the function that starts threads of this process. */
export function startThreadsBy(other: StartThread): void {
  start = other
}

export const startWorker: StartThread = (...of) => start(...of)

// One thread for all work of the gateway itself: each thread takes 15 MB.

/** Message to the thread: work to begin, or that none is left. */
export type ToHost =
  | { readonly script: string; readonly workerData: unknown; readonly port: MessagePort }
  | 'end'

/** The running thread, with its work. */
let host: { readonly worker: Worker; readonly work: Set<SharedWork> } | undefined

/** Begins the work of a {@link WorkScript} in the thread, which is started for the first and ends after the last. */
export function startShared(script: URL, workerData: unknown): WorkThread {
  const { worker, work } = (host ??= startHost())
  const { port1: own, port2: port } = new MessageChannel()
  const started = new SharedWork(own, worker)
  work.add(started)
  own.on('close', () => {
    work.delete(started)
    started.emit('exit')
    if (work.size === 0 && host?.work === work) {
      host = undefined
      worker.postMessage('end' satisfies ToHost)
    }
  })
  worker.postMessage({ script: script.href, workerData, port } satisfies ToHost, [port])
  return started
}

class SharedWork extends EventEmitter implements WorkThread {
  readonly #port: MessagePort
  readonly #worker: Worker

  constructor(port: MessagePort, worker: Worker) {
    super()
    this.#port = port
    this.#worker = worker
    port.on('message', (message) => this.emit('message', message))
  }

  send(message: object): void {
    this.#port.postMessage(message)
  }

  ref(): void {
    this.#port.ref()
  }

  unref(): void {
    this.#port.unref()
  }

  /** Gives the work up. The thread goes on where it has other work. */
  async terminate(): Promise<void> {
    this.#port.close()
    if (host?.worker !== this.#worker) await this.#worker.terminate()
  }
}

function startHost() {
  const script = new URL(`./host${extname(import.meta.url)}`, import.meta.url)
  const worker = new Worker(script, { name: 'records', ...threadOptions() })
  const work = new Set<SharedWork>()
  worker.on('error', (error) => {
    for (const one of work) one.emit('error', error)
  })
  worker.on('exit', () => {
    if (host?.worker === worker) host = undefined
  })
  worker.unref()
  return { worker, work }
}

interface ThreadOptions<Report> {
  /** Name such as `the request log`. */
  readonly name: string
  start(): WorkThread
  heard(report: Report): void
  /** The thread has ended by itself: unreported messages are lost. */
  ended(): void
  readonly log: Pick<ConsolaInstance, 'error'>
  /** Time limit of its work at the end; two seconds by default. */
  readonly closeMs?: number
  /** Time between its end and the next start; 30 seconds by default. */
  readonly restartMs?: number
}

const CLOSE_MS = 2000
const RESTART_MS = 30_000

export class ThreadClient<Notice, Question, Report> {
  readonly #options: ThreadOptions<Report>
  /** It is started with the first message. */
  #started: { readonly thread: WorkThread; readonly channel: Channel } | undefined
  /** Number of questions without an answer. */
  #openQuestions = 0
  #closed = false
  #restartAt = -Infinity

  constructor(options: ThreadOptions<Report>) {
    this.#options = options
  }

  /** Whether a notice would be accepted. For a while after a thread has failed none is. */
  get ready(): boolean {
    return this.#start() !== undefined
  }

  /** Sends a notice; without a thread it is lost. */
  post(notice: Notice): void {
    this.#start()?.channel.tell('notice', notice)
  }

  /** @throws Unavailable when the thread fails */
  async ask<Answer>(question: Question): Promise<Answer> {
    const started = this.#start()
    this.#openQuestions++
    // The process waits for an answer, as at the start, when nothing else keeps it running.
    started?.thread.ref()
    try {
      if (!started) throw new Error('its thread has failed')
      return await started.channel.ask<Answer>('question', question)
    } catch (error) {
      throw this.#unavailable((error as Error).message)
    } finally {
      if (--this.#openQuestions === 0 && !this.#closed) this.#started?.thread.unref()
    }
  }

  /** Ends the thread, whatever it is doing; another one is started for later messages. */
  end(): void {
    void this.#started?.thread.terminate?.()
  }

  /** Waits for earlier messages, within the time limit at the end. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    if (!this.#started) return
    const { thread, channel } = this.#started
    // The process waits for it from now on.
    thread.ref()
    const signal = AbortSignal.timeout(this.#options.closeMs ?? CLOSE_MS)
    const ended = once(thread, 'exit', { signal })
    channel.tell('close')
    await ended.catch(() => undefined)
    await thread.terminate?.()
    this.#options.ended()
    channel.close()
  }

  #start() {
    if (this.#closed) return undefined
    if (this.#started || performance.now() < this.#restartAt) return this.#started
    const { name, start, heard, ended, log, restartMs = RESTART_MS } = this.#options
    const thread = start()
    const channel = new Channel(thread)
    channel.on('report', heard)
    thread.on('error', (error: Error) => log.error(`${name} has failed`, error))
    thread.on('exit', () => {
      if (this.#closed) return
      this.#started = undefined
      this.#restartAt = performance.now() + restartMs
      ended()
      channel.close()
    })
    thread.unref()
    return (this.#started = { thread, channel })
  }

  #unavailable(reason: string): Unavailable {
    const { name } = this.#options
    const message = `${name.replace(/^./, (first) => first.toUpperCase())} cannot be read right now.`
    return new Unavailable('service_unavailable', message, {
      cause: new Error(`${name}: ${reason}`),
    })
  }
}

/** Serves the client at the other end. @param create makes the work, with its report function. @param end closes this end */
function serve<Notice, Question, Report>(
  port: Port,
  create: (report: (report: Report) => void) => ThreadWork<Notice, Question>,
  end: () => void,
): void {
  const channel = new Channel(port)
  const work = create((report) => channel.tell('report', report))
  channel.on('notice', (notice: Notice) => work.take(notice))
  channel.on('question', (question: Question) => work.answer(question))
  channel.on('close', () => void Promise.resolve(work.close()).then(end))
}

/** Serves the client of this thread. @param create makes the work, with its report function */
export function serveClient<Notice, Question, Report>(
  port: MessagePort,
  create: (report: (report: Report) => void) => ThreadWork<Notice, Question>,
): void {
  const end: Port = {
    send: (message) => port.postMessage(message),
    on: (event, listener) => port.on(event, listener),
  }
  serve(end, create, () => port.close())
}

/** Work in the thread of its client, each message in a turn of the event loop of its own. */
export class LocalThread<Notice, Question, Report> extends EventEmitter implements WorkThread {
  readonly #work = new EventEmitter()

  /** @param create makes the work, with its report function */
  constructor(create: (report: (report: Report) => void) => ThreadWork<Notice, Question>) {
    super()
    const end: Port = {
      send: (message) => void this.emit('message', message),
      on: (event, listener) => this.#work.on(event, listener),
    }
    serve(end, create, () => this.emit('exit'))
  }

  send(message: object): void {
    setImmediate(() => this.#work.emit('message', message))
  }

  ref(): void {}

  unref(): void {}
}

/**
 * No options of the main script: those of `-e` would keep a thread from starting. Nothing of its environment either: under
 * `--watch` a thread would report its imports among its answers. It shares the cache of compiled sources.
 */
function threadOptions(): Pick<WorkerOptions, 'execArgv' | 'env'> {
  const folder = getCompileCacheDir()
  // Node adds a folder of its version to this path.
  const env = folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
  return { execArgv: [], env }
}
