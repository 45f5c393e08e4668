/** Long work is done in turns with others. */
import { describe, expect, it, vi } from 'vitest'
import { buildAutomata, parsePattern } from '../../src/patterns/build.ts'
import { mayContainMatch } from '../../src/patterns/search.ts'
import { PatternScan } from '../../src/patterns/scan.ts'
import { checking, compilePatterns, compiling } from '../../src/patterns/patterns.ts'
import { runSync, runSliced, yieldIfDue, type Task } from '../../src/patterns/time-slice.ts'
import { preparePolicy, readPolicy } from '../../src/policy/policy.ts'
import { hostilePatterns, randomNumbers } from '../guard/texts.ts'

let count = 0

/** 32 hard patterns that nobody has seen before. */
function fresh(): readonly string[] {
  const [, patterns] = hostilePatterns().find(([name]) => name === 'states without end')!
  count++
  return patterns.map((pattern) => `${pattern}${count}`)
}

/**
 * How many turns of the event loop others have while something is done. Each look at the clock takes half a millisecond
 * meanwhile: so that is a matter of steps, and not of the machine.
 */
async function turnsWhile(run: () => unknown): Promise<number> {
  let [turns, isOver, now] = [0, false, performance.now()]
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 0.5))
  const turn = () => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  try {
    await run()
  } finally {
    isOver = true
    clock.mockRestore()
    // The next test begins with a slice of the real clock.
    await new Promise((resolve) => setImmediate(resolve))
  }
  return turns
}

/** Works for a millisecond at each step. */
function* busy(steps: number, worked: () => void = () => {}): Task<number> {
  for (let step = 0; step < steps; step++) {
    const until = performance.now() + 1
    while (performance.now() < until);
    worked()
    yield
  }
  return steps
}

describe('runSliced', () => {
  it('does short work at once', () => {
    expect(runSliced(busy(0))).toBe(0)
  })

  it('lets others have their turn in long work', async () => {
    expect(await turnsWhile(() => runSliced(busy(40)))).toBeGreaterThan(8)
  })

  it('gives one work a turn at a time, however many there are', async () => {
    let [most, inOne, isOver] = [0, 0, false]
    const turn = () => {
      inOne = 0
      if (!isOver) setImmediate(turn)
    }
    const works = Array.from({ length: 20 }, () => {
      return runSliced(busy(8, () => void (most = Math.max(most, ++inOne))))
    })
    inOne = most = 0
    turn()
    await Promise.all(works)
    isOver = true
    // A stretch in each of two turns, which may begin before and after the one that counts.
    expect(most).toBeLessThanOrEqual(8)
  })

  it('ends when nobody waits for it any more', async () => {
    let [steps, isClosed] = [0, false]
    function* work(): Task<number> {
      try {
        return yield* busy(1_000, () => steps++)
      } finally {
        isClosed = true
      }
    }
    const gone = new Error('gone')
    const done = runSliced(work(), () => {
      if (steps > 6) throw gone
    })
    await expect(done).rejects.toBe(gone)
    expect([steps < 30, isClosed]).toEqual([true, true])
  })
})

describe('yieldIfDue', () => {
  it('makes no promise while there is time, and one that lets others have their turn after that', async () => {
    let promises = 0
    const turns = await turnsWhile(async () => {
      expect(yieldIfDue()).toBeUndefined()
      for (let step = 0; step < 40; step++) {
        const due = yieldIfDue()
        if (due) {
          promises++
          await due
        }
      }
    })
    expect(promises).toBeGreaterThan(4)
    expect(turns).toBeGreaterThan(4)
  })

  it('rejects when the result is no longer wanted', async () => {
    const gone = new Error('gone')
    const proceed = () => {
      throw gone
    }
    const wait = async () => {
      for (let step = 0; step < 40; step++) await yieldIfDue(proceed)
    }
    await turnsWhile(() => expect(wait()).rejects.toBe(gone))
  })
})

describe('patterns that are new', () => {
  it('are checked and compiled in turns', async () => {
    const patterns = fresh()
    expect(await turnsWhile(() => runSliced(checking(patterns)))).toBeGreaterThan(2)
    expect(await turnsWhile(() => runSliced(compiling(patterns, 'request')))).toBeGreaterThan(2)
  })

  it('are compiled in small steps', () => {
    const patterns = fresh()
    runSync(checking(patterns))
    expect([...compiling(patterns, 'request')].length).toBeGreaterThan(100)
  })

  it('are there at once the next time', () => {
    const patterns = fresh()
    const matcher = compilePatterns(patterns, 'request')
    expect(compiling(patterns, 'request').next()).toEqual({ done: true, value: matcher })
    runSync(checking(patterns))
    expect(checking(patterns).next().done).toBe(true)
  })

  it('are compiled once for all who want them meanwhile', () => {
    const patterns = fresh()
    runSync(checking(patterns))
    const works = Array.from({ length: 3 }, () => compiling(patterns, 'request'))
    const made = new Map<Task<unknown>, unknown>()
    let steps = 0
    while (made.size < works.length) {
      for (const work of works) {
        if (made.has(work)) continue
        const { done, value } = work.next()
        if (done) made.set(work, value)
        else steps++
      }
    }
    expect(new Set(made.values())).toEqual(new Set([compilePatterns(patterns, 'request')]))
    const alone = fresh()
    runSync(checking(alone))
    expect(steps).toBeLessThan(2 * [...compiling(alone, 'request')].length)
  })

  it('are compiled for those who stay', () => {
    const patterns = fresh()
    runSync(checking(patterns))
    const [one, other] = [compiling(patterns, 'request'), compiling(patterns, 'request')]
    for (let step = 0; step < 50; step++) {
      one.next()
      other.next()
    }
    one.return(undefined as never)
    expect(runSync(other)).toBe(compilePatterns(patterns, 'request'))
  })

  it('are compiled anew where nobody stayed', () => {
    const patterns = fresh()
    const work = compiling(patterns, 'request')
    for (let step = 0; step < 200; step++) work.next()
    work.return(undefined as never)
    expect(compilePatterns(patterns, 'request').find('nothing of it')).toBeUndefined()
  })
})

describe('a policy that is new', () => {
  it('is prepared in turns, and read at once afterwards', async () => {
    const policy = { version: 1, bannedPatterns: fresh() }
    expect(await turnsWhile(() => preparePolicy(policy))).toBeGreaterThan(2)
    expect(preparePolicy(policy)).not.toBeInstanceOf(Promise)
    expect(preparePolicy(JSON.stringify(policy))).not.toBeInstanceOf(Promise)
    expect(readPolicy(policy)).toEqual(policy)
  })

  it('is not prepared for whoever has left', async () => {
    const gone = new Error('gone')
    const prepared = preparePolicy({ version: 1, bannedPatterns: fresh() }, () => {
      throw gone
    })
    await expect(prepared).rejects.toBe(gone)
  })

  it.each([null, 3, 'x', [], {}, { bannedPatterns: 'x' }, { bannedPatterns: Array(33).fill('x') }])(
    'is left to whoever reads it where it is %j',
    (value) => {
      expect(preparePolicy(value)).not.toBeInstanceOf(Promise)
    },
  )
})

describe('a match that may begin anywhere', () => {
  const random = randomNumbers(3)
  const letters = (length: number) =>
    Array.from({ length }, () => 'ab'[Math.floor(random() * 2)]).join('')

  it('is found where it ends and located once: twice the text, twice the steps', () => {
    const matcher = compilePatterns(['[ab]{60}a[ab]*!', '[ab]{50}b[ab]*?x'])
    const [half, whole] = [1 << 14, 1 << 15].map((length) => {
      const steps = matcher.searchTask(`${letters(length)}!`)
      let count = 0
      let step = steps.next()
      for (; !step.done; step = steps.next()) count++
      expect(step.value).toMatchObject({ pattern: 0, view: 'raw', end: length + 1 })
      // At most so much is done between two pauses.
      expect(count).toBeGreaterThan(length / 256)
      return count
    })
    expect(whole! / half!).toBeLessThanOrEqual(2.5)
  })

  it('is walked back to along with a stream, a little for each symbol', () => {
    const compiled = runSync(buildAutomata([runSync(parsePattern('[ab]{60}a[ab]*!'))]))
    const [half, whole] = [1 << 12, 1 << 13].map((length) => {
      const columnOf = vi.spyOn(compiled.text, 'columnOf')
      const scan = new PatternScan(compiled)
      let [most, before] = [0, 0]
      for (const letter of letters(length)) {
        expect(scan.push(letter).match).toBeUndefined()
        const { length: walked } = columnOf.mock.calls
        most = Math.max(most, walked - before)
        before = walked
      }
      columnOf.mockRestore()
      // A short way is walked at once.
      expect(most).toBeLessThanOrEqual(256)
      return before
    })
    expect(whole! / half!).toBeLessThanOrEqual(2.5)
  })

  it('is found where it is where no set of states comes twice, and nothing is remembered', () => {
    const [, patterns, textOf] = hostilePatterns().find(([name]) => name === 'states without end')!
    const few = patterns.slice(0, 8)
    const compiled = runSync(buildAutomata(few.map((pattern) => runSync(parsePattern(pattern)))))
    const { forward } = compiled.text
    const passing = vi.spyOn(forward, 'passing')
    const dropped = vi.spyOn(forward, 'drop')
    const letters = textOf(1 << 15)
    const text = `${letters}c!`
    const pattern = few.findIndex((_, index) => letters.at(-301 - index) === 'a')
    const hit = { pattern, start: 0, end: text.length, view: 'raw' }
    expect(runSync(mayContainMatch(compiled, letters))).toBe(false)
    expect(runSync(mayContainMatch(compiled, text))).toBe(true)
    const looked = dropped.mock.calls.length
    expect(runSync(new PatternScan(compiled).search(text, 128))).toEqual(hit)
    expect(passing.mock.calls.slice(0, 3)).toEqual([[4_096], [8_192], [16_384]])
    // Now and then it is tried again.
    expect(looked).toBeGreaterThanOrEqual(passing.mock.calls.length)
    for (const size of [100, 5_000]) {
      const scan = new PatternScan(compiled)
      const steps = text.match(new RegExp(`.{1,${size}}`, 'gs'))!.map((piece) => scan.push(piece))
      expect(steps.at(-1)).toEqual({ safeOffset: 0, match: hit })
    }
  })
})
