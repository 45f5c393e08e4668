/** Long work leaves turns of the event loop to other calls. */
import { describe, expect, it, vi } from 'vitest'
import { buildAutomata, parsePattern } from '../../src/patterns/build.ts'
import { mayContainMatch } from '../../src/patterns/search.ts'
import {
  PatternScan,
  checkPatterns,
  checkPatternsSliced,
  compilePatterns,
  compilePatternsSliced,
} from '../../src/patterns/patterns.ts'
import { runSync, runSliced, yieldIfDue, type Task } from '../../src/patterns/time-slice.ts'
import { preparePolicy, readPolicy } from '../../src/policy/policy.ts'
import { hostilePatterns, randomNumbers } from '../guard/texts.ts'

let count = 0

/** 32 hostile patterns that were never compiled before. */
function fresh(): readonly string[] {
  const [, patterns] = hostilePatterns().find(([name]) => name === 'states without end')!
  count++
  return patterns.map((pattern) => `${pattern}${count}`)
}

/**
 * How many turns of the event loop others get while something is done. The clock advances by half a millisecond at each
 * look meanwhile, so the number depends on steps and not on the machine.
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

  it('leaves turns of the event loop to others in long work', async () => {
    expect(await turnsWhile(() => runSliced(busy(40)))).toBeGreaterThan(8)
  })

  it('gives one task a slice at a time, however many there are', async () => {
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
    // One slice in each of two turns, since a turn that is counted may begin within one.
    expect(most).toBeLessThanOrEqual(8)
  })

  it('ends when the result is no longer wanted', async () => {
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

describe('new patterns', () => {
  it('are checked and compiled in many slices', async () => {
    const patterns = fresh()
    expect(await turnsWhile(() => checkPatternsSliced(patterns))).toBeGreaterThan(2)
    expect(await turnsWhile(() => compilePatternsSliced(patterns, 'request'))).toBeGreaterThan(20)
  })

  it('are there at once the next time', () => {
    const patterns = fresh()
    const matcher = compilePatterns(patterns, 'request')
    expect(compilePatternsSliced(patterns, 'request')).toBe(matcher)
    const check = checkPatterns(patterns)
    expect(checkPatternsSliced(patterns)).toBe(check)
  })

  it('are compiled once for all callers that want them meanwhile', async () => {
    const patterns = fresh()
    checkPatterns(patterns)
    let matchers: unknown[] = []
    const turns = await turnsWhile(async () => {
      const calls = [1, 2, 3].map(() => compilePatternsSliced(patterns, 'request'))
      matchers = await Promise.all(calls)
    })
    expect(new Set(matchers)).toEqual(new Set([compilePatterns(patterns, 'request')]))
    const alone = fresh()
    checkPatterns(alone)
    const turnsAlone = await turnsWhile(() => compilePatternsSliced(alone, 'request'))
    expect(turns).toBeLessThan(2 * turnsAlone)
  })

  it('are compiled for the callers that stay', async () => {
    const patterns = fresh()
    const leaving = compilePatternsSliced(patterns, 'request', leavesAfter(3))
    const staying = compilePatternsSliced(patterns, 'request')
    await expect(leaving).rejects.toThrow('left')
    expect(await staying).toBe(compilePatterns(patterns, 'request'))
  })

  it('are compiled anew after every caller has left', async () => {
    const patterns = fresh()
    await expect(compilePatternsSliced(patterns, 'request', leavesAfter(3))).rejects.toThrow('left')
    expect(compilePatterns(patterns, 'request').find('nothing of it')).toBeUndefined()
  })
})

/** A caller that no longer wants the result after so many slices. */
function leavesAfter(slices: number): () => void {
  return () => {
    if (slices-- === 0) throw new Error('left')
  }
}

describe('a policy that is new', () => {
  it('is prepared in slices, and read at once afterwards', async () => {
    const policy = { version: 1, bannedPatterns: fresh() }
    expect(await turnsWhile(() => preparePolicy(policy))).toBeGreaterThan(2)
    expect(preparePolicy(policy)).not.toBeInstanceOf(Promise)
    expect(preparePolicy(JSON.stringify(policy))).not.toBeInstanceOf(Promise)
    expect(readPolicy(policy)).toEqual(policy)
  })

  it('is not prepared for a client that has left', async () => {
    const gone = new Error('gone')
    const prepared = preparePolicy({ version: 1, bannedPatterns: fresh() }, () => {
      throw gone
    })
    await expect(prepared).rejects.toBe(gone)
  })

  it.each([null, 3, 'x', [], {}, { bannedPatterns: 'x' }, { bannedPatterns: Array(33).fill('x') }])(
    'is not prepared when it is %j',
    (value) => {
      expect(preparePolicy(value)).not.toBeInstanceOf(Promise)
    },
  )
})

describe('a match that may begin anywhere', () => {
  const random = randomNumbers(3)
  const letters = (length: number) =>
    Array.from({ length }, () => 'ab'[Math.floor(random() * 2)]).join('')

  it('is located once, when it has ended: twice the text takes twice the steps', () => {
    const matcher = compilePatterns(['[ab]{60}a[ab]*!', '[ab]{50}b[ab]*?x'])
    const [half, whole] = [1 << 12, 1 << 13].map((length) => {
      const steps = matcher.searchTask(`${letters(length)}!`)
      let count = 0
      let step = steps.next()
      for (; !step.done; step = steps.next()) count++
      expect(step.value).toMatchObject({ pattern: 0, view: 'raw', end: length + 1 })
      // There is a pause at least every 256 characters.
      expect(count).toBeGreaterThan(length / 256)
      return count
    })
    expect(whole! / half!).toBeLessThanOrEqual(2.5)
  })

  it('is located along with a stream, a little for each symbol', () => {
    const compiled = runSync(buildAutomata([runSync(parsePattern('[ab]{60}a[ab]*!'))]))
    const [half, whole] = [1 << 11, 1 << 12].map((length) => {
      const stepBack = vi.spyOn(compiled.text, 'stepBack')
      const scan = new PatternScan(compiled)
      let [most, before, matches] = [0, 0, 0]
      for (const letter of letters(length)) {
        if (scan.push(letter).match) matches++
        const { length: walked } = stepBack.mock.calls
        most = Math.max(most, walked - before)
        before = walked
      }
      stepBack.mockRestore()
      expect(matches).toBe(0)
      // A short past is walked at once.
      expect(most).toBeLessThanOrEqual(256)
      return before
    })
    expect(whole! / half!).toBeLessThanOrEqual(2.5)
  })

  it('is located where no set of states comes twice, and tables are dropped when they are full', () => {
    const [, patterns, textOf] = hostilePatterns().find(([name]) => name === 'states without end')!
    const few = patterns.slice(0, 8)
    const compiled = runSync(buildAutomata(few.map((pattern) => runSync(parsePattern(pattern)))))
    const dropped = vi.spyOn(compiled.text, 'drop')
    const letters = textOf(1 << 13)
    const text = `${letters}c!`
    const pattern = few.findIndex((_, index) => letters.at(-301 - index) === 'a')
    const hit = { pattern, start: 0, end: text.length, view: 'raw' }
    expect(runSync(mayContainMatch(compiled, letters))).toBe(false)
    expect(runSync(mayContainMatch(compiled, text))).toBe(true)
    expect(runSync(new PatternScan(compiled).search(text, 128))).toEqual(hit)
    expect(dropped.mock.calls.length).toBeGreaterThan(3)
    for (const size of [100, 5_000]) {
      const scan = new PatternScan(compiled)
      const steps = text.match(new RegExp(`.{1,${size}}`, 'gs'))!.map((piece) => scan.push(piece))
      expect(steps.at(-1)).toEqual({ safeOffset: 0, match: hit })
    }
  })
})
