import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { flowFrom } from '../../src/stream/flow.ts'
import { type OutputScanner, patternScanner, pluginScanner } from '../../src/guard/scan-session.ts'
import {
  type TextProgress,
  CircuitBreaker,
  GuardRunner,
  VerdictCache,
} from '../../src/guard/runner.ts'
import { ScreenedStream } from '../../src/guard/output-screen.ts'
import { compilePatterns } from '../../src/patterns/patterns.ts'
import type { Guard } from '../../src/plugin.ts'
import { wordGuard } from './_doubles.ts'
import { bitCodec, type Bit } from './_bits.ts'
import { screenOf } from './_screen.ts'

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
      concurrent: true,
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

function start(scanner: OutputScanner, stallMs = 60_000) {
  const left = vi.fn()
  const read = { count: 0, closed: false }
  const parts = flowFrom<Bit>({
    async next() {
      read.count++
      await new Promise((resolve) => setImmediate(resolve))
      return { parts: [{ text: 'x'.repeat(100) }], last: false }
    },
    close() {
      read.closed = true
    },
  })
  const faults: string[] = []
  const screen = screenOf<Bit>(
    {
      codec: bitCodec,
      scanners: [scanner],
      refuse: ({ choice }) => [{ choice, refused: 'no' }],
    },
    { failed: (_, { kind }) => void faults.push(kind) },
  )
  const closed = (stalledMs: number) => void left(stalledMs)
  const stream = new ScreenedStream<Bit>({
    parts,
    screen,
    enforce: true,
    idleMs: 10_000,
    stallMs,
    closed,
  })
  return { flow: flowFrom(stream), stream, read, left, faults }
}

describe('an answer that waits for guards', () => {
  it('is read ahead up to a bound, and not at all before a part is asked for', async () => {
    const { scanner, agree } = slowGuard()
    const { flow, read, stream, left } = start(scanner)
    expect(read.count).toBe(0)
    const first = flow.next()
    await expect.poll(() => read.count).toBe(10)
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve))
    expect(read.count).toBe(10)
    agree()
    const { parts } = await first
    expect(parts.map(({ text }) => text!.length)).toEqual(Array.from({ length: 10 }, () => 100))
    expect(read.count).toBe(10)
    await stream.close()
    expect(read.closed).toBe(true)
    expect(left).toHaveBeenCalledTimes(1)
  })

  it('is refused when they keep it waiting for too long', async () => {
    const { scanner } = slowGuard()
    const { flow, read, faults, left } = start(scanner, 20)
    const { parts, last } = await flow.next()
    expect(parts).toEqual([{ choice: 0, refused: 'no' }])
    expect(last).toBe(true)
    expect(faults).toEqual(['timeout'])
    expect(read.closed).toBe(true)
    expect(left.mock.calls[0]![0]).toBeGreaterThanOrEqual(15)
  })

  it('releases everything when its reader leaves', async () => {
    const { scanner } = slowGuard()
    const { flow, stream, read } = start(scanner)
    const waiting = flow.next()
    await expect.poll(() => read.count).toBeGreaterThan(2)
    await stream.close()
    expect(await waiting).toMatchObject({ parts: [], last: true })
    expect(read.closed).toBe(true)
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
    let batch = 0
    const parts = flowFrom<Bit>({
      async next() {
        const some = bits.splice(0, sizes[batch++ % sizes.length])
        return { parts: some, last: bits.length === 0 }
      },
      close() {},
    })
    const init = { parts, screen, enforce: true, idleMs: 60_000, stallMs: 60_000 }
    let sent = ''
    for await (const part of flowFrom(new ScreenedStream<Bit>(init))) sent += part.text ?? ''
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
      await fc.assert(run, { numRuns: 100 })
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
    metrics: { asked: () => {} },
    limitsMs: { input: 10_000, output: 10_000 },
    signal: new AbortController().signal,
    contextOf: () => ({ signal: new AbortController().signal }) as never,
  })
}
