/** Guards that read something long give other calls their turn, and say the same as without it. */
import { describe, expect, it, vi } from 'vitest'
import { CircuitBreaker, GuardRunner, VerdictCache } from '../../src/guard/runner.ts'
import { GuardRegistry } from '../../src/guard/plan.ts'
import { Reading } from '../../src/guard/screened-text.ts'
import { type OutputScanner, patternScanner, pluginScanner } from '../../src/guard/text-check.ts'
import { compilePatterns } from '../../src/patterns/patterns.ts'
import type { CheckProgress, Origin } from '../../src/plugin.ts'
import { tighten } from '../../src/policy/policy.ts'
import { bitCodec, type Bit } from './_bits.ts'
import { screenOf, through } from './_screen.ts'
import { hostilePatterns, randomNumbers } from './texts.ts'

const stream = { channel: 'content', choice: 0, index: 0 } as const
const turn = () => new Promise((resolve) => setImmediate(resolve))

/**
 * How many turns of the event loop other calls have while something is done. Each look at the clock takes half a
 * millisecond meanwhile, so that does not depend on the machine.
 */
async function turnsWhile(run: () => unknown): Promise<number> {
  // The slice of time of the test before must be over.
  await turn()
  let [turns, isOver, now] = [0, false, 0]
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 0.5))
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  try {
    await run()
  } finally {
    isOver = true
    clock.mockRestore()
  }
  return turns
}

/** A local plugin that stops a text at a sign. */
function signScanner(sign = '!', told: (text: string) => void = () => {}): OutputScanner {
  const runner = new GuardRunner({
    name: sign,
    guard: {
      enforces: ['scope'],
      execution: 'local',
      streamOutput() {
        let length = 0
        const progress = (text: string): CheckProgress => {
          told(text)
          const at = text.indexOf(sign)
          const start = length + at
          length += text.length
          if (at < 0) return { safeOffset: length }
          const spans = [{ start, end: start + 1 }]
          return { safeOffset: start, verdict: { action: 'block', rule: 'scope', spans } }
        }
        return { push: progress, end: () => ({ safeOffset: length }) }
      },
    },
    origin: 'key',
    ruleFilter: () => true,
    circuit: new CircuitBreaker(),
    verdicts: new VerdictCache(),
    metrics: { recordAnswer: () => {} },
    limitsMs: { input: 1000, output: 1000 },
    signal: new AbortController().signal,
    contextOf: () => ({}) as never,
  })
  return pluginScanner(runner, '')
}

function open(scanner: OutputScanner) {
  const { promise, resolve } = Promise.withResolvers<void>()
  const reading = new Reading(scanner, stream, true, resolve)
  return { reading, answered: promise }
}

/** What becomes of a text that comes in these pieces, one after the other, and how many turns others have meanwhile. */
async function screened(scanners: readonly OutputScanner[], pieces: readonly string[]) {
  const said: Bit[] = []
  const found: { guard: string; block: object }[] = []
  const withheld: number[] = []
  const screen = screenOf<Bit>(
    {
      codec: bitCodec,
      scanners,
      refuse: () => [{ refused: 'no' }],
      limits: { maxHeld: 100_000, maxBuffer: 100_000, maxToolCall: 100 },
    },
    {
      found: ({ guard, block }) => void found.push({ guard, block }),
      withheld: (count) => void withheld.push(count),
    },
  )
  const bits = [...pieces.map((piece) => ({ text: piece })), { finish: true }]
  const turns = await turnsWhile(async () => {
    const { out, over } = through(screen, bits)
    await over
    said.push(...out)
  })
  const sent = said.map(({ text = '' }) => text).join('')
  return { turns, sent, isRefused: said.at(-1)!.refused === 'no', found, withheld }
}

describe('a text that is there whole', () => {
  it.each([
    ['x'.repeat(50_000), 50_000, undefined],
    [`${'x'.repeat(40_000)}!${'x'.repeat(40_000)}`, undefined, 40_000],
  ])('is read by a plugin in slices', async (text, safeOffset, start) => {
    const { reading, answered } = open(signScanner())
    reading.push(text)
    const turns = await turnsWhile(() => {
      reading.end()
      expect(reading.state).toBe('busy')
      return answered
    })
    expect(turns).toBeGreaterThan(2)
    expect(reading.state).toBe('ready')
    expect(reading.stop?.block?.spans?.[0]?.start).toBe(start)
    if (safeOffset !== undefined) expect(reading.safeOffset).toBe(safeOffset)
  })

  it('is not read on when that is not wanted any more', async () => {
    const told = vi.fn()
    const { reading } = open(signScanner('!', told))
    reading.push('x'.repeat(100_000))
    await turnsWhile(async () => {
      reading.end()
      reading.close()
      const { length } = told.mock.calls
      for (let i = 0; i < 20; i++) await turn()
      expect([told.mock.calls.length, reading.state]).toEqual([length, 'ready'])
    })
  })
})

describe('a piece of a text that grows', () => {
  const long = 'x'.repeat(20_000)

  it.each([
    ['that passes', [long, 'and more'], 20_008, undefined],
    ['that does not', [`${long}!`, 'and more'], 20_000, 20_000],
    ['before one that does not', [long, 'and !'], 20_004, 20_004],
  ])('is read in slices if it is long: one %s', async (_, pieces, length, start) => {
    const { turns, sent, found } = await screened([signScanner()], pieces)
    expect(turns).toBeGreaterThan(2)
    expect(sent).toBe(pieces.join('').slice(0, length))
    const spans = start === undefined ? [] : [{ spans: [{ start, end: start + 1 }] }]
    expect(found.map(({ block }) => block)).toMatchObject(spans)
  })
})

describe('a text that several guards block', () => {
  const text = `${'x'.repeat(18_000)}?yy!${'z'.repeat(3_000)}`

  it('is read again in slices if it is long, and nothing matters but the text', async () => {
    const scanners = [signScanner('!'), signScanner('?')]
    const whole = await screened(scanners, [text, 'after it'])
    expect(whole.turns).toBeGreaterThan(20)
    const cut = await screened(scanners, text.match(/.{1,700}/gs)!)
    for (const { sent, isRefused, found } of [whole, cut]) {
      expect([sent, isRefused]).toEqual(['x'.repeat(18_000), true])
      expect(found.map(({ guard }) => guard)).toEqual(['?'])
    }
  })
})

describe('a match that begins far back in a stream', () => {
  const random = randomNumbers(3)
  const letters = (length: number) =>
    Array.from({ length }, () => 'ab'[Math.floor(random() * 2)]).join('')

  it.each<[string, number, Origin]>([
    ['in small pieces', 1 << 10, 'key'],
    ['in one that is long', 1 << 14, 'key'],
    ['for the rules of a request', 1 << 10, 'request'],
  ])('is found where it is while other calls have their turn: %s', async (_, size, origin) => {
    const matcher = compilePatterns(['[ab]{60}a[ab]*!', '[ab]{50}b[ab]*?x'])
    const text = `${letters(1 << 12)}!`
    const pieces = text.match(new RegExp(`.{1,${size}}`, 'gs'))!
    const scanner = patternScanner(matcher, 0, origin)
    const now = new Reading(scanner, stream)
    for (const piece of pieces) now.push(piece)
    const { turns, sent, found } = await screened([scanner], [...pieces, 'after it'])
    expect(turns).toBeGreaterThan(2)
    expect([sent.length, found[0]!.block]).toEqual([now.safeOffset, now.stop!.block])
    expect(now.stop!.block).toMatchObject({ rule: 'bannedPatterns[0]' })
  })
})

describe('a policy that is new', () => {
  it('has its plan later, and at once the next time', async () => {
    const guards = new GuardRegistry([], () => false)
    const [, patterns] = hostilePatterns().find(([name]) => name === 'states without end')!
    const policy = tighten(undefined, { version: 1, bannedPatterns: patterns })
    const first = guards.planFor(policy, () => {})
    expect(first).toBeInstanceOf(Promise)
    const plan = await first
    expect(plan!.enforcing.patterns).toHaveLength(1)
    expect(guards.planFor(policy, () => {})).toBe(plan)
  })
})
