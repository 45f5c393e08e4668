/** The official client in front of a gateway in front of a scripted vendor, all on real sockets. */
import OpenAI, { type ClientOptions } from 'openai'
import { expect } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import type { Call } from '../../src/pipeline/pipeline.ts'
import { MOCK_CONFIG, createTestGateway, type TestGateway } from '../_setup.ts'
import { events, json, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'

export interface Setup extends AsyncDisposable {
  readonly t: TestGateway
  /** The vendor behind every model whose id begins with `acme/`. */
  readonly vendor: FakeUpstream
  /** Does not retry. */
  readonly client: OpenAI
  /** A client of its own for this key; by default of the account `acme`. It retries as often as the SDK does by itself. */
  connect(options?: ClientOptions): OpenAI
  /** Every call that arrived at the gateway, in order, whatever became of it. */
  readonly calls: readonly Call[]
  /** Waits until no call is running; then nothing may be leased or held, and the books have to be right. */
  quiet(): Promise<void>
}

/** Members of `usage` that the official types do not know. */
export interface Billed {
  readonly cost: number
  readonly cost_details: Readonly<Record<string, number>>
  readonly server_tool_use_details?: { readonly web_search_requests: number }
}

/** Prices that the files in `test/wire/examples` have too. */
export const PRICING = { prompt: '0.00000015', completion: '0.0000006', web_search: '0.005' }
export const USAGE = { prompt_tokens: 42, completion_tokens: 17, total_tokens: 59 }
/** What {@link USAGE} costs at {@link PRICING}. */
export const COST = 0.0000165

/** Starts everything. Its caller disposes of it. */
export async function setUp(config: Pick<UserConfig, 'server' | 'defaults'> = {}): Promise<Setup> {
  const vendor = await startUpstream()
  const provider = (quirks?: string) => ({
    use: 'openai-compatible',
    // The vendor of these tests is on this machine.
    privateUrls: true,
    options: { baseURL: `${vendor.url}/v1`, apiKey: 'vendor-key', ...(quirks ? { quirks } : {}) },
  })
  const { capabilities } = MOCK_CONFIG.models['mock/echo']
  const model = (name: string) => ({
    pricing: PRICING,
    capabilities,
    deployments: [{ provider: name, model: 'swift' }],
  })
  const t = await createTestGateway({
    ...config,
    providers: {
      ...MOCK_CONFIG.providers,
      plain: provider(),
      openai: provider('openai'),
      openrouter: provider('openrouter'),
    },
    models: {
      ...MOCK_CONFIG.models,
      'acme/swift-1': model('plain'),
      'acme/openai': model('openai'),
      'acme/router': model('openrouter'),
      // It cannot reason, so that nothing of an answer is hidden.
      'acme/says': { ...model('plain'), capabilities: ['STREAMING'] },
      'acme/whole': { ...model('plain'), capabilities: [] },
    },
    routing: { cooldown: 0 },
  })
  const calls: Call[] = []
  const { track } = t.gateway
  t.gateway.track = (call) => {
    calls.push(call)
    track(call)
  }
  const connect = (options: ClientOptions = {}) =>
    new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, ...options })

  return {
    t,
    vendor,
    client: connect({ maxRetries: 0 }),
    connect,
    calls,
    async quiet() {
      await expect.poll(() => t.gateway.running.size).toBe(0)
      const { accounts, ledger } = t.gateway.runtime
      for (const { id, account } of await accounts.listKeys()) {
        expect((await ledger.key(account, id)).inFlight).toBe(0)
      }
      for (const { id } of await accounts.listAccounts()) {
        const { balance, available } = await ledger.account(id)
        expect(available).toBe(balance)
      }
      expect(await ledger.verify()).toEqual([])
    },
    async [Symbol.asyncDispose]() {
      await t.close()
      await vendor.close()
    },
  }
}

/** A chunk of the first choice. */
export const says = (delta: object, finish_reason: string | null = null) => ({
  id: 'chatcmpl-vendor',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'swift-2026-01-01',
  choices: [{ index: 0, delta, finish_reason }],
})

export const USAGE_CHUNK = { ...says({}), choices: [], usage: USAGE }

/** A stream as OpenAI sends it: these deltas, a finish reason, usage. */
export function streamed(deltas: readonly object[], finish_reason = 'stop'): FakeResponse {
  return events(...deltas.map((one) => says(one)), says({}, finish_reason), USAGE_CHUNK, '[DONE]')
}

/** A whole answer as OpenAI sends it. */
export function answered(message: object, finish_reason = 'stop', more: object = {}): FakeResponse {
  return json({
    id: 'chatcmpl-vendor',
    object: 'chat.completion',
    created: 1,
    model: 'swift-2026-01-01',
    choices: [
      { index: 0, message: { role: 'assistant', content: null, ...message }, finish_reason },
    ],
    usage: USAGE,
    ...more,
  })
}

/** A stream that says so much and then nothing more, until the client leaves. */
export function stalling(...deltas: readonly object[]): FakeResponse {
  return { ...events(...deltas.map((one) => says(one))), ending: 'hang' }
}

/** The members of a usage object that the gateway adds. */
export function billed(usage: OpenAI.CompletionUsage | null | undefined): Billed {
  return usage as unknown as Billed
}

export const user = (content: string) => ({ role: 'user' as const, content })

/** The smallest request. */
export const HELLO = { model: 'acme/swift-1', messages: [user('Hello there')] }

/** What a promise was rejected with; fails when it was not. */
export async function rejected(promise: Promise<unknown>): Promise<any> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('expected a rejection, and there was none')
}
