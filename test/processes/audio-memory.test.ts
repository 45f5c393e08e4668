import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { forkGateway } from '../_forked.ts'
import { wav } from '../endpoints/audio/_sounds.ts'

const MIB = 1024 * 1024

// Garbage that waits for its collection only ever adds to what is measured: one run of three shows what is needed.
it('an upload of 25 MiB takes 25 MiB, and little more', { retry: 2 }, async () => {
  let received = 0
  // Keeps nothing: what is measured is the gateway, but what it sends has to arrive.
  const vendor = createServer((request, response) => {
    request.on('data', (piece: Buffer) => (received += piece.length))
    request.on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"text":"Hi."}')
    })
  })
  vendor.listen(0, '127.0.0.1')
  await once(vendor, 'listening')
  const { port } = vendor.address() as AddressInfo
  const config = {
    providers: {
      vendor: { use: 'openai-compatible', options: { baseURL: `http://127.0.0.1:${port}/v1` } },
    },
    models: {
      'acme/ears': {
        pricing: { second: '0.0001' },
        deployments: [{ provider: 'vendor', model: 'stt' }],
      },
    },
  }
  await using gateway = await forkGateway(config)
  try {
    const send = async (bytes: Uint8Array) => {
      const form = new FormData()
      form.append('model', 'acme/ears')
      form.append('file', new Blob([bytes as Uint8Array<ArrayBuffer>]), 'a.wav')
      const response = await fetch(`${gateway.baseURL}/audio/transcriptions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: form,
      })
      expect(await response.json()).toMatchObject({ text: 'Hi.' })
    }
    // What is there only once is not what an upload takes.
    await send(wav(1))
    const { rss } = await gateway.usage()
    received = 0
    await send(Buffer.concat([wav(1), Buffer.alloc(25 * MIB - wav(1).length, 1)]))
    expect(received).toBeGreaterThan(25 * MIB)
    const { most } = await gateway.usage()
    expect(most - rss).toBeLessThan((25 + 40) * MIB)
  } finally {
    vendor.closeAllConnections()
    vendor.close()
  }
})
