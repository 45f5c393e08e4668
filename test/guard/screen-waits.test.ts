import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { Chain } from '../../src/stream/chain.ts'
import { type OutputScanner, patternScanner, pluginScanner } from '../../src/guard/text-check.ts'
import {
  type TextProgress,
  CircuitBreaker,
  GuardRunner,
  VerdictCache,
} from '../../src/guard/runner.ts'
import { compilePatterns } from '../../src/patterns/patterns.ts'
import type { Guard } from '../../src/plugin.ts'
import { wordGuard } from './_doubles.ts'
import { bitCodec, type Bit } from './_bits.ts'
import { reading, screenOf } from './_screen.ts'
import { runs } from '../_runs.ts'

/** A guard that agrees when it is told to. */
function slowGuard() {
  let length = 0
  let answer = Promise.withResolvers<TextProgress>()
  const scanner: OutputScanner = {
    guard: 'slow',
    origin: 'key',
    local: false,
    needsFullText: false,
    reads: () => true,
    check: () => ({
      push(text) {
        length += text.length
        return answer.promise
      },
      end: () => answer.promise,
    }),
  }
  const agree = () => {
    const { resolve } = answer
    resolve({ safeOffset: length })
    answer = Promise.withResolvers()
  }
  return { scanner, agree }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

function start(scanner: OutputScanner, stallMs = 60_000) {
  const left = vi.fn()
  const read = { count: 0, closed: false }
  async function* parts(): AsyncGenerator<Bit> {
    try {
      for (;;) {
        read.count++
        await turn()
        yield { text: 'x'.repeat(100) }
      }
    } finally {
      read.closed = true
    }
  }
  const faults: string[] = []
  const screen = screenOf<Bit>(
    {
      codec: bitCodec,
      scanners: [scanner],
      stallMs,
      refuse: ({ choice }) => [{ choice, refused: 'no' }],
      closed: ({ stalledMs, complete }) => void left(stalledMs, complete),
    },
    { failed: (_, { kind }) => void faults.push(kind) },
  )
  const running = reading(screen, parts())
  const leave = async () => {
    await running.chain.close()
    screen.close()
  }
  return { ...running, read, left, faults, leave }
}

describe('an answer that waits for guards', () => {
  it('is read ahead up to a bound', async () => {
    const { scanner, agree } = slowGuard()
    const { out, read, leave, left } = start(scanner)
    await expect.poll(() => read.count).toBe(10)
    for (let i = 0; i < 50; i++) await turn()
    expect([read.count, out]).toEqual([10, []])
    agree()
    await expect.poll(() => out.length).toBe(10)
    expect(out.map(({ text }) => text!.length)).toEqual(Array.from({ length: 10 }, () => 100))
    await expect.poll(() => read.count).toBe(20)
    await leave()
    await expect.poll(() => read.closed).toBe(true)
    expect(left).toHaveBeenCalledTimes(1)
  })

  it('is refused when they keep it waiting for too long', async () => {
    const { scanner } = slowGuard()
    const { out, over, read, faults, left } = start(scanner, 20)
    await over
    expect(out).toEqual([{ choice: 0, refused: 'no' }])
    expect(faults).toEqual(['timeout'])
    await expect.poll(() => read.closed).toBe(true)
    expect(left.mock.calls).toEqual([[expect.any(Number), true]])
    expect(left.mock.calls[0]![0]).toBeGreaterThanOrEqual(15)
  })

  it('releases everything when its reader leaves', async () => {
    const { scanner } = slowGuard()
    const { out, read, left, leave } = start(scanner)
    await expect.poll(() => read.count).toBeGreaterThan(2)
    await leave()
    expect(out).toEqual([])
    expect(left.mock.calls).toEqual([[expect.any(Number), false]])
    await expect.poll(() => read.closed).toBe(true)
  })
})

describe('an answer in batches of any size', () => {
  const word = fc.constantFrom('ab', 'ban', 'banned', 'nedba', ' ', 'c', 'secret', 'sec', '😀', '.')
  const text = fc.array(word, { maxLength: 60 }).map((words) => words.join(''))
  const cuts = fc.array(fc.nat(200), { maxLength: 12 })
  const batches = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 6 })
  const banned = patternScanner(compilePatterns(['banned']), 0, 'key')
  const secret = patternScanner(compilePatterns(['secret']), 1, 'request')

  /** What goes out of a text, and the rules that it violates. */
  async function screened(
    given: string,
    at: readonly number[],
    sizes: readonly number[],
    isRemote: boolean,
  ) {
    const places = [0, ...new Set(at.filter((cut) => cut < given.length).sort((a, b) => a - b))]
    const pieces = places.map((from, i) => given.slice(from, places[i + 1])).filter(Boolean)
    const bits: Bit[] = [{}, ...pieces.map((piece) => ({ text: piece })), { finish: true }]
    const rules: string[] = []
    const local = pluginScanner(runnerOf(wordGuard('nedba')), '')
    const patient = pluginScanner(
      runnerOf({
        enforces: ['deny:code'],
        execution: 'remote',
        async checkOutput() {
          await new Promise((resolve) => setImmediate(resolve))
          return { action: 'pass' }
        },
      }),
      '',
    )
    const screen = screenOf<Bit>(
      {
        codec: bitCodec,
        scanners: [banned, secret, local, ...(isRemote ? [patient] : [])],
        refuse: () => [{ refused: 'no' }],
      },
      {
        found: ({ block }) => void rules.push(block.rule),
        failed: (guard, { kind }) => void rules.push(`${guard} ${kind}`),
      },
    )
    const out: Bit[] = []
    const over = Promise.withResolvers<void>()
    const chain = new Chain<Bit>([screen], {
      push: (bit: Bit) => void out.push(bit),
      batchEnd: () => true,
      end: over.resolve,
      fail: (error) => over.reject(error as Error),
    })
    for (let batch = 0; bits.length > 0; batch++) {
      for (const bit of bits.splice(0, sizes[batch % sizes.length])) chain.push(bit)
      chain.batchEnd()
      if (isRemote && batch % 2 === 0) await turn()
    }
    chain.end()
    await over.promise
    const sent = out.map(({ text = '' }) => text).join('')
    return { sent, rules }
  }

  it('leaks nothing, loses nothing, and depends on its text alone, with guards of every kind', async () => {
    const run = fc.asyncProperty(
      text,
      cuts,
      batches,
      fc.boolean(),
      async (given, at, sizes, isRemote) => {
        const whole = await screened(given, [], [100], isRemote)
        const cut = await screened(given, at, sizes, isRemote)
        expect(cut.rules).toEqual(whole.rules)
        // What a remote guard has agreed to before a block is a matter of time.
        if (!isRemote) expect(cut.sent).toBe(whole.sent)
        expect(given.startsWith(cut.sent)).toBe(true)
        if (cut.rules.length === 0) expect(cut.sent).toBe(given)
        for (const one of ['banned', 'secret', 'nedba']) expect(cut.sent).not.toContain(one)
      },
    )
    // A clock of its own: guards are never slow, and slices of time end however fast the machine is.
    let now = performance.now()
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 0.05))
    try {
      await fc.assert(run, { numRuns: runs(35) })
    } finally {
      clock.mockRestore()
    }
  })
})

function runnerOf(guard: Guard): GuardRunner {
  return new GuardRunner({
    name: guard.execution,
    guard,
    origin: 'key',
    ruleFilter: (rule) => guard.enforces.includes(rule as never),
    circuit: new CircuitBreaker(),
    verdicts: new VerdictCache(),
    metrics: { recordAnswer: () => {} },
    limitsMs: { input: 10_000, output: 10_000 },
    signal: new AbortController().signal,
    contextOf: () => ({ signal: new AbortController().signal }) as never,
  })
}
