/**
 * Cooperative time slicing for long work. All such work of the process shares one slice of about 2 ms in each turn
 * of the event loop, so streams of other calls continue whatever the patterns of one call cost.
 */

/** Work in small steps; each takes well under a millisecond, or a few milliseconds before the code is compiled. */
export type Task<T> = Generator<void, T, void>

const SLICE_MS = 2

/** The start of the slice in this turn of the event loop; undefined while no work has asked for the time. */
let sliceBegan: number | undefined
let turnScheduled = false
/** Callbacks of unfinished work, in the order in which they get a slice of their own. */
const waiting: (() => void)[] = []

/**
 * Lets the event loop turn if the shared slice is used up. Long-running code calls it every few hundred
 * microseconds: `const due = yieldIfDue(proceed); if (due) await due`.
 * @param proceed throws when the result is no longer wanted; called each time the work may continue
 * @returns undefined while there is time left, else a promise that resolves in a later turn, one caller per turn
 */
export function yieldIfDue(proceed?: () => void): void | Promise<void> {
  if (isSliceUsedUp()) return new Promise<void>(nextSlice).then(proceed)
}

export function runSync<T>(task: Task<T>): T {
  for (;;) {
    const { done, value } = task.next()
    if (done) return value
  }
}

/** Runs at least one step, and further ones until the shared slice is used up. */
function runSlice<T>(task: Task<T>): IteratorResult<void, T> {
  for (;;) {
    const result = task.next()
    if (result.done || isSliceUsedUp()) return result
  }
}

/**
 * Runs a task in slices. Returns a promise only if one slice is not enough.
 * @param proceed throws when the result is no longer wanted; called before each further slice
 */
export function runSliced<T>(task: Task<T>, proceed?: () => void): T | Promise<T> {
  const { done, value } = runSlice(task)
  return done ? value : runOn(task, proceed)
}

/** Calls back in a later turn of the event loop: one callback per turn, so that each finds an unused slice. */
function nextSlice(callback: () => void): void {
  waiting.push(callback)
  scheduleTurn()
}

async function runOn<T>(task: Task<T>, proceed?: () => void): Promise<T> {
  try {
    for (;;) {
      await new Promise<void>(nextSlice)
      proceed?.()
      const { done, value } = runSlice(task)
      if (done) return value
    }
  } finally {
    task.return(undefined as never)
  }
}

function isSliceUsedUp(): boolean {
  const now = performance.now()
  if (sliceBegan === undefined) {
    sliceBegan = now
    scheduleTurn()
  }
  return now - sliceBegan > SLICE_MS
}

function scheduleTurn(): void {
  if (turnScheduled) return
  turnScheduled = true
  setImmediate(() => {
    turnScheduled = false
    sliceBegan = undefined
    waiting.shift()?.()
    if (waiting.length > 0) scheduleTurn()
  })
}
