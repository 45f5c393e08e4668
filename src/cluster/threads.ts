/**
 * Threads that all workers share: the logs have one writer each, and usage is added up once. They run in the process that
 * starts the workers.
 */
import { EventEmitter, once } from 'node:events'
import type { ConsolaInstance } from 'consola'
import {
  type FromThread,
  type StartThread,
  type ToThread,
  type WorkThread,
  startShared,
} from '../observe/thread-client.ts'
import type { Channel } from './channel.ts'

/** How a thread reports. */
interface Reports {
  /** Which worker hears a report: the one whose notice it is about, or any one. */
  readonly to: 'sender' | 'any'
  /** A notice that is not reported about; every other one is, once and in order. */
  readonly silent?: unknown
}

/** The threads that are shared, by name. */
const SHARED: Readonly<Record<string, Reports>> = {
  log: { to: 'sender' },
  content: { to: 'sender', silent: 'trim' },
  usage: { to: 'any' },
}
/** How long a thread has to do what it was sent. */
const CLOSE_MS = 2000

/** What a thread is started with. */
interface Init {
  readonly script: string
  readonly workerData: unknown
}

/** What crosses about a thread: to it a message, from it a message or its end. */
interface ToShared {
  readonly name: string
  readonly init: Init
  readonly message: ToThread<unknown, unknown>
}
type FromShared =
  | { readonly name: string; readonly message: FromThread<unknown> }
  | { readonly name: string; readonly ended: true }

/** In a worker: starts threads, those that are shared in the other process. @returns a starter of threads */
export function sharedStarter(channel: Channel): StartThread {
  const started = new Map<string, RemoteThread>()
  channel.on('thread', (from: FromShared) => {
    const thread = started.get(from.name)
    if ('message' in from) thread?.emit('message', from.message)
    else thread?.emit('exit')
  })
  return (name, script, workerData) => {
    if (!Object.hasOwn(SHARED, name)) return startShared(script, workerData)
    const init = { script: script.href, workerData }
    const send = (message: ToShared['message']) => channel.tell('thread', { name, init, message })
    const thread = new RemoteThread(send)
    started.set(name, thread)
    return thread
  }
}

/** A thread of the other process. */
class RemoteThread extends EventEmitter implements WorkThread {
  readonly postMessage: (message: any) => void

  constructor(send: (message: ToShared['message']) => void) {
    super()
    this.postMessage = send
  }

  ref(): void {}

  unref(): void {}
}

/** The shared threads, in the process that starts the workers. */
export class SharedThreads {
  readonly #running = new Map<string, SharedThread>()
  readonly #log: Pick<ConsolaInstance, 'error'>

  constructor(log: Pick<ConsolaInstance, 'error'>) {
    this.#log = log
  }

  /** A worker sends a message to a thread, which is started if it does not run. */
  receive(from: Channel, { name, init, message }: ToShared): void {
    // What was sent before is done by then or by the end of the thread, which is no sooner than that of the workers.
    if (message === 'close') return from.tell('thread', { name, ended: true })
    let thread = this.#running.get(name)
    if (!thread) {
      thread = new SharedThread(name, init, (error) => {
        if (error) this.#log.error(`the thread ${name} of all workers has failed`, error)
        this.#running.delete(name)
      })
      this.#running.set(name, thread)
    }
    thread.receive(from, message)
  }

  /** A worker has ended: it is sent nothing any more. */
  left(channel: Channel): void {
    for (const thread of this.#running.values()) thread.left(channel)
  }

  /** Lets every thread do what it was sent, within two seconds. */
  async close(): Promise<void> {
    await Promise.all([...this.#running.values()].map((thread) => thread.close()))
  }
}

/** One thread, and whom its messages are for. */
class SharedThread {
  readonly #name: string
  readonly #reports: Reports
  readonly #thread: WorkThread
  readonly #users = new Set<Channel>()
  /** Whose notices have not been reported about, in their order. */
  readonly #noticed: Channel[] = []
  /** Questions by the number that the thread knows: numbers of workers are alike. */
  readonly #asked = new Map<number, { readonly of: Channel; readonly number: number }>()
  #number = 0

  constructor(name: string, { script, workerData }: Init, onEnd: (error?: Error) => void) {
    this.#name = name
    this.#reports = SHARED[name]!
    this.#thread = startShared(new URL(script), workerData)
    this.#thread.on('message', (message: FromThread<unknown>) => this.#heard(message))
    this.#thread.on('error', onEnd)
    this.#thread.on('exit', () => {
      onEnd()
      for (const user of this.#users) user.tell('thread', { name, ended: true })
    })
    this.#thread.unref()
  }

  receive(from: Channel, message: Exclude<ToShared['message'], 'close'>): void {
    this.#users.add(from)
    if ('notice' in message) {
      const { to, silent } = this.#reports
      if (to === 'sender' && message.notice !== silent) this.#noticed.push(from)
      return this.#thread.postMessage(message)
    }
    const number = this.#number++
    this.#asked.set(number, { of: from, number: message.number })
    this.#thread.postMessage({ ask: message.ask, number })
  }

  left(channel: Channel): void {
    this.#users.delete(channel)
  }

  async close(): Promise<void> {
    this.#thread.ref()
    const ended = once(this.#thread, 'exit', { signal: AbortSignal.timeout(CLOSE_MS) })
    this.#thread.postMessage('close')
    await ended.catch(() => undefined)
  }

  #heard(message: FromThread<unknown>): void {
    const name = this.#name
    if ('report' in message) {
      const [any] = this.#users
      const to = this.#reports.to === 'sender' ? this.#noticed.shift() : any
      return to?.tell('thread', { name, message })
    }
    const asked = this.#asked.get(message.number)
    this.#asked.delete(message.number)
    asked?.of.tell('thread', { name, message: { ...message, number: asked.number } })
  }
}
