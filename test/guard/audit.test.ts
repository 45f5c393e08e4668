import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Decision } from '../../src/guard/decision.ts'
import { GuardMetrics } from '../../src/observe/guard-metrics.ts'
import { json, startUpstream } from '../upstream.ts'
import { guardPlugin, wordGuard } from './_doubles.ts'
import { guarded, readStream, streamOf, wholeOf } from './_setup.ts'
import { runs } from '../_runs.ts'

const NO = "I can't help with that here."
afterEach(() => vi.restoreAllMocks())

/** What goes to standard output meanwhile, as JSON. */
function records(): any[] {
  const seen: any[] = []
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    for (const line of String(text).split('\n'))
      if (line.startsWith('{')) seen.push(JSON.parse(line))
    return true
  })
  return seen
}

const LOG = { log: { access: true, format: 'json' } } as const

describe('what is written down of a call', () => {
  it('does not grow with what is found, and forgets no rule', () => {
    const decision = new Decision({
      mode: 'monitor',
      onError: 'block',
      evidence: 'hash',
      elapsedMs: () => 0,
      unenforced: [],
      metrics: new GuardMetrics(),
      warn: () => {},
      thrown: () => {},
    })
    const observer = decision.observer('input', false, 'withheld')
    const find = (rule: 'deny:code' | 'deny:math') =>
      observer.found(
        {
          guard: 'words',
          origin: 'key',
          block: { action: 'block', rule },
          unit: 'messages[0]',
          channel: 'content',
          matched: [],
        },
        true,
      )
    for (let i = 0; i < 5000; i++) find('deny:code')
    find('deny:math')
    const { sides, rules } = decision.record({})
    expect(sides.length).toBeLessThanOrEqual(1001)
    expect(rules).toEqual(['deny:code', 'deny:math'])
  })
})

describe('the event of a decision', () => {
  it('says the same as the client was told, whatever happened', async () => {
    const seen = records()
    const told = new Map<string, any>()
    const g = await guarded([guardPlugin('words', wordGuard('forbidden'))], {}, LOG)
    const word = fc.constantFrom('Fine. ', 'More of it ', 'heron ', 'forbidden ', 'her', 'on. ')
    const text = fc.array(word, { minLength: 1, maxLength: 8 }).map((words) => words.join(''))
    const policy = fc.record({
      onBlock: fc.constantFrom('refuse', 'error'),
      stream: fc.constantFrom('scan', 'buffer'),
      mode: fc.constantFrom('block', 'block', 'monitor'),
      input: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(text, text, policy, fc.boolean(), async (input, output, guard, stream) => {
        const pieces = output.match(/.{1,5}/gs)!.map((content) => ({ content }))
        g.vendor.answer(stream ? streamOf(...pieces) : wholeOf({ content: output }))
        const messages = [{ role: 'user', content: input }]
        const rules = { deny: ['code'], bannedPatterns: ['heron'], guard } as never
        const answer = await g.ask(rules, { messages, stream })
        const id = answer.headers['x-service-request-id'] as string
        told.set(id, { answer, guard, input, output, stream })
      }),
      { numRuns: runs(40) },
    )
    await g[Symbol.asyncDispose]()
    const events = seen.filter(({ event }) => event === 'guard.decision')
    expect(events).toHaveLength(told.size)
    for (const event of events) {
      const { answer, guard, input, output, stream } = told.get(event.requestId)!
      const bad = (one: string) => /heron|forbidden/.test(one)
      const shown = answer.text.includes('"choices"')
        ? stream
          ? readStream(answer)
          : {
              ...answer.json.choices[0].message,
              guard: answer.json.guard,
              usage: answer.json.usage,
            }
        : undefined
      expect(event.mode).toBe(guard.mode)
      if (guard.mode === 'monitor') {
        expect(shown.content).toBe(output)
        expect(event.outcome).toBe('passed')
        expect(event.rules.length > 0).toBe((guard.input && bad(input)) || bad(output))
        continue
      }
      const inputBlocks = guard.input && bad(input)
      expect(event.outcome).toBe(inputBlocks || bad(output) ? 'blocked' : 'passed')
      const report = shown?.guard
      if (report) {
        expect(report.outcome).toBe(event.outcome)
        expect(report.rules).toEqual(event.rules)
      } else {
        expect(answer.text).toContain('policy_violation')
      }
      if (event.outcome === 'passed') {
        expect(shown.content).toBe(output)
        expect([event.released, event.withheld]).toEqual([output.length, 0])
      } else {
        expect(event.sides.filter(({ effect }: any) => effect === 'blocked')).toHaveLength(1)
        expect(event.sides[0].side).toBe(inputBlocks ? 'input' : 'output')
        if (guard.onBlock === 'refuse') expect(shown.content.endsWith(NO)).toBe(true)
      }
      const cost = shown?.usage?.cost
      if (cost !== undefined) expect(Number(event.cost ?? 0)).toBe(cost)
      expect(JSON.stringify(event)).not.toMatch(/heron|forbidden/)
    }
  })

  it('does not pass for complete when the answer broke off', async () => {
    const seen = records()
    const g = await guarded([], {}, LOG)
    g.vendor.answer({
      headers: { 'content-type': 'text/event-stream' },
      pieces: ['data: {"choices":[{"index":0,"delta":{"content":"Fine."}}]}\n\n'],
      ending: 'cut',
    })
    await g.ask({ bannedPatterns: ['heron'] }, { stream: true })
    await g[Symbol.asyncDispose]()
    expect(seen.find(({ event }) => event === 'guard.decision')).toMatchObject({
      outcome: 'passed',
      incomplete: true,
    })
  })

  it('shows repeats and not the text, or the text where the operator wants that', async () => {
    const seen = records()
    for (const evidence of ['hash', 'text', 'none'] as const) {
      const g = await guarded([], { evidence }, LOG)
      for (const content of ['A Heron.', 'a heron', 'a bittern']) {
        g.vendor.answer(wholeOf({ content }))
        await g.ask({ bannedPatterns: ['heron|bittern'] })
      }
      await g[Symbol.asyncDispose]()
    }
    const events = seen.filter(({ event }) => event === 'guard.decision')
    const [first, second, third, ...rest] = events.map(({ sides }) => sides[0].evidence)
    expect(first).toEqual(second)
    expect(third).not.toEqual(first)
    expect(rest).toEqual([['Heron'], ['heron'], ['bittern'], undefined, undefined, undefined])
    expect(events[0].sides[0]).toMatchObject({
      side: 'output',
      rule: 'bannedPatterns[0]',
      origin: 'key',
      guard: 'patterns',
      choice: 0,
      channel: 'content',
      spanLengths: [5],
    })
    expect(events[0].policyHash).toMatch(/^[0-9a-f]{16}$/)
  })
})

describe('escalation', () => {
  it('posts blocks to the operator, and tries again', async () => {
    const hook = await startUpstream({ status: 500, pieces: [''] })
    hook.answer(({ body }) => ({
      status: hook.requests.length > 1 ? 200 : 500,
      pieces: [body.toString().slice(0, 0)],
    }))
    const url = `${hook.url}/hook`
    const g = await guarded([], { escalate: { url, headers: { 'x-secret': 'abc' } } })
    g.vendor.answer(wholeOf({ content: 'heron' }))
    const escalate = { enabled: true }
    const answer = await g.ask({ bannedPatterns: ['heron'], escalate })
    expect(answer.headers['x-service-guard-escalate']).toBe('true')
    await expect.poll(() => hook.requests.length).toBe(2)
    expect(hook.requests[1]!.headers['x-secret']).toBe('abc')
    const { headers, json } = hook.requests[1]!
    expect(headers['x-sluicegate-signature']).toBeUndefined()
    expect(json).toMatchObject({ event: 'guard.escalation', id: expect.stringMatching(/^evt_/) })
    expect(json.data).toMatchObject({
      guard: { outcome: 'blocked', policy: expect.any(String) },
      endpoint: '/v1/chat/completions',
      request_id: answer.headers['x-service-request-id'],
      account_id: 'acme',
      model: 'acme/swift',
      outcome: 'blocked',
      rules: ['bannedPatterns[0]'],
    })
    expect(hook.requests[1]!.body.toString()).not.toContain('heron')
    await g[Symbol.asyncDispose]()
    await hook.close()
  })

  it('posts one block once to each receiver, with what a block has', async () => {
    const hooks = [await startUpstream(json({})), await startUpstream(json({}))] as const
    const sinks = [
      { use: 'webhook', options: { url: `${hooks[0].url}/all`, secret: 'sixteen characters' } },
    ]
    const g = await guarded([], { escalate: { url: `${hooks[1].url}/own` } }, { sinks })
    g.vendor.answer(wholeOf({ content: 'heron' }))
    await g.ask({ bannedPatterns: ['heron'], escalate: { enabled: true } })
    g.vendor.answer(wholeOf({ content: 'heron' }))
    await g.ask({ bannedPatterns: ['heron'] })
    const eventsAt = ({ requests }: (typeof hooks)[0]) => requests.map((one) => one.json.event)
    await expect.poll(() => eventsAt(hooks[0])).toEqual(['guard.escalation', 'guard.blocked'])
    await expect.poll(() => eventsAt(hooks[1])).toEqual(['guard.escalation'])
    expect(hooks[0].requests[0]!.json.id).toBe(hooks[1].requests[0]!.json.id)
    const members = Object.keys(hooks[0].requests[1]!.json.data)
    expect(Object.keys(hooks[0].requests[0]!.json.data)).toEqual(expect.arrayContaining(members))
    await g[Symbol.asyncDispose]()
    for (const hook of hooks) await hook.close()
  })

  it('is left to a webhook that posts escalations to the same address', async () => {
    const hook = await startUpstream(json({}))
    const url = `${hook.url}/hook`
    const sinks = [{ use: 'webhook', options: { url, secret: 'sixteen characters' } }]
    const g = await guarded([], { escalate: { url } }, { sinks })
    g.vendor.answer(wholeOf({ content: 'heron' }))
    await g.ask({ bannedPatterns: ['heron'], escalate: { enabled: true } })
    await expect
      .poll(() => hook.requests.map((one) => one.json.event))
      .toEqual(['guard.escalation'])
    expect(hook.requests[0]!.headers['x-sluicegate-signature']).toBeDefined()
    await g[Symbol.asyncDispose]()
    await hook.close()
  })
})
