/** The port with a certificate: calls, streams, probes, and a certificate that is renewed while streams run. */
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo } from 'node:net'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { Agent, fetch } from 'undici'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { health } from '../../src/cli/health.ts'
import { listen } from '../../src/server/server.ts'
import { makeCertificate } from '../_certificate.ts'
import { folder } from '../_folder.ts'
import { freePort } from '../_ports.ts'
import { createTestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'

const [first, second] = [makeCertificate(['localhost']), makeCertificate(['localhost'])]
if (!first) process.stderr.write('SKIPPED the port with TLS: there is no openssl here\n')

const STREAMS = 50

/** A vendor whose streams end when they are told to. */
async function startVendor() {
  const open: ServerResponse[] = []
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(chunk({ content: 'begun ' }, null))
    open.push(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    open,
    finish: () =>
      open.forEach((one) => one.end(`${chunk({ content: 'ended' }, 'stop')}data: [DONE]\n\n`)),
    close: () => new Promise((resolve) => server.close(resolve)),
  }
}

function chunk(delta: object, finish_reason: string | null): string {
  const choices = [{ index: 0, delta, finish_reason }]
  const data = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices }
  return `data: ${JSON.stringify(data)}\n\n`
}

describe.skipIf(!first)('a port with a certificate', () => {
  test('serves calls, and takes a new certificate while streams run', async () => {
    const vendor = await startVendor()
    const cwd = await folder({
      'tls.crt': first!.cert,
      'tls.key': first!.key,
      'gateway.config.json': JSON.stringify({
        server: { tls: { cert: 'tls.crt', key: 'tls.key' } },
        state: { driver: 'memory' },
        log: { access: false },
        defaults: { limits: { concurrency: 100 } },
        providers: {
          house: { use: 'openai-compatible', options: { baseURL: vendor.url, apiKey: 'sk' } },
        },
        models: {
          'house/m': {
            pricing: { prompt: '0.000001', completion: '0.000002' },
            capabilities: ['STREAMING'],
            deployments: [{ provider: 'house', model: 'm' }],
          },
        },
      }),
    })
    await using t = await createTestGateway(await loadConfig({ cwd, env: {} }))
    expect(t.url).toMatch(/^https:/)
    const url = t.url.replace('127.0.0.1', 'localhost')
    const dispatcher = new Agent({ connect: { ca: [first!.cert, second!.cert] } })
    const ask = async () => {
      const messages = [{ role: 'user', content: 'hello' }]
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'house/m', messages, stream: true }),
        dispatcher,
      })
      return response.text()
    }
    const streams = Array.from({ length: STREAMS }, ask)
    await eventually(() => expect(vendor.open).toHaveLength(STREAMS))
    expect(await serialOf(url)).toBe(await serialOf(url))
    const before = await serialOf(url)

    await writeFile(join(cwd, 'tls.crt'), second!.cert)
    await expect(loadConfig({ cwd, env: {} })).rejects.toThrow('server.tls')
    await writeFile(join(cwd, 'tls.key'), second!.key)
    await t.gateway.reload(await loadConfig({ cwd, env: {} }))
    expect(await serialOf(url)).not.toBe(before)

    vendor.finish()
    for (const text of await Promise.all(streams)) {
      expect(text).toContain('ended')
      expect(text).toContain('[DONE]')
    }
    const ready = await fetch(`${url}/readyz`, { dispatcher })
    expect([ready.status, await ready.json()]).toEqual([200, { status: 'ok', reasons: [] }])
    await health({ text: { url: t.url }, all: {}, on: new Set(), positionals: [] } as never)
    await dispatcher.close()
    await vendor.close()
  })

  test('is opened by listhen on a port of its own', async () => {
    const port = await freePort()
    const cwd = await folder({
      'gateway.config.json': JSON.stringify({
        server: { tls: { cert: `words before it\n${first!.cert}`, key: first!.key } },
        state: { driver: 'memory' },
      }),
    })
    await using t = await createTestGateway(await loadConfig({ cwd, env: {} }))
    const server = await listen(t.gateway, { host: '127.0.0.1', port })
    const dispatcher = new Agent({ connect: { ca: first!.cert } })
    const { status } = await fetch(`https://localhost:${port}/livez`, { dispatcher })
    await dispatcher.close()
    await server.close({ graceSeconds: 0 })
    expect([server.url, status]).toEqual([`https://127.0.0.1:${port}`, 200])
  })
})

/** The serial number of the certificate that a new connection gets. */
function serialOf(url: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(
      { host: hostname, port: Number(port), rejectUnauthorized: false },
      () => {
        resolve(socket.getPeerCertificate().serialNumber)
        socket.destroy()
      },
    )
    socket.on('error', reject)
  })
}
