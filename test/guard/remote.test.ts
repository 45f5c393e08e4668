import * as v from 'valibot'
import { afterEach, describe, expect, it } from 'vitest'
import { formatPico } from '../../src/money/money.ts'
import { defineGuard, type Guard, type GuardPlugin, type Verdict } from '../../src/plugin.ts'
import {
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../upstream.ts'
import { guardPlugin, wordGuard } from './_doubles.ts'
import { chunkOf, guarded, readStream, streamOf, wholeOf, type Guarded } from './_setup.ts'

const NO = "I can't help with that here."
const DENY = { deny: ['code'] } as const
const WAIT = { input: 0.4, output: 0.3, stall: 2 }

const opened: AsyncDisposable[] = []
afterEach(async () => {
  for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]()
})

async function start(...args: Parameters<typeof guarded>): Promise<Guarded> {
  const g = await guarded(...args)
  opened.push(g)
  return g
}

/** A guard behind a socket: it asks about every text, and says what it is told. */
async function service(
  answer: FakeResponse | ((request: ReceivedRequest) => FakeResponse),
  guard: Partial<Guard> = {},
) {
  const server: FakeUpstream = await startUpstream()
  opened.push(server)
  server.answer(answer)
  const plugin: GuardPlugin = defineGuard({
    name: 'remote',
    options: v.strictObject({}),
    setup(_, host) {
      const ask = async (text: string, signal: AbortSignal): Promise<Verdict> => {
        const body = JSON.stringify({ text })
        const found = await host.request({ url: `${server.url}/judge`, body, signal })
        if (found.status !== 200) throw await host.failure(found)
        return JSON.parse(await found.text())
      }
      return {
        enforces: ['deny:code'],
        execution: 'remote',
        checkInput: (items, { signal }) => Promise.all(items.map(({ text }) => ask(text, signal))),
        checkOutput: ({ text }, { signal }) => ask(text, signal),
        ...guard,
      }
    },
  })
  return { server, plugin }
}

/** Blocks texts with this word. */
const against =
  (word: string) =>
  ({ json: { text } }: ReceivedRequest) =>
    json(text.includes(word) ? { action: 'block', rule: 'deny:code' } : { action: 'pass' })

const LONG = 'This is a sentence that says next to nothing at all. '.repeat(12)

describe('a remote guard', () => {
  it('agrees to segments, and the text arrives whole', async () => {
    const { plugin, server } = await service(against('forbidden'))
    const g = await start([plugin])
    g.vendor.answer(streamOf(...LONG.match(/.{1,7}/gs)!.map((content) => ({ content }))))
    const seen = readStream(await g.ask(DENY, { stream: true }))
    expect(seen.content).toBe(LONG)
    expect(seen.guard.outcome).toBe('passed')
    const texts = server.requests.slice(1).map(({ json }) => json.text)
    expect(texts.join('')).toBe(LONG)
    expect(texts.length).toBeGreaterThan(2)
  })

  it('lets nothing of a segment out that it blocks, the same streamed, buffered and whole', async () => {
    const { plugin } = await service(against('forbidden'))
    const g = await start([plugin])
    const text = `${LONG}Now something forbidden comes. ${LONG}`
    const pieces = text.match(/.{1,11}/gs)!.map((content) => ({ content }))
    g.vendor.answer(streamOf(...pieces))
    const scanned = readStream(await g.ask(DENY, { stream: true }))
    const [before, after] = scanned.content.split('\n\n')
    expect(text.startsWith(before!)).toBe(true)
    expect(before).not.toContain('forb')
    expect(after).toBe(NO)
    g.vendor.answer(streamOf(...pieces))
    const buffered = await g.ask({ ...DENY, guard: { stream: 'buffer' } }, { stream: true })
    g.vendor.answer(wholeOf({ content: text }))
    const whole = (await g.ask(DENY)).json
    expect(whole.choices[0].message.content).toBe(NO)
    for (const guard of [scanned.guard, readStream(buffered).guard, whole.guard]) {
      expect(guard).toMatchObject({ outcome: 'blocked', side: 'output', rules: ['deny:code'] })
    }
  })

  it('judges what has come when the vendor pauses', async () => {
    const { plugin } = await service(against('forbidden'))
    const g = await start([plugin])
    const first = `data: ${JSON.stringify(chunkOf({ content: 'Wait.' }))}\n\n`
    const rest = `data: ${JSON.stringify(chunkOf({}, 'stop'))}\n\ndata: [DONE]\n\n`
    g.vendor.answer({
      headers: { 'content-type': 'text/event-stream' },
      pieces: [first, rest],
      pauseMs: 1800,
    })
    expect(readStream(await g.ask(DENY, { stream: true })).content).toBe('Wait.')
  })

  it('is not asked twice about the same, but again for other rules, accounts or questions', async () => {
    const { plugin, server } = await service(against('forbidden'))
    const g = await start([plugin])
    const count = async (run: () => Promise<unknown>) => {
      const before = server.requests.length
      g.vendor.answer(wholeOf({ content: 'Fine.' }))
      await run()
      return server.requests.length - before
    }
    const out = { ...DENY, guard: { input: false } }
    expect(await count(() => g.ask(out))).toBe(1)
    expect(await count(() => g.ask(out))).toBe(0)
    const messages = [{ role: 'user', content: 'Another question.' }]
    expect(await count(() => g.ask(out, { messages }))).toBe(1)
    const policy = { version: 1, ...out } as const
    await g.t.newAccount('other', '1')
    const { secret } = await g.t.newKey({ account: 'other', policy })
    const body = { model: 'acme/swift', messages }
    expect(await count(() => g.t.chat(body, { key: secret }))).toBe(1)
    server.answer(json({}, 500))
    const failing = { messages: [{ role: 'user', content: 'A third one.' }] }
    expect(await count(() => g.ask(out, failing))).toBe(1)
    expect(await count(() => g.ask(out, failing))).toBe(1)
  })

  it('is asked again for another key or model: it may know them apart', async () => {
    const { plugin, server } = await service(against('forbidden'))
    const g = await start([plugin])
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    const out = { ...DENY, guard: { input: false } }
    const asked: number[] = []
    for (const [policy, model] of [
      [out, 'acme/swift'],
      [out, 'acme/free'],
      [{ ...out, refusal: 'Another key.' }, 'acme/swift'],
      [out, 'acme/swift'],
    ] as const) {
      await g.ask(policy, { model })
      asked.push(server.requests.length)
    }
    expect(asked).toEqual([1, 2, 3, 3])
  })

  it('is not asked about refusals of the model', async () => {
    const { plugin, server } = await service(against('forbidden'))
    const g = await start([plugin])
    g.vendor.answer(wholeOf({ refusal: 'Nothing forbidden.' }))
    expect((await g.ask(DENY)).json.choices[0].message.refusal).toBe('Nothing forbidden.')
    expect(server.requests).toHaveLength(1)
  })

  it('looks at the input while the model is asked already, if the operator wants that', async () => {
    const { plugin, server } = await service(against('forbidden'))
    const g = await start([plugin], { overlapInput: true })
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    expect((await g.ask(DENY)).json.choices[0].message.content).toBe('Fine.')
    const messages = [{ role: 'user', content: 'forbidden' }]
    const blocked = await g.ask(DENY, { messages, stream: true })
    expect(readStream(blocked)).toMatchObject({ content: NO, finish: 'content_filter' })
    expect(readStream(blocked).guard.side).toBe('input')
    expect(server.requests.length).toBeGreaterThan(0)
  })

  it('tells its verdict on the input also where the vendor has failed before', async () => {
    const slow: Guard = {
      enforces: ['deny:code'],
      execution: 'remote',
      async checkInput(items) {
        await expect.poll(() => g.t.gateway.runtime.metrics.text()).toContain('"bad_request"')
        return items.map(({ text }) =>
          text.includes('forbidden') ? { action: 'block', rule: 'deny:code' } : { action: 'pass' },
        )
      },
    }
    const g = await start([guardPlugin('slow', slow)], { overlapInput: true })
    g.vendor.answer(json({ error: { message: 'no' } }, 400))
    const messages = [{ role: 'user', content: 'forbidden' }]
    const blocked = await g.ask(DENY, { messages })
    expect(blocked.json.choices[0]).toMatchObject({
      message: { content: NO },
      finish_reason: 'content_filter',
    })
    const streamed = readStream(await g.ask(DENY, { messages, stream: true }))
    expect(streamed).toMatchObject({ content: NO, finish: 'content_filter' })
    const errors = { ...DENY, guard: { onBlock: 'error' as const } }
    expect((await g.ask(errors, { messages })).json.error.code).toBe('policy_violation')
    expect((await g.ask(DENY)).json.error.code).toBe('upstream_rejected')
  })
})

describe('a guard whose answer does not matter any more', () => {
  it('is not taken for one that could not look', async () => {
    const cancelled: unknown[] = []
    const slow: Guard = {
      enforces: ['deny:code'],
      execution: 'remote',
      checkInput: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            cancelled.push(signal.reason)
            reject(new Error('gone'))
          })
        }),
    }
    const { plugin } = await service(against('forbidden'))
    const g = await start([plugin, guardPlugin('slow', slow)])
    const { json: answer } = await g.ask(DENY, {
      messages: [{ role: 'user', content: 'forbidden' }],
    })
    expect(answer.guard).toMatchObject({ outcome: 'blocked', rules: ['deny:code'], degraded: [] })
    await expect.poll(() => cancelled).toHaveLength(1)
    expect(g.t.logged.join('\n')).not.toContain('could not look')
    expect(g.t.gateway.runtime.metrics.text()).not.toContain('guard_errors_total{guard="slow"')
  })
})

describe('a guard that is down', () => {
  // An answer that is withheld because the guard was not reached is the operator's. A text may make a guard fail in other ways.
  const broken: [string, FakeResponse, number][] = [
    ['refuses', json({}, 500), 0],
    ['answers nonsense', { pieces: ['<html></html>'] }, 0.00008],
    ['answers nothing', { pieces: [''] }, 0.00008],
    ['answers what is no verdict', json({ action: 'redact' }), 0.00008],
    ['answers for another rule', json({ action: 'block', rule: 'deny:math' }), 0.00008],
    ['breaks the connection', { pieces: ['{'], ending: 'reset' }, 0],
    ['cannot read', json({ action: 'abstain', why: 'unscannable' }), 0.00008],
  ]
  it.each(broken)('is an error or is left out, never a pass: it %s', async (_, answer, usd) => {
    const { plugin } = await service(answer)
    const g = await start([plugin])
    for (const side of ['input', 'output'] as const) {
      const sides = { input: side === 'input', output: side === 'output' }
      g.vendor.answer(wholeOf({ content: 'Fine.' }))
      const before = await g.t.balance()
      const refused = await g.ask({ ...DENY, guard: sides })
      expect(refused.json.guard).toMatchObject({ outcome: 'error', side, rules: ['guard_error'] })
      expect(refused.json.choices[0].message.content).toBe(NO)
      const cost = side === 'output' ? usd : 0
      expect(refused.json.usage.cost).toBe(cost)
      const error = await g.ask({ ...DENY, guard: { ...sides, onBlock: 'error' } })
      expect([error.status, error.json.error.code]).toEqual([503, 'guard_unavailable'])
      expect(error.headers['retry-after']).toBe('5')
      expect(error.json.error.usage?.cost ?? 0).toBe(cost)
      expect(error.headers['x-service-cost'] ?? '0').toBe(cost === 0 ? '0' : '0.00008')
      expect(await g.t.balance()).toBe(before - BigInt(Math.round(2e12 * cost)))
      g.vendor.answer(streamOf({ content: 'Fine.' }))
      const allowed = await g.ask(
        { ...DENY, guard: { ...sides, onError: 'allow' } },
        { stream: true },
      )
      expect(readStream(allowed)).toMatchObject({ content: 'Fine.', finish: 'stop' })
      expect(readStream(allowed).guard.degraded).toEqual(['remote'])
    }
  })

  it('is not waited for long, and after ten failures not at all', async () => {
    const { plugin, server } = await service({ pieces: [], ending: 'hang' })
    const g = await start([plugin], { deadlines: { ...WAIT, input: 0.05 } })
    const slow = await Promise.all(Array.from({ length: 10 }, () => g.ask(DENY)))
    for (const { json } of slow) expect(json.guard.outcome).toBe('error')
    const asked = server.requests.length
    expect((await g.ask(DENY)).json.guard.outcome).toBe('error')
    expect(server.requests).toHaveLength(asked)
    expect(g.t.gateway.runtime.metrics.text()).toContain(
      'sluicegate_guard_circuit_state{guard="remote",origin="key"} 2',
    )
    expect(g.t.gateway.runtime.metrics.text()).toMatch(
      /sluicegate_guard_errors_total\{guard="remote",kind="timeout",on_error="block"\} 10/,
    )
  })

  it('is asked once where its service answers with an error', async () => {
    const { plugin, server } = await service(json({ error: 'broken' }, 500))
    const g = await start([plugin])
    expect((await g.ask(DENY)).json.guard.outcome).toBe('error')
    expect(server.requests).toHaveLength(1)
  })

  it('does not keep the connection silent while it thinks', async () => {
    const { plugin } = await service(() => ({
      ...json({ action: 'pass' }),
      pauseMs: 250,
    }))
    const g = await start([plugin], {}, { server: { headTimeout: 0.05, keepAlive: 0.05 } })
    g.vendor.answer(streamOf({ content: 'Fine.' }))
    const answer = await g.ask({ ...DENY, guard: { input: false } }, { stream: true })
    expect(answer.text).toContain(': keep-alive\n\n')
    expect(readStream(answer).content).toBe('Fine.')
  })

  it('is asked no more when the client has left', async () => {
    const { plugin, server } = await service({ pieces: [], ending: 'hang' })
    const g = await start([plugin])
    const abort = new AbortController()
    const asked = fetch(`${g.t.baseURL}/chat/completions`, {
      method: 'POST',
      signal: abort.signal,
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${(await g.t.newKey({ policy: { version: 1, ...DENY } })).secret}`,
      },
      body: JSON.stringify({ model: 'acme/swift', messages: [{ role: 'user', content: 'Hi' }] }),
    }).catch(() => 'left')
    await expect.poll(() => server.requests.length).toBe(1)
    abort.abort()
    expect(await asked).toBe('left')
    expect(await server.requests[0]!.aborted).toBe(true)
  })
})

describe('a plugin that misbehaves', () => {
  const progress = (step: object): Partial<Guard> => ({
    checkInput: (items) => items.map(() => ({ action: 'pass' })),
    streamOutput: () => ({ push: () => step as never, end: () => step as never }),
  })
  const tricks: [string, Partial<Guard>][] = [
    [
      'throws',
      {
        checkInput() {
          throw new Error('secret words')
        },
      },
    ],
    [
      'throws an error whose name is no text',
      {
        checkInput() {
          throw Object.assign(new Error('secret words'), { name: Symbol('secret words') })
        },
      },
    ],
    ['says too little', { checkInput: () => [] }],
    [
      'invents an action',
      { checkInput: (items) => items.map(() => ({ action: 'redact' }) as never) },
    ],
    [
      'invents a rule',
      { checkInput: (items) => items.map(() => ({ action: 'block', rule: 'x:other/rule' })) },
    ],
    [
      'marks what is not there',
      {
        checkInput: (items) =>
          items.map(() => ({
            action: 'block',
            rule: 'deny:code',
            spans: [{ start: 0, end: 999 }],
          })),
      },
    ],
    ['agrees to more than there is', progress({ safeOffset: 999 })],
    ['goes back', progress({ safeOffset: -1 })],
    ['ends without a word', progress({ safeOffset: 0 })],
    ['says nothing', progress(undefined as never)],
    ['promises, though it is local', progress(Promise.resolve({ safeOffset: 0 }))],
    [
      'promises and breaks it, though it is local',
      {
        checkInput: (items) => items.map(() => ({ action: 'pass' })),
        streamOutput: () => ({
          push: () => Promise.reject(new Error('secret words')),
          end: () => Promise.reject(new Error('secret words')),
        }),
      },
    ],
    [
      'promises and breaks it for a segment, though it is local',
      {
        checkInput: (items) => items.map(() => ({ action: 'pass' })),
        checkOutput: () => Promise.reject(new Error('secret words')),
      },
    ],
    [
      'promises and breaks it for one text',
      {
        checkInput: (items) => items.map(() => Promise.reject(new Error('secret words')) as never),
      },
    ],
    ['is local and never done', { checkInput: () => new Promise<never>(() => {}) }],
  ]
  it.each(tricks)('has not looked: it %s', async (_, guard) => {
    const plugin = guardPlugin('tricky', wordGuard('forbidden', guard))
    const g = await start([plugin], { deadlines: WAIT })
    g.vendor.answer(streamOf({ content: 'Fine.' }))
    const answer = await g.ask(DENY, { stream: true })
    expect(readStream(answer).guard).toMatchObject({ outcome: 'error', rules: ['guard_error'] })
    expect(answer.text).not.toContain('Fine')
    expect(g.t.logged.join('\n')).toContain('guard tricky could not look')
    expect(g.t.logged.join('\n')).not.toContain('secret words')
  })
})

describe('a guard that asks a model', () => {
  const judge = (calls = 1): GuardPlugin =>
    defineGuard({
      name: 'judge',
      options: v.strictObject({}),
      setup: (_, host) => ({
        enforces: ['deny:code', 'scope'],
        execution: 'remote',
        async checkInput(items, context) {
          for (let i = 0; i < calls; i++) {
            const messages = [{ role: 'user' as const, content: 'Judge.' }]
            await host.askModel(context.judgeModel ?? 'acme/judge', { messages }, context)
          }
          return items.map(() => ({ action: 'pass' }))
        },
      }),
    })
  const policy = { ...DENY, guard: { model: 'acme/judge' } }

  it('is paid by the account, to the last digit', async () => {
    const g = await start([judge()])
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    const before = await g.t.balance()
    const { json } = await g.ask(policy)
    expect(g.vendor.requests.map((request) => request.json.model)).toEqual(['judge', 'swift'])
    expect(json.usage.cost).toBe(0.00016)
    expect(json.usage.cost_details.guard_cost).toBe(0.00008)
    expect(json.usage.prompt_tokens).toBe(40)
    expect(formatPico(before - (await g.t.balance()))).toBe('0.00016')
    const rows = []
    for await (const row of g.t.gateway.runtime.ledger.usage('acme')) rows.push(row)
    expect(rows).toHaveLength(2)
  })

  it('is paid by the operator, if that is wanted', async () => {
    const g = await start([{ use: judge(), billing: 'operator' }])
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    const { json } = await g.ask(policy)
    expect(json.usage.cost).toBe(0.00008)
    expect(g.t.gateway.runtime.metrics.text()).toContain(
      'sluicegate_guard_cost_usd_total{payer="operator"} 0.00008',
    )
  })

  it('may spend so much on one request and no more', async () => {
    const g = await start([judge(25)])
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    const { json } = await g.ask(policy)
    expect(json.guard.outcome).toBe('error')
    expect(g.vendor.requests).toHaveLength(24)
    const { usage, guard } = (
      await g.ask({ ...policy, guard: { ...policy.guard, onError: 'allow' } })
    ).json
    expect(usage.cost_details.guard_cost).toBe(0.00192)
    expect(guard.degraded).toEqual(['judge'])
  })

  it('ends with the budget, in the middle of an answer, and the bill is exact', async () => {
    const plugin = defineGuard({
      name: 'judge',
      options: v.strictObject({}),
      setup: (_, host) => ({
        enforces: ['deny:code'],
        execution: 'remote',
        async checkOutput(item, context) {
          const messages = [{ role: 'user' as const, content: item.text }]
          await host.askModel('acme/judge', { messages }, context)
          return { action: 'pass' }
        },
      }),
    })
    const g = await start([plugin])
    for (const onError of ['block', 'allow'] as const) {
      const sentence = (i: number) => `This is sentence number ${i} of many to ${onError}. `
      const text = Array.from({ length: 700 }, (_, i) => sentence(i)).join('')
      const pieces = text.match(/.{1,900}/gs)!.map((content) => ({ content }))
      g.vendor.answer(({ json: { model } }) =>
        model === 'judge' ? wholeOf({ content: 'ok' }) : streamOf(...pieces),
      )
      const before = await g.t.balance()
      const seen = readStream(await g.ask({ ...DENY, guard: { onError } }, { stream: true }))
      expect(formatPico(before - (await g.t.balance()))).toBe(String(seen.usage.cost))
      if (onError === 'allow') {
        expect(seen.content).toBe(text)
        expect(seen.usage.cost_details.guard_cost).toBeGreaterThan(0.0015)
        expect(seen.usage.cost_details.guard_cost).toBeLessThanOrEqual(0.00192)
        expect(seen.guard).toMatchObject({ outcome: 'passed', degraded: ['judge'] })
      } else {
        expect(seen.content).toMatch(/\n\nI can't help with that here\.$/)
        expect(text.startsWith(seen.content.split('\n\n')[0]!)).toBe(true)
        // The call has used up the budget itself: it pays for what it got.
        expect(seen.guard).toMatchObject({ outcome: 'blocked', rules: ['guard_error'] })
        expect(seen.usage.cost).toBeGreaterThan(0.0015)
        const { text: body } = await g.ask(
          { ...DENY, guard: { onBlock: 'error' } },
          { stream: true },
        )
        expect(body).toContain('"code":"policy_violation"')
        expect(Number(/"cost":([\d.]+)/.exec(body)?.[1])).toBe(seen.usage.cost)
      }
    }
  })

  it('is left out where the account would not pay for it', async () => {
    const g = await start([judge()])
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    await g.t.newAccount('poor')
    const { secret } = await g.t.newKey({ account: 'poor', policy: { version: 1, ...policy } })
    const messages = [{ role: 'user', content: 'Hi' }]
    const { json } = await g.t.chat({ model: 'acme/free', messages }, { key: secret })
    expect(json.choices[0].message.content).toBe('Fine.')
    expect(json.guard.degraded).toEqual(['judge'])
    expect(g.vendor.requests).toHaveLength(1)
  })

  it('is paid with the answer where it answers in another form, in either form of a refusal', async () => {
    const confused = defineGuard({
      name: 'judge',
      options: v.strictObject({}),
      setup: (_, host) => ({
        enforces: ['deny:code'],
        execution: 'remote',
        async checkOutput(_item, context) {
          const messages = [{ role: 'user' as const, content: 'Judge.' }]
          await host.askModel('acme/judge', { messages }, context)
          throw new Error('the answer is no verdict')
        },
      }),
    })
    const g = await start([confused])
    g.vendor.answer(({ json: { model, stream } }) =>
      stream && model !== 'judge' ? streamOf({ content: 'Fine.' }) : wholeOf({ content: 'Fine.' }),
    )
    const before = await g.t.balance()
    for (const onBlock of ['refuse', 'error'] as const) {
      for (const stream of [false, true]) await g.ask({ ...DENY, guard: { onBlock } }, { stream })
    }
    const seen = readStream(await g.ask(DENY, { stream: true }))
    expect(seen).toMatchObject({ content: NO, finish: 'content_filter' })
    // 40 + 2 · 20 for the answer, and for the question.
    expect(seen.usage).toMatchObject({ cost: 0.00016, completion_tokens: 20 })
    expect(await g.t.balance()).toBe(before - 5n * 160_000_000n)
    expect(g.vendor.requests).toHaveLength(10)
  })

  it('fails with the model', async () => {
    const g = await start([judge()])
    g.vendor.answer(({ json: { model } }) =>
      model === 'judge' ? json({}, 500) : wholeOf({ content: 'Fine.' }),
    )
    expect((await g.ask(policy)).json.guard.outcome).toBe('error')
    const missing = { ...DENY, guard: { model: 'acme/none' } }
    expect((await g.ask(missing)).json.guard).toMatchObject({ outcome: 'error' })
  })
})
