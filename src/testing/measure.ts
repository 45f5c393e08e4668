/** Measures how time and memory grow. */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { skipped, toCheck, type Check } from './report.ts'

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
    // A little more than is needed.
    size = Math.ceil(size * Math.min(4, Math.max(1.5, (1.3 * BASE_MS) / base)))
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

/** Calls before the memory is measured, and of one measurement. */
const MANY_CALLS = 2000
/** The most that a call may leave behind. What is cached has been cached when the calls are measured. */
const MAX_CALL_BYTES = 64
const MEASUREMENTS = 5
/** Measurements that are enough where the heap has shrunk meanwhile. */
const SMALL_ENOUGH = 2
const isSmall = (bytes: number): boolean => bytes <= MAX_CALL_BYTES
const isSteady = (bytes: number): boolean => isSmall(Math.abs(bytes))
/** Collections before the heap is read, and the pause before each. */
const COLLECTIONS = 4
const COLLECTION_PAUSE_MS = 5
/** Growth before the measurement at which what a call leaves is looked at, and the most that each may leave then. */
const MAX_HEAP_BYTES = 64 * 1024 * 1024
const MANY_BYTES = 16 * 1024

/**
 * The check of what many small calls leave behind. A measurement is repeated before it counts against the plugin: code that is
 * compiled and connections that are opened are no growth.
 * @param what the name of the calls, for messages
 * @param calls how many calls the plugin has already had
 */
export async function checkHeap(
  what: string,
  on: string | null,
  call: () => Promise<unknown>,
  calls = 0,
): Promise<Check> {
  const { gc } = globalThis
  if (!gc) return skipped('memory', on, 'memory is measured by testPlugin only')
  const used = async () => {
    // Sockets and timers release what they hold in later turns: one collection right after the calls is off by 500 bytes a call.
    for (let i = 0; i < COLLECTIONS; i++) {
      await pause(COLLECTION_PAUSE_MS)
      await gc({ execution: 'async' })
    }
    return process.memoryUsage().heapUsed
  }
  const start = process.memoryUsage().heapUsed
  for (let i = calls; i < MANY_CALLS; i++) {
    await call()
    // A process without memory could not tell of it.
    const isFull = i % 100 === 0 && process.memoryUsage().heapUsed - start > MAX_HEAP_BYTES
    const size = isFull ? Math.round(((await used()) - start) / (i + 1 - calls)) : 0
    if (size > MANY_BYTES) return toCheck('memory', on, [`${what} leave ${size} bytes each behind`])
  }
  const sizes: number[] = []
  const isEnough = () => sizes.some(isSteady) || sizes.filter(isSmall).length >= SMALL_ENOUGH
  while (sizes.length < MEASUREMENTS && !isEnough()) {
    const before = await used()
    for (let n = 0; n < MANY_CALLS; n++) await call()
    sizes.push(((await used()) - before) / MANY_CALLS)
  }
  // The smallest is no measure: the engine drops compiled code of some megabytes now and then.
  const size = sizes.find(isSteady) ?? sizes.toSorted((a, b) => a - b)[SMALL_ENOUGH - 1]!
  const problem = `${what} leave ${Math.round(size)} bytes each behind, of ${MANY_CALLS}`
  return toCheck('memory', on, isSmall(size) ? [] : [problem])
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
