/** Gateways behind nginx and behind Caddy: streams, uploads, clients that leave, private paths, TLS, rolling restarts. */
import { once } from 'node:events'
import { createServer, request as ask, type ClientRequest, type IncomingMessage } from 'node:http'
import { request as askTls } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { start } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, eventsOf, hello, send } from '../_setup.ts'
import { hasRedis, RedisServer } from '../state/redis/_redis.ts'
import { startUpstream, type FakeUpstream } from '../upstream.ts'
import { freePort } from '../_ports.ts'
import { startCaddy, startNginx, type Proxy, type StartProxy } from './_proxy.ts'
import { ROOT, withTool } from './_tools.ts'

const CHAT = '/v1/chat/completions'
const MIB = 2 ** 20

/** A gateway whose only model is at a scripted vendor. */
async function gatewayBefore(vendor: FakeUpstream) {
  const t = await createTestGateway({
    admin: { token: 'a-token-of-8' },
    providers: {
      own: { use: 'openai-compatible', options: { baseURL: vendor.url, quirks: 'vllm' } },
    },
    models: {
      'own/model': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'own', model: 'model' }],
      },
    },
  })
  onTestFinished(() => t[Symbol.asyncDispose]())
  return { t, port: Number(new URL(t.url).port) }
}

async function vendorOf(): Promise<FakeUpstream> {
  const vendor = await startUpstream()
  onTestFinished(() => vendor.close())
  return vendor
}

const FIRST = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Early"}}]}\n\n'

/** Begins a request; the test ends it. @param from address of the client */
function begin(proxy: Proxy, path: string, key: string, from?: string): ClientRequest {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const options = { method: 'POST', headers, agent: false, ...(from && { localAddress: from }) }
  const isTls = proxy.url.startsWith('https')
  const begun = isTls
    ? askTls(proxy.url + path, { ...options, rejectUnauthorized: false })
    : ask(proxy.url + path, options)
  begun.on('error', () => {})
  onTestFinished(() => void begun.destroy())
  return begun
}

/** A server in a gateway's place that is ready and does with requests what the test says. */
async function stub(onRequest: (request: IncomingMessage) => void): Promise<number> {
  const server = createServer((request, response) => {
    if (request.url === '/readyz') response.end('{}')
    else onRequest(request)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** @param tooLarge status of an upload above the limit */
function behaves(startProxy: StartProxy, program: string, tooLarge: readonly number[]): void {
  async function started(upstreams: readonly number[], options = {}): Promise<Proxy> {
    const proxy = await startProxy(program, upstreams, options)
    onTestFinished(() => proxy[Symbol.asyncDispose]())
    return proxy
  }

  it.each([false, true])('an event leaves while the next one is awaited (TLS: %s)', async (tls) => {
    const vendor = await vendorOf()
    vendor.answer({
      headers: { 'content-type': 'text/event-stream' },
      pieces: [FIRST],
      ending: 'hang',
    })
    const { t, port } = await gatewayBefore(vendor)
    const proxy = await started([port], { tls })
    const begun = begin(proxy, CHAT, t.key.secret)
    begun.end(JSON.stringify({ ...hello, model: 'own/model', stream: true }))
    const [response] = (await once(begun, 'response')) as [IncomingMessage]
    let text = ''
    for await (const part of response) {
      text += part
      if (text.includes('Early')) break
    }
    expect(text).toContain('Early')
    // Leaving the loop has closed the connection, and so has everybody behind it.
    expect(await vendor.requests[0]!.aborted).toBe(true)
  })

  it('an upload arrives while it is sent, and has a limit', async () => {
    const arrived = Promise.withResolvers<void>()
    const port = await stub((request) => {
      request.once('data', () => arrived.resolve())
      request.resume()
    })
    const proxy = await started([port])
    const upload = begin(proxy, '/v1/audio/transcriptions', 'any')
    upload.setHeader('content-length', 150 * MIB)
    upload.write(Buffer.alloc(MIB))
    await arrived.promise

    const large = begin(proxy, '/v1/audio/transcriptions', 'any')
    large.setHeader('content-length', 170 * MIB)
    const answered = once(large, 'response') as Promise<[IncomingMessage]>
    const piece = Buffer.alloc(MIB)
    const send = () => large.write(piece, (error) => void (error ?? setImmediate(send)))
    send()
    const [refused] = await answered
    expect(tooLarge).toContain(refused.statusCode)
  })

  it('a request that a gateway has had goes to no other one', async () => {
    let requests = 0
    const drop = (request: IncomingMessage) => {
      requests++
      request.socket.destroy()
    }
    const proxy = await started([await stub(drop), await stub(drop)])
    const begun = begin(proxy, CHAT, 'any')
    begun.end(JSON.stringify(hello))
    const [response] = (await once(begun, 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(502)
    expect(requests).toBe(1)
  })

  it('private paths are closed to others', async () => {
    const { port } = await gatewayBefore(await vendorOf())
    const proxy = await started([port])
    for (const path of ['/admin/accounts', '/metrics', '/console']) {
      const outside = begin(proxy, path, 'a-token-of-8', '127.0.0.2')
      outside.end()
      const [refused] = (await once(outside, 'response')) as [IncomingMessage]
      expect([path, refused.statusCode]).toEqual([path, 403])
    }
    const headers = { authorization: 'Bearer a-token-of-8' }
    expect((await send(`${proxy.url}/admin/accounts`, 'GET', undefined, headers)).status).toBe(200)
    expect((await send(`${proxy.url}/v1/models`, 'GET', undefined, {})).status).toBe(200)
  })
}

withTool('nginx', (nginx) => behaves(startNginx, nginx, [413]))
// Earlier versions of Caddy answer 502 where later ones answer 413.
withTool('caddy', (caddy) => behaves(startCaddy, caddy, [413, 502]))

const CONFIG = `
server: { shutdownDelay: 2, shutdownGrace: 20 }
admin: { token: a-token-of-8 }
log: { access: false }
seed:
  accounts:
    - { id: load, name: Load, credits: '100', keys: [{ id: load, name: Load, secret: key-of-the-load, rpm_limit: 100000, concurrency_limit: 100 }] }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    deployments: [{ provider: mock, model: echo, options: { paceMs: 20 } }]
`

describe.runIf(hasRedis())('a rolling restart', () => {
  const restart = async (startProxy: StartProxy, program: string) => {
    const redis = await RedisServer.start({
      appendfsync: 'always',
      args: ['--maxmemory-policy', 'noeviction'],
    })
    onTestFinished(() => redis[Symbol.asyncDispose]())
    const cwd = await folder({
      'gateway.config.yaml': `${CONFIG}state: { driver: redis, url: '${redis.url}' }\n`,
    })
    const ports = [await freePort(), await freePort()]
    const env = { NODE_PATH: join(ROOT, 'node_modules') }
    const serve = async (port: number, index: number) => {
      const data = ['--data', join(cwd, `data-${index}`)]
      const running = await start(['serve', '--port', `${port}`, ...data], { cwd, env })
      const ready = () =>
        fetch(`http://127.0.0.1:${port}/readyz`).then(
          ({ status }) => status,
          () => 0,
        )
      await expect.poll(ready, { message: running.said() }).toBe(200)
      return running
    }
    const gateways = await Promise.all(ports.map(serve))
    const proxy = await startProxy(program, ports)
    onTestFinished(() => proxy[Symbol.asyncDispose]())

    const over = new AbortController()
    const statuses = new Map<string, number>()
    const ask = async (): Promise<string> => {
      const begun = begin(proxy, CHAT, 'key-of-the-load')
      begun.end(JSON.stringify({ ...hello, stream: true }))
      return once(begun, 'response').then(
        async ([response]: IncomingMessage[]) => {
          let text = ''
          try {
            for await (const part of response!) text += part
          } catch {
            return 'cut'
          }
          if (response!.statusCode !== 200) return `${response!.statusCode} ${text.slice(0, 100)}`
          return eventsOf(text).at(-1) === '[DONE]' ? 'whole' : 'cut'
        },
        (error: Error) => error.message,
      )
    }
    const load = async () => {
      while (!over.signal.aborted) {
        let result = await ask()
        // Official clients ask again too: a proxy may have sent a request on a connection that was being closed.
        for (let i = 0; i < 2 && /^50[234] /.test(result); i++) result = await ask()
        statuses.set(result, (statuses.get(result) ?? 0) + 1)
      }
    }
    const clients = Array.from({ length: 4 }, load)
    for (const [index, gateway] of gateways.entries()) {
      gateway.child.kill('SIGTERM')
      expect((await gateway.ended).code, gateway.said()).toBe(0)
      gateways[index] = await serve(ports[index]!, index)
    }
    over.abort()
    await Promise.all(clients)
    expect([...statuses.keys()]).toEqual(['whole'])
    const headers = { authorization: 'Bearer a-token-of-8' }
    const url = `http://127.0.0.1:${ports[0]}/admin/ledger`
    expect((await send(`${url}/verify`, 'GET', undefined, headers)).json.data.ok).toBe(true)
    expect((await send(`${url}/orphans`, 'GET', undefined, headers)).json.data).toEqual([])
  }

  withTool('nginx', (nginx) => {
    it('refuses no request, cuts no stream and books every call', () => restart(startNginx, nginx))
  })
  withTool('caddy', (caddy) => {
    it('refuses no request, cuts no stream and books every call', () => restart(startCaddy, caddy))
  })
})
