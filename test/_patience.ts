/** How much longer things take on this machine at present than on the quiet one that bounds of time were written for. */
import { availableParallelism, loadavg } from 'node:os'

const MOST = 6
/** Half a megabyte. */
const WORK = () => JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, half: id / 2 })))
/** How long the machine that bounds were written for takes to read it five times. */
const USUAL_MS = 37

/** The factor, from 1 to 6, by which deadlines of tests are multiplied: how many programs wait for each processor. */
export function patience(): number {
  return atMost(loadavg()[0]! / availableParallelism())
}

/**
 * The factor, from 1 to 6, by which bounds of time that a run is judged by are multiplied: how long a known work takes
 * now, and never less than `patience()`.
 */
export function slowness(): number {
  const work = WORK()
  const startedAt = performance.now()
  for (let i = 0; i < 5; i++) JSON.parse(work)
  return Math.max(patience(), atMost((performance.now() - startedAt) / USUAL_MS))
}

function atMost(factor: number): number {
  return Math.min(MOST, Math.max(1, factor))
}
