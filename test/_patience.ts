/** How much longer things take on this machine at present than on the quiet one that bounds of time were written for. */
import { availableParallelism, loadavg } from 'node:os'

const MOST = 6
/** Half a megabyte. */
const WORK = () => JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, half: id / 2 })))
/** How long the machine that bounds were written for takes to read it five times. */
const USUAL_MS = 37

/** From 1 to 6: what waits for a processor, for each of them. Deadlines of tests are multiplied with it. */
export function patience(): number {
  return atMost(loadavg()[0]! / availableParallelism())
}

/** From 1 to 6, and never less than `patience()`: what a known work takes now. Bounds of time that a run is judged by are multiplied with it. */
export function slowness(): number {
  const work = WORK()
  const startedAt = performance.now()
  for (let i = 0; i < 5; i++) JSON.parse(work)
  return Math.max(patience(), atMost((performance.now() - startedAt) / USUAL_MS))
}

function atMost(factor: number): number {
  return Math.min(MOST, Math.max(1, factor))
}
