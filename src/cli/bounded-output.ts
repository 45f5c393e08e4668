/** Standard output and standard error of a gateway: unread output must not fill the memory. */
import type { Writable } from 'node:stream'

interface BoundedOutput {
  /** Resolves once everything is written, or the time is up. */
  flush(withinMs: number): Promise<void>
  /** Gives the stream its own `write` back. */
  release(): void
}

/** The time that a reader has for the last lines of the log. */
const FLUSH_MS = 2_000

const LIMIT_BYTES = 8 * 1024 * 1024

/**
 * Drops output while too much waits for a reader, and reports how much once there is room. Node.js writes to pipes
 * in the background, without a bound of its own.
 */
export function boundOutput(stream: Writable, limitBytes = LIMIT_BYTES): BoundedOutput {
  const { write } = stream
  const pass = (...args: unknown[]) => Reflect.apply(write, stream, args) as boolean
  let dropped = 0
  stream.write = function bounded(...args: unknown[]): boolean {
    if (stream.writableLength > limitBytes) {
      dropped++
      return false
    }
    if (dropped > 0) {
      pass(`${dropped} writes were dropped: the output is not read fast enough\n`)
      dropped = 0
    }
    return pass(...args)
  }
  return {
    async flush(withinMs) {
      if (stream.writableLength === 0 || stream.destroyed) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, withinMs)
        // An empty write is called back after all before it.
        pass('', () => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
    release() {
      stream.write = write
    },
  }
}

export async function withBoundOutput(serving: () => Promise<void>): Promise<void> {
  const outputs = [process.stdout, process.stderr].map((stream) => boundOutput(stream))
  try {
    await serving()
  } finally {
    await Promise.all(outputs.map((output) => output.flush(FLUSH_MS)))
    for (const output of outputs) output.release()
  }
}
