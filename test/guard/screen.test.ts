import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type OutputScanner, patternScanner, pluginScanner } from '../../src/guard/text-check.ts'
import { CircuitBreaker, VerdictCache, GuardRunner } from '../../src/guard/runner.ts'
import type { Guard } from '../../src/plugin.ts'
import { literalMatcher, wordGuard } from './_doubles.ts'
import { bitCodec, type Bit } from './_bits.ts'
import { LIMITS, screenOf, through, type Observer, type Settings } from './_screen.ts'
import { runs } from '../_runs.ts'

interface Run {
  readonly out: readonly Bit[]
  /** Text of the first choice that went out, without what says "no". */
  readonly sent: string
  readonly rules: readonly string[]
  readonly faults: readonly string[]
  readonly released: number
  readonly withheld: number
  readonly done: boolean
}

function bitScreen(
  scanners: readonly OutputScanner[],
  change: Partial<Settings<Bit>> = {},
  observer: Partial<Observer> = {},
) {
  return screenOf<Bit>(
    {
      codec: bitCodec,
      scanners,
      refuse: ({ choice }) => [
        { choice, refused: 'no' },
        { choice, finish: true },
      ],
      ...change,
    },
    observer,
  )
}

/** @param apart which of the bits come apart from those after them */
async function run(
  bits: readonly Bit[],
  scanners: readonly OutputScanner[],
  change: Partial<Settings<Bit>> = {},
  apart: readonly boolean[] = [true],
): Promise<Run> {
  const rules: string[] = []
  const faults: string[] = []
  const count = { released: 0, withheld: 0 }
  const screen = bitScreen(scanners, change, {
    found: ({ block }) => void rules.push(block.rule),
    failed: (guard, { kind }) => void faults.push(`${guard}: ${kind}`),
    released: (n) => void (count.released += n),
    withheld: (n) => void (count.withheld += n),
  })
  const { out, over } = through(screen, bits, { apart })
  await over
  const sent = out
    .filter(({ choice = 0, channel }) => choice === 0 && channel === undefined)
    .map(({ text = '' }) => text)
    .join('')
  return { out, sent, rules, faults, ...count, done: screen.done }
}

function patterns(...literals: string[]): OutputScanner {
  return patternScanner(literalMatcher(literals), 0, 'key')
}

function plugin(name: string, guard: Guard): OutputScanner {
  const signal = new AbortController().signal
  const runner = new GuardRunner({
    name,
    guard,
    origin: 'key',
    ruleFilter: (rule) => guard.enforces.includes(rule as never),
    circuit: new CircuitBreaker(),
    verdicts: new VerdictCache(),
    metrics: { recordAnswer: () => {} },
    limitsMs: { input: 1000, output: 1000 },
    signal,
    contextOf: () => ({}) as never,
  })
  return pluginScanner(runner, '')
}

/** A text in pieces, and its end. */
function cut(text: string, cuts: readonly number[] = []): Bit[] {
  const places = [0, ...[...new Set(cuts)].filter((at) => at < text.length).sort((a, b) => a - b)]
  const pieces = places.map((from, i) => text.slice(from, places[i + 1]))
  return [{}, ...pieces.filter(Boolean).map((piece) => ({ text: piece })), { finish: true }]
}

describe('a screen', () => {
  it('lets text through untouched, in its own cuts, when nothing blocks', async () => {
    const bits = cut('a plain text', [2, 7])
    expect((await run(bits, [patterns('banned')])).out).toEqual(bits)
  })

  it('holds what may become a match, and flushes it at the end', async () => {
    const { out, sent } = await run(cut('he was ban', [3, 8]), [patterns('banned')])
    expect(sent).toBe('he was ban')
    expect(out.map(({ text }) => text).filter(Boolean)).toEqual(['he ', 'was ', 'b', 'an'])
  })

  it('sends nothing of a match, and says no', async () => {
    const { out, sent, rules, done } = await run(cut('this is banned, you see', [10, 12]), [
      patterns('banned'),
    ])
    expect(sent).toBe('this is ')
    expect(out.slice(-2)).toEqual([
      { choice: 0, refused: 'no' },
      { choice: 0, finish: true },
    ])
    expect(rules).toEqual(['bannedPatterns[0]'])
    expect(done).toBe(true)
  })

  it('sends nothing of a longer candidate when a shorter pattern matches inside', async () => {
    expect((await run(cut('x abcdef', [4]), [patterns('abcdef', 'cd')])).sent).toBe('x ')
  })

  it('drops reasoning that violates, and goes on with the answer', async () => {
    const { out, rules } = await run(
      [
        {},
        { channel: 'reasoning', text: 'think of ban' },
        { channel: 'reasoning', text: 'ned things' },
        { text: 'Hello.' },
        { channel: 'reasoning', text: ' more' },
        { finish: true },
      ],
      [patterns('banned')],
    )
    expect(rules).toHaveLength(1)
    expect(out).toEqual([
      {},
      { channel: 'reasoning', text: 'think of ' },
      { text: 'Hello.' },
      { finish: true },
    ])
  })

  it('gives every choice its own fate', async () => {
    const { out, done } = await run(
      [
        { choice: 0 },
        { choice: 1 },
        { choice: 0, text: 'good ' },
        { choice: 1, text: 'banned' },
        { choice: 1, text: ' more' },
        { choice: 0, text: 'end' },
        { choice: 0, finish: true },
        { choice: 1, finish: true },
      ],
      [patterns('banned')],
      { choices: 2 },
    )
    expect(done).toBe(false)
    expect(out.filter(({ choice }) => choice === 1)).toEqual([
      { choice: 1 },
      { choice: 1, refused: 'no' },
      { choice: 1, finish: true },
    ])
    expect(out.filter(({ choice }) => choice === 0).map(({ text }) => text)).toEqual([
      undefined,
      'good ',
      'end',
      undefined,
    ])
  })

  it('holds a tool call whole, and reads it across its fragments', async () => {
    const call = (text: string): Bit => ({ channel: 'tool_call', text })
    const passing = await run([call('{"a":'), call('1}'), { finish: true }], [patterns('banned')])
    expect(passing.out).toEqual([call('{"a":1}'), { finish: true }])
    const blocked = await run([call('ban'), call('ned'), { finish: true }], [patterns('banned')])
    expect(blocked.out.every(({ channel }) => channel === undefined)).toBe(true)
    expect(blocked.rules).toHaveLength(1)
  })

  it('acts on what violates first, also where it takes time to find the place', async () => {
    const both = [patterns('banned'), patterns('other')]
    for (const cuts of [[], [11]]) {
      const found: string[] = []
      const bits = cut('this is banned', cuts).slice(0, -1)
      bits.push({ channel: 'tool_call', text: 'other' }, { finish: true })
      const screen = bitScreen(both, {}, { found: ({ channel }) => void found.push(channel) })
      await through(screen, bits, { apart: [false] }).over
      expect(found).toEqual(['content'])
    }
  })

  it('reads an answer that comes as a whole to its end where nothing is enforced, however long it is', async () => {
    const text = `${'x'.repeat(5 * LIMITS.maxHeld)} banned`
    const { rules, out } = await run(cut(text), [patterns('banned')], {
      enforce: false,
      atOnce: true,
    })
    expect(rules).toEqual(['bannedPatterns[0]'])
    expect(out).toEqual(cut(text))
  })

  it('puts nothing out before the end when it buffers, and then the original cuts', async () => {
    const bits = cut('one two three', [4, 8])
    const scanner = patterns('banned')
    const { out } = await run(bits, [scanner], { buffer: true })
    expect(out).toEqual(bits)
    expect((await run(cut('one banned two', [4]), [scanner], { buffer: true })).out).toEqual([
      { choice: 0, refused: 'no' },
      { choice: 0, finish: true },
    ])
  })

  it('shows a guard the whole that wants the whole', async () => {
    const seen: string[] = []
    const guard: Guard = {
      enforces: ['deny:code'],
      execution: 'local',
      needsFullText: true,
      checkOutput: ({ text }) => {
        seen.push(text)
        return text.endsWith('!') ? { action: 'block', rule: 'deny:code' } : { action: 'pass' }
      },
    }
    const long = 'A sentence. '.repeat(50)
    const scanner = plugin('whole', guard)
    expect(scanner.needsFullText).toBe(true)
    expect((await run(cut(long, [100]), [scanner], { buffer: true })).sent).toBe(long)
    expect((await run(cut(`${long}!`, [100]), [scanner], { buffer: true })).rules).toEqual([
      'deny:code',
    ])
    expect(seen).toEqual([long, `${long}!`])
  })

  it('goes on as it comes when there is too much to buffer, if that is allowed', async () => {
    const text = `${'word '.repeat(3000)}banned`
    const bits = cut(text, [5000, 9000, 14_998])
    const strict = await run(bits, [patterns('banned')], { buffer: true })
    expect(strict.faults).toEqual(['patterns: too_large'])
    expect(strict.sent).toBe('')
    const whole = plugin('whole', wordGuard('nothing', { needsFullText: true }))
    const lenient = await run(bits, [patterns('banned'), whole], { buffer: true, onError: 'allow' })
    expect(lenient.faults).toEqual(['whole: too_large'])
    expect(lenient.sent).toBe('word '.repeat(3000))
    expect(lenient.rules).toEqual(['bannedPatterns[0]'])
    expect(lenient.out[0]).toEqual({})
  })

  it('treats too much held text as a guard that failed', async () => {
    const endless = patterns(`x${'y'.repeat(5000)}`)
    const text = `x${'y'.repeat(3000)}`
    const strict = await run(cut(text, [1000, 2000]), [endless])
    expect(strict.faults).toEqual(['patterns: too_large'])
    expect(strict.sent).toBe('')
    const lenient = await run(cut(text, [1000, 2000]), [endless], { onError: 'allow' })
    expect(lenient.sent).toBe(text)
  })

  it('throws what refuse throws when a block is an error', async () => {
    const refuse = () => {
      throw new Error('violation')
    }
    const running = run(cut('banned'), [patterns('banned')], { errorForm: true, refuse })
    await expect(running).rejects.toThrow('violation')
  })

  it('keeps the first part back when a block is an error, until text follows', async () => {
    const { out } = await run(
      [{}, { text: 'b' }, { text: 'ut' }, { finish: true }],
      [patterns('ban')],
      {
        errorForm: true,
      },
    )
    expect(out).toEqual([{}, { text: 'b' }, { text: 'ut' }, { finish: true }])
    const screen = bitScreen([patterns('ban')], { errorForm: true })
    expect(through(screen, [{}, { text: 'b' }], { ends: false }).out).toEqual([])
  })

  it('opens choices in order, whichever of them is first to be let go', async () => {
    const bits = [
      { choice: 0 },
      { choice: 1 },
      { choice: 1, text: 'one' },
      { choice: 0, text: 'zero' },
      { choice: 0, finish: true },
      { choice: 1, finish: true },
    ]
    const { out } = await run(bits, [patterns('banned')], { errorForm: true, choices: 2 })
    expect(out).toEqual(bits)
  })

  it('opens a choice once, though it was refused before there was too much to buffer', async () => {
    const { out } = await run(
      [
        { choice: 0 },
        { choice: 1 },
        { choice: 0, text: 'banned' },
        { choice: 1, text: 'Too much of it.' },
        { choice: 1, finish: true },
      ],
      [patterns('banned'), plugin('whole', wordGuard('nothing', { needsFullText: true }))],
      {
        buffer: true,
        onError: 'allow',
        choices: 2,
        limits: { ...LIMITS, maxBuffer: 10 },
        refuse: ({ choice, opened }) => [
          ...(opened ? [] : [{ choice }]),
          { choice, refused: 'no' },
          { choice, finish: true },
        ],
      },
    )
    expect(out.filter(({ choice }) => choice === 0)).toEqual([
      { choice: 0 },
      { choice: 0, refused: 'no' },
      { choice: 0, finish: true },
    ])
  })

  const word = fc.constantFrom('ab', 'ban', 'banned', 'nedba', ' ', 'c', 'secret', 'sec', '😀', '.')
  const text = fc.array(word, { maxLength: 30 }).map((words) => words.join(''))
  const cuts = fc.array(fc.nat(120), { maxLength: 12 })
  const apart = fc.array(fc.boolean(), { minLength: 1, maxLength: 6 })

  it('leaks nothing, loses nothing, and decides the same however the text is cut', async () => {
    const guards = [
      { words: ['banned', 'secret'], scanners: [patterns('banned', 'secret')] },
      {
        words: ['banned', 'nedba', 'ret'],
        scanners: [patterns('banned'), patterns('nedba', 'ret')],
      },
      { words: ['secret'], scanners: [patterns('secret'), plugin('word', wordGuard('banned'))] },
    ]
    await fc.assert(
      fc.asyncProperty(
        text,
        cuts,
        fc.constantFrom(...guards),
        apart,
        async (given, places, { words, scanners }, some) => {
          const whole = await run(cut(given), scanners)
          const pieces = await run(cut(given, places), scanners, {}, some)
          expect(pieces.rules).toEqual(whole.rules)
          expect(pieces.sent).toBe(whole.sent)
          expect(given.startsWith(pieces.sent)).toBe(true)
          if (pieces.rules.length === 0) expect(pieces.sent).toBe(given)
          for (const one of words) expect(pieces.sent).not.toContain(one)
          const buffered = await run(cut(given, places), scanners, { buffer: true }, some)
          expect(buffered.rules).toEqual(whole.rules)
          expect(pieces.released + pieces.withheld).toBeLessThanOrEqual(given.length)
        },
      ),
      { numRuns: runs(1000) },
    )
  })
})
