import { describe, expect, it } from 'vitest'
import { withDerivedMethods } from '../../src/guard/check.ts'
import { checkGuard } from '../../src/testing.ts'
import type { Guard, GuardContext, Verdict } from '../../src/plugin.ts'
import { guardPlugin } from './_doubles.ts'
import { guarded, readStream, streamOf, wholeOf } from './_setup.ts'

const RULE = 'x:tickets/number'

/** Blocks `AB-` with six digits, no more and no fewer. */
function tickets(more: Partial<Guard> = {}): Guard {
  return {
    enforces: [RULE],
    execution: 'local',
    reach: 11,
    check(text) {
      const start = text.search(/AB-\d{6}(?!\d)/)
      return start < 0 ? undefined : { start, end: start + 9 }
    },
    ...more,
  }
}
const FAR = 'The number has many words before it, 👋 and some behind: '
const CASES = [
  { text: `${FAR.repeat(3)}none.`, expect: 'pass' },
  { text: `${FAR}AB-1234567 is too long, and AB-12345 too short.`, expect: 'pass' },
  { text: 'AB-123456', expect: RULE, spans: [{ start: 0, end: 9 }] },
  {
    text: `${FAR}AB-1234567 AB-123456${FAR}`,
    expect: RULE,
    spans: [{ start: FAR.length + 11, end: FAR.length + 20 }],
  },
] as const

const context = {} as GuardContext
const stream = { channel: 'content', choice: 0, index: 0 } as const

/** What a guard releases after each piece, and the verdict. */
function released(guard: Guard, pieces: readonly string[]) {
  const check = withDerivedMethods(guard).streamOutput!(stream, context)
  const offsets: number[] = []
  let verdict: Verdict | undefined
  for (const piece of [...pieces, undefined]) {
    const step: any = piece === undefined ? check.end() : check.push(piece)
    offsets.push(step.safeOffset)
    verdict = step.verdict
    if (verdict) break
  }
  return { offsets, verdict }
}

describe('a guard that is one function', () => {
  it.each([
    ['with a reach', tickets()],
    ['by segments', tickets({ reach: undefined as never })],
  ])('passes the check of guards %s', async (_what, guard) => {
    const { checks } = await checkGuard(guardPlugin('tickets', guard), CASES, { seed: 1 })
    expect(checks.filter(({ result }) => result !== 'ok')).toEqual([])
  })

  it('never releases the beginning of what it blocks, wherever the text is cut', () => {
    const { text, spans } = CASES[3]
    const [{ start }] = spans
    for (const size of [1, 2, 3, 5, 16, text.length]) {
      const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g'))!
      const { offsets, verdict } = released(tickets(), pieces)
      expect(Math.max(...offsets)).toBe(start)
      expect(verdict).toEqual({ action: 'block', rule: RULE, spans })
    }
  })

  it('releases what lies further back than its reach', () => {
    const { offsets } = released(
      tickets(),
      Array.from({ length: 200 }, () => 'word '),
    )
    for (const [i, offset] of offsets.slice(0, -1).entries()) {
      expect(5 * (i + 1) - offset).toBeLessThan(2 * 11)
    }
    expect(offsets.at(-1)).toBe(1000)
  })

  it('finds what lies behind a finding that is no news', () => {
    // A window begins amid the digits of a longer number, which then look like a number.
    const guard = tickets({
      check(text) {
        const at = text.search(/(?<!\d)\d{6}(?!\d)/)
        return at < 0 ? undefined : { start: at, end: at + 6 }
      },
    })
    const text = `${'7'.repeat(6)}1 ${'.'.repeat(40)}123456`
    const { verdict } = released(guard, [...text])
    expect(verdict).toMatchObject({ spans: [{ start: 48, end: 54 }] })
  })

  it('keeps its own methods, and shows the item', async () => {
    const seen: unknown[] = []
    const guard = withDerivedMethods(
      tickets({
        check: (_text, { item }) => void seen.push(item.id),
        checkOutput: () => ({ action: 'abstain', why: 'not-applicable' }),
      }),
    )
    expect(guard.streamOutput).toBeUndefined()
    const item = { id: 'messages[0]', side: 'input', channel: 'content', current: true } as const
    expect(await guard.checkInput!([{ ...item, text: 'a' }], context)).toEqual([{ action: 'pass' }])
    expect(seen).toEqual(['messages[0]'])
  })

  it.each<[string, Partial<Guard>, RegExp]>([
    ['no method', { check: undefined as never }, /needs one of the methods check, checkInput/],
    ['an odd reach', { reach: 0 }, /whole number from 1 to 2000/],
    ['a remote reach', { execution: 'remote' }, /"reach" goes with "check" and execution "local"/],
    ['both', { needsFullText: true }, /do not go together/],
  ])('is refused with %s', async (_what, more, message) => {
    const use = [guardPlugin('tickets', tickets(more))]
    await expect(guarded(use)).rejects.toThrow(message)
  })

  it('is a fault where it does not say which rule', async () => {
    const guard = tickets({ enforces: [RULE, 'x:tickets/other'] })
    const { checks } = await checkGuard(guardPlugin('tickets', guard), [CASES[2]], { seed: 1 })
    expect(JSON.stringify(checks)).toContain('has to name the')
  })

  it('guards requests and streams of a gateway', async () => {
    await using g = await guarded([{ use: guardPlugin('tickets', tickets()), applies: 'always' }])
    const messages = [{ role: 'user', content: 'Where is AB-123456?' }]
    expect((await g.ask(undefined, { messages })).json.guard).toMatchObject({ side: 'input' })
    g.vendor.answer(streamOf({ content: 'It is AB-1' }, { content: '23456 or so.' }))
    const answer = readStream(await g.ask(undefined, { stream: true }))
    expect(answer.content).toMatch(/^It is \n\n/)
    expect(answer.guard).toMatchObject({ side: 'output', rules: [RULE] })
    g.vendor.answer(wholeOf({ content: 'It is AB-1234567.' }))
    expect((await g.ask(undefined)).json.guard).toMatchObject({ outcome: 'passed' })
  })
})
