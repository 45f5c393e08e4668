/** Sessions that read something long give other calls their turn, and say the same as without it. */
import { describe, expect, it, vi } from 'vitest'
import { CircuitBreaker, GuardRunner, VerdictCache } from '../../src/guard/runner.ts'
import { GuardRegistry } from '../../src/guard/plan.ts'
import {
  ScanSession,
  type OutputScanner,
  patternScanner,
  pluginScanner,
} from '../../src/guard/scan-session.ts'
import { ScreenedStream } from '../../src/guard/output-screen.ts'
import { compilePatterns } from '../../src/patterns/patterns.ts'
import type { CheckProgress, Origin } from '../../src/plugin.ts'
import { tighten } from '../../src/policy/policy.ts'
import { flowFrom } from '../../src/stream/flow.ts'
import { bitCodec, type Bit } from './_bits.ts'
import { screenOf } from './_screen.ts'
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
    metrics: { asked: () => {} },
    limitsMs: { input: 1000, output: 1000 },
    signal: new AbortController().signal,
    contextOf: () => ({}) as never,
  })
  return pluginScanner(runner, '')
}

function open(scanner: OutputScanner, atOnce = false) {
  const { promise, resolve } = Promise.withResolvers<void>()
  const session = new ScanSession(scanner, stream, { atOnce, changed: resolve })
  return { session, answered: promise }
}

describe('a text that is there whole', () => {
  it.each([
    ['x'.repeat(50_000), 50_000, undefined],
    [`${'x'.repeat(40_000)}!${'x'.repeat(40_000)}`, undefined, 40_000],
  ])('is read by a plugin in slices', async (text, safeOffset, start) => {
    const { session, answered } = open(signScanner(), true)
    session.push(text)
    const turns = await turnsWhile(() => {
      session.end()
      expect(session.state).toBe('busy')
      return answered
    })
    expect(turns).toBeGreaterThan(2)
    expect(session.state).toBe('ready')
    expect(session.stop?.block?.spans?.[0]?.start).toBe(start)
    if (safeOffset !== undefined) expect(session.safeOffset).toBe(safeOffset)
  })

  it('is not read on when the session is closed', async () => {
    const told = vi.fn()
    const { session } = open(signScanner('!', told), true)
    session.push('x'.repeat(100_000))
    await turnsWhile(async () => {
      session.end()
      session.close()
      const { length } = told.mock.calls
      for (let i = 0; i < 20; i++) await turn()
      expect([told.mock.calls.length, session.state]).toEqual([length, 'ready'])
    })
  })
})

describe('a piece of a text that grows', () => {
  const long = 'x'.repeat(20_000)

  it.each([
    ['that passes', [long, 'and more'], 20_008, undefined],
    ['that does not', [`${long}!`, 'and more'], 20_000, 20_000],
    ['before one that does not', [long, 'and !'], 20_004, 20_004],
  ])('is read in slices if it is long: one %s', async (_, pieces, safeOffset, start) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const changed = () => void (session.state === 'ready' && resolve())
    const session = new ScanSession(signScanner(), stream, { atOnce: false, changed })
    const turns = await turnsWhile(() => {
      for (const piece of pieces) session.push(piece)
      expect([session.state, session.safeOffset, session.stop]).toEqual(['busy', 0, undefined])
      session.end()
      return promise
    })
    expect(turns).toBeGreaterThan(2)
    expect(session.stop?.block?.spans?.[0]?.start).toBe(start)
    expect(session.safeOffset).toBe(safeOffset)
  })

  it('is read at once if it is short', () => {
    const { session } = open(signScanner())
    session.push('xy')
    expect([session.state, session.safeOffset]).toEqual(['ready', 2])
    session.push('!')
    expect(session.stop?.block?.spans).toEqual([{ start: 2, end: 3 }])
  })
})

describe('a text that several guards block', () => {
  const text = `${'x'.repeat(18_000)}?yy!${'z'.repeat(3_000)}`

  async function screened(pieces: readonly string[]) {
    const said: Bit[] = []
    const found: string[] = []
    const screen = screenOf<Bit>(
      {
        codec: bitCodec,
        scanners: [signScanner('!'), signScanner('?')],
        refuse: () => [{ refused: 'no' }],
        limits: { maxHeld: 1_000, maxBuffer: 100_000, maxToolCall: 100 },
      },
      { found: ({ guard }) => void found.push(guard) },
    )
    const given = pieces.map((piece) => ({ text: piece }))
    const parts = flowFrom<Bit>({
      next: async () => ({ parts: given.splice(0, 1), last: given.length === 0 }),
      close() {},
    })
    const init = { parts, screen, enforce: true, idleMs: 60_000, stallMs: 60_000 }
    const turns = await turnsWhile(async () => {
      for await (const part of flowFrom(new ScreenedStream<Bit>(init))) said.push(part)
    })
    const out = said.map((part) => part.text ?? `[${part.refused}]`).join('')
    return { turns, out, found, retained: screen.retained }
  }

  it('is read again in slices if it is long, and nothing matters but the text', async () => {
    const whole = await screened([text, 'after it'])
    expect(whole.turns).toBeGreaterThan(20)
    const cut = await screened(text.match(/.{1,700}/gs)!)
    for (const { out, found, retained } of [whole, cut]) {
      expect(out).toBe(`${'x'.repeat(18_000)}[no]`)
      expect([found, retained]).toEqual([['?'], 0])
    }
  })
})

describe('a match that begins far back in a stream', () => {
  const random = randomNumbers(3)
  const letters = (length: number) =>
    Array.from({ length }, () => 'ab'[Math.floor(random() * 2)]).join('')

  it.each<[string, number, Origin]>([
    ['in small pieces', 1 << 10, 'key'],
    ['in one that is long', 1 << 16, 'key'],
    ['for the rules of a request', 1 << 10, 'request'],
  ])('is found where it is while other calls have their turn: %s', async (_, size, origin) => {
    const matcher = compilePatterns(['[ab]{60}a[ab]*!', '[ab]{50}b[ab]*?x'])
    const text = `${letters(1 << 15)}!`
    const pieces = text.match(new RegExp(`.{1,${size}}`, 'gs'))!
    const scanner = patternScanner(matcher, 0, origin)
    const now = new ScanSession(scanner, stream)
    for (const piece of pieces) now.push(piece)
    const { promise, resolve } = Promise.withResolvers<void>()
    const changed = () => void (later.state === 'ready' && resolve())
    const later = new ScanSession(scanner, stream, { atOnce: false, changed })
    const turns = await turnsWhile(async () => {
      for (const piece of pieces) later.push(piece)
      expect([later.state, later.stop]).toEqual(['busy', undefined])
      later.push('after it')
      later.end()
      await promise
    })
    expect(turns).toBeGreaterThan(2)
    expect([later.safeOffset, later.stop]).toEqual([now.safeOffset, now.stop])
    expect(now.stop?.block).toMatchObject({ rule: 'bannedPatterns[0]' })
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
