/** How much longer things take on this machine at present than on a quiet one. */
import { availableParallelism, loadavg } from 'node:os'

const MOST = 6

/** From 1 to 6: what waits for a processor, for each of them. Deadlines of tests are multiplied with it. */
export function patience(): number {
  return Math.min(MOST, Math.max(1, loadavg()[0]! / availableParallelism()))
}
