import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A gateway in a process of its own: see `_gateway-process.ts`. */
export interface ForkedGateway extends AsyncDisposable {
  readonly url: string
  readonly baseURL: string
  readonly key: string
  /**
   * What the process has used so far: bytes now and at most, ms of processor time; and how much of it the thread that serves
   * took at most without a return to the event loop, since this was asked last.
   */
  usage(): Promise<{
    readonly rss: number
    readonly most: number
    readonly cpuMs: number
    readonly longestTurnMs: number
  }>
  /** Promises that its main thread has made since this was asked last. */
  promises(): Promise<number>
  /** Bytes that are in use after a collection of garbage. */
  live(): Promise<number>
  /** Has it end as a crash does once the next charge is booked, before the rest of that answer is sent. */
  dieWhenBooked(): Promise<void>
  /** Ends it as a crash does. */
  kill(): Promise<void>
}

/** Starts one with this configuration. Waiting for it fails when its process ends. */
export async function forkGateway(config: object): Promise<ForkedGateway> {
  const script = fileURLToPath(new URL('_gateway-process.ts', import.meta.url))
  const child = fork(script, [JSON.stringify(config)])
  const exited = once(child, 'exit')
  const ask = (what: string) => {
    child.send(what)
    return message()
  }
  const message = async () => {
    const gone = exited.then(([code]) => {
      throw new Error(`the gateway ended with ${code}`)
    })
    const [sent] = await Promise.race([once(child, 'message'), gone])
    return sent
  }
  return {
    ...(await message()),
    usage: () => ask('usage'),
    promises: () => ask('promises'),
    live: () => ask('live'),
    dieWhenBooked: () => ask('die when booked'),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}
