/** One worker process, from the view of the process that starts it. */
import cluster from 'node:cluster'
import { once } from 'node:events'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { Reason } from '../server/siblings.ts'
import { Channel } from '../threads/channel.ts'

/** Most bytes of one line that are kept together. */
const MOST_OF_LINE = 1024 * 1024

export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export class Member {
  /** Number from 1; a replacement has the number of its predecessor. */
  readonly number: number
  readonly pid: number
  readonly channel: Channel
  /** Resolves when the process has ended. */
  readonly ended: Promise<End>
  /** Resolves when the last line of its output was passed on, too. */
  readonly silent: Promise<unknown>
  readonly #startedAt = performance.now()
  readonly #kill: () => void
  /** `refused`: it could not start; `leaving`: it takes no more connections. */
  state: 'starting' | 'serving' | 'refused' | 'leaving' = 'starting'
  reasons: readonly Reason[] = []
  digest = ''

  constructor(number: number) {
    const worker = cluster.fork(environment())
    const child = worker.process
    this.number = number
    this.pid = child.pid!
    this.channel = new Channel({
      send: (message, onError) => void worker.send(message, onError),
      on: (event, listener) => worker.on(event, listener),
    })
    // The error of a message that could not be sent; the end of the process reports the same.
    worker.on('error', () => {})
    this.#kill = () => void child.kill('SIGKILL')
    passLines(child.stdout!, process.stdout)
    passLines(child.stderr!, process.stderr)
    this.silent = once(child, 'close')
    this.ended = once(child, 'exit').then(([code, signal]) => {
      this.channel.close()
      return { code, signal }
    })
  }

  /** ms since its start. */
  get livedMs(): number {
    return performance.now() - this.#startedAt
  }

  kill(): void {
    this.#kill()
  }
}

function environment(): Record<string, string> {
  const cache = getCompileCacheDir()
  return {
    // Its output is a pipe; where that ends at a terminal, colours are wanted.
    ...(process.stdout.isTTY && { FORCE_COLOR: '1' }),
    // Node adds a folder of its version to this path.
    ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
  }
}

/** Passes whole lines on: parts of lines of several processes would mix. */
function passLines(from: Readable, to: Writable): void {
  let begun: Buffer[] = []
  let bytes = 0
  const pass = (last?: Buffer) => {
    if (last) begun.push(last)
    if (begun.length > 0) to.write(begun.length === 1 ? begun[0]! : Buffer.concat(begun))
    begun = []
    bytes = 0
  }
  from.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(0x0a) + 1
    if (end > 0) pass(chunk.subarray(0, end))
    if (end === chunk.length) return
    begun.push(chunk.subarray(end))
    bytes += chunk.length - end
    if (bytes > MOST_OF_LINE) pass()
  })
  from.on('end', () => pass())
  from.on('error', () => {})
}
