/**
 * Threads that all workers share: the logs have one writer each, and usage is added up once. They run in the process that
 * starts the workers.
 */
import { EventEmitter, once } from 'node:events'
import type { ConsolaInstance } from 'consola'
import { Channel, failureOf, type Message } from '../threads/channel.ts'
import { startShared, type StartThread, type WorkThread } from '../threads/client.ts'

/** Which worker gets a report: the one whose notice it is about, where each is reported about once and in order, or any one. */
type Hears = 'sender' | 'any'

const SHARED: Readonly<Record<string, Hears>> = { log: 'sender', usage: 'any' }
/** Time limit of a thread for the messages that it was sent. */
const CLOSE_MS = 2000

interface ToShared {
  readonly name: string
  readonly script: string
  readonly workerData: unknown
  readonly message: Exclude<Message, { readonly answered: number }>
}

/** Starts threads for a worker; shared ones in the other process. @returns a starter of threads */
export function sharedStarter(channel: Channel): StartThread {
  const started = new Map<string, RemoteThread>()
  channel.on('report', ({ name, report }: { readonly name: string; readonly report: unknown }) =>
    started.get(name)?.emit('message', { name: 'report', body: report } satisfies Message),
  )
  channel.on('ended', (name: string) => started.get(name)?.emit('exit'))
  return (name, script, workerData) => {
    if (!Object.hasOwn(SHARED, name)) return startShared(script, workerData)
    const thread = new RemoteThread(channel, { name, script: script.href, workerData })
    started.set(name, thread)
    return thread
  }
}

class RemoteThread extends EventEmitter implements WorkThread {
  readonly #channel: Channel
  readonly #of: Omit<ToShared, 'message'>

  constructor(channel: Channel, of: Omit<ToShared, 'message'>) {
    super()
    this.#channel = channel
    this.#of = of
  }

  send(message: object): void {
    const { n } = message as ToShared['message']
    const sent = { ...this.#of, message }
    if (n === undefined) return this.#channel.tell('thread', sent)
    this.#channel.ask('thread', sent).then(
      (body) => this.emit('message', { answered: n, body } satisfies Message),
      (error: unknown) =>
        this.emit('message', { answered: n, failure: failureOf(error) } satisfies Message),
    )
  }

  ref(): void {}

  unref(): void {}
}

export class SharedThreads {
  readonly #running = new Map<string, SharedThread>()
  readonly #log: Pick<ConsolaInstance, 'error'>

  constructor(log: Pick<ConsolaInstance, 'error'>) {
    this.#log = log
  }

  /** Passes a message of a worker to a thread, which is started if it does not run. @returns the answer to a question */
  receive(from: Channel, { name, message, ...of }: ToShared): unknown {
    // Earlier messages are processed by then or by the end of the thread, which is no sooner than that of the workers.
    if (message.name === 'close') return from.tell('ended', name)
    let thread = this.#running.get(name)
    if (!thread) {
      thread = new SharedThread(name, of, (error) => {
        if (error) this.#log.error(`the thread ${name} of all workers has failed`, error)
        this.#running.delete(name)
      })
      this.#running.set(name, thread)
    }
    return thread.receive(from, message)
  }

  left(channel: Channel): void {
    for (const thread of this.#running.values()) thread.left(channel)
  }

  /** Lets every thread process its messages, within two seconds. */
  async close(): Promise<void> {
    await Promise.all([...this.#running.values()].map((thread) => thread.close()))
  }
}

class SharedThread {
  readonly #hears: Hears
  readonly #thread: WorkThread
  readonly #channel: Channel
  readonly #users = new Set<Channel>()
  /** Workers whose notices have not been reported about, in their order. */
  readonly #noticed: Channel[] = []

  constructor(
    name: string,
    { script, workerData }: Pick<ToShared, 'script' | 'workerData'>,
    onEnd: (error?: Error) => void,
  ) {
    this.#hears = SHARED[name]!
    this.#thread = startShared(new URL(script), workerData)
    this.#channel = new Channel(this.#thread)
    this.#channel.on('report', (report: unknown) => {
      const [any] = this.#users
      const to = this.#hears === 'sender' ? this.#noticed.shift() : any
      to?.tell('report', { name, report })
    })
    this.#thread.on('error', onEnd)
    this.#thread.on('exit', () => {
      onEnd()
      this.#channel.close()
      for (const user of this.#users) user.tell('ended', name)
    })
    this.#thread.unref()
  }

  receive(from: Channel, { name, body, n }: ToShared['message']): unknown {
    this.#users.add(from)
    if (n !== undefined) return this.#channel.ask(name, body)
    if (this.#hears === 'sender') this.#noticed.push(from)
    return this.#channel.tell(name, body)
  }

  left(channel: Channel): void {
    this.#users.delete(channel)
  }

  async close(): Promise<void> {
    this.#thread.ref()
    const ended = once(this.#thread, 'exit', { signal: AbortSignal.timeout(CLOSE_MS) })
    this.#channel.tell('close')
    await ended.catch(() => undefined)
  }
}
