/** A whole gateway for tests: real socket, state in memory, the mock provider or a fake vendor. */
import { createConsola } from 'consola'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import * as v from 'valibot'
import type { LoadedConfig, UserConfig } from '../src/config/config.ts'
import { NO_NETWORK } from '../src/config/network.ts'
import { Origins } from '../src/config/origins.ts'
import { createGateway, type Gateway } from '../src/gateway/gateway.ts'
import { parsePico } from '../src/money/money.ts'
import type { KeyChange } from '../src/accounts/stored.ts'
import { listen } from '../src/server/server.ts'
import { configSchema } from '../src/config/schema.ts'

export interface TestKey {
  readonly id: string
  readonly secret: string
}

export interface TestGateway extends AsyncDisposable {
  /** The address of the gateway without `/v1`. */
  readonly url: string
  /** The address with `/v1`, which a client calls its base URL. */
  readonly baseURL: string
  readonly gateway: Gateway
  /** A key of the account `acme`, which has 100 USD. */
  readonly key: TestKey
  /** Everything the gateway logged. */
  readonly logged: string[]
  newKey(change?: KeyChange & { account?: string }): Promise<TestKey>
  newAccount(id: string, usd?: string): Promise<void>
  balance(account?: string): Promise<bigint>
  /** POST a chat request; the body as it is when it is text or bytes. */
  chat(body: unknown, options?: AskOptions): Promise<Answer>
  ask(method: string, path: string, options?: AskOptions): Promise<Answer>
  /** @param graceSeconds how long running calls may take; none by default */
  close(graceSeconds?: number): Promise<void>
}

export interface AskOptions {
  readonly key?: string | null
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body as JSON. */
  readonly json: any
}

export const MOCK_CONFIG = {
  providers: { mock: { use: 'mock' } },
  models: {
    'mock/echo': {
      pricing: { prompt: '0.000001', completion: '0.000002' },
      capabilities: [
        'STREAMING',
        'TOOLS',
        'VISION',
        'STRUCTURED_OUTPUTS',
        'REASONING',
        'AUDIO_INPUT',
        'FILE_INPUT',
        'LOGPROBS',
        'CHOICES',
      ],
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
    'mock/tools': {
      pricing: { prompt: '0.000001', completion: '0.000002' },
      capabilities: ['STREAMING', 'TOOLS'],
      deployments: [{ provider: 'mock', model: 'tools' }],
    },
    'mock/free': {
      free_tier: true,
      pricing: { prompt: '0', completion: '0' },
      capabilities: ['STREAMING'],
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
  },
} satisfies UserConfig

/** Validates a configuration as a file's would be. */
export function loaded(config: UserConfig, directory = import.meta.dirname): LoadedConfig {
  const valid = v.parse(configSchema, {
    state: { driver: 'memory' },
    ...config,
    log: { level: 'info', access: false, ...config.log },
  })
  const layers = [{ origin: { from: 'configuration' as const }, value: config }]
  return {
    config: valid as LoadedConfig['config'],
    origins: new Origins({ layers, set: new Map(), models: {}, listed: new WeakMap() }),
    file: 'test.config.ts',
    directory,
    secrets: new Set(),
    folders: [],
    certificates: [],
    network: NO_NETWORK,
    sealing: {},
    otherDataFolders: [],
  }
}

/**
 * Starts a gateway on a free port. Its caller closes it.
 * @param config a configuration as a file has it, or as it was loaded
 * @param directory the folder in which its configuration would be
 * @param options.withAccount false: its state has accounts already
 * @param options.adminToken true: without a configured admin token it makes one, as it does when it serves
 * @param options.port the port of its server, a free one by default
 * @param options.freezesAll false: as it serves, built-in providers get input that is not frozen
 */
export async function createTestGateway(
  config: UserConfig | LoadedConfig = MOCK_CONFIG,
  directory?: string,
  { freezesAll = true, withAccount = true, adminToken = false, port = 0 } = {},
): Promise<TestGateway> {
  const logged: string[] = []
  const reporters = [
    { log: (entry: { args: unknown[] }) => void logged.push(entry.args.map(textOf).join(' ')) },
  ]
  const log = createConsola({ level: 4, reporters, throttle: 0 })
  const read = 'origins' in config ? config : loaded(config, directory)
  const gateway = await createGateway(read, { log, freezesAll, adminToken })
  const server = await listen(gateway, { host: '127.0.0.1', port, warm: false })
  const { url } = server

  const newAccount = async (id: string, usd?: string) => {
    const { accounts, ledger } = gateway.runtime
    await accounts.createAccount({ id, name: id })
    if (usd)
      await ledger.book({
        kind: 'top-up',
        account: id,
        amount: parsePico(usd),
        reference: `test:${id}`,
      })
  }
  const newKey = async ({ account = 'acme', ...change }: KeyChange & { account?: string } = {}) => {
    const { key, secret } = await gateway.runtime.accounts.createKey(account, {
      name: 'test',
      ...change,
    })
    return { id: key.id, secret }
  }
  if (withAccount) await newAccount('acme', '100')
  const key = withAccount ? await newKey() : { id: '', secret: '' }

  const ask = (method: string, path: string, options: AskOptions = {}) => {
    const secret = options.key === undefined ? key.secret : options.key
    const { body } = options
    const raw = body === undefined || typeof body === 'string' || body instanceof Uint8Array
    return send(url + path, method, raw ? body : JSON.stringify(body), {
      ...(secret === null ? {} : { authorization: `Bearer ${secret}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    })
  }
  const close = async (graceSeconds = 0) => {
    await server.close({ graceSeconds })
    await gateway.close()
  }
  return {
    url,
    baseURL: `${url}/v1`,
    gateway,
    key,
    logged,
    newKey,
    newAccount,
    ask,
    chat: (body, options = {}) => ask('POST', '/v1/chat/completions', { ...options, body }),
    balance: async (account = 'acme') => (await gateway.runtime.ledger.account(account)).balance,
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

/** A further gateway on a state that has accounts and keys already. Its caller closes it. */
export async function createGatewayBeside(
  config: UserConfig,
): Promise<Pick<TestGateway, 'url' | 'gateway' | 'close'>> {
  const log = createConsola({ level: 0 })
  const gateway = await createGateway(loaded(config), { log })
  const server = await listen(gateway, { host: '127.0.0.1', port: 0, warm: false })
  const close = async (graceSeconds = 0) => {
    await server.close({ graceSeconds })
    await gateway.close()
  }
  return { url: server.url, gateway, close }
}

/** One HTTP exchange over a socket of its own. */
export function send(
  url: string,
  method: string,
  body: string | Uint8Array | undefined,
  headers: Readonly<Record<string, string>>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      url,
      { method, headers: { ...headers }, agent: false },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.once('error', reject)
        response.once('end', () => {
          const text = Buffer.concat(chunks).toString()
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            text,
            get json() {
              return JSON.parse(text)
            },
          })
        })
      },
    )
    request.once('error', reject)
    request.end(body)
  })
}

/** The payloads of an event stream, `[DONE]` as text. */
export function eventsOf(text: string): any[] {
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => (event === 'data: [DONE]' ? '[DONE]' : JSON.parse(event.slice(6))))
}

export const hello = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello there' }] }

function textOf(value: unknown): string {
  return value instanceof Error
    ? `${value.stack}`
    : typeof value === 'string'
      ? value
      : JSON.stringify(value)
}
