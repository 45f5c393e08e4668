/**
 * Work that may take long, in steps: what is pausing for a while is done in stretches of a few milliseconds, of all such
 * work together, with a turn of the event loop between two of them. Whatever a policy makes the gateway do, other streams
 * go on.
 */

/** Work that others may interrupt between two steps. A step takes well under a millisecond, or a few where code is cold. */
export type Steps<T> = Generator<void, T, void>

/** So much of it in one turn of the event loop, ms. */
const STRETCH_MS = 2
/** Less than this is nothing, ms: most work is done before a look at the clock would pay. */
const NOTABLE_MS = 0.1

/** ms of such work in this turn. */
let spent = 0
let isTurning = false
/** Those who have more to do, in the order in which they have their turn. */
const waiting: (() => void)[] = []

/** Does all of it now. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** Does some of it: at least a step, at most what may be done in this turn. */
export function someOf<T>(steps: Steps<T>): IteratorResult<void, T> {
  const begun = performance.now()
  let took = 0
  try {
    for (;;) {
      const result = steps.next()
      took = performance.now() - begun
      if (result.done || spent + took > STRETCH_MS) return result
    }
  } finally {
    spent += took
    if (spent > NOTABLE_MS) turn()
  }
}

/**
 * Does it in turns with others. A promise only where it takes longer than one.
 * @param proceed throws where nobody waits for it any more; asked at each turn
 */
export function inTurns<T>(steps: Steps<T>, proceed: () => void = () => {}): T | Promise<T> {
  const { done, value } = someOf(steps)
  return done ? value : goOn(steps, proceed)
}

/** Calls back in a later turn, one after the other: with all at once, a turn would be as long as there are many. */
export function nextTurn(go: () => void): void {
  waiting.push(go)
  turn()
}

async function goOn<T>(steps: Steps<T>, proceed: () => void): Promise<T> {
  try {
    for (;;) {
      await new Promise<void>(nextTurn)
      proceed()
      const { done, value } = someOf(steps)
      if (done) return value
    }
  } finally {
    steps.return(undefined as never)
  }
}

function turn(): void {
  if (isTurning) return
  isTurning = true
  setImmediate(() => {
    isTurning = false
    spent = 0
    waiting.shift()?.()
    if (waiting.length > 0) turn()
  })
}
