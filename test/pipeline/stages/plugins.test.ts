/** Providers that misbehave: their calls end by the gateway's deadlines, and other calls notice nothing. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  defineProvider,
  type ChatChunk,
  type ChatInput,
  type Provider,
} from '../../../src/plugin.ts'
import * as v from 'valibot'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import type { UserConfig } from '../../../src/config/config.ts'
import { createTestGateway, eventsOf, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { eventually } from '../../_wait.ts'

type Chat = NonNullable<Provider['chat']>
const NEVER = new Promise<never>(() => {})
const says = (content: string): ChatChunk => ({ choices: [{ index: 0, delta: { content } }] })
const END: ChatChunk = {
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1 },
}
const EMPTY: ChatChunk = { choices: [{ index: 0, delta: {} }] }

const ask = { ...hello, model: 'bad/one' }
const rejections: unknown[] = []
const noted = (error: unknown) => void rejections.push(error)
beforeEach(() => void process.on('unhandledRejection', noted))
afterEach(async () => {
  await turn()
  process.off('unhandledRejection', noted)
  expect(rejections.splice(0)).toEqual([])
})

interface Options {
  readonly limits?: {
    readonly firstPartTimeout?: number
    readonly idleTimeout?: number
    readonly maxStream?: string
    readonly maxAnswer?: string
  }
  readonly requestTimeout?: number
  /** A second deployment, asked when the first one fails. */
  readonly spare?: Chat
  /** Whether a built-in provider is asked before all others, and fails. */
  readonly failsFirst?: boolean
}

/** A gateway with `bad/one`, answered by this method, and the mock models. */
async function withProvider(
  chat: Chat,
  { limits = {}, requestTimeout = 30, spare, failsFirst = false }: Options = {},
) {
  const use = (name: string, method: Chat) => ({
    use: defineProvider({
      name,
      options: v.optional(v.looseObject({}), {}),
      setup: () => ({ chat: method }),
    }),
    ...limits,
  })
  const options = { error: { class: 'upstream_error' } }
  const failing = { provider: 'mock', model: 'echo', options, priority: -1 }
  const config: UserConfig = {
    server: { requestTimeout },
    routing: { cooldown: 0 },
    // Calls beside a provider that never ends are made as fast as they go.
    defaults: { limits: { rpm: 1_000_000 } },
    providers: {
      ...MOCK_CONFIG.providers,
      bad: use('bad', chat),
      ...(spare && { spare: use('spare', spare) }),
    },
    models: {
      ...MOCK_CONFIG.models,
      'bad/one': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        deployments: [
          ...(failsFirst ? [failing] : []),
          { provider: 'bad', model: 'one' },
          ...(spare ? [{ provider: 'spare', model: 'one', priority: 1 }] : []),
        ],
      },
    },
  }
  return createTestGateway(config, undefined, { freezesAll: false })
}

/** The pause between two calls beside a bad one: without it they would take the whole processor. */
const PAUSE_MS = 20

/** Asks the bad model, and meanwhile a good one again and again until the bad one has answered. */
async function besideOthers(t: TestGateway, stream: boolean) {
  const bad = t.chat({ ...ask, stream })
  for (let answer; !answer;) {
    const other = await t.chat(hello)
    expect(other.status).toBe(200)
    answer = await Promise.race([bad, sleep(PAUSE_MS)])
  }
  return bad
}

const errorIn = ({ text }: { text: string }) =>
  eventsOf(text).find((event) => event.error)?.error.code

/** Nothing of the calls is left. */
async function expectEnded(t: TestGateway) {
  await eventually(() => expect(t.gateway.running.size).toBe(0))
}

it('that refuses a request before it has sent anything is heard by the client, beside guards too, but not where it could quote a prompt', async () => {
  const message = 'This model reads no sound.'
  const refuse = () => {
    throw new UpstreamFailure('bad_request', message, {
      code: 'unsupported_value',
      param: 'messages[0]',
    })
  }
  await using t = await withProvider(refuse)
  const answerWith = async (policy: object) => {
    const { secret: key } = await t.newKey({ policy: { version: 1, ...policy } })
    return (await t.chat(ask, { key })).json.error
  }
  const told = { message, code: 'unsupported_value', param: 'messages[0]' }
  expect(await answerWith({ bannedPatterns: ['heron'] })).toMatchObject(told)
  const { message: hidden, param } = await answerWith({ systemPrompt: 'Be kind.' })
  expect([hidden, param]).toEqual(['The model provider refused the request.', null])
})

describe('a provider that never ends', () => {
  it('after it was asked ends by the time for a first part, or for the request', async () => {
    await using t = await withProvider(() => NEVER, {
      limits: { firstPartTimeout: 0.3 },
      requestTimeout: 1,
    })
    for (const stream of [true, false]) {
      const answer = await besideOthers(t, stream)
      expect([answer.status, answer.json.error.code]).toEqual([504, 'upstream_timeout'])
    }
    await expectEnded(t)
  })

  it('in the middle of a stream ends by the time without content', async () => {
    async function* chat() {
      yield says('Half')
      await NEVER
    }
    await using t = await withProvider(async () => chat(), { limits: { idleTimeout: 0.3 } })
    const answer = await besideOthers(t, true)
    expect(answer.text).toContain('Half')
    expect(errorIn(answer)).toBe('upstream_timeout')
    await expectEnded(t)
  })

  it('after a whole answer is no failure, and its request ends', async () => {
    let signal: AbortSignal | undefined
    async function* parts() {
      yield says('Whole')
      yield END
      await NEVER
    }
    const chat: Chat = async (request) => {
      signal = request.signal
      return parts()
    }
    await using t = await withProvider(chat, { limits: { idleTimeout: 0.3 } })
    const answer = await besideOthers(t, true)
    expect([answer.text.includes('Whole'), errorIn(answer)]).toEqual([true, undefined])
    await expectEnded(t)
    expect(signal!.aborted).toBe(true)
  })

  it('while it sends keep-alives ends by the time without content', async () => {
    async function* chat() {
      yield says('Half')
      for (;;) {
        await sleep(1)
        yield EMPTY
      }
    }
    await using t = await withProvider(async () => chat(), { limits: { idleTimeout: 0.3 } })
    expect(errorIn(await besideOthers(t, true))).toBe('upstream_timeout')
    await expectEnded(t)
  })

  it('while it sends empty chunks without a pause is a failure', async () => {
    async function* chat() {
      for (;;) yield EMPTY
    }
    await using t = await withProvider(async () => chat())
    expect((await besideOthers(t, false)).json.error.code).toBe('upstream_error')
    expect(errorIn(await besideOthers(t, true))).toBe('upstream_error')
    await expectEnded(t)
  })

  it('while it sends text without a pause is a failure once it is too much', async () => {
    async function* chat() {
      for (;;) yield says('more and more ')
    }
    await using t = await withProvider(async () => chat(), { limits: { maxStream: '100kib' } })
    expect((await besideOthers(t, false)).json.error.code).toBe('upstream_error')
    expect(errorIn(await besideOthers(t, true))).toBe('upstream_error')
    await expectEnded(t)
  })

  it('at its return, or at the end of its step, keeps no call', async () => {
    const chat: Chat = async () => ({
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ value: says('word '), done: false }),
        return: () => NEVER,
      }),
    })
    await using t = await withProvider(chat, { limits: { maxStream: '100kib' } })
    expect(errorIn(await besideOthers(t, true))).toBe('upstream_error')
    await expectEnded(t)
  })
})

describe('an answer that comes late', () => {
  it.each<[string, (late: PromiseWithResolvers<never>) => void]>([
    ['as a value', ({ resolve }) => resolve({ choices: [] } as never)],
    ['as an error', ({ reject }) => reject(new Error('late'))],
  ])('%s is dropped and counted', async (_what, settle) => {
    const late = Promise.withResolvers<never>()
    await using t = await withProvider(() => late.promise, { limits: { firstPartTimeout: 0.3 } })
    expect((await t.chat({ ...ask, stream: true })).status).toBe(504)
    // What comes within the turn of the abort would obey the signal.
    await turn()
    settle(late)
    await eventually(() =>
      expect(t.gateway.runtime.metrics.text()).toContain('plugin_late_total{plugin="bad"} 1'),
    )
  })

  it('in the middle of a stream is dropped and counted', async () => {
    const late = Promise.withResolvers<never>()
    async function* chat() {
      yield says('Half')
      await late.promise
    }
    await using t = await withProvider(async () => chat(), { limits: { idleTimeout: 0.3 } })
    expect(errorIn(await t.chat({ ...ask, stream: true }))).toBe('upstream_timeout')
    await turn()
    late.reject(new Error('late'))
    await eventually(() =>
      expect(t.gateway.runtime.metrics.text()).toContain('plugin_late_total{plugin="bad"} 1'),
    )
  })
})

it('a provider that keeps the process busy is named', async () => {
  const chat: Chat = async () => {
    const until = performance.now() + 500
    while (performance.now() < until);
    return { choices: [{ index: 0, message: { role: 'assistant', content: 'Busy.' } }] } as never
  }
  await using t = await withProvider(chat)
  await t.chat(ask)
  const named = 'the plugin that was called last: bad'
  await eventually(() => expect(t.logged.join('\n')).toContain(named))
  expect(t.gateway.runtime.loop.lagSeconds).toBeGreaterThan(0.2)
})

it('an answer that is too large is a failure', async () => {
  const message = { role: 'assistant' as const, content: 'x'.repeat(20_000) }
  const chat: Chat = async () => ({ choices: [{ index: 0, message, finish_reason: 'stop' }] })
  await using t = await withProvider(chat, { limits: { maxAnswer: '10kb' } })
  expect((await t.chat(ask)).json.error.code).toBe('upstream_error')
})

describe.each([false, true])('after a built-in one: %j', (failsFirst) => {
  it('a provider that changes its input is a failure, and the next one gets it unchanged', async () => {
    const inputs: ChatInput[] = []
    async function* chat() {
      yield says('Fine.')
      yield END
    }
    const changing: Chat = async ({ input }) => {
      const [message] = input.messages as unknown as { content: unknown }[]
      message!.content = 'changed'
      return chat()
    }
    const spare: Chat = async ({ input }) => {
      inputs.push(input)
      return chat()
    }
    await using t = await withProvider(changing, { spare, failsFirst })
    expect(t.gateway.runtime.trustedProviders).toEqual(new Set(['mock']))
    const answer = await t.chat(ask)
    expect(answer.json.choices[0].message.content).toBe('Fine.')
    expect(inputs[0]!.messages).toEqual(hello.messages)
    const lines = t.logged.filter((line) => line.startsWith('plugin=bad use=bad error=TypeError: '))
    expect(lines).toEqual([expect.stringMatching(/ at=\S+plugins\.test\.ts:\d+:\d+$/)])
  })
})
