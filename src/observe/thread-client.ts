/** A thread that takes notices and answers questions: started when it is needed, and again after it has ended. */
import { EventEmitter, once } from 'node:events'
import {
  Worker,
  type MessagePort,
  MessageChannel,
  type TransferListItem,
} from 'node:worker_threads'
import { extname } from 'node:path'
import type { ConsolaInstance } from 'consola'
import { Unavailable } from '../errors/errors.ts'
import { threadOptions } from '../lifetime/thread-options.ts'

// One thread for all work that is the gateway's own: each thread takes 15 MB.

/** What a script of work exports. */
export interface WorkScript {
  /** Begins the work. It ends when it closes the port. */
  serve(port: MessagePort, workerData: any): void | Promise<void>
}

/** What the thread is sent: work to begin, or that none is left. */
export type ToHost =
  | { readonly script: string; readonly workerData: unknown; readonly port: MessagePort }
  | 'end'

/** The thread that runs, with the work in it. */
let host: { readonly worker: Worker; readonly work: Set<SharedWork> } | undefined

/** Begins the work of a {@link WorkScript} in the thread, which is started for the first and ends after the last. */
export function startShared(script: URL, workerData: unknown): SharedWork {
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
  send(worker, { script: script.href, workerData, port }, [port])
  return started
}

/** Work in the thread, for its client. */
class SharedWork extends EventEmitter {
  readonly #port: MessagePort
  readonly #worker: Worker

  constructor(port: MessagePort, worker: Worker) {
    super()
    this.#port = port
    this.#worker = worker
    port.on('message', (message) => this.emit('message', message))
  }

  postMessage(message: unknown): void {
    this.#port.postMessage(message)
  }

  ref(): void {
    this.#port.ref()
  }

  unref(): void {
    this.#port.unref()
  }

  /** Gives it up. The thread goes on where it has other work. */
  async terminate(): Promise<void> {
    this.#port.close()
    if (host?.worker !== this.#worker) await this.#worker.terminate()
  }
}

function startHost() {
  const script = new URL(`./thread-host${extname(import.meta.url)}`, import.meta.url)
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

function send(worker: Worker, message: ToHost, transferred: TransferListItem[]): void {
  worker.postMessage(message, transferred)
}

/** What a thread is sent. */
export type ToThread<Notice, Question> =
  | { readonly notice: Notice }
  | { readonly ask: Question; readonly number: number }
  | 'close'

/** What it sends: reports of its own, and to each question an answer or why there is none. */
export type FromThread<Report> =
  | { readonly report: Report }
  | { readonly number: number; readonly answer: unknown }
  | { readonly number: number; readonly error: string }

/** What is done in a thread. */
export interface ThreadWork<Notice, Question> {
  take(notice: Notice): void
  answer(question: Question): unknown
  /** Releases everything. */
  close(): void | Promise<void>
}

/** Runs work; the same in another thread and in that of its client. */
export interface WorkThread extends NodeJS.EventEmitter {
  postMessage(message: unknown): void
  /** Ends it, whatever it is doing. */
  terminate?(): unknown
  ref(): void
  unref(): void
}

/** Starts the work of a script in another thread. @param workerData what it begins with */
export type StartThread = (name: string, script: URL, workerData: unknown) => WorkThread

/** Starts a thread of this process for one script, which runs foreign code. */
export const startAlone: StartThread = (name, script, workerData) =>
  new Worker(script, { name, workerData, ...threadOptions() })

let start: StartThread = (_name, script, workerData) => startShared(script, workerData)

/** From now on, threads of this process are started by another function. */
export function startThreadsBy(other: StartThread): void {
  start = other
}

/** Starts the work of a {@link WorkScript}, as this process starts it. */
export const startWorker: StartThread = (...of) => start(...of)

/** Settings of a {@link ThreadClient}. */
interface ThreadOptions<Report> {
  /** Such as `the request log`. */
  readonly name: string
  start(): WorkThread
  heard(report: Report): void
  /** The thread has ended by itself: what it was sent and has not reported is lost. */
  ended(): void
  readonly log: Pick<ConsolaInstance, 'error'>
  /** How long its work may take at the end; two seconds by default. */
  readonly closeMs?: number
  /** Between its end and the next one; 30 seconds by default. */
  readonly restartMs?: number
}

const CLOSE_MS = 2000
const RESTART_MS = 30_000

/** Sends notices and questions to a thread. */
export class ThreadClient<Notice, Question, Report> {
  readonly #options: ThreadOptions<Report>
  /** Started with the first message. */
  #thread: WorkThread | undefined
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>()
  #number = 0
  #closed = false
  #restartAt = -Infinity

  constructor(options: ThreadOptions<Report>) {
    this.#options = options
  }

  /** Whether a notice would be taken. For a while after a thread has failed none is. */
  get ready(): boolean {
    return this.#started() !== undefined
  }

  /** Sends a notice; without a thread it is lost. */
  post(notice: Notice): void {
    this.#send({ notice })
  }

  /** @throws Unavailable when the thread fails */
  ask<Answer>(ask: Question): Promise<Answer> {
    const number = this.#number++
    const asked = Promise.withResolvers<unknown>()
    this.#asked.set(number, asked)
    if (!this.#send({ ask, number })) this.#reject(number)
    // The process waits for an answer, as at the start, when nothing else keeps it running.
    else this.#thread!.ref()
    return asked.promise as Promise<Answer>
  }

  /** Ends the thread, whatever it is doing; another one is started for what comes later. */
  end(): void {
    void this.#thread?.terminate?.()
  }

  /** Waits for what was sent, as long as its work may take at the end. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const thread = this.#thread
    if (!thread) return
    // The process waits for it from now on.
    thread.ref()
    const ended = once(thread, 'exit', {
      signal: AbortSignal.timeout(this.#options.closeMs ?? CLOSE_MS),
    })
    thread.postMessage('close' satisfies ToThread<Notice, Question>)
    await ended.catch(() => undefined)
    await thread.terminate?.()
    this.#giveUp('it is closed')
  }

  #send(message: ToThread<Notice, Question>): boolean {
    const thread = this.#started()
    thread?.postMessage(message)
    return thread !== undefined
  }

  #started(): WorkThread | undefined {
    if (this.#closed) return undefined
    if (this.#thread || performance.now() < this.#restartAt) return this.#thread
    const { name, start, log } = this.#options
    const thread = start()
    thread.on('message', (message: FromThread<Report>) => this.#heard(message))
    thread.on('error', (error: Error) => log.error(`${name} has failed`, error))
    thread.on('exit', () => {
      if (this.#closed) return
      this.#thread = undefined
      this.#restartAt = performance.now() + (this.#options.restartMs ?? RESTART_MS)
      this.#giveUp('its thread has ended')
    })
    thread.unref()
    return (this.#thread = thread)
  }

  #heard(message: FromThread<Report>): void {
    if ('report' in message) return this.#options.heard(message.report)
    if ('error' in message) return this.#reject(message.number, message.error)
    this.#asked.get(message.number)?.resolve(message.answer)
    this.#forget(message.number)
  }

  /** Nothing that was sent is answered any more. */
  #giveUp(why: string): void {
    this.#options.ended()
    for (const number of this.#asked.keys()) this.#reject(number, why)
  }

  #reject(number: number, why = 'its thread has failed'): void {
    const { name } = this.#options
    const message = `${name.replace(/^./, (first) => first.toUpperCase())} cannot be read right now.`
    const cause = new Error(`${name}: ${why}`)
    this.#asked.get(number)?.reject(new Unavailable('service_unavailable', message, { cause }))
    this.#forget(number)
  }

  #forget(number: number): void {
    this.#asked.delete(number)
    if (this.#asked.size === 0 && !this.#closed) this.#thread?.unref()
  }
}

/** Handles one message. @returns whether it was not the last */
async function handle<Notice, Question, Report>(
  work: ThreadWork<Notice, Question>,
  message: ToThread<Notice, Question>,
  send: (message: FromThread<Report>) => void,
): Promise<boolean> {
  if (message === 'close') {
    await work.close()
    return false
  }
  if ('notice' in message) {
    work.take(message.notice)
    return true
  }
  const { ask, number } = message
  try {
    send({ number, answer: await work.answer(ask) })
  } catch (error) {
    send({ number, error: (error as Error).message })
  }
  return true
}

/** Serves the client of this thread. @param create makes the work, with where it reports to */
export function serveClient<Notice, Question, Report>(
  port: MessagePort,
  create: (report: (report: Report) => void) => ThreadWork<Notice, Question>,
): void {
  const send = (message: FromThread<Report>) => port.postMessage(message)
  const work = create((report) => send({ report }))
  port.on('message', async (message: ToThread<Notice, Question>) => {
    if (!(await handle(work, message, send))) port.close()
  })
}

/** Work in the thread of its client, each message in a turn of the event loop of its own. */
export class LocalThread<Notice, Question, Report> extends EventEmitter implements WorkThread {
  readonly #work: ThreadWork<Notice, Question>

  /** @param create makes the work, with where it reports to */
  constructor(create: (report: (report: Report) => void) => ThreadWork<Notice, Question>) {
    super()
    this.#work = create((report) => void this.emit('message', { report }))
  }

  postMessage(message: ToThread<Notice, Question>): void {
    setImmediate(async () => {
      const send = (answer: FromThread<Report>) => void this.emit('message', answer)
      if (!(await handle(this.#work, message, send))) this.emit('exit')
    })
  }

  ref(): void {}

  unref(): void {}
}
