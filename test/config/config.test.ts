import { parseYAML } from 'confbox/yaml'
import { rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { buildCatalog } from '../../src/models/catalog.ts'
import { loadConfig, toYaml, type LoadedConfig, type LoadOptions } from '../../src/config/config.ts'
import { watchConfig } from '../../src/config/watch.ts'
import { checkProviders } from '../../src/config/served.ts'
import { parsePico } from '../../src/money/money.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { folder } from '../_folder.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Time-out for noticing a change, for a machine under load. */

const MODEL = {
  pricing: { prompt: '0.0000025' },
  deployments: [{ provider: 'openai', model: 'gpt' }],
}
const OPENAI = { use: 'openai-compatible', options: { apiKey: 'sk-plain' } }

describe('an absent member', () => {
  it('has a default', async () => {
    const { config } = await load({})
    expect(config).toEqual({
      server: {
        host: '127.0.0.1',
        port: 8787,
        workers: 1,
        requestTimeout: 590,
        streamTimeout: 3600,
        bodyTimeout: 60,
        keepAlive: 15,
        headTimeout: 10,
        modelsByKey: true,
        shutdownDelay: 0,
        shutdownGrace: 30,
        basePath: '',
        trustedProxies: [],
        limits: {
          chat: 52_428_800,
          image: 8_388_608,
          document: 52_428_800,
          audio: 26_214_400,
          files: 16,
          ratio: 100,
          depth: 128,
          containers: 100_000,
          values: 500_000,
          literal: 1024,
          key: 65_536,
        },
      },
      guards: {
        use: [
          {
            use: 'pii',
            options: {},
            applies: 'with-rules',
            mode: 'block',
            billing: 'account',
            mask: 'off',
          },
          {
            use: 'categories',
            options: {},
            applies: 'with-rules',
            mode: 'block',
            billing: 'account',
            mask: 'off',
          },
        ],
        overlapInput: false,
        billMonitor: false,
        evidence: 'hash',
        limits: { maxHeld: 65_536, maxBuffer: 4_194_304, maxToolCall: 262_144 },
        deadlines: { input: 4, output: 3, stall: 20 },
      },
      egress: {},
      fetch: { enabled: true, limit: 52_428_800, timeout: 20 },
      log: {
        level: 'info',
        format: 'pretty',
        access: true,
        requests: true,
        usage: true,
        holders: true,
        address: 'none',
        users: 'plain',
        path: expect.stringMatching(/^\/.*\/data\/log$/),
        keep: 40,
        size: 2147483648,
        content: { enabled: false, keep: 7, sample: 1 },
      },
      state: {
        driver: 'file',
        path: expect.stringMatching(/^\/.*\/data$/),
        archive: {
          path: expect.stringMatching(/^\/.*\/data\/archive$/),
          keep: 400,
          size: 2 ** 30,
        },
      },
      providers: {},
      models: {},
      prices: { packaged: true, markup: '1', lists: {} },
      statements: { prefix: 'S-' },
      names: { bare: true, prefer: [] },
      defaults: {
        limits: { rpm: 600, concurrency: 30 },
        freeTier: { rpm: 20, perDay: 200, concurrency: 5 },
        timeZone: 'UTC',
      },
      billing: {
        hold: 'adaptive',
        exposure: { share: 0.25, most: parsePico('10') },
        onDisconnect: 'cancel',
        patience: 2,
        mostPerCall: parsePico('1000'),
      },
      search: { engines: {}, onError: 'ignore' },
      sinks: [],
      alerts: { balance: 1_000_000_000_000n, off: [] },
      metrics: { money: false },
      telemetry: { semconv: 'v1.41', service: 'sluicegate', ratio: 1, slow: 30, content: false },
      responses: { remember: 900 },
      idempotency: { enabled: true, keep: 86_400, most: 1_048_576 },
      routing: { attempts: 3, cooldown: 30 },
      admin: {
        enabled: true,
        tokens: [],
        metrics: 'admin',
        console: true,
        sessions: { idle: 43_200, lifetime: 604_800 },
        login: { oidc: {} },
        members: {
          enabled: true,
          sessions: { idle: 2_592_000, lifetime: 7_776_000 },
          keys: 5,
          join: [],
        },
        hosts: [],
      },
      seed: { manage: false, accounts: [] },
      managed: true,
    })
  })

  it('has a default inside a section too', async () => {
    const { config } = await load({ providers: { openai: { use: 'x' } }, server: { port: 1 } })
    expect(config.server).toMatchObject({ port: 1, host: '127.0.0.1', keepAlive: 15 })
    expect(config.providers.openai).toEqual({
      use: 'x',
      options: {},
      timeout: 300,
      firstPartTimeout: 60,
      idleTimeout: 120,
      connections: 256,
      maxAnswer: 67_108_864,
      maxStream: 268_435_456,
      forwardTrace: false,
      privateUrls: false,
      passes: [],
    })
  })

  it.each([
    ['50mib', 52_428_800],
    ['1.5 MB', 1_500_000],
    ['1024', 1024],
    ['12b', 12],
    ['2KiB', 2048],
    [4096, 4096],
  ])('reads the size %j as %d bytes', async (size, bytes) => {
    const { config } = await load({ server: { limits: { chat: size } } })
    expect(config.server.limits.chat).toBe(bytes)
  })
})

describe('the file', () => {
  it('is searched in the working folder, then in config/', async () => {
    const cwd = await folder({
      'config/gateway.config.ts': 'export default { server: { port: 1 } }',
      'config/gateway.config.json': '{"server": {"port": 2}}',
    })
    const port = async () => (await loadConfig({ cwd, env: {} })).config.server.port
    expect(await port()).toBe(1)
    await writeFile(join(cwd, 'gateway.config.json'), '{"server": {"port": 3}}')
    expect(await port()).toBe(3)
    await writeFile(join(cwd, 'gateway.config.yaml'), withPort(4))
    expect(await port()).toBe(4)
    await writeFile(join(cwd, 'gateway.config.js'), 'export default { server: { port: 5 } }')
    expect(await port()).toBe(5)
  })

  it('can be named', async () => {
    const cwd = await folder({ 'gateway.config.yaml': withPort(1), 'etc/mine.yml': withPort(2) })
    const loaded = await loadConfig({ cwd, file: 'etc/mine.yml', env: {} })
    expect(loaded.config.server.port).toBe(2)
    expect(loaded.file).toBe(join(cwd, 'etc/mine.yml'))
    expect(loaded.directory).toBe(join(cwd, 'etc'))
  })

  it('is that of the package where there is no other, with paths from the working folder', async () => {
    const builtIn = join(
      await folder({ 'config/gateway.config.yaml': withPort(9) }),
      'config/gateway.config.yaml',
    )
    const cwd = await folder({ 'gateway.config.d.ts': 'export {}' })
    const loaded = await loadConfig({ cwd, builtIn, env: {} })
    expect(loaded.config.server.port).toBe(9)
    expect(loaded.config.state).toMatchObject({ path: join(cwd, 'data') })
    expect(loaded.directory).toBe(cwd)
    await writeFile(join(cwd, 'gateway.config.yaml'), withPort(3))
    expect((await loadConfig({ cwd, builtIn, env: {} })).config.server.port).toBe(3)
  })

  it('of an installed package may have left a ledger beside it; a checkout and other files have not', async () => {
    const places = async (below: string, own: Record<string, string> = {}) => {
      const root = await folder({ [`${below}/config/gateway.config.yaml`]: withPort(9) })
      const builtIn = join(root, below, 'config/gateway.config.yaml')
      const cwd = await folder(own)
      const { otherDataFolders } = await loadConfig({ cwd, builtIn, env: {} })
      return otherDataFolders.map((place) => relative(root, place))
    }
    expect(await places('node_modules/sluicegate')).toEqual(['node_modules/sluicegate/data'])
    expect(await places('checkout')).toEqual([])
    expect(await places('node_modules/sluicegate', { 'gateway.config.yaml': withPort(3) })).toEqual(
      [],
    )
  })

  it('has to exist', async () => {
    const cwd = await folder({ 'config.toml': '' })
    const missing = await failure({ cwd, env: {} })
    expect(missing.message).toContain(`${cwd} or ${cwd}/config`)
    expect(missing.message).toContain('gateway.config{.ts,.mts,.js,.yaml,.yml,.json}')
    expect((await failure({ cwd, file: 'nope.yaml', env: {} })).message).toMatch(
      /nope\.yaml.*\n.*does not exist/,
    )
    expect((await failure({ cwd, file: 'config.toml', env: {} })).message).toContain('.yaml')
  })

  it('can be TypeScript that imports other files, or a function of the environment', async () => {
    const cwd = await folder({
      'port.ts': 'export const port: number = 4321',
      'gateway.config.ts': `
        import { port } from './port.ts'
        export default async ({ env }: { env: Record<string, string> }) => ({
          server: { port, host: env.HOST },
        })`,
    })
    const { config } = await loadConfig({ cwd, env: { HOST: 'example.test' } })
    expect(config.server).toMatchObject({ port: 4321, host: 'example.test' })
  })

  it('can be TypeScript that Node.js cannot run without a compiler', async () => {
    const cwd = await folder({
      'port.ts': 'export enum Port { Usual = 4321 }',
      'gateway.config.ts': `
        import { Port } from './port.ts'
        export default { server: { port: Port.Usual } }`,
    })
    expect((await loadConfig({ cwd, env: {} })).config.server.port).toBe(4321)
  })

  it('can use defineConfig', async () => {
    const index = join(ROOT, 'src/index.ts')
    const cwd = await folder({
      'gateway.config.ts': `
        import { defineConfig } from ${JSON.stringify(index)}
        export default defineConfig(() => ({ server: { port: 77 } }))`,
    })
    expect((await loadConfig({ cwd, env: {} })).config.server.port).toBe(77)
  })

  it('is the only source: nothing is extended or chosen by NODE_ENV', async () => {
    vi.stubEnv('NODE_ENV', 'production')
    onTestFinished(() => void vi.unstubAllEnvs())
    const files = {
      'gateway.config.json': '{"extends": "./base.json", "$production": {"server": {"port": 1}}}',
      'base.json': '{"server": {"port": 2}}',
      '.gateway.configrc': 'server.port=3',
    }
    const { issues } = await failure({ cwd: await folder(files), env: {} })
    expect(issues.map(({ path }) => path)).toEqual(['extends', '$production'])
  })

  it.each([
    ['gateway.config.yaml', 'a: 1\n  b: "sk-hidden', /bad indentation.*\(line 2, column/],
    ['gateway.config.yaml', 'apiKey: sk-hidden\napiKey: 2', /duplicated mapping key \(line 2/],
    ['gateway.config.json', '{"apiKey": "sk-hidden" x}', /cannot be read: .*JSON/],
    ['gateway.config.ts', 'export default { apiKey: "sk-hidden" b }', /gateway\.config\.ts:1:\d+/],
    ['gateway.config.ts', 'throw new Error("my own check")', /cannot be read: my own check/],
    ['gateway.config.yaml', '# nothing yet', /it is empty/],
    ['gateway.config.yaml', '- 1', /expected an object, found a list/],
    ['gateway.config.yaml', 'hello', /expected an object, found a text/],
    ['gateway.config.yaml', 'providers: &a { x: { options: *a } }', /nested deeper than/],
  ])('%s with %j is refused without being quoted', async (name, text, message) => {
    const error = await failure({ cwd: await folder({ [name]: text }), env: {} })
    expect(error.message).toMatch(message)
    expect(error.message).not.toContain('sk-hidden')
  })
})

describe('issues', () => {
  it('are all reported, with file, path, expected and found value', async () => {
    const text = `
      sever: {}
      server: { prt: 1, hots: x, keepAlive: -1 }
      state: { driver: files }
      providers:
        openai: { use: openai-compatible, options: { apiKey: "\${OPENAI_API_KEY}" } }
      models:
        openai/some-chat-model:
          pricing: { prompt: 0.0000025 }
          deployments: [{ provider: openai, model: x }]
        bare: { pricing: { prompt: "1" } }
    `
    const error = await failure({ cwd: await folder({ 'gateway.config.yaml': text }), env: {} })
    expect(error.message.split('\n').map((line) => line.replace(/ {3,}/, '  '))).toEqual([
      'gateway.config.yaml is not valid:',
      '  providers.openai.options.apiKey  environment variable OPENAI_API_KEY is not set',
      '  server.keepAlive  expected a number of seconds above 0 and at most 1000000, found the number -1',
      '  server.prt  unknown key; did you mean "port"?',
      '  server.hots  unknown key; did you mean "host"?',
      '  state.driver  expected "memory" or "file" or "redis", found "files"',
      '  models.openai/some-chat-model.pricing.prompt  ' +
        'expected a decimal string such as "0.0000025", found the number 0.0000025',
      '  models.bare  expected a model id such as "vendor/model", ' +
        'without a colon before the slash, found "bare"',
      '  models.bare.deployments  expected a list of deployments, or a provider with the name of the vendor, found nothing',
      '  sever  unknown key; did you mean "server"?',
    ])
  })

  it.each([
    [{ server: 5 }, 'server', 'expected an object, found the number 5'],
    // What stands in the place of an object may be the secret that belongs into it.
    [
      { admin: { tokens: ['hush-hush-1'] } },
      'admin.tokens.0',
      'expected an object with name, token, role, found a text',
    ],
    [
      { providers: { openai: 'hush-hush-1' } },
      'providers.openai',
      'expected an object with use, found a text',
    ],
    [{ admin: { token: 12345678 } }, 'admin.token', 'expected a text, found a number'],
    [{ server: { port: '80' } }, 'server.port', 'expected a port from 0 to 65535, found "80"'],
    [{ server: { port: 65_536 } }, 'server.port', 'found the number 65536'],
    [
      { server: { workers: 0 } },
      'server.workers',
      'a whole number from 1 to 256, or "auto", found',
    ],
    [
      { log: { url: 'redis://localhost' }, state: { driver: 'file' } },
      'log.url',
      'expected none with state.driver "file"',
    ],
    [
      { server: { workers: 2 } },
      'server.workers',
      'has one owner, and several processes would wait for each other. Use state.driver "redis"',
    ],
    [
      { server: { workers: 'auto' }, state: { driver: 'memory' } },
      'server.workers',
      'expected 1 with state.driver "memory", found "auto": each process would have limits',
    ],
    [{ server: { limits: { chat: '5 furlongs' } } }, 'server.limits.chat', 'such as "50mib", or'],
    [{ server: { limits: { chat: 0.5 } } }, 'server.limits.chat', 'found the number 0.5'],
    [{ server: { requestTimeout: 0 } }, 'server.requestTimeout', 'above 0'],
    [{ billing: { hold: 'floor' } }, 'billing.hold', '"adaptive" or "ceiling"'],
    [{ billing: { exposure: { share: 1.5 } } }, 'billing.exposure.share', 'from 0 to 1'],
    [{ billing: { exposure: { most: '-1' } } }, 'billing.exposure.most', 'of at least 0'],
    [{ log: { level: 'loud' } }, 'log.level', 'expected "silent" or "error" or "warn"'],
    [
      { state: { driver: 'memory', path: './data' } },
      'state.path',
      'cannot be combined with the other members that are set here: it needs driver "file"',
    ],
    [{ state: { url: 'redis://localhost' } }, 'state.url', 'it needs driver "redis"'],
    [{ log: { zzzzzz: 1 } }, 'log.zzzzzz', 'unknown key; expected one of level, format, access'],
    [
      { admin: { metrics: true } },
      'admin.metrics',
      'expected "admin", "public" or false, found true',
    ],
    [{ providers: { 'a b': { use: 'x' } } }, 'providers.a b', 'expected a name of letters, digits'],
    [
      { providers: { a: {} } },
      'providers.a.use',
      'the name or path of a plugin, or a plugin object',
    ],
    [{ routing: { attempts: 1.5 } }, 'routing.attempts', 'a whole number from 1 to 10'],
    [{ server: [1] }, 'server', 'expected an object, found a list'],
  ])('%j', async (config, path, message) => {
    const { issues } = await failure(await options(config))
    expect(issues).toEqual([{ path, message: expect.stringContaining(message) }])
  })

  it('never show a value that may be secret', async () => {
    const cwd = await folder({
      'gateway.config.yaml': `
        admin: { token: hushhus }
        log: { level: "\${LEVEL}" }
        seed: { accounts: [{ id: a, name: A, keys: [{ id: k, name: K, sha256: abcdef123 }] }] }
        server: { host: 1, limits: { chat: "x\${LEVEL}" } }`,
    })
    const error = await failure({ cwd, env: { LEVEL: 'topsecret' } })
    expect(error.issues).toEqual([
      { path: 'server.host', message: expect.stringContaining('found the number 1') },
      { path: 'server.limits.chat', message: expect.stringContaining('found [secret]') },
      { path: 'log.level', message: expect.stringContaining('found [secret]') },
      { path: 'admin.token', message: expect.stringContaining('found [secret]') },
      { path: 'seed.accounts.0.keys.0.sha256', message: expect.stringContaining('found [secret]') },
    ])
    expect(error.message).not.toMatch(/hushhus|topsecret|abcdef123/)
  })

  it('never quote a file that is not JSON', async () => {
    for (const text of [
      '{"admin": {"token": hushhush-hushhush}}',
      'hushhush',
      '{"a": "hushhush"',
    ]) {
      const { message } = await failure({ cwd: await folder({ 'gateway.config.json': text }) })
      expect(message).toContain('cannot be read')
      expect(message).not.toContain('hush')
    }
  })

  it('a byte order mark is none', async () => {
    const cwd = await folder({ 'gateway.config.json': '\ufeff{"server":{"port":1}}' })
    expect((await loadConfig({ cwd, env: {} })).config.server.port).toBe(1)
  })
})

describe('checks between sections', () => {
  it.each([
    [
      { 'a/b': { ...MODEL, deployments: [{ provider: 'opnai', model: 'x' }] } },
      'models.a/b.deployments.0.provider',
      'expected the name of a provider, found "opnai"; did you mean "openai"?',
    ],
    [
      { 'a/b': { ...MODEL, deployments: [{ provider: 'constructor', model: 'x' }] } },
      'models.a/b.deployments.0.provider',
      'expected one of openai',
    ],
    [
      { 'a/b': { ...MODEL, deployments: [...MODEL.deployments, ...MODEL.deployments] } },
      'models.a/b.deployments.1',
      'is the same as models.a/b.deployments.0',
    ],
  ])('%j', async (models, path, message) => {
    const { issues } = await failure(await options({ providers: { openai: OPENAI }, models }))
    expect(issues).toEqual([{ path, message: expect.stringContaining(message) }])
  })

  it('skip disabled models', async () => {
    const models = {
      'a/b': { ...MODEL, enabled: false, deployments: [{ provider: 'gone', model: 'x' }] },
    }
    expect(
      (await load({ providers: { openai: OPENAI }, models })).config.models['a/b']!.enabled,
    ).toBe(false)
  })

  it('refuse seed keys and accounts that occur twice', async () => {
    const key = { id: 'k', name: 'K', secret: 'secret-1' }
    const accounts = [
      { id: 'a', name: 'A', keys: [key, { ...key, id: 'l' }] },
      { id: 'a', name: 'B', keys: [{ ...key, secret: 'secret-2' }] },
    ]
    const { issues } = await failure(await options({ seed: { accounts } }))
    expect(issues).toEqual([
      { path: 'seed.accounts.1.id', message: 'is the same as seed.accounts.0.id' },
      { path: 'seed.accounts.1.keys.0.id', message: 'is the same as seed.accounts.0.keys.0.id' },
      {
        path: 'seed.accounts.0.keys.1.secret',
        message: 'is the same as seed.accounts.0.keys.0.secret',
      },
    ])
  })

  it('switch off the admin API, and what depends on it', async () => {
    const sessions = { idle: 43_200, lifetime: 604_800 }
    const members = {
      enabled: true,
      sessions: { idle: 2_592_000, lifetime: 7_776_000 },
      keys: 5,
      join: [],
    }
    const off = {
      enabled: false,
      tokens: [],
      metrics: false,
      console: false,
      hosts: [],
      sessions,
      login: { oidc: {} },
      members,
    }
    expect((await load({ admin: false })).config.admin).toEqual(off)
    const more = { enabled: false, token: 'a-token-of-8', metrics: 'public' }
    expect((await load({ admin: more })).config.admin).toEqual({ ...off, metrics: 'public' })
  })

  it('accept in the seed what the admin API accepts', async () => {
    const cwd = await folder({
      'gateway.config.yaml': `
        seed:
          accounts:
            - id: me
              name: Me
              credits: "10.00"
              keys:
                - id: laptop
                  name: Laptop
                  sha256: ${'ab'.repeat(32)}
                  spend_cap: { usd: "5.00", scope: month }
                  expires_at: 2027-01-31T00:00:00Z
                  rpm_limit: 10`,
    })
    const { config } = await loadConfig({ cwd, env: {} })
    expect(config.seed.accounts[0]).toMatchObject({
      credits: '10.00',
      keys: [{ id: 'laptop', expires_at: '2027-01-31T00:00:00.000Z', rpm_limit: 10 }],
    })
  })

  it.each([
    [{ credits: '0' }, 'credits'],
    [{ credits: 10 }, 'credits'],
    [{ credits: '4000001' }, 'credits'],
    [{ keys: [{ id: 'k', name: 'K' }] }, 'keys.0'],
    [{ keys: [{ id: 'k', name: 'K', secret: 'secret-1', sha256: 'ab'.repeat(32) }] }, 'keys.0'],
    [
      { keys: [{ id: 'k', name: 'K', secret: 'secret-1', expires_at: 'soon' }] },
      'keys.0.expires_at',
    ],
    [{ keys: [{ id: 'k', name: 'K', secret: 'short' }] }, 'keys.0.secret'],
    [{ keys: [{ id: 'k', name: 'K', secret: 'with a blank' }] }, 'keys.0.secret'],
    [{ keys: [{ id: 'k', name: 'K', secret: 'sk-sluice-mistyped' }] }, 'keys.0.secret'],
    [
      {
        keys: [{ id: 'k', name: 'K', secret: 'secret-1', policy: { version: 1, deny: ['cats'] } }],
      },
      'keys.0.policy.deny[0]',
    ],
  ])('seed nothing with %j', async (account, path) => {
    const accounts = [{ id: 'a', name: 'A', ...account }]
    const { issues } = await failure(await options({ seed: { accounts } }))
    expect(issues.map((issue) => issue.path)).toEqual([`seed.accounts.0.${path}`])
  })
})

describe('the environment', () => {
  it('is referenced in texts anywhere', async () => {
    const { config, secrets } = await load(
      {
        server: { host: '${HOST}', port: '${PORT}' },
        log: { access: '${ACCESS:-false}' },
        providers: {
          openai: {
            use: 'x',
            options: {
              url: 'https://${HOST}/${PATH_:-v1}/',
              digits: '${PORT}',
              list: ['${HOST}'],
              price: 'US$${HOST}',
              empty: '${EMPTY}${EMPTY:-!}',
            },
          },
        },
      },
      { HOST: 'h.test', PORT: '99', EMPTY: '' },
    )
    expect(config.server).toMatchObject({ host: 'h.test', port: 99 })
    expect(config.log.access).toBe(false)
    expect(config.providers.openai!.options).toEqual({
      url: 'https://h.test/v1/',
      digits: '99',
      list: ['h.test'],
      price: 'US${HOST}',
      empty: '!',
    })
    expect([...secrets].toSorted()).toEqual([
      'providers.openai.options.digits',
      'providers.openai.options.empty',
      'providers.openai.options.list.0',
      'providers.openai.options.url',
      'server.host',
      'server.port',
    ])
  })

  it('is referenced by a fixed notation only', async () => {
    const { issues } = await failure(await options({ server: { host: '${MY-HOST}' } }))
    expect(issues).toEqual([
      { path: 'server.host', message: expect.stringContaining('${NAME:-default}') },
    ])
  })

  it('leaves plugin objects as they are', async () => {
    const cwd = await folder({
      'gateway.config.ts': `
        const plugin = { kind: 'provider', hint: '\${NOT_SET}', setup() {} }
        export default { providers: { own: { use: plugin } } }`,
    })
    const { config } = await loadConfig({ cwd, env: {} })
    expect(config.providers.own!.use).toMatchObject({ kind: 'provider', hint: '${NOT_SET}' })
  })

  it('includes .env, which does not override it and does not change the process', async () => {
    const cwd = await folder({
      '.env': 'HOST=from-cwd\nPORT=1\nLEVEL=warn',
      'config/.env': "PORT=2\nSLUICEGATE__ROUTING__ATTEMPTS=7\nPLAIN='a$b'",
      'config/gateway.config.json': JSON.stringify({
        server: { host: '${HOST}', port: '${PORT}' },
        log: { level: '${LEVEL}' },
        providers: { p: { use: 'x', options: { plain: '${PLAIN}' } } },
      }),
    })
    const { config } = await loadConfig({ cwd, env: { LEVEL: 'error' } })
    expect(config.server).toMatchObject({ host: 'from-cwd', port: 2 })
    expect(config.log.level).toBe('error')
    expect(config.routing.attempts).toBe(7)
    expect(config.providers.p!.options.plain).toBe('a$b')
    expect(process.env).not.toHaveProperty('PLAIN')
  })

  it('overrides the file at any depth', async () => {
    const { config } = await load(
      {
        server: { port: 1, host: '127.0.0.1' },
        providers: { 'my-own': { use: 'x', options: { apiKey: '${UNSET}', retries: 1 } } },
        models: { 'a/b-1.5': { ...MODEL, deployments: [{ provider: 'my-own', model: 'm' }] } },
      },
      {
        SLUICEGATE__SERVER__PORT: '9000',
        SLUICEGATE__SERVER__HOST: '0',
        SLUICEGATE__server__requesttimeout: '1.5',
        SLUICEGATE__LOG__LEVEL: 'debug',
        SLUICEGATE__STATE__DRIVER: 'memory',
        SLUICEGATE__SERVER__LIMITS__CHAT: '1kib',
        SLUICEGATE__PROVIDERS__MY_OWN__OPTIONS__APIKEY: '1234${HOME}',
        SLUICEGATE__PROVIDERS__MY_OWN__OPTIONS__RETRIES: '5',
        SLUICEGATE__MODELS__A_B_1_5__DEPLOYMENTS__0__WEIGHT: '2',
        SLUICEGATE__MODELS__A_B_1_5__PRICING: '{"prompt": "3"}',
        SLUICEGATE_ADMIN_TOKEN: 'not an override',
      },
    )
    expect(config.server).toMatchObject({ port: 9000, host: '0', requestTimeout: 1.5 })
    expect(config.server.limits.chat).toBe(1024)
    expect(config.log.level).toBe('debug')
    expect(config.state).toEqual({ driver: 'memory' })
    expect(config.providers['my-own']!.options).toEqual({ apiKey: '1234${HOME}', retries: 5 })
    expect(config.models['a/b-1.5']!.deployments[0]!.weight).toBe(2)
    expect(config.models['a/b-1.5']!.pricing).toEqual({ prompt: '3' })
  })

  it('keeps state in the folder that a variable names, where no driver is named', async () => {
    const { config } = await load({}, { SLUICEGATE__STATE__PATH: '/var/lib/gateway' })
    expect(config.state).toMatchObject({ driver: 'file', path: '/var/lib/gateway' })
    const { config: written } = await load({ state: { retention: 30 } })
    expect(written.state).toMatchObject({ driver: 'file', retention: 30 })
  })

  it('overrides existing settings only; messages name the variable of a bad value', async () => {
    const { issues } = await failure({
      ...(await options({ providers: { openai: OPENAI } })),
      env: {
        SLUICEGATE__SERVR__PORT: '1',
        SLUICEGATE__SERVER__PROT: '1',
        SLUICEGATE__SERVER__PORT__X: '1',
        SLUICEGATE__PROVIDERS__OPNAI__TIMEOUT: '1',
        SLUICEGATE__ROUTING__ATTEMPTS: 'many',
      },
    })
    expect(issues).toEqual([
      {
        path: 'SLUICEGATE__PROVIDERS__OPNAI__TIMEOUT',
        message: 'does not name a setting; did you mean "SLUICEGATE__PROVIDERS__OPENAI"?',
      },
      {
        path: 'SLUICEGATE__SERVER__PORT__X',
        message: 'does not name a setting; there are none',
      },
      {
        path: 'SLUICEGATE__SERVER__PROT',
        message: 'does not name a setting; did you mean "SLUICEGATE__SERVER__PORT"?',
      },
      {
        path: 'SLUICEGATE__SERVR__PORT',
        message: 'does not name a setting; did you mean "SLUICEGATE__SERVER"?',
      },
      {
        path: 'routing.attempts',
        message:
          'expected a whole number from 1 to 10, found "many" (set by SLUICEGATE__ROUTING__ATTEMPTS)',
      },
    ])
  })
})

describe('the data folder', () => {
  const FILE = { 'etc/gateway.config.yaml': 'state: { driver: file, path: ./ledger }\n' }
  const REDIS = { 'etc/gateway.config.yaml': 'state: { driver: redis, url: "redis://x" }\n' }

  it('is that of the option, of the variable, of the configuration, in this order', async () => {
    const cwd = await folder(FILE)
    const file = 'etc/gateway.config.yaml'
    const env = { SLUICEGATE_DATA: 'from/env' }
    const place = async (options: LoadOptions) =>
      (await loadConfig({ cwd, file, env, ...options })).config.state
    expect(await place({ data: 'here' })).toMatchObject({ path: join(cwd, 'here') })
    expect(await place({})).toMatchObject({ path: join(cwd, 'from/env') })
    expect(await place({ env: {} })).toMatchObject({ path: join(cwd, 'etc/ledger') })
    const absolute = { SLUICEGATE_DATA: '/var/lib/sluicegate' }
    expect(await place({ env: absolute })).toMatchObject({ path: '/var/lib/sluicegate' })
  })

  it('holds the outbox of gateways on Redis', async () => {
    const cwd = await folder(REDIS)
    const file = 'etc/gateway.config.yaml'
    const chosen = await loadConfig({ cwd, file, data: 'here', env: {} })
    expect(chosen.config.state).toMatchObject({ outbox: join(cwd, 'here/outbox') })
    const configured = await loadConfig({ cwd, file, env: {} })
    expect(configured.config.state).toMatchObject({ outbox: join(cwd, 'etc/outbox') })
  })
})

describe('models in a separate file', () => {
  const models = `
    a/b:
      pricing: { prompt: "\${PRICE:-1}" }
      deployments: [{ provider: openai, model: x }]`

  it.each(['./etc/models.yaml', '${MODELS}'])('are found as %s', async (path) => {
    const cwd = await folder({
      'conf/etc/models.yaml': models,
      'conf/gateway.json': JSON.stringify({ providers: { openai: OPENAI }, models: path }),
    })
    const env = { MODELS: 'etc/models.yaml', SLUICEGATE__MODELS__A_B__FREE_TIER: 'true' }
    const { config, folders } = await loadConfig({ cwd, file: 'conf/gateway.json', env })
    expect(config.models['a/b']).toMatchObject({ free_tier: true, pricing: { prompt: '1' } })
    expect(folders).toContain(join(cwd, 'conf/etc'))
  })

  it('can be chosen by an override', async () => {
    const cwd = await folder({
      'other.yaml': models,
      'gateway.config.json': JSON.stringify({ providers: { openai: OPENAI }, models: 'none.yaml' }),
    })
    const { config } = await loadConfig({ cwd, env: { SLUICEGATE__MODELS: 'other.yaml' } })
    expect(Object.keys(config.models)).toEqual(['a/b'])
  })

  it.each(['./gone.yaml', './models.ts'])('are not found as %s', async (path) => {
    const error = await failure({ ...(await options({ models: path })) })
    expect(error.issues).toEqual([
      { path: 'models', message: expect.stringContaining('YAML or JSON') },
    ])
    expect(error.message).toContain(path.slice(2))
  })
})

describe('providers, once they are set up', () => {
  it('need the methods for their models', async () => {
    const image = { ...MODEL, pricing: { image: '0.04' } }
    const { config } = await load({
      providers: { openai: OPENAI },
      models: { 'a/chat': MODEL, 'a/image': image },
    })
    const catalog = buildCatalog(config.models)
    const issues = checkProviders(config, catalog, new Map([['openai', { chat: vi.fn() }]]))
    expect(issues).toEqual([
      {
        path: 'models.a/image.deployments.0.provider',
        message:
          'expected a provider for image models, found "openai" (openai-compatible), which serves chat',
      },
    ])
    const able = { chat: vi.fn(), generateImage: vi.fn() }
    expect(checkProviders(config, catalog, new Map([['openai', able]]))).toEqual([])
    const references = { ...image, capabilities: ['REFERENCES'] }
    const edits = await load({ providers: { openai: OPENAI }, models: { 'a/image': references } })
    const editing = buildCatalog(edits.config.models)
    expect(checkProviders(edits.config, editing, new Map([['openai', able]]))).toEqual([
      {
        path: 'models.a/image.deployments.0.provider',
        message: expect.stringContaining('with the capability REFERENCES'),
      },
    ])
    const editor = { ...able, editImage: vi.fn() }
    expect(checkProviders(edits.config, editing, new Map([['openai', editor]]))).toEqual([])
  })
})

describe('watching', () => {
  it('reports a file that was rewritten or replaced', async () => {
    const cwd = await folder({ 'gateway.config.yaml': withPort(1) })
    const { ports, errors, file } = await watched(cwd)
    await writeFile(file, withPort(2))
    await expect.poll(ports).toEqual([2])
    await writeFile(`${file}.tmp`, withPort(3))
    await rename(`${file}.tmp`, file)
    await expect.poll(ports).toEqual([2, 3])
    expect(errors).toEqual([])
  })

  it('does not report a configuration without a difference', async () => {
    const text = 'globalThis.timesRead = 1 + (globalThis.timesRead ?? 0)\nexport default {}'
    const cwd = await folder({ 'gateway.config.ts': text })
    const { loads, errors, file } = await watched(cwd)
    await writeFile(file, `${text}\n`)
    await expect.poll(timesRead).toBe(2)
    await writeFile(file, text.replace('{}', '{ server: { port: 6 } }'))
    await expect.poll(() => loads.length).toBe(1)
    expect(loads[0]!.config.server.port).toBe(6)
    expect(errors).toEqual([])
  })

  it('reports an invalid file and keeps the last configuration', async () => {
    const cwd = await folder({ 'gateway.config.yaml': withPort(1) })
    const { ports, errors, file } = await watched(cwd)
    await writeFile(file, 'server: { port: high }')
    await expect.poll(() => errors.length).toBe(1)
    expect(errors[0]).toBeInstanceOf(ConfigError)
    expect(ports()).toEqual([])
    await writeFile(file, withPort(5))
    await expect.poll(ports).toEqual([5])
  })

  it('sees the models file, .env and imported modules', async () => {
    const cwd = await folder({
      'config/gateway.config.ts': `
        import { port } from './port.ts'
        export default {
          server: { port, host: '\${HOST:-none}' },
          providers: { openai: { use: 'x' } },
          models: './models/all.json',
        }`,
      'config/port.ts': 'export const port = 1',
      'config/models/all.json': '{}',
    })
    const { loads } = await watched(cwd)
    const last = () => loads.at(-1)?.config
    await writeFile(join(cwd, 'config/port.ts'), 'export const port = 2')
    await expect.poll(() => last()?.server.port).toBe(2)
    await writeFile(join(cwd, '.env'), 'HOST=some.test')
    await expect.poll(() => last()?.server.host).toBe('some.test')
    await writeFile(join(cwd, 'config/models/all.json'), JSON.stringify({ 'a/b': MODEL }))
    await expect.poll(() => Object.keys(last()?.models ?? {})).toEqual(['a/b'])
  })

  it('follows the models file to another folder', async () => {
    const cwd = await folder({
      'gateway.config.json': withModels('a/m.json'),
      'a/m.json': '{}',
      'b/m.json': JSON.stringify({ 'b/one': MODEL }),
    })
    const { loads, file } = await watched(cwd)
    const models = () => Object.keys(loads.at(-1)?.config.models ?? {})
    await writeFile(file, withModels('b/m.json'))
    await expect.poll(models).toEqual(['b/one'])
    await writeFile(join(cwd, 'b/m.json'), JSON.stringify({ 'b/two': MODEL }))
    await expect.poll(models).toEqual(['b/two'])
  })

  it('ends when it is closed', async () => {
    const cwd = await folder({ 'gateway.config.yaml': withPort(1) })
    const first = await watched(cwd)
    const second = await watched(cwd)
    await first.close()
    await writeFile(first.file, withPort(2))
    await expect.poll(second.ports).toEqual([2])
    expect(first.ports()).toEqual([])
  })
})

describe('the configurations of the package', () => {
  const KEYS = {
    OPENAI_API_KEY: 'one',
    GEMINI_API_KEY: 'two',
    MISTRAL_API_KEY: 'three',
    OPENROUTER_API_KEY: 'four',
    GROQ_API_KEY: 'five',
  }
  /** An empty folder: what a person has made in the checkout is not read. */
  const packaged = async () => ({
    cwd: await folder({}),
    builtIn: join(ROOT, 'config/gateway.config.ts'),
  })
  /** A port without a server. */
  const NO_OLLAMA = '127.0.0.1:9'

  it('start without any secret', async () => {
    const env = { OLLAMA_HOST: NO_OLLAMA }
    const { config, file } = await loadConfig({ ...(await packaged()), env })
    expect(file).toBe(join(ROOT, 'config/gateway.config.ts'))
    expect(config.server).toMatchObject({ host: '127.0.0.1', port: 8787 })
    expect(Object.keys(config.providers)).toEqual(['mock', 'tesseract'])
    const catalog = buildCatalog(config.models)
    expect(catalog.get('mock/echo')!.prices).toMatchObject({
      prompt: 10n ** 11n,
      completion: 4n * 10n ** 11n,
    })
    expect(catalog.freeTier().map(({ id }) => id)).toEqual(['local/ocr', 'mock/free'])
    expect(config.admin.token).toBeUndefined()
  })

  it('serve every vendor whose key is set', async () => {
    const env = { ...KEYS, OLLAMA_HOST: NO_OLLAMA, SLUICEGATE_ADMIN_TOKEN: 'a-long-token' }
    const { config, secrets } = await loadConfig({ ...(await packaged()), env })
    expect(Object.keys(config.providers)).toEqual([
      'mock',
      'tesseract',
      'openai',
      'google',
      'mistral',
      'groq',
      'openrouter',
    ])
    for (const name of ['openai', 'google', 'mistral', 'openrouter', 'groq']) {
      expect(Object.values(KEYS)).toContain(config.providers[name]!.options.apiKey)
      expect(secrets).toContain(`providers.${name}.options.apiKey`)
      const served = Object.values(config.models).filter(
        ({ deployments }) => deployments[0]!.provider === name,
      )
      expect(served.length).toBeGreaterThanOrEqual(3)
    }
    expect(config.admin.token).toBe('a-long-token')
  })

  it('search the web with every engine that is set, and ask the first of them', async () => {
    const set = { EXA_API_KEY: 'six', SEARXNG_URL: 'http://127.0.0.1:8888' }
    const env = { ...set, OLLAMA_HOST: NO_OLLAMA }
    const { config, secrets } = await loadConfig({ ...(await packaged()), env })
    expect(config.search).toEqual({
      engines: {
        exa: { use: 'exa', options: { apiKey: 'six' }, price: '0.007', timeout: 5 },
        searxng: {
          use: 'searxng',
          options: { baseURL: 'http://127.0.0.1:8888' },
          price: '0',
          timeout: 5,
        },
      },
      onError: 'ignore',
    })
    expect(secrets).toContain('search.engines.exa.options.apiKey')
    const all = { PARALLEL_API_KEY: 'a', EXA_API_KEY: 'b', PERPLEXITY_API_KEY: 'c' }
    const other = await loadConfig({
      ...(await packaged()),
      env: { ...all, OLLAMA_HOST: NO_OLLAMA },
    })
    expect(Object.keys(other.config.search.engines)).toEqual(['parallel', 'exa', 'perplexity'])
  })

  it('find a local Ollama, whose models are its own to name', async () => {
    const server = createServer((_, response) => void response.end('{"models":[]}'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const { config } = await loadConfig({
      ...(await packaged()),
      env: { OLLAMA_HOST: `0.0.0.0:${port}` },
    })
    expect(config.providers.ollama).toMatchObject({
      firstPartTimeout: 300,
      options: { baseURL: `http://127.0.0.1:${port}/v1`, quirks: 'ollama' },
    })
    expect(config.wildcards).toMatchObject({ 'ollama/*': { discover: true } })
  })

  it('report an invalid address of Ollama', async () => {
    const error = await failure({ ...(await packaged()), env: { OLLAMA_HOST: 'my host' } })
    expect(error.message).toContain('OLLAMA_HOST')
  })

  it.each(['minimal', 'several-deployments', 'guarded'])('include the example %s', async (name) => {
    const file = `config/examples/${name}.yaml`
    const own = { PORT: '9999', HELPDESK_KEY: 'a-long-key', SLUICEGATE_ADMIN_TOKEN: 'a-long-token' }
    const { config } = await loadConfig({
      cwd: await folder({}),
      file: join(ROOT, file),
      env: { ...KEYS, ...own },
    })
    expect(buildCatalog(config.models).all().length).toBeGreaterThan(0)
  })
})

function withPort(port: number): string {
  return `server: { port: ${port} }`
}

function withModels(models: string): string {
  return JSON.stringify({ providers: { openai: OPENAI }, models })
}

async function options(config: unknown): Promise<LoadOptions> {
  return { cwd: await folder({ 'gateway.config.json': JSON.stringify(config) }), env: {} }
}

async function load(config: unknown, env: LoadOptions['env'] = {}): Promise<LoadedConfig> {
  return loadConfig({ ...(await options(config)), env })
}

async function failure(options: LoadOptions): Promise<ConfigError> {
  const error = await loadConfig(options).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ConfigError)
  return error as ConfigError
}

/** Incremented by a configuration. */
function timesRead(): unknown {
  return Reflect.get(globalThis, 'timesRead')
}

/** Watches the configuration of a folder and collects all reports. */
async function watched(cwd: string) {
  const loads: LoadedConfig[] = []
  const errors: unknown[] = []
  const options = { cwd, env: {} }
  const loaded = await loadConfig(options)
  const { close } = await watchConfig(
    loaded,
    (next) => loads.push(next),
    (error) => errors.push(error),
    options,
  )
  onTestFinished(close)
  return {
    file: loaded.file,
    loads,
    errors,
    close,
    ports: () => loads.map(({ config }) => config.server.port),
  }
}

describe('a configuration that is written', () => {
  it.each([' two\nlines ', 'end\n\n', 'x \n y \n', '', '~'])(
    'has the last text %j as it is',
    (note) => {
      expect(parseYAML(toYaml({ first: [1], last: { note } }))).toEqual({
        first: [1],
        last: { note },
      })
    },
  )

  it('has no members where there are none', () => {
    expect(parseYAML(toYaml({}))).toEqual({})
  })
})
