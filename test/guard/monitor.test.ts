import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Guard } from '../../src/plugin.ts'
import { guardPlugin, wordGuard } from './_doubles.ts'
import { json } from '../upstream.ts'
import { guarded, streamOf, wholeOf, type Guarded } from './_setup.ts'

let g: Guarded | undefined
afterEach(() => g?.[Symbol.asyncDispose]())

/** What differs from one call to the next. */
function plain(text: string): string {
  return text.replace(/"id":"[^"]*"|"created":\d+/g, '')
}

const forbidden = 'Some of it is forbidden, and some of it is heron. '.repeat(20)
const pieces = forbidden.match(/.{1,9}/gs)!.map((content) => ({ content }))
const RULES = { deny: ['code'], bannedPatterns: ['heron'] } as const

/** What may become of guards, and when they are through where that takes time. */
const guards: [string, (through: Promise<void>) => Guard][] = [
  ['finds something', () => wordGuard('forbidden')],
  [
    'throws',
    () =>
      wordGuard('x', {
        checkInput() {
          throw new Error('no')
        },
        checkOutput() {
          throw new Error('no')
        },
      }),
  ],
  [
    'takes its time',
    (through) =>
      wordGuard('x', {
        execution: 'remote',
        checkInput: async (items) => {
          await through
          return items.map(() => ({ action: 'pass' }))
        },
        checkOutput: () => through.then(() => ({ action: 'pass' })),
      }),
  ],
]

describe('monitor mode', () => {
  it.each(guards)('changes not a byte when a guard %s', async (_, guardOf) => {
    const { promise: through, resolve: letThrough } = Promise.withResolvers<void>()
    g = await guarded([guardPlugin('words', guardOf(through))], {
      deadlines: { input: 1, output: 1 },
    })
    const answers = async (policy: object | undefined) => {
      g!.vendor.answer(streamOf(...pieces))
      const messages = [{ role: 'user', content: 'Is heron forbidden?' }]
      const streamed = await g!.ask(policy, { stream: true, messages })
      g!.vendor.answer(wholeOf({ content: forbidden, odd: 'member' }))
      const whole = await g!.ask(policy, { messages })
      return { streamed, whole }
    }
    const with_ = await answers({ ...RULES, guard: { mode: 'monitor' } })
    letThrough()
    const without = await answers(undefined)
    expect(plain(with_.streamed.text)).toBe(plain(without.streamed.text))
    expect(plain(with_.whole.text)).toBe(plain(without.whole.text))
    expect(with_.whole.headers['x-service-guard']).toBe('outcome=monitored')
    const sent = g.vendor.requests.map(({ body }) => body.toString())
    expect(sent[0]).toBe(sent[2])
  })

  it.each([
    ['a policy', { ...RULES, guard: { mode: 'monitor' } }, 'block'],
    ['a guard for all calls', undefined, 'monitor'],
  ] as const)('of %s leaves the words of a vendor that refuses', async (_, policy, mode) => {
    const use = guardPlugin('words', wordGuard('forbidden'))
    g = await guarded([{ use, mode, applies: mode === 'monitor' ? 'always' : 'with-rules' }])
    const error = { message: 'messages[0] is too odd', type: 'invalid_request_error' }
    g.vendor.answer(json({ error }, 400))
    expect((await g.ask(policy)).json.error.message).toBe('messages[0] is too odd')
    expect((await g.ask(RULES)).json.error.message).toBe('The model provider refused the request.')
  })

  it('counts what would have been blocked', async () => {
    g = await guarded([guardPlugin('words', wordGuard('forbidden'))])
    g.vendor.answer(wholeOf({ content: forbidden }))
    await g.ask({ ...RULES, guard: { mode: 'monitor' } })
    expect(g.t.gateway.runtime.metrics.text()).toContain(
      'sluicegate_guard_decisions_total{side="output",rule="bannedPatterns",mode="monitor",outcome="seen"} 1',
    )
  })

  it('can be that of one guard, while the others block', async () => {
    const use = guardPlugin('words', wordGuard('forbidden'))
    g = await guarded([{ use, mode: 'monitor' }])
    g.vendor.answer(wholeOf({ content: 'forbidden' }))
    expect((await g.ask({ deny: ['code'] })).json.choices[0].message.content).toBe('forbidden')
    g.vendor.answer(wholeOf({ content: 'forbidden heron' }))
    expect((await g.ask(RULES)).json.guard).toMatchObject({
      outcome: 'blocked',
      rules: ['bannedPatterns[0]'],
    })
    expect(g.t.gateway.runtime.metrics.text()).toContain('outcome="seen"} 2')
  })

  it('reads a long answer that comes at once to its end', async () => {
    const seen: any[] = []
    const writing = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
      for (const line of String(text).split('\n')) if (line) seen.push(JSON.parse(line))
      return true
    })
    g = await guarded([], {}, { log: { access: true, format: 'json' } })
    g.vendor.answer(wholeOf({ content: `${'All is well. '.repeat(10_000)}A heron.` }))
    const answer = await g.ask({ ...RULES, deny: [], guard: { mode: 'monitor' } })
    expect(answer.json.choices[0].finish_reason).toBe('stop')
    const decision = () => seen.find(({ event }) => event === 'guard.decision')
    await expect.poll(decision).toBeDefined()
    writing.mockRestore()
    const { sides, errors, incomplete } = decision()
    expect(sides).toMatchObject([{ side: 'output', rule: 'bannedPatterns[0]', effect: 'seen' }])
    expect([errors, incomplete]).toEqual([[], false])
  })
})
