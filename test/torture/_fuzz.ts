/**
 * Plays random cases against gateways, in several lanes at once. A gateway serves a limited number of them and is then
 * closed, which shows what is left over. A fault ends the run; its input is made as short as possible first.
 */
import type { Bench } from './_bench.ts'
import { randomOf, type Random } from './_random.ts'
import { textOf, type Run } from './_run.ts'

/** A suite of random cases. */
export interface Fuzz<Case> {
  readonly lanes: number
  /** Cases for one gateway. */
  readonly perGateway: number
  open(): Promise<Bench>
  /** Makes a case up: the same for the same random numbers. */
  make(random: Random): Case
  /** @returns what is wrong with the answer, in words that are the same for the same fault */
  play(one: Case, bench: Bench, lane: number): Promise<string | undefined>
  /** @param fails whether a shorter case fails in the same way */
  shrink(one: Case, fails: (shorter: Case) => Promise<boolean>): Promise<Case>
  /** The case for the printout. */
  show(one: Case): string
}

/** Runs a suite until its count, its time or its first fault. */
export async function fuzz<Case>(run: Run, suite: Fuzz<Case>): Promise<void> {
  const { first, count, share } = run.options
  let next = first + share.index
  const isOver = () => run.isOver || next >= first + count
  while (!isOver()) {
    const bench = await suite.open()
    const end = Math.min(next + suite.perGateway * share.of, first + count)
    const lane = async (number: number) => {
      while (!run.isOver && next < end) {
        const index = next
        next += share.of
        run.at(number, index)
        const one = suite.make(randomOf(run.options.seed, index))
        const fault = await verdict(suite, one, bench, number)
        run.done++
        if (fault) await report(run, suite, { one, fault, index, bench, lane: number })
      }
    }
    run.serving(true)
    await Promise.all(Array.from({ length: suite.lanes }, (_, i) => lane(i)))
    run.serving(false)
    for (const fault of await bench.close()) run.fault(`${fault} (cases before ${next})`)
  }
}

async function verdict<Case>(
  suite: Fuzz<Case>,
  one: Case,
  bench: Bench,
  lane: number,
): Promise<string | undefined> {
  try {
    const fault = await suite.play(one, bench, lane)
    const [logged] = bench.faults()
    return fault ?? (logged === undefined ? undefined : `logged: ${logged.split('\n')[0]}`)
  } catch (error) {
    return textOf(error)
  }
}

/** A fault and where it was found. */
interface Found<Case> {
  readonly one: Case
  readonly fault: string
  readonly index: number
  readonly bench: Bench
  readonly lane: number
}

async function report<Case>(run: Run, suite: Fuzz<Case>, found: Found<Case>): Promise<void> {
  const { one, fault, index, bench, lane } = found
  const { seed, driver } = run.options
  const where = `${fault}\n  replay: npm run torture -- ${run.name} --seed ${seed}:${index} --count 1 --driver ${driver}`
  const faults = run.faults.length
  run.fault(where)
  if (faults > 0) return
  process.stdout.write(`found at ${seed}:${index}: ${fault}\n  makes it shorter ...\n`)
  const kind = kindOf(fault)
  const shortest = await suite.shrink(one, async (shorter) => {
    const again = await verdict(suite, shorter, bench, lane)
    return again !== undefined && kindOf(again) === kind
  })
  run.fault(`the shortest input: ${suite.show(shortest)}`)
}

/** What stays the same while the input becomes shorter: ids and numbers do not. */
function kindOf(fault: string): string {
  return fault
    .split('\n')[0]!
    .replace(/req_\w+|\d+/g, '#')
    .slice(0, 200)
}
