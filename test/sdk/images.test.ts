import { createReadStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==',
  'base64',
)
const MIB = 1024 * 1024

let vendor: FakeUpstream
let t: TestGateway
let client: OpenAI
let folder: string

beforeAll(async () => {
  vendor = await startUpstream(
    json({ created: 1, data: [{ b64_json: PNG.toString('base64') }], output_format: 'png' }),
  )
  t = await createTestGateway({
    providers: {
      vendor: { use: 'openai', options: { apiKey: 'k', baseURL: `${vendor.url}/v1` } },
      mock: { use: 'mock' },
    },
    models: {
      'acme/flat': {
        modality: 'image',
        pricing: { image: '0.02' },
        capabilities: ['REFERENCES'],
        deployments: [{ provider: 'vendor', model: 'gpt-image-1' }],
      },
      'mock/painter': {
        modality: 'image',
        pricing: { prompt: '0.000005', image_output: '0.00004' },
        capabilities: ['REFERENCES', 'STREAMING'],
        deployments: [{ provider: 'mock', model: 'painter' }],
      },
    },
  })
  client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
  folder = await mkdtemp(join(tmpdir(), 'images-'))
  await writeFile(join(folder, 'otter.png'), PNG)
})

afterAll(async () => {
  await t.close()
  await vendor.close()
  await rm(folder, { recursive: true })
})

/** What the vendor got as images. */
async function uploaded(): Promise<Buffer[]> {
  const { headers, body } = vendor.requests.at(-1)!
  const type = { 'content-type': headers['content-type']! }
  const form = await new Response(new Uint8Array(body), { headers: type }).formData()
  const files = [...form.getAll('image'), ...form.getAll('image[]')] as File[]
  return Promise.all(files.map(async (file) => Buffer.from(await file.arrayBuffer())))
}

describe('images.generate', () => {
  it('gives images, their quantities and their cost', async () => {
    const { data, usage, created } = await client.images.generate({
      model: 'mock/painter',
      prompt: 'an otter',
      n: 2,
      size: '1024x1024',
    })
    expect(created).toBeGreaterThan(1_700_000_000)
    expect(data!.map(({ b64_json }) => b64_json!.startsWith('iVBORw0KGgo'))).toEqual([true, true])
    // 2 × 0.000005 + 2048 × 0.00004
    expect(usage).toMatchObject({ input_tokens: 2, output_tokens: 2048, cost: 0.08193 })
  })

  it('streams partial images and the whole one', async () => {
    const stream = await client.images.generate({
      model: 'mock/painter',
      prompt: 'an otter',
      stream: true,
      partial_images: 2,
    })
    const seen: unknown[] = []
    for await (const event of stream) {
      seen.push(event.type === 'image_generation.completed' ? event.usage : event.type)
      expect(event.b64_json).toMatch(/^iVBORw0KGgo/)
    }
    expect(seen).toEqual([
      'image_generation.partial_image',
      'image_generation.partial_image',
      expect.objectContaining({ output_tokens: 1024, cost: 0.04097 }),
    ])
  })

  it('throws what is wrong', async () => {
    await expect(
      client.images.generate({ model: 'acme/flat', prompt: 'x', response_format: 'url' }),
    ).rejects.toMatchObject({ status: 400, code: 'unsupported_value', param: 'response_format' })
  })

  it('throws the error of a stream that breaks', async () => {
    const failing = await createTestGateway({
      providers: { mock: { use: 'mock' } },
      models: {
        'mock/broken': {
          modality: 'image',
          pricing: { image: '1' },
          capabilities: ['STREAMING'],
          deployments: [
            { provider: 'mock', model: 'm', options: { error: { class: 'overloaded', after: 1 } } },
          ],
        },
      },
    })
    await using _closing = failing
    const own = new OpenAI({ baseURL: failing.baseURL, apiKey: failing.key.secret, maxRetries: 0 })
    const stream = await own.images.generate({
      model: 'mock/broken',
      prompt: 'x',
      stream: true,
      partial_images: 2,
    })
    const read = async () => {
      for await (const event of stream) expect(event.type).toBe('image_generation.partial_image')
    }
    await expect(read()).rejects.toMatchObject({ code: 'provider_overloaded' })
    // The client has a sketch, which the vendor has made.
    expect(await failing.balance()).toBe(99_000_000_000_000n)
  })
})

describe('images.edit', () => {
  const edit = (image: any, more: object = {}) =>
    client.images.edit({ model: 'acme/flat', prompt: 'make it blue', image, ...more })

  it('takes a stream from a file, which has no length', async () => {
    await edit(createReadStream(join(folder, 'otter.png')))
    expect(await uploaded()).toEqual([PNG])
  })

  it('takes a File', async () => {
    await edit(new File([PNG], 'otter.png', { type: 'image/png' }))
    expect(await uploaded()).toEqual([PNG])
  })

  it('takes bytes, with a type or without any', async () => {
    await edit(await toFile(PNG, 'otter.png', { type: 'image/png' }))
    expect(await uploaded()).toEqual([PNG])
    await edit(await toFile(new Uint8Array(PNG)))
    expect(await uploaded()).toEqual([PNG])
  })

  it('takes what was fetched', async () => {
    const server = createServer((_, response) => response.end(PNG)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const { port } = server.address() as AddressInfo
      await edit(await fetch(`http://127.0.0.1:${port}/otter.png`))
      expect(await uploaded()).toEqual([PNG])
    } finally {
      server.close()
    }
  })

  it('takes several, and a mask', async () => {
    const other = Buffer.concat([PNG, Buffer.from('other')])
    const images = [await toFile(PNG, 'a.png'), await toFile(other, 'b.png')]
    const { usage } = await edit(images, { mask: await toFile(PNG, 'mask.png'), n: 1 })
    expect(await uploaded()).toEqual([PNG, other])
    expect(usage).toMatchObject({ image_count: 1, cost: 0.02 })
    expect(vendor.requests.at(-1)!.body.toString('latin1')).toContain('name="mask"')
  })

  it('streams', async () => {
    const stream = await client.images.edit({
      model: 'mock/painter',
      prompt: 'make it blue',
      image: await toFile(PNG, 'a.png'),
      stream: true,
      partial_images: 1,
    })
    const types: string[] = []
    for await (const { type } of stream) types.push(type)
    expect(types).toEqual(['image_edit.partial_image', 'image_edit.completed'])
  })

  it.each([
    ['of a known length', (bytes: Buffer) => toFile(bytes, 'large.png')],
    [
      'from a stream',
      async (bytes: Buffer) => {
        const path = join(folder, 'large.png')
        await writeFile(path, bytes)
        return createReadStream(path)
      },
    ],
  ])('hears that a file %s is too large, while it is sent', async (_what, fileOf) => {
    const large = Buffer.concat([PNG, Buffer.alloc(24 * MIB)])
    await expect(edit(await fileOf(large))).rejects.toMatchObject({
      status: 413,
      code: 'file_too_large',
      param: 'image',
    })
    await expect.poll(() => t.gateway.running.size).toBe(0)
  })
})
