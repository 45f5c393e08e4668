/** An input that takes long to read does not delay other calls. */
import { describe, expect, it, vi } from 'vitest'
import type { PatternAssignment } from '../../src/guard/plan.ts'
import { InputScreen } from '../../src/guard/input-screen.ts'
import { NfaBuilder } from '../../src/patterns/nfa.ts'
import { compilePatterns, PatternMatcher } from '../../src/patterns/patterns.ts'
import { runSliced, type Task } from '../../src/patterns/time-slice.ts'
import type { TextItem } from '../../src/plugin.ts'
import { chunkOf, guarded, wholeOf } from './_setup.ts'
import { hostilePatterns } from './texts.ts'

const [, PATTERNS, textOf] = hostilePatterns().find(([name]) => name === 'states without end')!

function item(index: number, text: string): TextItem {
  const id = `messages[${index}]`
  return { id, side: 'input', channel: 'content', role: 'user', current: true, text }
}

function screenOf(items: readonly TextItem[], matcher: unknown, proceed = () => {}): InputScreen {
  return new InputScreen({
    input: { items, refusedTurns: [] },
    patterns: [{ origin: 'key', offset: 0, matcher } as PatternAssignment],
    runners: [],
    observer: { found: () => {}, failed: () => true },
    proceed,
  })
}

/** A matcher that works for a millisecond at each step. @param clean it needs only one to see that nothing matches */
function busy(steps: number, worked: () => void, clean = false) {
  const work = () => {
    const until = performance.now() + 1
    while (performance.now() < until);
    worked()
  }
  function* search(): Task<undefined> {
    for (let step = 0; step < steps; step++) {
      work()
      if (step < steps - 1) yield
    }
  }
  return {
    search(_text: string, proceed: () => void) {
      if (!clean) return runSliced(search(), proceed)
      work()
      return undefined
    },
  }
}

/** The most steps between two turns of the event loop while something is done. */
async function mostAtAStretch(run: (worked: () => void) => unknown): Promise<number> {
  let [most, count, over] = [0, 0, false]
  const turn = () => {
    count = 0
    if (!over) setImmediate(turn)
  }
  turn()
  await run(() => (most = Math.max(most, ++count)))
  over = true
  return most
}

describe('screening an input', () => {
  it('gives other calls their turn within a long text, and between short ones', async () => {
    const long = (worked: () => void) => screenOf([item(0, 'x')], busy(60, worked)).local()
    const short = (worked: () => void) =>
      screenOf(
        Array.from({ length: 60 }, (_, index) => item(index, 'x')),
        busy(1, worked),
      ).local()
    const clean = (worked: () => void) =>
      screenOf(
        Array.from({ length: 60 }, (_, index) => item(index, 'x'.repeat(8192))),
        busy(1, worked, true),
      ).local()
    for (const run of [long, short, clean]) {
      expect(await mostAtAStretch(run)).toBeLessThanOrEqual(6)
    }
  })

  it('ends when the verdict is no longer wanted', async () => {
    const gone = new Error('gone')
    let steps = 0
    const proceed = () => {
      if (steps > 10) throw gone
    }
    const screen = screenOf(
      [item(0, 'x')],
      busy(1000, () => steps++),
      proceed,
    )
    await expect(screen.local()).rejects.toBe(gone)
    expect(steps).toBeLessThan(30)
  })

  it('finds the turn of a violation without searching all others', async () => {
    let looks = 0
    class Counted extends Set<string> {
      override has(id: string): boolean {
        looks++
        return super.has(id)
      }
    }
    const items = Array.from({ length: 200 }, (_, index) => item(index, 'blue heron'))
    const refusedTurns = items.map(({ id }) => ({ items: new Counted([id]), messages: [-1] }))
    const asked: number[] = []
    const runner = {
      local: true,
      guard: { checkInput: (rest: readonly TextItem[]) => void asked.push(rest.length) },
      work: (run: (context: object) => unknown) => run({}),
    }
    const screen = new InputScreen({
      input: { items: [...items, item(200, 'fine')], refusedTurns },
      patterns: [{ origin: 'key', offset: 0, matcher: compilePatterns(['blue heron']) }],
      runners: [runner as never],
      observer: { found: () => {}, failed: () => false },
      proceed: () => {},
    })
    const { stop, withheld } = await screen.local()
    expect([stop, withheld.length, asked]).toEqual([undefined, 200, [1]])
    expect(looks).toBeLessThanOrEqual(2 * items.length)
  })

  it('finds in slices what it finds at once', async () => {
    const matcher = compilePatterns(['blue heron', '[ab]*a[ab]{300}[cd]!'])
    for (const [text, stop] of [
      [textOf(5_000), undefined],
      [`${textOf(5_000)} Blue H\u200beron`, 'blocked'],
      [`Blue Heron${textOf(5_000)}`, 'blocked'],
    ] as const) {
      expect((await screenOf([item(0, text)], matcher).local()).stop).toBe(stop)
    }
  })
})

describe('a stream beside a call with hostile rules', () => {
  it('goes on while the rules are held against a long text', async () => {
    await using g = await guarded([])
    const piece = `data: ${JSON.stringify(chunkOf({ content: 'tick ' }))}\n\n`
    g.vendor.answer(({ json }) =>
      json.stream
        ? {
            headers: { 'content-type': 'text/event-stream' },
            pieces: Array<string>(10_000).fill(piece),
            pauseMs: 1,
          }
        : wholeOf({ content: 'Well.' }),
    )
    const gone = new AbortController()
    const stream = await fetch(`${g.t.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${g.t.key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'acme/swift',
        stream: true,
        messages: [{ role: 'user', content: 'Go on.' }],
      }),
      signal: gone.signal,
    })
    let reads = 0
    const reading = (async () => {
      for await (const _ of stream.body!) reads++
    })().catch(() => {})
    await expect.poll(() => reads).toBeGreaterThan(3)
    const policy = { version: 1, bannedPatterns: PATTERNS }
    const messages = [{ role: 'user', content: textOf(8_000) }]
    // Compiled before: only the search is measured.
    await g.ask(undefined, { policy })
    const before = reads
    const { json } = await g.ask(undefined, { policy, messages })
    expect(json.guard.outcome).toBe('passed')
    expect(reads - before).toBeGreaterThan(8)
    gone.abort()
    await reading
  })
})

describe('a client that leaves', () => {
  it.each([
    ['compiled', NfaBuilder.prototype, 'build', 'Hi.'],
    ['searched for', PatternMatcher.prototype, 'searchTask', textOf(1_000_000)],
  ])('ends the work on its rules while they are %s', async (_, owner: any, name, content) => {
    await using g = await guarded([])
    const gone = new AbortController()
    let cut = 0
    const whole: (...args: unknown[]) => Task<unknown> = owner[name]
    // Work that only the end of its client ends.
    const spy = vi.spyOn(owner, name).mockImplementation(function* (this: unknown, ...args) {
      try {
        whole.apply(this, args).next()
        gone.abort()
        for (;;) yield
      } finally {
        cut++
      }
    })
    const bannedPatterns = PATTERNS.map((pattern) => `${pattern}${name}`)
    const asked = fetch(`${g.t.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${g.t.key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'acme/swift',
        messages: [{ role: 'user', content }],
        policy: { version: 1, bannedPatterns },
      }),
      signal: gone.signal,
    })
    await expect(asked).rejects.toThrow('aborted')
    await expect.poll(() => cut).toBe(1)
    spy.mockRestore()
    expect(g.vendor.requests).toEqual([])
  })
})
