/** A lock for work that one gateway does at a time. Where its holder ends, the lock does after a while. */
import { randomUUID } from 'node:crypto'
import type { RedisConnection } from './connection.ts'
import type { ScriptClient } from './replies.ts'

export class Lock {
  readonly #connection: RedisConnection
  readonly #name: string
  readonly #ms: number
  readonly #token = randomUUID()

  constructor(connection: RedisConnection, name: string, ms: number) {
    this.#connection = connection
    this.#name = name
    this.#ms = ms
  }

  /** Takes the lock, or keeps it for longer. @returns false where another gateway has it. @throws Unavailable */
  take(): Promise<boolean> {
    return this.#ask((store) => store.lock(this.#name, this.#token, `${this.#ms}`))
  }

  /** Gives the lock up, unless another gateway has taken it meanwhile. @throws Unavailable */
  async release(): Promise<void> {
    await this.#ask((store) => store.unlock(this.#name, this.#token))
  }

  async #ask(send: (store: ScriptClient) => Promise<readonly unknown[]>): Promise<boolean> {
    const [done] = await this.#connection.ask(() => send(this.#connection.client as ScriptClient))
    return done === '1'
  }
}
