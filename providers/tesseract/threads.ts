/** The reading threads of one instance: started when they are needed, a few at most, ended when nobody needs them. */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Host, OcrPage } from '../../src/plugin.ts'
import type { Language } from './engine.ts'
import type { RefusalCode } from './refusal.ts'
import type { Said, Task } from './thread.ts'

/** Each takes 100 MB and more, which nobody should pay for who reads a page a day. */
const IDLE_MS = 60_000
/** A page takes seconds. One that takes this long is made to keep us busy. */
const PAGE_MS = 120_000
/** Tasks that may wait for each thread. */
const WAITING = 8

/** What of the request each refusal is about. */
const PARAMS: Readonly<Record<RefusalCode, string>> = {
  invalid_document: 'document.document_url',
  invalid_image: 'document.image_url',
  invalid_value: 'pages',
}

interface Turn {
  readonly resolve: (thread: Thread) => void
  readonly reject: (reason: unknown) => void
}

export class Threads {
  readonly #most: number
  readonly #languages: readonly Language[]
  readonly #fail: Host['fail']
  readonly #all = new Set<Thread>()
  readonly #idle: Thread[] = []
  readonly #waiting: Turn[] = []
  #closed = false

  constructor(most: number, languages: readonly Language[], fail: Host['fail']) {
    this.#most = most
    this.#languages = languages
    this.#fail = fail
  }

  /**
   * Reads a document, as soon as a thread is free.
   * @throws failures; the signal's reason, after which the thread is free again
   */
  async read(task: Task, signal: AbortSignal): Promise<readonly OcrPage[]> {
    const thread = await this.#take(signal)
    try {
      return await thread.read(task, signal)
    } finally {
      this.#give(thread)
    }
  }

  /** Ends all threads, whatever they do. */
  async close(): Promise<void> {
    this.#closed = true
    for (const turn of this.#waiting.splice(0)) turn.reject(this.#full())
    await Promise.all([...this.#all].map((thread) => thread.end()))
  }

  #take(signal: AbortSignal): Thread | Promise<Thread> {
    signal.throwIfAborted()
    const thread = this.#idle.pop()
    if (thread) return thread
    if (this.#closed) throw this.#full()
    if (this.#all.size < this.#most) return this.#start()
    if (this.#waiting.length >= this.#most * WAITING) throw this.#full()
    return new Promise((resolve, reject) => {
      const turn: Turn = {
        resolve: (free) => {
          signal.removeEventListener('abort', leave)
          resolve(free)
        },
        reject,
      }
      const leave = () => {
        const place = this.#waiting.indexOf(turn)
        if (place >= 0) this.#waiting.splice(place, 1)
        reject(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(turn)
    })
  }

  #give(thread: Thread): void {
    const next = this.#waiting.shift()
    if (next) return next.resolve(thread.alive ? thread : this.#start())
    if (!thread.alive) return
    this.#idle.push(thread)
    thread.rest(IDLE_MS)
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

/** One thread. It ends for good by an abort, a fault, a page that takes too long, or rest. */
class Thread {
  /** Why it takes no more tasks. */
  #end: Error | undefined
  readonly #worker: Worker
  readonly #fail: Host['fail']
  readonly #ended: () => void
  #timer: NodeJS.Timeout | undefined
  /** Who waits for the task that is under way. */
  #task: { hear(said: Said): void; reject(reason: unknown): void } | undefined

  constructor(languages: readonly Language[], fail: Host['fail'], ended: () => void) {
    this.#fail = fail
    this.#ended = ended
    const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
    const quiet = { stdout: true, stderr: true }
    this.#worker = new Worker(script, {
      name: 'ocr',
      workerData: languages,
      execArgv: [],
      env: {},
      ...quiet,
    })
    // What engines grumble about documents is nobody's concern.
    this.#worker.stdout.resume()
    this.#worker.stderr.resume()
    this.#worker.on('message', (said: Said) => this.#task?.hear(said))
    this.#worker.on('error', (error) => this.#over(this.#broken(error)))
    this.#worker.on('exit', () => this.#over(this.#broken(undefined)))
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
    const watch = () => {
      clearTimeout(this.#timer)
      const late = this.#fail('timeout', 'A page of the document took too long to read.')
      this.#timer = setTimeout(() => this.#over(late), PAGE_MS)
    }
    const abort = () => this.#over(signal.reason)
    this.#task = {
      reject,
      hear: (said) => {
        if ('page' in said) {
          pages.push(said.page)
          return watch()
        }
        if ('done' in said) return resolve(pages)
        const { code, message } = said.refused
        reject(this.#fail('bad_request', message, { code, param: PARAMS[code] }))
      },
    }
    signal.addEventListener('abort', abort, { once: true })
    watch()
    this.#worker.postMessage(task)
    try {
      return await promise
    } finally {
      clearTimeout(this.#timer)
      signal.removeEventListener('abort', abort)
      this.#task = undefined
    }
  }

  /** Ends it unless there is a task before this time is over. */
  rest(ms: number): void {
    this.#timer = setTimeout(() => this.#over(this.#broken(undefined)), ms).unref()
  }

  async end(): Promise<void> {
    this.#over(this.#fail('overloaded', 'The gateway is going down.'))
    await this.#worker.terminate()
  }

  #over(reason: Error): void {
    if (this.#end) return
    this.#end = reason
    clearTimeout(this.#timer)
    this.#ended()
    this.#task?.reject(reason)
    void this.#worker.terminate()
  }

  #broken(cause: unknown): Error {
    return this.#fail('upstream_error', 'The document could not be read.', { cause })
  }
}
