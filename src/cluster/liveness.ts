import type { Channel } from '../threads/channel.ts'

const ASK_MS = 5000
/** Number of questions in a row without an answer after which the worker does not come back. */
const MOST_UNANSWERED = 6

/** Longest time that a worker may give no answer, in seconds. */
export const SILENT_SECONDS = (ASK_MS * MOST_UNANSWERED) / 1000

/**
 * Asks a worker from time to time. Questions are counted, not time: a machine that sleeps keeps this process from asking as
 * well.
 * @param silent called once, when it no longer answers. @returns a function that ends it
 */
export function watchLiveness(channel: Channel, silent: () => void): () => void {
  let unanswered = 0
  const timer = setInterval(() => {
    if (unanswered === MOST_UNANSWERED) {
      clearInterval(timer)
      return silent()
    }
    unanswered++
    channel.ask('alive').then(
      () => (unanswered = 0),
      () => clearInterval(timer),
    )
  }, ASK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
