import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { formatPico } from '../../../../src/money/money.ts'
import type { Guard, Verdict } from '../../../../src/plugin.ts'
import { eventsOf } from '../../../_setup.ts'
import { events, sse } from '../../../upstream.ts'
import { guardPlugin, wordGuard } from '../../../guard/_doubles.ts'
import {
  USAGE,
  chunkOf,
  guarded,
  readStream,
  streamOf,
  wholeOf,
  type Guarded,
} from '../../../guard/_setup.ts'

const schema = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../../wire/schemas/${name}.json`, import.meta.url), 'utf8'))
const ajv = new Ajv2020({ strict: false })
const isCompletion = ajv.compile(schema('chat-completion'))
const isChunk = ajv.compile(schema('chat-completion-chunk'))
const isError = ajv.compile(schema('error'))

const NO = "I can't help with that here."
const BANNED = { bannedPatterns: ['heron'] }
/** 40 × 0.000001 + 20 × 0.000002 USD */
const FULL_COST = 0.00008

let g: Guarded
beforeAll(async () => {
  g = await guarded([guardPlugin('words', wordGuard('forbidden'))])
})
afterAll(() => g[Symbol.asyncDispose]())
beforeEach(() => g.vendor.answer(streamOf({ content: 'Hello ' }, { content: 'world.' })))

/** What the account paid for something. */
async function paidFor<T>(run: () => Promise<T>): Promise<{ answer: T; paid: number }> {
  const before = await g.t.balance()
  const answer = await run()
  return { answer, paid: Number(formatPico(before - (await g.t.balance()))) }
}

describe('a key without rules', () => {
  it('sees nothing of guards', async () => {
    const { headers, json } = await g.ask(undefined)
    expect(headers['x-service-guard']).toBeUndefined()
    expect(json.guard).toBeUndefined()
  })
})

describe('a guard that cannot read one of several texts', () => {
  it('still blocks for another of them, whatever its errors mean', async () => {
    const seeing = wordGuard('forbidden')
    const input: Guard['checkInput'] = (items, context) =>
      (seeing.checkInput!(items, context) as readonly Verdict[]).map((verdict, index) =>
        items[index]!.text.includes('unreadable')
          ? { action: 'abstain', why: 'unscannable' }
          : verdict,
      )
    await using own = await guarded([guardPlugin('words', { ...seeing, checkInput: input })])
    own.vendor.answer(wholeOf({ content: 'Hello world.' }))
    const policy = { deny: ['code'], guard: { onError: 'allow' } } as const
    const ask = (...texts: readonly string[]) =>
      own.ask(policy, { messages: texts.map((content) => ({ role: 'user', content })) })
    expect((await ask('unreadable', 'forbidden')).json.guard.outcome).toBe('blocked')
    expect((await ask('forbidden', 'unreadable')).json.guard.outcome).toBe('blocked')
    expect((await ask('unreadable', 'fine')).json.guard).toMatchObject({
      outcome: 'passed',
      degraded: ['words'],
    })
  })
})

describe('an answer that passes', () => {
  it('is the same, streamed and whole, and says that it was looked at', async () => {
    const paced = streamOf({ content: 'Hello ' }, { content: 'world.' })
    g.vendor.answer({ ...paced, pieces: [...paced.pieces].join('').split(/(?<=\n\n)/), pauseMs: 5 })
    const streamed = await g.ask(BANNED, { stream: true })
    const seen = readStream(streamed)
    expect(seen.content).toBe('Hello world.')
    expect(seen.finish).toBe('stop')
    expect(seen.guard).toEqual({
      outcome: 'passed',
      rules: [],
      choices: [],
      unscanned: [],
      degraded: [],
    })
    expect(streamed.headers['x-service-guard']).toBe('outcome=pending')
    for (const event of eventsOf(streamed.text)) {
      if (event !== '[DONE]') expect(isChunk(event), ajv.errorsText(isChunk.errors)).toBe(true)
    }
    g.vendor.answer(wholeOf({ content: 'Hello world.' }))
    const whole = await g.ask(BANNED)
    expect(isCompletion(whole.json), ajv.errorsText(isCompletion.errors)).toBe(true)
    expect(whole.json.choices[0].message.content).toBe('Hello world.')
    expect(whole.headers['x-service-guard']).toBe('outcome=passed')
    expect(whole.json.usage.cost).toBe(FULL_COST)
  })

  it('arrives with calls that take long to look at', async () => {
    const args = JSON.stringify({ text: 'One heroine and another hero. '.repeat(6000) })
    const call = (index: number) => ({
      index,
      id: `call_${index}`,
      type: 'function',
      function: { name: 'note', arguments: args },
    })
    g.vendor.answer(
      streamOf({ content: 'Well.' }, { tool_calls: [call(0)] }, { tool_calls: [call(1)] }),
    )
    const tools = [{ type: 'function', function: { name: 'note' } }]
    const policy = { bannedPatterns: ['heron', 'her[a-z]*n[^e]'] }
    const seen = readStream(await g.ask(policy, { tools, stream: true }))
    expect(seen.guard).toMatchObject({ outcome: 'passed', rules: [] })
    expect(seen).toMatchObject({ content: 'Well.', finish: 'tool_calls' })
    expect(seen.tools).toBe(args + args)
  })

  it('loses log probabilities and fields that no guard reads', async () => {
    const logprobs = { content: [{ token: 'heron', logprob: 0, bytes: null, top_logprobs: [] }] }
    const chunk = chunkOf({ content: 'Hello', secret_channel: 'heron' })
    const choices = [{ ...chunk.choices[0], logprobs }]
    g.vendor.answer(
      sse(
        `data: ${JSON.stringify({ ...chunk, choices })}\n\ndata: ${JSON.stringify(chunkOf({}, 'stop'))}\n\ndata: [DONE]\n\n`,
      ),
    )
    const answer = await g.ask(BANNED, { stream: true, logprobs: true })
    expect(answer.text).not.toContain('heron')
    expect(readStream(answer).content).toBe('Hello')
  })
})

describe('an answer that violates a pattern', () => {
  it('becomes a refusal in the stream, after what was fine', async () => {
    g.vendor.answer(
      streamOf({ content: 'It is fine. ' }, { content: 'It is her' }, { content: 'on here.' }),
    )
    const { answer, paid } = await paidFor(() => g.ask(BANNED, { stream: true }))
    const seen = readStream(answer)
    expect(seen.content).toBe(`It is fine. It is \n\n${NO}`)
    expect(seen.finish).toBe('content_filter')
    expect(seen.guard).toMatchObject({
      outcome: 'blocked',
      side: 'output',
      rules: ['bannedPatterns[0]'],
      choices: [0],
    })
    expect(seen.usage.cost).toBe(paid)
    expect(paid).toBeGreaterThan(0)
    for (const event of eventsOf(answer.text)) {
      if (event !== '[DONE]') expect(isChunk(event), ajv.errorsText(isChunk.errors)).toBe(true)
    }
  })

  it('becomes a whole refusal when it was asked for whole, or is buffered', async () => {
    g.vendor.answer(wholeOf({ content: 'It is fine. It is heron here.' }))
    const { answer, paid } = await paidFor(() => g.ask(BANNED))
    expect(answer.status).toBe(200)
    expect(isCompletion(answer.json), ajv.errorsText(isCompletion.errors)).toBe(true)
    expect(answer.json.choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: NO, refusal: NO },
        logprobs: null,
        finish_reason: 'content_filter',
      },
    ])
    expect(answer.headers['x-service-guard']).toBe(
      'outcome=blocked; side=output; rules=bannedPatterns[0]',
    )
    expect(answer.json.usage.cost).toBe(FULL_COST)
    expect(paid).toBe(FULL_COST)
    g.vendor.answer(streamOf({ content: 'It is fine. ' }, { content: 'It is heron.' }))
    const buffered = readStream(
      await g.ask({ ...BANNED, guard: { stream: 'buffer' } }, { stream: true }),
    )
    expect(buffered.content).toBe(NO)
    expect(buffered.guard.rules).toEqual(['bannedPatterns[0]'])
  })

  it('says no in refusal alone when JSON was asked for', async () => {
    const body = { response_format: { type: 'json_object' } }
    g.vendor.answer(wholeOf({ content: '{"a":"heron"}' }))
    const whole = await g.ask(BANNED, body)
    expect(whole.json.choices[0].message).toEqual({
      role: 'assistant',
      content: null,
      refusal: NO,
    })
    g.vendor.answer(streamOf({ content: '{"a":' }, { content: '"heron"}' }))
    const seen = readStream(await g.ask(BANNED, { ...body, stream: true }))
    expect(seen.content).toBe('{"a":"')
    expect(seen.refusal).toBe(NO)
  })

  it('is an error where the policy wants one: with a status before the head, as an event after it', async () => {
    const policy = { ...BANNED, guard: { onBlock: 'error' } } as const
    g.vendor.answer(wholeOf({ content: 'heron' }))
    const { answer, paid } = await paidFor(() => g.ask(policy))
    expect(answer.status).toBe(400)
    expect(isError(answer.json), ajv.errorsText(isError.errors)).toBe(true)
    expect(answer.json.error).toMatchObject({ message: NO, code: 'policy_violation', param: null })
    expect(answer.json.error.usage.cost).toBe(FULL_COST)
    expect(paid).toBe(FULL_COST)
    expect(answer.headers['x-service-cost']).toBe('0.00008')
    g.vendor.answer(streamOf({ content: 'her' }, { content: 'on' }))
    const early = await paidFor(() => g.ask(policy, { stream: true }))
    expect(early.answer.status).toBe(400)
    expect(early.answer.json.error.usage.cost).toBe(early.paid)
    g.vendor.answer(streamOf({ content: 'Fine, but ' }, { content: 'heron' }))
    const late = await paidFor(() => g.ask(policy, { stream: true }))
    expect(late.answer.status).toBe(200)
    const events = eventsOf(late.answer.text)
    expect(events.at(-1)).toBe('[DONE]')
    expect(events.at(-2).choices).toBeUndefined()
    expect(events.at(-2).error).toMatchObject({ code: 'policy_violation', message: NO })
    expect(events.at(-2).error.usage.cost).toBe(late.paid)
    expect(late.paid).toBeGreaterThan(0)
  })

  it('closes the vendor at once', async () => {
    g.vendor.answer({ ...streamOf({ content: 'heron' }), ending: 'hang' })
    g.vendor.answer({
      headers: { 'content-type': 'text/event-stream' },
      pieces: [`data: ${JSON.stringify(chunkOf({ content: 'heron' }))}\n\n`],
      ending: 'hang',
    })
    const answer = await g.ask(BANNED, { stream: true })
    expect(readStream(answer).finish).toBe('content_filter')
    expect(await g.vendor.requests.at(-1)!.aborted).toBe(true)
  })

  it('has the vendor finish where clients that leave pay its report, and the refusal has that cost', async () => {
    await using draining = await guarded([], {}, { billing: { onDisconnect: 'drain' } })
    const { t, vendor } = draining
    for (const onBlock of ['refuse', 'error'] as const) {
      const { pieces, ...head } = streamOf(
        { content: 'Fine, but heron ' },
        { content: 'and more.' },
      )
      const apart = [...pieces].join('').split(/(?<=\n\n)/)
      vendor.answer({ ...head, pieces: apart, pauseMs: 20 })
      const before = await t.balance()
      const policy = { ...BANNED, guard: { onBlock } }
      const { text } = await draining.ask(policy, { stream: true })
      expect(text).not.toContain('more')
      const last = eventsOf(text).findLast((event) => event !== '[DONE]')
      expect((last.usage ?? last.error.usage).cost).toBe(FULL_COST)
      expect(Number(formatPico(before - (await t.balance())))).toBe(FULL_COST)
    }
  })

  it.each([
    ['content', { content: 'heron' }],
    ['the refusal of the model', { refusal: 'heron' }],
    ['a tool name', call('heron', '{}')],
    ['tool arguments', call('f', '{"a":"heron"}')],
    ['escaped tool arguments', call('f', '{"a":"\\u0068eron"}')],
    ['a key in tool arguments', call('f', '{"\\u0068eron":1}')],
  ])('is found in %s, streamed, buffered and whole', async (_, message) => {
    const verdicts = []
    g.vendor.answer(wholeOf(message))
    verdicts.push((await g.ask(BANNED)).json.guard)
    for (const stream of ['scan', 'buffer'] as const) {
      g.vendor.answer(streamOf(message))
      const answer = await g.ask({ ...BANNED, guard: { stream } }, { stream: true })
      expect(answer.text).not.toContain('eron')
      verdicts.push(readStream(answer).guard)
    }
    for (const verdict of verdicts) {
      expect(verdict).toMatchObject({ outcome: 'blocked', rules: ['bannedPatterns[0]'] })
    }
  })

  it('loses only its reasoning when that violates', async () => {
    g.vendor.answer(
      streamOf({ reasoning: 'The word her' }, { reasoning: 'on is in it.' }, { content: 'No.' }),
    )
    const seen = readStream(await g.ask(BANNED, { stream: true }))
    expect(seen).toMatchObject({ reasoning: 'The word ', content: 'No.', finish: 'stop' })
    expect(seen.guard.outcome).toBe('passed')
    g.vendor.answer(wholeOf({ reasoning: 'The word heron is in it.', content: 'No.' }))
    const { message } = (await g.ask(BANNED)).json.choices[0]
    expect(message.content).toBe('No.')
    expect(message.reasoning).toBeUndefined()
  })

  it('loses only the citation that violates, and says the others in one chunk', async () => {
    const citation = (title: string) => ({
      type: 'url_citation',
      url_citation: { url: 'https://a.example', title, start_index: 0, end_index: 1 },
    })
    g.vendor.answer(
      streamOf({ content: 'A.' }, { annotations: [citation('heron'), citation('fine')] }),
    )
    const answer = await g.ask(BANNED, { stream: true })
    const chunks = eventsOf(answer.text).filter((event) => event.choices?.[0]?.delta.annotations)
    expect(chunks).toHaveLength(1)
    expect(chunks[0].choices[0].delta.annotations).toEqual([citation('fine')])
  })

  it('ends a choice once, though another one runs past its ceiling', async () => {
    g.vendor.answer(
      events(
        chunkOf({ content: 'A heron.' }, null, 1),
        chunkOf({ content: 'word '.repeat(200) }, null, 0),
        chunkOf({}, 'stop', 0),
        chunkOf({}, 'stop', 1),
        '[DONE]',
      ),
    )
    const answer = await g.ask({ ...BANNED, maxOutputTokens: 5 }, { stream: true, n: 2 })
    const ends = eventsOf(answer.text)
      .flatMap(({ choices = [] }: any) => choices)
      .filter(({ finish_reason }: any) => finish_reason)
      .map(({ index, finish_reason }: any) => [index, finish_reason])
    expect(ends.toSorted()).toEqual([
      [0, 'length'],
      [1, 'content_filter'],
    ])
  })

  it('refuses one choice and lets the other go on', async () => {
    g.vendor.answer(
      sse(
        [
          chunkOf({ content: 'Good ' }),
          chunkOf({ content: 'heron' }, null, 1),
          chunkOf({ content: 'news.' }),
          chunkOf({}, 'stop'),
          chunkOf({}, 'stop', 1),
          { choices: [], usage: USAGE },
        ]
          .map((event) => `data: ${JSON.stringify(event)}\n\n`)
          .join('') + 'data: [DONE]\n\n',
      ),
    )
    const answer = await g.ask(BANNED, { stream: true, n: 2 })
    expect(readStream(answer)).toMatchObject({ content: 'Good news.', finish: 'stop' })
    expect(readStream(answer, 1)).toMatchObject({ content: NO, finish: 'content_filter' })
    expect(readStream(answer).guard).toMatchObject({ outcome: 'blocked', choices: [1] })
  })
})

describe('an input that violates', () => {
  const messages = [{ role: 'user', content: 'What about heron things?' }]

  it('is refused without a word to the vendor, for nothing, in the form of an answer', async () => {
    const count = g.vendor.requests.length
    const { answer, paid } = await paidFor(() => g.ask(BANNED, { messages, n: 2 }))
    expect(answer.status).toBe(200)
    expect(isCompletion(answer.json), ajv.errorsText(isCompletion.errors)).toBe(true)
    expect(answer.json.choices).toHaveLength(2)
    expect(answer.json.choices[1].message).toEqual({ role: 'assistant', content: NO, refusal: NO })
    expect(answer.json.guard).toMatchObject({ outcome: 'blocked', side: 'input', choices: [] })
    expect(answer.json.usage).toMatchObject({ prompt_tokens: 0, completion_tokens: 0, cost: 0 })
    expect(answer.headers['x-service-guard']).toBe(
      'outcome=blocked; side=input; rules=bannedPatterns[0]',
    )
    const streamed = await g.ask(BANNED, { messages, stream: true })
    expect(readStream(streamed)).toMatchObject({ content: NO, finish: 'content_filter' })
    expect(streamed.headers['x-service-guard']).toContain('side=input')
    const error = await g.ask({ ...BANNED, guard: { onBlock: 'error' } }, { messages })
    expect(error.status).toBe(400)
    expect(error.json.error.code).toBe('policy_violation')
    expect(g.vendor.requests).toHaveLength(count)
    expect(paid).toBe(0)
  })

  it.each([
    ['the first of two user turns', [user('heron'), user('Hello')]],
    ['what the assistant is said to have said', [user('a'), assistant('heron'), user('b')]],
    ['a system message', [{ role: 'system', content: 'heron' }, user('b')]],
    ['a prefill', [user('b'), assistant('heron')]],
    [
      'the arguments of a call, escaped',
      [user('a'), { role: 'assistant', tool_calls: [toolCall('{"a":"\\u0068eron"}')] }, tool('b')],
    ],
    [
      'the result of a call',
      [user('a'), { role: 'assistant', tool_calls: [toolCall('{}')] }, tool('heron')],
    ],
  ])('is found in %s', async (_, history) => {
    const count = g.vendor.requests.length
    const { json } = await g.ask(BANNED, { messages: history })
    expect(json.guard).toMatchObject({ outcome: 'blocked', side: 'input' })
    expect(g.vendor.requests).toHaveLength(count)
  })

  it('is found in the description of a tool', async () => {
    const tools = [{ type: 'function', function: { name: 'f', description: 'heron' } }]
    expect((await g.ask(BANNED, { tools })).json.guard.outcome).toBe('blocked')
  })

  it('is withheld when it was refused before, and blocks when it is asked again', async () => {
    g.vendor.answer(wholeOf({ content: 'Sure.' }))
    const settled = [user('heron things'), assistant(NO), user('Then hello.')]
    const passed = await g.ask(BANNED, { messages: settled })
    expect(passed.json.choices[0].message.content).toBe('Sure.')
    const sent = g.vendor.requests.at(-1)!
    expect(sent.body.toString()).not.toContain('heron')
    expect(sent.json.messages[0].content).toBe('[withheld]')
    const again = [...settled.slice(0, 2), user('heron again')]
    expect((await g.ask(BANNED, { messages: again })).json.guard.outcome).toBe('blocked')
    const harmless = [user('fine things'), assistant(NO), user('Hello.')]
    await g.ask(BANNED, { messages: harmless })
    expect(g.vendor.requests.at(-1)!.json.messages[0].content).toBe('fine things')
  })

  it('is looked at by plugins, for their rules only', async () => {
    const body = { messages: [user('a forbidden word')] }
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    expect((await g.ask({ deny: ['code'] }, body)).json.guard).toMatchObject({
      outcome: 'blocked',
      rules: ['deny:code'],
    })
    expect((await g.ask(BANNED, body)).json.guard.outcome).toBe('passed')
  })
})

describe('rules of a request', () => {
  it('are added to the key’s for this call, and named by their place in both', async () => {
    g.vendor.answer(wholeOf({ content: 'A bittern.' }))
    const policy = { version: 1, bannedPatterns: ['bittern'] }
    const { json } = await g.ask(BANNED, { policy })
    expect(json.guard.rules).toEqual(['bannedPatterns[1]'])
    expect((await g.ask(undefined, { policy })).json.guard.rules).toEqual(['bannedPatterns[0]'])
    expect((await g.ask(undefined)).json.guard).toBeUndefined()
  })

  it('are scopes, too, named by their place in both', async () => {
    const reply: Verdict = { action: 'block', rule: 'scope:0' }
    const pass: Verdict = { action: 'pass' }
    const guard: Guard = {
      enforces: ['scope'],
      execution: 'local',
      checkInput: (items, { rules }) =>
        items.map(({ text }) => (rules.scopes[0] && text.includes(rules.scopes[0]) ? reply : pass)),
      checkOutput: ({ text }, { rules }) => (text.includes(rules.scopes[0]!) ? reply : pass),
    }
    await using one = await guarded([guardPlugin('scopes', guard)])
    one.vendor.answer(wholeOf({ content: 'Of tulips.' }))
    const policy = { version: 1, scope: 'tulips' }
    const rulesFor = async (content: string, key: object | undefined) => {
      const body = { messages: [{ role: 'user', content }], policy }
      return (await one.ask(key as never, body)).json.guard.rules
    }
    expect(await rulesFor('roses', { scope: 'roses' })).toEqual(['scope:0'])
    expect(await rulesFor('tulips', { scope: 'roses' })).toEqual(['scope:1'])
    expect(await rulesFor('Hello.', { scope: 'roses' })).toEqual(['scope:1'])
    expect(await rulesFor('tulips', undefined)).toEqual(['scope:0'])
  })

  it('cannot starve the key’s, however hard they are', async () => {
    const hard = Array.from({ length: 32 }, (_, i) => `(?s)h.*${i}z.*(a|aa)*y`)
    const policy = { version: 1, bannedPatterns: hard, scope: 'Any. '.repeat(800) }
    const lenient = { ...BANNED, guard: { onError: 'allow' } } as const
    const long = 'h'.repeat(80_000)
    g.vendor.answer(streamOf({ content: long }, { content: ' a heron' }, { content: '.' }))
    const seen = readStream(await g.ask(lenient, { policy, stream: true }))
    expect(seen.guard).toMatchObject({
      outcome: 'blocked',
      rules: ['bannedPatterns[0]'],
      degraded: ['patterns'],
    })
    expect(seen.content.replace(/h{9,}/, 'H')).toBe(`H a \n\n${NO}`)
  })
})

describe('what a blocked answer costs', () => {
  it('is what was consumed, wherever it was cut', async () => {
    const text = 'This goes on for a while, and then a heron comes, and more.'
    for (let size = 1; size < text.length; size += 4) {
      const pieces = text.match(new RegExp(`.{1,${size}}`, 'gs'))!
      g.vendor.answer(streamOf(...pieces.map((content) => ({ content }))))
      const onBlock = size % 8 > 4 ? 'error' : 'refuse'
      const policy = { ...BANNED, guard: { onBlock } } as const
      const { answer, paid } = await paidFor(() => g.ask(policy, { stream: true }))
      const usage =
        answer.status === 200
          ? (readStream(answer).usage ?? readStream(answer).error.usage)
          : answer.json.error.usage
      expect(usage.cost).toBe(paid)
      expect(usage.completion_tokens).toBeGreaterThanOrEqual(13)
      expect(usage.completion_tokens).toBeLessThanOrEqual(20)
    }
  })
})

describe('escalation', () => {
  const escalate = { enabled: true, message: 'Call us.' }

  it('adds its message and a header', async () => {
    g.vendor.answer(wholeOf({ content: 'heron' }))
    const answer = await g.ask({ ...BANNED, refusal: 'Sorry.', escalate })
    expect(answer.json.choices[0].message.content).toBe('Sorry.\n\nCall us.')
    expect(answer.headers['x-service-guard-escalate']).toBe('true')
  })
})

describe('rules that no guard enforces', () => {
  it('are a guard that failed, except for the scope, which only a judge can see to', async () => {
    g.vendor.answer(wholeOf({ content: 'Fine.' }))
    const strict = await g.ask({ deny: ['math'] })
    expect(strict.json.guard).toMatchObject({ outcome: 'error', rules: ['guard_error'] })
    const lenient = await g.ask({ deny: ['math'], guard: { onError: 'allow' } })
    expect(lenient.json.choices[0].message.content).toBe('Fine.')
    expect(lenient.json.guard.degraded).toEqual(['deny:math'])
    const error = await g.ask({ deny: ['math'], guard: { onBlock: 'error' } })
    expect(error.status).toBe(503)
    expect(error.headers['retry-after']).toBe('5')
    expect((await g.ask({ scope: 'Only gardens.' })).json.guard.outcome).toBe('passed')
  })
})

function user(content: string) {
  return { role: 'user', content }
}

function assistant(content: string) {
  return { role: 'assistant', content }
}

function tool(content: string) {
  return { role: 'tool', tool_call_id: 'call_1', content }
}

function toolCall(args: string) {
  return { id: 'call_1', type: 'function', function: { name: 'f', arguments: args } }
}

function call(name: string, args: string) {
  return {
    tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name, arguments: args } }],
  }
}
