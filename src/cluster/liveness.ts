/** Whether the event loop of a worker still turns. */
import type { Channel } from '../threads/channel.ts'

const ASK_MS = 5000
/** So many questions in a row without an answer, and the worker does not come back. */
const MOST_UNANSWERED = 6

/** For so long a worker may give no answer, in seconds. */
export const SILENT_SECONDS = (ASK_MS * MOST_UNANSWERED) / 1000

/**
 * Asks a worker from time to time. What is counted are questions, not time: a machine that sleeps keeps this process from
 * asking as well.
 * @param silent called once, when it does not answer any more
 * @returns ends it
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
