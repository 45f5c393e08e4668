/** Measures how time and memory grow. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** A shorter time is too inexact. */
const BASE_MS = 20
/** The factor of the size, and the largest factor of the cost. */
const STEPS = [
  [4, 10],
  [10, 25],
] as const
const ROUNDS = 3
const MAX_SIZE = 400_000

/**
 * Whether ten times the size costs more than 25 times the processor time.
 * @param what the unit of the size
 * @param start the size to begin with, which grows until it can be measured, up to `largest`
 * @returns the problem; undefined for none
 */
export async function growth(
  what: string,
  run: (size: number) => unknown,
  start: number,
  largest = MAX_SIZE,
): Promise<string[]> {
  let size = start
  let base = await best(run, size)
  while (base < BASE_MS && size < largest) {
    size *= base < BASE_MS / 4 ? 4 : 2
    base = await best(run, size)
  }
  // Work that is too fast to be measured is fast enough.
  if (base < BASE_MS) return []
  // The smaller step comes first: what grows with the square would take long with the larger one.
  for (const [times, most] of STEPS) {
    const more = await best(run, size * times, base * most)
    if (more <= base * most) continue
    const cost = `${Math.round(base)} ms for ${size} ${what}, ${Math.round(more)} ms for ${size * times}`
    return [`time grows faster than the size: ${cost}`]
  }
  return []
}

/** Bytes by which the heap has grown over so many calls; undefined where collection cannot be forced. */
export async function heapGrowth(
  calls: number,
  call: () => Promise<unknown>,
): Promise<number | undefined> {
  const { gc } = globalThis
  if (!gc) return undefined
  const used = async () => {
    await gc({ execution: 'async' })
    return process.memoryUsage().heapUsed
  }
  // Code that is compiled and caches that are filled are no growth.
  for (let i = 0; i < calls / 4; i++) await call()
  const before = await used()
  for (let i = 0; i < calls; i++) await call()
  return (await used()) - before
}

/** The least time of some rounds, in ms of the processor; of one round if it is short enough. */
async function best(run: (size: number) => unknown, size: number, enough = 0): Promise<number> {
  let least = Infinity
  for (let round = 0; round < ROUNDS && least > enough; round++) {
    // The process has to say meanwhile that it lives, however slow the machine is.
    await nextTurn()
    const before = process.threadCpuUsage()
    await run(size)
    const { user, system } = process.threadCpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}
