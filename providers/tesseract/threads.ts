import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Host, OcrPage } from '../../src/plugin.ts'
import type { Language } from './engine.ts'
import type { InvalidDocumentCode } from './image.ts'
import type { ThreadMessage, Task } from './thread.ts'

/** An idle thread keeps about 100 MB, so it ends after this time. */
const IDLE_MS = 60_000
/** A page takes seconds. A page that takes longer than this is treated as an attack. */
const PAGE_MS = 120_000
/** Waiting tasks per thread. */
const WAITING = 8

/** The request parameter that each error code is about. */
const PARAMS: Readonly<Record<InvalidDocumentCode, string>> = {
  invalid_document: 'document.document_url',
  invalid_image: 'document.image_url',
  invalid_value: 'pages',
}

interface WaitingTask {
  readonly resolve: (thread: Thread) => void
  readonly reject: (reason: unknown) => void
}

/** The worker threads of one provider instance. They are started on demand, limited in number, and ended when idle. */
export class Threads {
  readonly #most: number
  readonly #languages: readonly Language[]
  readonly #fail: Host['fail']
  readonly #all = new Set<Thread>()
  readonly #idle: Thread[] = []
  readonly #waiting: WaitingTask[] = []
  #closed = false

  constructor(most: number, languages: readonly Language[], fail: Host['fail']) {
    this.#most = most
    this.#languages = languages
    this.#fail = fail
  }

  /**
   * Reads a document as soon as a thread is free.
   * @throws a failure for the client; the signal's reason after an abort, which ends the thread's task
   */
  async read(task: Task, signal: AbortSignal): Promise<readonly OcrPage[]> {
    const thread = await this.#acquire(signal)
    try {
      return await thread.read(task, signal)
    } finally {
      this.#release(thread)
    }
  }

  /** Ends all threads, busy ones included. */
  async close(): Promise<void> {
    this.#closed = true
    for (const waiting of this.#waiting.splice(0)) waiting.reject(this.#full())
    await Promise.all([...this.#all].map((thread) => thread.end()))
  }

  #acquire(signal: AbortSignal): Thread | Promise<Thread> {
    signal.throwIfAborted()
    const thread = this.#idle.pop()
    if (thread) return thread
    if (this.#closed) throw this.#full()
    if (this.#all.size < this.#most) return this.#start()
    if (this.#waiting.length >= this.#most * WAITING) throw this.#full()
    return new Promise((resolve, reject) => {
      const waiting: WaitingTask = {
        resolve: (free) => {
          signal.removeEventListener('abort', leave)
          resolve(free)
        },
        reject,
      }
      const leave = () => {
        const place = this.#waiting.indexOf(waiting)
        if (place >= 0) this.#waiting.splice(place, 1)
        reject(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiting)
    })
  }

  #release(thread: Thread): void {
    const next = this.#waiting.shift()
    if (next) return next.resolve(thread.alive ? thread : this.#start())
    if (!thread.alive) return
    this.#idle.push(thread)
    thread.endWhenIdle(IDLE_MS)
  }

  #start(): Thread {
    const thread = new Thread(this.#languages, this.#fail, () => {
      this.#all.delete(thread)
      const place = this.#idle.indexOf(thread)
      if (place >= 0) this.#idle.splice(place, 1)
    })
    this.#all.add(thread)
    return thread
  }

  #full(): Error {
    return this.#fail('overloaded', 'Too many documents are waiting to be read.', {
      retryAfterMs: 5000,
    })
  }
}

/** One worker thread. It ends after an abort, a fault, a page that takes too long, or idle time. */
class Thread {
  /** Why the thread takes no more tasks. */
  #end: Error | undefined
  readonly #worker: Worker
  readonly #fail: Host['fail']
  readonly #ended: () => void
  #timer: NodeJS.Timeout | undefined
  /** Receives the messages about the running task. */
  #task: { receive(message: ThreadMessage): void; reject(reason: unknown): void } | undefined

  constructor(languages: readonly Language[], fail: Host['fail'], ended: () => void) {
    this.#fail = fail
    this.#ended = ended
    const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
    this.#worker = new Worker(script, {
      name: 'ocr',
      workerData: languages,
      execArgv: [],
      env: {},
      stdout: true,
      stderr: true,
    })
    // Diagnostics of the engines are discarded.
    this.#worker.stdout.resume()
    this.#worker.stderr.resume()
    this.#worker.on('message', (message: ThreadMessage) => this.#task?.receive(message))
    this.#worker.on('error', (error) => this.#stop(this.#failure(error)))
    this.#worker.on('exit', () => this.#stop(this.#failure(undefined)))
    this.#worker.unref()
  }

  get alive(): boolean {
    return this.#end === undefined
  }

  async read(task: Task, signal: AbortSignal): Promise<readonly OcrPage[]> {
    signal.throwIfAborted()
    if (this.#end) throw this.#end
    const { promise, resolve, reject } = Promise.withResolvers<readonly OcrPage[]>()
    const pages: OcrPage[] = []
    const startTimeout = () => {
      clearTimeout(this.#timer)
      const late = this.#fail('timeout', 'A page of the document took too long to read.')
      this.#timer = setTimeout(() => this.#stop(late), PAGE_MS)
    }
    const abort = () => this.#stop(signal.reason)
    this.#task = {
      reject,
      receive: (message) => {
        if ('page' in message) {
          pages.push(message.page)
          return startTimeout()
        }
        if ('done' in message) return resolve(pages)
        const { code, message: text } = message.invalid
        reject(this.#fail('bad_request', text, { code, param: PARAMS[code] }))
      },
    }
    signal.addEventListener('abort', abort, { once: true })
    startTimeout()
    this.#worker.postMessage(task)
    try {
      return await promise
    } finally {
      clearTimeout(this.#timer)
      signal.removeEventListener('abort', abort)
      this.#task = undefined
    }
  }

  /** Ends the thread unless it gets a task within this time. */
  endWhenIdle(ms: number): void {
    this.#timer = setTimeout(() => this.#stop(this.#failure(undefined)), ms).unref()
  }

  async end(): Promise<void> {
    this.#stop(this.#fail('overloaded', 'The gateway is going down.'))
    await this.#worker.terminate()
  }

  #stop(reason: Error): void {
    if (this.#end) return
    this.#end = reason
    clearTimeout(this.#timer)
    this.#ended()
    this.#task?.reject(reason)
    void this.#worker.terminate()
  }

  #failure(cause: unknown): Error {
    return this.#fail('upstream_error', 'The document could not be read.', { cause })
  }
}
