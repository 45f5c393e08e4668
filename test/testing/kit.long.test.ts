import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import type { ChatChunk, ProviderPlugin } from '../../src/plugin.ts'
import { testProvider, type TestOptions, type Transcript } from '../../src/testing.ts'
import { definePlugin } from '../_plugin.ts'
import { flawed, type Flaws } from './flawed.ts'

/** An operation that comes to an end does so by then, however busy the machine is. */
const PATIENT = { timeoutMs: 60_000 }

/** The failed checks of a report, as `check` and as `check, on`. */
async function failedBy(flaws: Flaws, options: Partial<TestOptions> = {}) {
  const report = await testProvider({
    provider: flawed(flaws),
    directory: import.meta.dirname,
    ...PATIENT,
    ...options,
  })
  // Without cases the samples of the kit are played, and that there are none is a failure of its own.
  const failed = report.checks.filter(({ name, result }) => result === 'failed' && name !== 'cases')
  return {
    checks: [...new Set(failed.map(({ name }) => name))],
    on: failed.map(({ name, on }) => [name, on].filter(Boolean).join(', ')),
    notes: failed.flatMap(({ notes }) => notes).join('\n'),
    report,
  }
}

describe('a provider without a flaw', () => {
  it('passes every check, and none is skipped', async () => {
    const { report } = await failedBy({})
    expect(report.checks.filter(({ result }) => result !== 'ok')).toMatchObject([
      { name: 'cases', notes: [expect.stringMatching(/write hello\.json and hello\.http/)] },
    ])
    expect(new Set(report.checks.map(({ name }) => name))).toEqual(
      new Set([
        'set up',
        'cases',
        'unreadable',
        'answer',
        'stream rules',
        'usage',
        'cuts',
        'cut off',
        'stream off',
        'left out',
        'forwarded',
        'repeat',
        'cancel',
        'back-pressure',
        'hang',
        'errors',
        'signal',
        'secrets',
        'close',
      ]),
    )
  })

  it('has the same report with the same seed', async () => {
    const flaws = { refuse: async () => new TypeError('oops') }
    const [first, again] = [await failedBy(flaws, { seed: 7 }), await failedBy(flaws, { seed: 7 })]
    expect(again.report).toEqual(first.report)
  })
})

/** Usage on every chunk, as some vendors send it. */
const counting = (chunk: ChatChunk) => [
  { ...chunk, usage: { prompt_tokens: 11, completion_tokens: 9 } },
]
const said = (chunk: ChatChunk) => chunk.choices[0]?.delta?.content
const adding = (delta: any) => (chunk: ChatChunk) =>
  said(chunk) ? [{ choices: [{ index: 0, delta }] }, chunk] : [chunk]
const signature = { type: 'reasoning.text', text: 'a', signature: 'b', index: 0 } as const
const FAR = 'http://vendor.example'

/** A short time limit, for providers that stall and operations that never end. */
const IMPATIENT = { timeoutMs: 2500 }
/** Skips the slow checks: splits and back-pressure. */
const QUICK: readonly Transcript[] = [
  {
    name: 'refused',
    request: { messages: [{ role: 'user', content: 'Hello?' }] },
    answer: { status: 500, headers: {}, body: Buffer.from('{}') },
    expect: { failure: 'upstream_error' },
  },
]

describe.concurrent('each check can fail', () => {
  it.each<[check: string, what: string, flaws: Flaws, note: RegExp]>([
    [
      'set up',
      'sends requests to another host',
      { address: FAR },
      /sent requests to http:\/\/vendor.example.*--address/,
    ],
    [
      'answer',
      'loses a text',
      { chunk: (chunk) => (said(chunk) === 'und ' ? [] : [chunk]) },
      /text: expected "Grüße, こんにちは und 👋🏽!", found "Grüße, こんにちは 👋🏽!"/,
    ],
    [
      'stream rules',
      'cites without an address',
      { chunk: adding({ annotations: [{ type: 'url_citation', url_citation: { title: '' } }] }) },
      /part \d+ of the provider: .*url_citation\.url is undefined/,
    ],
    [
      'stream rules',
      'signs twice',
      { chunk: adding({ reasoning_details: [signature] }) },
      /a fragment follows the signature/,
    ],
    [
      'stream rules',
      'hands over what is no text',
      { chunk: adding({ refusal: 5 }) },
      /part \d+ of the provider: choices\.0\.delta\.refusal is 5/,
    ],
    [
      'usage',
      'loses the counts',
      { chunk: ({ usage: _usage, ...chunk }) => [chunk] },
      /expected .*"prompt_tokens":11.*, none was reported/,
    ],
    [
      'usage',
      'counts reasoning beside the completion',
      {
        chunk: ({ usage, ...chunk }) => [
          usage
            ? { ...chunk, usage: { ...usage, completion_tokens_details: { reasoning_tokens: 30 } } }
            : chunk,
        ],
      },
      /reasoning_tokens 30 is more than completion_tokens 9/,
    ],
    [
      'cuts',
      'takes each read for a whole event',
      { read: eventPerRead },
      /split byte by byte, the answer differs/,
    ],
    [
      'cut off',
      'says that all is well whatever happened',
      { chunks: alwaysDone },
      /cut off after \d+ of \d+ bytes, it ends as if complete, with \[/,
    ],
    ['cut off', 'counts too early', { chunk: counting }, /ends as if complete/],
    [
      'back-pressure',
      'reads ahead',
      { chunks: ahead },
      /[\d.]+ MiB were read from the vendor, and no end, although the client did not read/,
    ],
  ])('%s: one that %s', async (check, _what, flaws, note) => {
    const { checks, notes } = await failedBy(flaws)
    expect(checks).toContain(check)
    expect(notes).toMatch(note)
  })

  it('cancel, hang, signal: one that keeps its own signal', async () => {
    const { checks, notes } = await failedBy({ signal: ownSignal }, IMPATIENT)
    expect(checks).toEqual(expect.arrayContaining(['cancel', 'hang', 'signal']))
    expect(notes).toMatch(/connection .* was not closed/)
    expect(notes).toMatch(/did not end after the abort/)
    expect(notes).toMatch(/a request was made without/)
  })

  it('cancel: one that reads on until the end', async () => {
    const { checks, notes } = await failedBy({ chunks: gathered }, IMPATIENT)
    expect(checks).toContain('cancel')
    expect(notes).toMatch(/no part came while the vendor/)
  })

  it.each<[on: string, what: string, flaws: Flaws, note: RegExp]>([
    [
      '401',
      'blames the client',
      { refuse: async (_, host) => host.fail('bad_request', 'No.') },
      /it was bad_request \(No\.\); expected upstream_auth/,
    ],
    [
      '429',
      'forgets how long to wait',
      { refuse: async (_, host) => host.fail('overloaded', 'No.') },
      /with retryAfterMs none; expected 7000/,
    ],
    [
      '500',
      'throws whatever it likes',
      { refuse: async () => new TypeError('oops') },
      /it threw TypeError: oops \(kit\.long\.test\.ts:\d+:\d+\); expected host\.fail/,
    ],
    ['500', 'tries again', { attempts: 3 }, /it sent 3 requests/],
    ['garbage', 'takes anything for an answer', { read: lenient }, /it ended without an error/],
    ['HTML', 'takes anything for an answer', { read: lenient }, /it ended without an error/],
    [
      'HTML, 502',
      'takes pages for answers',
      { refuse: async () => undefined, read: lenient },
      /it ended without an error/,
    ],
    [
      'reset',
      'blames itself',
      { unreachable: () => new Error('socket hang up') },
      /it threw Error: socket hang up \(kit\.long\.test\.ts:\d+:\d+\); expected host\.fail with upstream_error/,
    ],
  ])('errors on %s: one that %s', async (on, _what, flaws, note) => {
    const { on: failed, notes } = await failedBy(flaws, { transcripts: QUICK })
    expect(failed).toContain(`errors, ${on}`)
    expect(notes).toMatch(note)
  })

  it.each<[what: string, flaws: Flaws, note: RegExp]>([
    [
      'quotes the vendor',
      { refuse: async (response, host) => host.fail('upstream_error', await response.text()) },
      /the message of an error shows a key\n.*shows the account at the vendor/,
    ],
    [
      'quotes the end of a key',
      { refuse: async (_, { fail }, key) => fail('upstream_auth', `…${key.slice(-9)}`) },
      /the message of an error shows a key/,
    ],
    [
      'logs a key',
      {
        refuse: async (_, { log, fail }, key) => {
          log.warn('refused', { key })
          return fail('upstream_error', 'No.')
        },
      },
      /the log shows a key/,
    ],
    [
      'hides a key in a cause',
      {
        refuse: async (_, { fail }, key) =>
          fail('upstream_error', 'No.', { cause: new Error(key) }),
      },
      /the cause of an error shows a key/,
    ],
  ])('secrets: one that %s', async (_what, flaws, note) => {
    const { checks, notes, report } = await failedBy(flaws, { transcripts: QUICK, seed: 3 })
    expect(checks).toContain('secrets')
    expect(notes).toMatch(note)
    expect(JSON.stringify(report)).not.toMatch(/sk-\w{30}/)
  })
})

describe('transcripts', () => {
  const transcript = (expect: Transcript['expect'], text: string, status = 200): Transcript => ({
    name: 'mine',
    request: { messages: [{ role: 'user', content: 'Hello?' }], stream: true },
    answer: { status, headers: { 'content-type': 'text/event-stream' }, body: Buffer.from(text) },
    expect,
  })
  const call = { index: 0, id: 'call_1', function: { name: 'look', arguments: '{"a": 1}' } }
  const calls = `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [call] }, finish_reason: 'stop' }] })}\n\n`
  const first = { name: 'look', arguments: { a: 1 } }

  it('compare tool calls', async () => {
    const good = transcript({ tool_calls: [first] }, calls)
    const { notes } = await failedBy({}, { transcripts: [good] })
    // Of this provider a question without "stream" is another one.
    expect(notes).toMatch(/no case shows; write a case without "stream"/)
    const whole: Transcript = {
      ...good,
      name: 'whole',
      request: { messages: good.request.messages },
      answer: {
        ...good.answer!,
        headers: { 'content-type': 'application/json' },
        body: Buffer.from('{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}'),
      },
      expect: { text: 'Hi.' },
    }
    expect((await failedBy({}, { transcripts: [good, whole] })).checks).toEqual([])
    const letters = transcript({ tool_calls: [{ ...first, arguments: '{"a":1}' }] }, calls)
    expect((await failedBy({}, { transcripts: [letters] })).notes).toMatch(
      /tool_calls: expected .*, found .*"\{\\"a\\": 1\}"/,
    )
  })

  it('check the request to the vendor', async () => {
    const sent = { messages: [{ role: 'user', content: 'Hello?' }], stream: false }
    const { notes } = await failedBy(
      {},
      { transcripts: [transcript({ sent, tool_calls: [first] }, calls)] },
    )
    expect(notes).toBe('sent.stream: expected false, found true')
  })

  it('check how an answer fails', async () => {
    const body = 'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\ndata: {"error":{}}\n\n'
    const broken = transcript({ text: 'Hel', failure: 'upstream_error' }, body)
    expect((await failedBy({}, { transcripts: [broken] })).checks).toEqual([])
    const blocked = transcript({ text: 'Hel', failure: 'content_blocked' }, body)
    expect((await failedBy({}, { transcripts: [blocked] })).notes).toMatch(
      /it was upstream_error \(.*\); expected content_blocked/,
    )
  })

  it('have to be valid requests', async () => {
    const bad = { ...transcript({}, ''), request: { messages: [], temperature: 'hot' } }
    await expect(failedBy({}, { transcripts: [bad] })).rejects.toThrow(
      /transcript mine is not valid:\n +request\.messages/,
    )
    const options = { ...transcript({}, ''), deployment: { pace: 1 } }
    await expect(failedBy({}, { transcripts: [options] })).rejects.toThrow(
      /deployment\.pace +unknown key; this provider has no deployment options/,
    )
  })

  it('find a request without a recorded response, and a missing request', async () => {
    const { answer: _answer, ...bare } = transcript({ text: 'a' }, '')
    expect((await failedBy({}, { transcripts: [bare] })).notes).toMatch(/there is no mine\.http/)
    const mute = definePlugin('mute', {
      chat: async function* () {
        yield { choices: [{ delta: { content: 'a' }, finish_reason: 'stop' }] }
      },
    })
    const { notes } = await failedBy(
      {},
      { provider: mute, transcripts: [transcript({ text: 'a' }, 'x')] },
    )
    expect(notes).toMatch(/it sent no request to the vendor/)
  })
})

describe('setting up', () => {
  it('names missing options', async () => {
    const provider = flawed()
    const options = { apiKey: 'k', colour: 'blue' }
    await expect(
      testProvider({ provider, directory: '.', options, addressOption: 'baseURL' }),
    ).rejects.toThrow(/options\.colour +unknown key/)
    await expect(
      testProvider({ provider: './none.ts', directory: import.meta.dirname }),
    ).rejects.toThrow(/use +there is no file .*none\.ts/)
  })

  it('gives a made-up key to every option that has to have one', async () => {
    const plugin = flawed()
    const of = (options: ProviderPlugin['options']): ProviderPlugin => ({
      ...plugin,
      options,
      setup: ({ url, ...keys }, host) => {
        const [key] = Object.values(keys)
        return plugin.setup({ baseURL: url, apiKey: key }, host)
      },
    })
    const string = v.string()
    for (const provider of [
      of(v.strictObject({ url: string, token: string })),
      of(
        v.object({ url: string, clientId: v.optional(string), accessKey: string, secret: string }),
      ),
    ]) {
      const { failed } = await testProvider({ provider, directory: '.', only: 'set up' })
      expect(failed).toEqual([])
    }
    const lacking = of(v.strictObject({ url: string, room: string }))
    await expect(
      testProvider({ provider: lacking, directory: '.', only: 'set up' }),
    ).rejects.toThrow(/options\.room /)
  })

  it('keeps the path of the address', async () => {
    const options = { apiKey: 'vendor-key', baseURL: 'https://vendor.example/v2' }
    const paths: string[] = []
    const read: Flaws['read'] = (body, host) => host.sse(body)
    const provider = flawed({
      read,
      refuse: async (_, host) => host.fail('upstream_error', 'No.'),
      signal: (signal) => signal,
      body: (input, model) => ({ model, ...input }),
    })
    const setup = provider.setup.bind(provider)
    const watched = {
      ...provider,
      setup: (given: any, host: any) =>
        setup(given, {
          ...host,
          request: (request: any) => {
            paths.push(new URL(request.url).pathname)
            return host.request(request)
          },
        }),
    }
    await testProvider({ provider: watched, directory: '.', options })
    expect(new Set(paths)).toEqual(new Set(['/v2/chat/completions']))
  })

  it('finds a provider that does not close', async () => {
    const { setup, ...plugin } = flawed()
    const provider = {
      ...plugin,
      setup: async (options: any, host: any) => ({
        ...(await setup(options, host)),
        close: () => new Promise<void>(() => {}),
      }),
    }
    const { on, notes } = await failedBy({}, { provider, transcripts: QUICK, timeoutMs: 1000 })
    expect([on, notes]).toEqual([['close'], 'StalledError: it did not close within 1 s'])
  })

  it('needs no deployment options but those of the transcripts', async () => {
    const provider = {
      ...flawed(),
      deploymentOptions: v.strictObject({ region: v.string() }),
    } as ProviderPlugin
    const transcripts = QUICK.map((one) => ({ ...one, deployment: { region: 'north' } }))
    expect((await failedBy({}, { provider, transcripts })).checks).toEqual([])
    await expect(failedBy({}, { provider })).rejects.toThrow(/deployment\.region/)
  })

  it('needs a provider with chat', async () => {
    const { options } = flawed()
    const provider = { ...flawed(), options, setup: () => ({}) }
    const { checks } = await testProvider({ provider, directory: '.' })
    expect(checks[0]).toEqual({
      name: 'set up',
      on: null,
      result: 'failed',
      notes: [expect.stringMatching(/"chat"/)],
      hint: expect.stringContaining('"setup"'),
    })
  })
})

function ownSignal(): AbortSignal {
  return new AbortController().signal
}

/** Takes each read for a whole event. */
async function* eventPerRead(body: AsyncIterable<Uint8Array>) {
  for await (const bytes of body) yield* payloadsOf(Buffer.from(bytes).toString())
}

async function* lenient(body: AsyncIterable<Uint8Array>) {
  let text = ''
  for await (const bytes of body) text += Buffer.from(bytes).toString()
  yield* payloadsOf(text)
  yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
}

function payloadsOf(text: string): any[] {
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .flatMap((event) => {
      try {
        return [JSON.parse(event.slice(6))]
      } catch {
        return []
      }
    })
}

async function* alwaysDone(chunks: AsyncIterable<ChatChunk>): AsyncGenerator<ChatChunk> {
  yield* chunks
  yield { choices: [], endOfStream: true }
}

async function* gathered(chunks: AsyncIterable<ChatChunk>): AsyncGenerator<ChatChunk> {
  const all: ChatChunk[] = []
  for await (const chunk of chunks) all.push(chunk)
  yield* all
}

/** Reads ahead without limit, also when nothing is read from it. */
async function* ahead(chunks: AsyncIterable<ChatChunk>): AsyncGenerator<ChatChunk> {
  const queue: ChatChunk[] = []
  let wake = Promise.withResolvers<void>()
  let ended = false
  let failure: unknown
  void (async () => {
    try {
      for await (const chunk of chunks) {
        queue.push(chunk)
        wake.resolve()
      }
    } catch (error) {
      failure = error
    }
    ended = true
    wake.resolve()
  })()
  for (;;) {
    while (queue.length > 0) yield queue.shift()!
    if (failure) throw failure
    if (ended) return
    wake = Promise.withResolvers<void>()
    await wake.promise
  }
}
