/** The way of connections: which proxy, which certificates, and what an operator reads when the way is closed. */
import { createServer as createHttpsServer } from 'node:https'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { Server as ProxyServer } from 'proxy-chain'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectionText } from '../../src/errors/errors.ts'
import { isBypass, NO_NETWORK, readNetwork } from '../../src/config/network.ts'
import { loadConfig } from '../../src/config/config.ts'
import { Egress, ProxyHealth, type EgressSettings } from '../../src/upstream/egress.ts'
import { call, run } from '../_cli.ts'
import { makeCertificate } from '../_certificate.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, loaded, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'

const PROXY = 'http://proxy.corp:3128'

describe('which way a connection takes', () => {
  const way = (
    origin: string,
    { top = {}, own, env = {} }: { top?: EgressSettings; own?: EgressSettings; env?: object },
  ) => new Egress(top, { ...NO_NETWORK, variables: { ...env } }).route(own).explain(origin)

  const cases: [string, Parameters<typeof way>[1], string | null, string][] = [
    ['https://api.acme.com', {}, null, 'none'],
    ['https://api.acme.com', { env: { HTTPS_PROXY: PROXY } }, PROXY, 'environment HTTPS_PROXY'],
    ['http://api.acme.com', { env: { HTTPS_PROXY: PROXY } }, null, 'none'],
    ['http://api.acme.com', { env: { HTTP_PROXY: PROXY } }, PROXY, 'environment HTTP_PROXY'],
    ['http://api.acme.com', { env: { ALL_PROXY: PROXY } }, PROXY, 'environment ALL_PROXY'],
    [
      'https://a.b',
      { env: { https_proxy: 'http://low:1', HTTPS_PROXY: PROXY } },
      'http://low:1',
      'environment https_proxy',
    ],
    ['https://a.b', { env: { HTTPS_PROXY: 'proxy.corp:3128' } }, PROXY, 'environment HTTPS_PROXY'],
    [
      'https://a.b',
      { env: { HTTPS_PROXY: 'http://u:p%40@proxy.corp:3128' } },
      PROXY,
      'environment HTTPS_PROXY',
    ],
    ['https://a.b', { top: { proxy: PROXY } }, PROXY, 'setting'],
    ['https://a.b', { top: { proxy: 'none' }, env: { HTTPS_PROXY: PROXY } }, null, 'setting'],
    ['https://a.b', { top: { proxy: PROXY }, own: { proxy: 'none' } }, null, 'setting'],
    ['https://a.b', { top: { proxy: PROXY }, own: { proxy: 'environment' } }, null, 'none'],
    ['https://a.b', { own: { proxy: PROXY }, env: { NO_PROXY: 'a.b' } }, null, 'bypass a.b'],
    ['https://x.a.b', { top: { proxy: PROXY }, env: { NO_PROXY: 'a.b' } }, null, 'bypass a.b'],
    ['https://xa.b', { top: { proxy: PROXY }, env: { NO_PROXY: 'a.b' } }, PROXY, 'setting'],
    ['https://a.b', { top: { proxy: PROXY }, env: { NO_PROXY: '.a.b' } }, PROXY, 'setting'],
    ['https://x.a.b', { top: { proxy: PROXY }, env: { NO_PROXY: '*.a.b' } }, null, 'bypass *.a.b'],
    [
      'https://a.b',
      { top: { proxy: PROXY }, env: { NO_PROXY: 'c.d, a.b:443' } },
      null,
      'bypass a.b:443',
    ],
    ['https://a.b:8443', { top: { proxy: PROXY }, env: { no_proxy: 'a.b:443' } }, PROXY, 'setting'],
    [
      'https://x.a.b',
      { top: { proxy: PROXY }, env: { no_proxy: 'a.b:443' } },
      null,
      'bypass a.b:443',
    ],
    [
      'https://10.1.2.3',
      { top: { proxy: PROXY, bypass: ['10.0.0.0/8'] } },
      null,
      'bypass 10.0.0.0/8',
    ],
    ['https://11.1.2.3', { top: { proxy: PROXY, bypass: ['10.0.0.0/8'] } }, PROXY, 'setting'],
    ['https://[fd00::1]', { top: { proxy: PROXY, bypass: ['fd00::/8'] } }, null, 'bypass fd00::/8'],
    [
      'https://[fd00::1]',
      { top: { proxy: PROXY, bypass: ['FD00:0::1'] } },
      null,
      'bypass FD00:0::1',
    ],
    ['https://a.b', { top: { proxy: PROXY, bypass: ['*'] } }, null, 'bypass *'],
    [
      'https://a.b',
      { top: { proxy: PROXY, bypass: ['a.b'] }, own: { bypass: [] } },
      PROXY,
      'setting',
    ],
    ['http://localhost:11434', { top: { proxy: PROXY } }, null, 'local'],
    ['http://127.0.0.1:8000', { top: { proxy: PROXY } }, null, 'local'],
    ['http://[::1]:8000', { top: { proxy: PROXY } }, null, 'local'],
    ['http://169.254.169.254', { env: { HTTP_PROXY: PROXY } }, null, 'local'],
    ['http://metadata.google.internal', { env: { HTTP_PROXY: PROXY } }, null, 'local'],
    ['http://localhost:8000', { own: { proxy: PROXY } }, PROXY, 'setting'],
    [
      'http://localhost:8000',
      { own: { proxy: 'environment' }, env: { HTTP_PROXY: PROXY } },
      null,
      'local',
    ],
  ]
  test.each(cases)('%s with %o', (origin, settings, via, why) => {
    const found = way(origin, settings)
    expect([found.via, [found.why, found.by ?? []].flat().join(' ')]).toEqual([via, why])
  })

  test.each(['', 'http://a', 'a b', '10.0.0.0/33', 'a/8', '*x'])('%j is no entry', (text) => {
    expect(isBypass(text)).toBe(false)
  })

  test('a proxy is down after three failures in ten seconds, until something answers', () => {
    let now = 0
    const health = new ProxyHealth(() => now)
    for (const at of [0, 5_000, 9_999]) {
      now = at
      health.failed('p:1', 'why')
    }
    expect(health.down).toEqual([])
    now = 10_000
    health.failed('p:1', 'why')
    expect(health.down).toEqual([['p:1', 'why']])
    health.answered('p:1')
    expect(health.down).toEqual([])
  })
})

const PASSWORD = 'p@ss w0rd'
const certificate = makeCertificate(['vendor.test'])

/** A server with an own authority that plays a vendor, a search engine, a judge, and the receivers of events. */
class Everything implements AsyncDisposable {
  readonly seen: string[] = []
  readonly #server: ReturnType<typeof createServer>

  constructor(tls: object | undefined) {
    const answer = (request: IncomingMessage, response: ServerResponse) =>
      void this.#answer(request, response)
    this.#server = tls ? createHttpsServer(tls, answer) : createServer(answer)
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return (this.#server.address() as AddressInfo).port
  }

  async [Symbol.asyncDispose]() {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const bytes = Buffer.concat(chunks)
    const packed = request.headers['content-encoding'] === 'gzip'
    const body = (packed ? gunzipSync(bytes) : bytes).toString()
    const path = request.url!.split('?')[0]!
    this.seen.push(path)
    expect(request.headers['proxy-authorization']).toBeUndefined()
    response.setHeader('content-type', 'application/json')
    if (path === '/v1/chat/completions' && body.includes('"stream":true')) {
      response.setHeader('content-type', 'text/event-stream')
      const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
      const choice = { index: 0, delta: { content: 'hello' }, finish_reason: null }
      response.write(`data: ${JSON.stringify({ ...chunk, choices: [choice] })}\n\n`)
      const end = { index: 0, delta: {}, finish_reason: 'stop' }
      response.write(`data: ${JSON.stringify({ ...chunk, choices: [end] })}\n\n`)
      response.end('data: [DONE]\n\n')
    } else if (path === '/v1/chat/completions') {
      const message = { role: 'assistant', content: 'hello' }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }))
    } else if (path === '/search') {
      response.end(JSON.stringify({ results: [{ url: 'https://a.b', title: 'A', content: 'b' }] }))
    } else if (path === '/list') {
      const price = { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 }
      response.end(
        JSON.stringify({ 'acme/m': { ...price, litellm_provider: 'acme', mode: 'chat' } }),
      )
    } else if (path === '/moderations') {
      response.end(
        JSON.stringify({ results: [{ flagged: false, categories: {}, category_scores: {} }] }),
      )
    } else if (path === '/token') {
      response.end(JSON.stringify({ access_token: 'ya29.token', expires_in: 3600 }))
    } else {
      response.end('{}')
    }
  }
}

/** A real proxy, which alone knows the names of the network behind it. */
async function openProxy(port = 0) {
  const asked: string[] = []
  const server = new ProxyServer({
    port,
    host: '127.0.0.1',
    prepareRequestFunction({ hostname, port: to, username, password, isHttp }) {
      if (username !== 'gate' || password !== PASSWORD) return { requestAuthentication: true }
      asked.push(`${isHttp ? 'http' : 'tunnel'} ${hostname}:${to}`)
      const lookup = (
        _name: string,
        options: { all?: boolean },
        back: (...all: unknown[]) => void,
      ) =>
        options.all ? back(null, [{ address: '127.0.0.1', family: 4 }]) : back(null, '127.0.0.1', 4)
      return { dnsLookup: lookup as never }
    },
  })
  await server.listen()
  const credentials = `gate:${encodeURIComponent(PASSWORD)}`
  return {
    asked,
    port: server.port,
    url: `http://${credentials}@127.0.0.1:${server.port}`,
    bare: `http://127.0.0.1:${server.port}`,
    close: () => server.close(true),
  }
}

if (!certificate)
  process.stderr.write('SKIPPED proxies and certificates: there is no openssl here\n')

describe.skipIf(!certificate)('where the only way out is a proxy with a password', () => {
  let proxy: Awaited<ReturnType<typeof openProxy>>
  let outside: Everything
  let port: number
  let gateway: TestGateway
  beforeAll(async () => {
    proxy = await openProxy()
    outside = new Everything(certificate)
    port = await outside.listen()
    const base = `https://vendor.test:${port}`
    const { generateKeyPairSync } = await import('node:crypto')
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const credentials = JSON.stringify({
      type: 'service_account',
      client_email: 'gate@acme.iam.gserviceaccount.com',
      private_key_id: '1',
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      token_uri: `${base}/token`,
    })
    const model = {
      pricing: { prompt: '0.000001', completion: '0.000002' },
      capabilities: ['STREAMING' as const],
    }
    gateway = await createTestGateway({
      egress: { proxy: proxy.url, tls: { ca: certificate!.cert } },
      providers: {
        house: { use: 'openai-compatible', options: { baseURL: `${base}/v1`, apiKey: 'sk-house' } },
        google: {
          use: 'google',
          options: { vertex: { project: 'p', location: 'us-central1', credentials } },
        },
      },
      models: { 'house/m': { ...model, deployments: [{ provider: 'house', model: 'm' }] } },
      search: { engines: { own: { use: 'searxng', options: { baseURL: base }, price: '0' } } },
      guards: {
        use: [
          {
            use: 'judge',
            name: 'moderation',
            options: { kind: 'moderation', baseURL: base, apiKey: 'sk-judge' },
            applies: 'always',
          },
        ],
      },
      sinks: [
        {
          use: 'webhook',
          options: { url: `${base}/hook`, secret: 'sixteen characters', events: ['call.ended'] },
        },
        { use: 'otlp', options: { endpoint: base } },
      ],
    })
  })
  afterAll(async () => {
    await gateway.close()
    await outside[Symbol.asyncDispose]()
    await proxy.close()
  })

  const seen = (path: string) => eventually(() => expect(outside.seen).toContain(path))

  test('calls, searches, judges, webhooks, traces and logins go through it, and nothing else', async () => {
    const messages = [{ role: 'user', content: 'hello' }]
    const whole = await gateway.chat({ model: 'house/m', messages })
    expect([whole.status, whole.json.choices?.[0].message.content]).toEqual([200, 'hello'])
    const streamed = await gateway.chat({ model: 'house/m', messages, stream: true })
    expect(streamed.text).toContain('hello')
    expect((await gateway.chat({ model: 'house/m:online', messages })).status).toBe(200)
    const { source } = await gateway.gateway.runtime.providers.get('google')!.logIn!(
      new AbortController().signal,
    )
    expect(source).toContain('service account')
    for (const path of ['/search', '/moderations', '/token', '/hook', '/v1/traces'])
      await seen(path)
    expect(new Set(proxy.asked)).toEqual(new Set([`tunnel vendor.test:${port}`]))
    const text = [...gateway.logged, whole.text, streamed.text].join('\n')
    expect(text).not.toContain(PASSWORD)
    expect(text).not.toContain(encodeURIComponent(PASSWORD))
  })

  test('price lists are read through it by the command, with the settings of the file or of the environment', async () => {
    const ca = certificate!.cert
    const egress = { proxy: proxy.url, tls: { ca } }
    const config = JSON.stringify({ ...configOf(`https://vendor.test:${port}/v1`, egress) })
    const set = await folder({ 'gateway.config.json': config })
    const bare = await folder({ 'ca.pem': ca })
    const listed = ['models', 'import', '--from', `https://vendor.test:${port}/list`]
    const env = { HTTPS_PROXY: proxy.url, NODE_EXTRA_CA_CERTS: 'ca.pem' }
    for (const asked of [
      () => call(listed, { cwd: set }),
      // Node.js reads such variables when a process starts.
      () => run(listed, { cwd: bare, env }),
    ]) {
      proxy.asked.length = 0
      const { code, out, err } = await asked()
      expect([code, out + err]).toEqual([0, expect.stringContaining('litellm: 1 models read')])
      expect(proxy.asked).toEqual([`tunnel vendor.test:${port}`])
    }
  })

  test('each way is told', () => {
    const { ways } = gateway.gateway.runtime.egress
    expect(ways.map(({ instance }) => instance).toSorted()).toEqual(
      ['google', 'guard:moderation', 'house', 'search:own', 'sink:otlp', 'sink:webhook'].toSorted(),
    )
    for (const { via, why } of ways) expect([via, why]).toEqual([proxy.bare, 'setting'])
  })

  test('http goes to the proxy itself', async () => {
    await using plain = new Everything(undefined)
    const to = await plain.listen()
    await using own = await gatewayTo(`http://vendor.test:${to}/v1`, { proxy: proxy.url })
    expect((await ask(own)).status).toBe(200)
    expect(proxy.asked).toContain(`http vendor.test:${to}`)
  })

  test('a wrong password, a dead proxy: no deployment is blamed, and the operator reads why', async () => {
    const base = `https://vendor.test:${port}/v1`
    for (const [url, text] of [
      [
        proxy.bare,
        `proxy 127.0.0.1:${proxy.port} refused the tunnel to vendor.test:${port} with status 407: it wants a name and password in egress.proxy or HTTPS_PROXY, as in http://name:password@127.0.0.1:${proxy.port}`,
      ],
      ['http://127.0.0.1:9', 'ECONNREFUSED 127.0.0.1:9: nothing listens there'],
    ] as const) {
      await using own = await gatewayTo(base, { proxy: url })
      for (let calls = 0; calls < 5; calls++) {
        const { status, json } = await ask(own)
        expect([status, json.error.message]).toEqual([
          502,
          'The model provider could not be reached.',
        ])
      }
      const model = own.gateway.runtime.catalog.get('house/m')!
      const { state } = own.gateway.runtime.routing.healthOf(model.deployments[0]!).report()
      expect(state).toBe('healthy')
      expect(own.logged.join('\n')).toContain(text)
    }
  })

  test('a proxy on the machine is asked where an instance names it; NO_PROXY counts beside it', async () => {
    await using own = await createTestGateway(
      await variables({ HTTPS_PROXY: proxy.url, NO_PROXY: 'vendor.test' }),
    )
    const { ways } = own.gateway.runtime.egress
    expect(ways).toEqual([{ instance: 'house', via: null, why: 'bypass', by: 'vendor.test' }])
    expect((await ask(own)).status).toBe(502)
    expect(own.logged.join('\n')).toContain(`ENOTFOUND vendor.test:${port}: no such name`)
  })

  async function variables(env: Record<string, string>) {
    const path = await folder({
      'gateway.config.json': JSON.stringify(configOf(`https://vendor.test:${port}/v1`, {})),
    })
    return loadConfig({ cwd: path, env })
  }
})

function configOf(baseURL: string, egress: EgressSettings) {
  return {
    egress,
    state: { driver: 'memory' as const },
    providers: { house: { use: 'openai-compatible', options: { baseURL, apiKey: 'sk-house' } } },
    models: {
      'house/m': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING' as const],
        deployments: [{ provider: 'house', model: 'm' }],
      },
    },
  }
}

const gatewayTo = (baseURL: string, egress: EgressSettings) =>
  createTestGateway(configOf(baseURL, egress))

/** A proxy that takes connections and answers nothing. */
async function silentProxy() {
  const sockets = new Set<Socket>()
  const silent = createTcpServer((socket) => void sockets.add(socket.on('error', () => {})))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as AddressInfo
  return {
    sockets,
    port,
    url: `http://127.0.0.1:${port}`,
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    async [Symbol.asyncDispose]() {
      this.cut()
      await new Promise((resolve) => silent.close(resolve))
    },
  }
}

describe('a proxy that never opens a tunnel', () => {
  const healthOf = ({ gateway: { runtime } }: TestGateway) =>
    runtime.routing.healthOf(runtime.catalog.get('house/m')!.deployments[0]!).report().state

  test('ends calls in ten seconds, is told of, and nobody pays', async () => {
    await using proxy = await silentProxy()
    const { sockets, port } = proxy
    await using own = await createTestGateway({
      ...configOf('https://vendor.test/v1', { proxy: proxy.url }),
      routing: { attempts: 1 },
    })
    const before = await own.balance()
    const whole = ask(own)
    const left = new AbortController()
    const gone = fetch(`${own.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${own.key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'house/m', messages: [{ role: 'user', content: 'hello' }] }),
      signal: left.signal,
    }).catch((error: Error) => error.name)
    await eventually(() => expect(sockets.size).toBeGreaterThan(1))
    left.abort()
    expect(await gone).toBe('AbortError')
    const { status, json } = await whole
    expect([status, json.error.message]).toEqual([502, 'The model provider could not be reached.'])
    expect(healthOf(own)).toBe('healthy')
    expect(own.logged.join('\n')).toContain(`UND_ERR_CONNECT_TIMEOUT 127.0.0.1:${port}`)
    await eventually(() => expect(own.gateway.running.size).toBe(0))
    expect(await own.balance()).toBe(before)
    proxy.cut()
  })

  test('is blamed for streams that do not begin in their own time, not the deployment', async () => {
    await using proxy = await silentProxy()
    const config = configOf('https://vendor.test/v1', { proxy: proxy.url })
    const house = { ...config.providers.house, firstPartTimeout: 0.2 }
    await using own = await createTestGateway({
      ...config,
      providers: { house },
      admin: { token: 'planted-token' },
      routing: { attempts: 2 },
    })
    const messages = [{ role: 'user', content: 'hello' }]
    const before = await own.balance()
    const { status, json, headers } = await own.chat({ model: 'house/m', messages, stream: true })
    expect([status, json.error.message]).toEqual([502, 'The model provider could not be reached.'])
    expect(healthOf(own)).toBe('healthy')
    const why = `UND_ERR_CONNECT_TIMEOUT 127.0.0.1:${proxy.port}: `
    const [attempt] = own.logged.filter((line) => line.includes(why))
    expect(attempt).toContain('was not asked')
    await eventually(async () => {
      const path = `/admin/requests/${String(headers['x-service-request-id'])}`
      const { data } = (await own.ask('GET', path, { key: 'planted-token' })).json
      expect(data.attempts.map(({ message }: { message: string }) => message)).toEqual([
        expect.stringContaining(why),
        expect.stringContaining(why),
      ])
    })
    expect(await own.balance()).toBe(before)
    proxy.cut()
  })
})

test.each([401, 407])('a proxy that refuses with %s is told of with the setting', (status) => {
  const failed = {
    code: `PROXY_${status}`,
    host: 'api.acme.com',
    port: 443,
    via: 'proxy.corp:3128',
  }
  expect(connectionText(failed)).toBe(
    `proxy proxy.corp:3128 refused the tunnel to api.acme.com:443 with status ${status}: it wants a name and password in egress.proxy or HTTPS_PROXY, as in http://name:password@proxy.corp:3128`,
  )
})

const ask = (gateway: TestGateway) =>
  gateway.chat({ model: 'house/m', messages: [{ role: 'user', content: 'hello' }] })

describe.skipIf(!certificate)('certificates', () => {
  const local = makeCertificate(['localhost'])!
  const client = makeCertificate(['gate'])!

  test('of an own authority are trusted where it is named, and the code says so where not', async () => {
    await using server = new Everything(local)
    const base = `https://localhost:${await server.listen()}/v1`
    await using trusting = await gatewayTo(base, { tls: { ca: local.cert } })
    expect((await ask(trusting)).status).toBe(200)
    await using other = await createTestGateway({
      ...configOf(base, {}),
      admin: { token: 'planted-token' },
    })
    const answers = [await ask(other), await ask(other), await ask(other)]
    expect(answers.map(({ status }) => status)).toEqual([502, 502, 502])
    const why = `DEPTH_ZERO_SELF_SIGNED_CERT ${new URL(base).host}: the certificate is of an authority that is not known: egress.tls.ca`
    expect(other.logged.join('\n')).toContain(why)
    expect(answers[0]!.text).not.toContain('CERT')
    const read = async (path: string) =>
      (await other.ask('GET', `/admin${path}`, { key: 'planted-token' })).json.data
    const id = answers[0]!.headers['x-service-request-id']
    await eventually(async () => {
      expect((await read(`/requests/${String(id)}`)).attempts).toContainEqual(
        expect.objectContaining({ message: why }),
      )
    })
    expect(JSON.stringify(await read('/models'))).toContain(why)
    await eventually(async () => {
      const [alert] = await read('/alerts')
      expect([alert.kind, alert.message]).toEqual(['model.down', expect.stringContaining(why)])
    })
  })

  test('of the client are sent where a server demands one', async () => {
    const demand = { ...local, ca: client.cert, requestCert: true, rejectUnauthorized: true }
    await using server = new Everything(demand)
    const base = `https://localhost:${await server.listen()}/v1`
    const tls = { ca: local.cert, cert: client.cert, key: client.key }
    await using known = await gatewayTo(base, { tls })
    expect((await ask(known)).status).toBe(200)
    await using unknown = await gatewayTo(base, { tls: { ca: local.cert } })
    expect((await ask(unknown)).status).toBe(502)
    expect(unknown.logged.join('\n')).toContain('it wants a client certificate: egress.tls.cert')
  })

  test('that cannot be used are refused at their settings', async () => {
    const path = await folder({ 'c.pem': client.cert, 'k.pem': local.key })
    const read = async (tls: object) => {
      const { config } = loaded({ egress: { tls } })
      const { issues, network } = await readNetwork(config, path, {})
      return [...issues.map(({ path: at, message }) => `${at}: ${message}`), ...network.warnings]
    }
    expect(await read({ ca: 'gone.pem' })).toEqual([
      'egress.tls.ca: gone.pem cannot be read (ENOENT)',
    ])
    expect((await read({ cert: 'c.pem', key: 'k.pem' })).join()).toContain(
      'egress.tls: the certificates cannot be used (ERR_OSSL_X509_KEY_VALUES_MISMATCH)',
    )
    await writeFile(join(path, 'k.pem'), client.key)
    expect((await read({ cert: 'c.pem', key: 'k.pem' })).join()).toContain(
      'egress.tls.cert: the certificate of CN=test ends on',
    )
    expect(() => loaded({ egress: { tls: { cert: 'c.pem' } } })).toThrow()
  })
})
