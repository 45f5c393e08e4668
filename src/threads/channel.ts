/** Questions, answers and notices between two processes or threads, over the channel that Node.js opens between them. */

import { ConfigError, LostState, type ConfigIssue } from '../errors/errors.ts'

/** One end of the channel: a child process, this process for its parent, a thread, or this thread for its owner. */
export interface Port {
  send(message: object, onError?: (error: Error | null) => void): void
  on(event: 'message', listener: (message: unknown) => void): unknown
}

export type Message =
  | { readonly name: string; readonly body: unknown; readonly n?: number }
  | { readonly answered: number; readonly body: unknown }
  | { readonly answered: number; readonly failure: Failure }

/** An error as plain data. */
interface Failure {
  readonly message: string
  /** Exit status of a command that ends because of it. */
  readonly exitCode: number
  /** Issues of its configuration. */
  readonly issues?: readonly ConfigIssue[] | undefined
}

export class RemoteError extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.message)
    this.name = 'RemoteError'
    this.failure = failure
  }
}

export class Disconnected extends Error {
  constructor() {
    super('it has ended')
    this.name = 'Disconnected'
  }
}

type Handler = (body: any) => unknown

/** Sends questions and notices to the other end, and answers its own. */
export class Channel {
  readonly #port: Port
  readonly #handlers = new Map<string, Handler>()
  readonly #pending = new Map<number, PromiseWithResolvers<any>>()
  #n = 0
  #closed = false

  constructor(port: Port) {
    this.#port = port
    port.on('message', (message) => void this.#receive(message as Message))
  }

  /** Sets the handler of a question or notice; its return value is the answer. */
  on(name: string, handler: Handler): void {
    this.#handlers.set(name, handler)
  }

  /** Sends a notice. It is lost where the other side has ended. */
  tell(name: string, body?: unknown): void {
    this.#send({ name, body })
  }

  /**
   * @param withinMs time limit of the answer; without it, as long as the other side lives
   * @throws RemoteError, Disconnected; Error after the time
   */
  async ask<Answer>(name: string, body?: unknown, withinMs?: number): Promise<Answer> {
    if (this.#closed) throw new Disconnected()
    const n = this.#n++
    const answer = Promise.withResolvers<Answer>()
    this.#pending.set(n, answer)
    const late = () => answer.reject(new Error(`no answer within ${withinMs! / 1000} s`))
    const timer = withinMs === undefined ? undefined : setTimeout(late, withinMs)
    this.#send({ name, body, n })
    try {
      return await answer.promise
    } finally {
      clearTimeout(timer)
      this.#pending.delete(n)
    }
  }

  /** Rejects open questions after the other side has ended. */
  close(): void {
    this.#closed = true
    for (const { reject } of this.#pending.values()) reject(new Disconnected())
  }

  async #receive(message: Message): Promise<void> {
    if ('answered' in message) {
      const question = this.#pending.get(message.answered)
      if ('failure' in message) question?.reject(new RemoteError(message.failure))
      else question?.resolve(message.body)
      return
    }
    const { name, body, n } = message
    const handler = this.#handlers.get(name)
    if (n === undefined) return void handler?.(body)
    try {
      this.#send({ answered: n, body: await handler?.(body) })
    } catch (error) {
      this.#send({ answered: n, failure: failureOf(error) })
    }
  }

  #send(message: Message): void {
    // The exit of the other side reports its end.
    if (!this.#closed) this.#port.send(message, () => {})
  }
}

export function failureOf(error: unknown): Failure {
  if (error instanceof RemoteError) return error.failure
  if (!(error instanceof Error)) return { message: String(error), exitCode: 1 }
  const { message } = error
  const { exitCode = error instanceof LostState ? 74 : 1 } = error as { readonly exitCode?: number }
  return { message, exitCode, issues: error instanceof ConfigError ? error.issues : undefined }
}
