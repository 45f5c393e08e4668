import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import pii from '../../plugins/guards/pii.ts'
import { checkGuard } from '../../src/testing.ts'
import { defineGuard, type Guard, type GuardHost } from '../../src/plugin.ts'
import { guardPlugin, wordGuard } from '../guard/_doubles.ts'

const CASES = [
  { text: 'Nothing to see here, 👋 really.', expect: 'pass' },
  { text: 'Here is something forbidden.', expect: 'deny:code' },
] as const

/** Names and notes of the failed checks. */
async function failures(guard: Partial<Guard>, remote = false): Promise<string[]> {
  const base = wordGuard('forbidden', remote ? { execution: 'remote' } : {})
  const { checks } = await checkGuard(guardPlugin('tricky', { ...base, ...guard }), CASES, {
    seed: 1,
    timeoutMs: 200,
  })
  return checks
    .filter(({ result }) => result === 'failed')
    .map(({ name, notes }) => `${name}: ${notes.join()}`)
}

const PASS = { action: 'pass' } as const

/** A correct output check for a word: text that may be part of the word is not released. */
function lane(change: (step: any, text: string) => unknown = (step) => step): Partial<Guard> {
  return {
    streamOutput() {
      let text = ''
      const look = (end: boolean) => {
        const at = text.indexOf('forbidden')
        if (at >= 0) return { safeOffset: at, verdict: { action: 'block', rule: 'deny:code' } }
        return { safeOffset: end ? text.length : Math.max(0, text.length - 8) }
      }
      // The safe offset depends on the text only: the last eight letters are always retained.
      return {
        push(piece) {
          let step: any = { safeOffset: 0 }
          for (const letter of piece.split('')) {
            text += letter
            step = look(false)
            if (step.verdict) break
          }
          return change(step, piece) as never
        },
        end: () => change(look(true), '') as never,
      }
    },
  }
}

describe('the check for guards', () => {
  it('finds no mistake in a correct guard, whatever its form', async () => {
    expect(await failures({})).toEqual([])
    expect(await failures(lane())).toEqual([])
  })

  it.each<[string, Partial<Guard>, RegExp]>([
    ['says too little', { checkInput: () => [] }, /input: Error: it gave 0 verdicts for 1 texts/],
    ['says nothing', { checkInput: () => undefined as never }, /no list of verdicts/],
    [
      'throws',
      {
        checkOutput: () => {
          throw new Error('no')
        },
      },
      /output: Error: no/,
    ],
    [
      'passes everything',
      { checkInput: (items) => items.map(() => PASS) },
      /it was pass, expected deny:code/,
    ],
    [
      'blocks the wrong one',
      {
        checkInput: (items) =>
          items.map((_, i) =>
            i === 0 && items.some(({ text }) => text.includes('forbidden'))
              ? { action: 'block', rule: 'deny:code' }
              : PASS,
          ),
      },
      /verdicts are out of order/,
    ],
    [
      'invents an action',
      { checkOutput: () => ({ action: 'redact' }) as never },
      /action that does not exist/,
    ],
    [
      'invents a rule',
      { checkOutput: () => ({ action: 'block', rule: 'x:other/rule' }) },
      /rule that it does not answer/,
    ],
    [
      'marks what is not there',
      {
        checkOutput: () => ({
          action: 'block',
          rule: 'deny:code',
          spans: [{ start: 0, end: 999 }],
        }),
      },
      /spans outside/,
    ],
    [
      'promises, though it is local',
      { checkOutput: async () => PASS },
      /a local guard must not return a promise/,
    ],
    [
      'changes what it is shown',
      {
        checkInput: (items) =>
          items.map((item) => {
            ;(item as any).text = ''
            return PASS
          }),
      },
      /TypeError/,
    ],
    ['agrees to too much', lane((step) => ({ ...step, safeOffset: 999 })), /beyond the text/],
    ['goes back', lane((step, text) => (text === '' ? { safeOffset: 0 } : step)), /goes back/],
    [
      'ends without a word',
      { streamOutput: () => ({ push: () => ({ safeOffset: 0 }), end: () => ({ safeOffset: 0 }) }) },
      /agreed to 0 of/,
    ],
    [
      'depends on the cuts',
      {
        streamOutput: () => {
          let length = 0
          return {
            push: (text) => ({
              safeOffset: (length += text.length),
              ...(text.includes('forbidden')
                ? { verdict: { action: 'block' as const, rule: 'deny:code' as const } }
                : {}),
            }),
            end: () => ({ safeOffset: length }),
          }
        },
      },
      /cuts: split at [\d, ]+: pass/,
    ],
    [
      'does not know its rules',
      { enforces: ['deny:cod' as never, 'deny:code'] },
      /deny:cod is not a rule/,
    ],
    [
      'cannot be closed',
      {
        close: () => {
          throw new Error('stuck')
        },
      },
      /close: Error: stuck/,
    ],
  ])('finds one that %s', async (_, guard, message) => {
    expect((await failures(guard)).join('\n')).toMatch(message)
  })

  it('finds a guard that never answers, and one that passes a text while its service is down', async () => {
    expect((await failures({ checkOutput: () => new Promise(() => {}) }, true)).join()).toContain(
      'no answer within 0.2 s',
    )
    const careless = (host: GuardHost): Guard => ({
      enforces: ['deny:code'],
      execution: 'remote',
      async checkInput(items, context) {
        const said = await host.askModel('a/b', { messages: [] }, context).catch(() => undefined)
        const verdict =
          said?.choices[0]!.message.content === 'bad'
            ? ({ action: 'block', rule: 'deny:code' } as const)
            : PASS
        return items.map(({ text }) => (text === '' ? PASS : verdict))
      },
    })
    const plugin = defineGuard({
      name: 'careless',
      options: v.strictObject({}),
      setup: (_, host) => careless(host),
    })
    const { checks } = await checkGuard(plugin, [CASES[1]], { ask: () => 'bad' })
    expect(checks.filter(({ result }) => result === 'failed')).toEqual([
      expect.objectContaining({
        name: 'down',
        notes: ['its service is down, and it let the text pass'],
      }),
    ])
  })

  it('names an invalid option', async () => {
    await expect(checkGuard(pii, [], { options: { weak: 'yes' } })).rejects.toThrow('options.weak')
  })

  /** Failed checks of what a guard would mask. */
  async function locateFailures(locate: Guard['locate'], remote = false): Promise<string[]> {
    const guard = { enforces: [], execution: remote ? ('remote' as const) : ('local' as const) }
    const plugin = defineGuard({
      name: 'finder',
      options: v.strictObject({}),
      setup: (_, host) => ({
        ...guard,
        locate: (text, context) => locate!(text, { ...context, host } as never),
      }),
    })
    const one = { text: 'badge 7781', expect: 'pass' as const }
    const { checks } = await checkGuard(plugin, [
      { ...one, locates: [{ start: 6, end: 10, label: 'BADGE' }] },
    ])
    return checks
      .filter(({ result }) => result === 'failed')
      .map(({ name, notes }) => `${name}: ${notes.join()}`)
  }
  const badge = (text: string) =>
    [...text.matchAll(/7781/g)].map(({ index }) => ({
      start: index,
      end: index + 4,
      label: 'BADGE',
    }))

  it.each<[string, Guard['locate'], RegExp | undefined]>([
    ['is right', badge, undefined],
    ['finds too little', () => [], /alone it located nothing, expected 6–10 BADGE/],
    ['gives no list', () => undefined as never, /no list of ranges/],
    ['counts beyond the text', (text) => [{ start: 6, end: text.length + 1 }], /no list of ranges/],
    ['gives one range twice', (text) => [...badge(text), ...badge(text)], /no list of ranges/],
    ['has fixed places', () => [{ start: 6, end: 10, label: 'BADGE' }], /among other text/],
    [
      'looks where rules are in force alone',
      (text, { rules }) => (rules.deny.length > 0 ? badge(text) : []),
      /alone it located nothing/,
    ],
  ])('finds that "locate" %s', async (_, locate, wanted) => {
    const failed = await locateFailures(locate)
    if (wanted) expect(failed.join('\n')).toMatch(wanted)
    else expect(failed).toEqual([])
  })

  it('finds that "locate" forgets, and is silent while its service is down', async () => {
    let turn = 0
    expect(await locateFailures((text) => (turn++ % 2 ? [] : badge(text)))).toEqual([
      expect.stringContaining('the second time it located nothing'),
    ])
    const silent: Guard['locate'] = async (text, context) => {
      const { host, signal } = context as unknown as { host: GuardHost; signal: AbortSignal }
      const url = 'http://127.0.0.1:1/'
      await host.request({ url, method: 'GET', signal }).catch(() => undefined)
      return badge(text)
    }
    expect(await locateFailures(silent, true)).toEqual([
      expect.stringContaining('its service is down, and it gave ranges'),
    ])
  })

  it('compares spans', async () => {
    const text = 'Reach me at jane@example.org today.'
    const rules = { deny: ['personal-data'] } as const
    const good = await checkGuard(pii, [
      { text, expect: 'deny:personal-data', rules, spans: [{ start: 12, end: 28 }] },
    ])
    expect(good.checks.filter(({ result }) => result === 'failed')).toEqual([])
    const bad = await checkGuard(pii, [
      { text, expect: 'deny:personal-data', rules, spans: [{ start: 0, end: 3 }] },
    ])
    expect(bad.ok).toBe(false)
    const masked = [{ start: 12, end: 28, label: 'EMAIL' }]
    const { checks } = await checkGuard(pii, [{ text, expect: 'pass', rules: {}, locates: masked }])
    expect(checks.filter(({ name, result }) => name === 'locate' && result === 'failed')).toEqual(
      [],
    )
  })
})
