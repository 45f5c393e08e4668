/** One thread for all work that is the gateway's own: each thread takes 15 MB. */
import { EventEmitter } from 'node:events'
import { extname } from 'node:path'
import {
  MessageChannel,
  Worker,
  type MessagePort,
  type TransferListItem,
} from 'node:worker_threads'
import { threadOptions } from '../lifetime/thread-options.ts'

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
