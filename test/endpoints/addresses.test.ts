/** Addresses that clients send, and which vendors are asked to fetch them. */
import * as v from 'valibot'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { defineProvider } from '../../src/plugin.ts'
import { isPrivateUrl, isPublicUrl } from '../../src/upstream/download.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'

const PRIVATE = [
  'https://127.0.0.1/a.png',
  'https://127.1/a.png',
  'https://2130706433/a.png',
  'https://0x7f.0.0.1/a.png',
  'https://0177.0.0.1/a.png',
  'https://0/a.png',
  'https://１２７.0.0.1/a.png',
  'https://127。0。0。1/a.png',
  'https://10.1.2.3/a.png',
  'https://172.16.0.1/a.png',
  'https://192.168.1.1/a.png',
  'https://169.254.169.254/latest/meta-data/',
  'https://100.64.0.1/a.png',
  'https://[::1]/a.png',
  'https://[::]/a.png',
  'https://[::ffff:127.0.0.1]/a.png',
  'https://[::ffff:7f00:1]/a.png',
  'https://[64:ff9b::7f00:1]/a.png',
  'https://[fd00:ec2::254]/a.png',
  'https://[fe80::1]/a.png',
  'https://localhost/a.png',
  'https://LOCALHOST./a.png',
  'https://a.localhost/a.png',
  'https://printer/a.png',
  'https://printer./a.png',
  'https://printer.local/a.png',
  'https://metadata.google.internal/a.png',
  'https://metadata.google.internal./a.png',
]
const WRONG = [
  'https://user@example.org/a.png',
  'https://user:secret@example.org/a.png',
  'https://example.org:8443/a.png',
  'https://example.org:80/a.png',
]
const PUBLIC = [
  'https://example.org/a.png',
  'https://example.org:443/a.png?b=c&d=%20e',
  'https://EXAMPLE.org./a.png',
  'https://example.org/a file.png',
  'https://example.org?a=b/c',
  'https://1.1.1.1/a.png',
  'https://[2606:4700::1111]/a.png',
]

describe('the spelling of an address', () => {
  it.each(PRIVATE)('%s is private', (url) => {
    expect([isPublicUrl(url), isPrivateUrl(url)]).toEqual([false, true])
  })

  it.each(WRONG)('%s is not fetched', (url) => {
    expect([isPublicUrl(url), isPrivateUrl(url)]).toEqual([false, false])
  })

  it.each(PUBLIC)('%s is public', (url) => {
    expect([isPublicUrl(url), isPrivateUrl(url)]).toEqual([true, false])
  })

  // Programs differ in which host these name.
  it.each([
    'https://example.org\\@127.0.0.1/a.png',
    'https:\\\\example.org/a.png',
    'https:example.org/a.png',
    'https:/example.org/a.png',
    'https:///example.org/a.png',
    'https://127.0.0.1\n.example.org/a.png',
    'https://exa\tmple.org/a.png',
    ' https://example.org/a.png',
    'https://example.org /a.png',
  ])('%j is refused', (url) => expect(isPublicUrl(url)).toBe(false))

  it.each(['', 'example.org', 'ftp://example.org', 'http://example.org/a.png', 'https://', '::1'])(
    '%j is no address to fetch',
    (url) => expect(isPublicUrl(url)).toBe(false),
  )
})

const inputs: any[] = []
const recorder = defineProvider({
  name: 'recorder',
  options: v.optional(v.looseObject({}), {}),
  setup: () => ({
    async chat({ input }) {
      inputs.push(input)
      const message = { role: 'assistant', content: 'Fine.' } as const
      const usage = { prompt_tokens: 1, completion_tokens: 1 }
      return { choices: [{ index: 0, message, finish_reason: 'stop' }], usage }
    },
    async ocr({ input }) {
      inputs.push(input)
      return { pages: [{ index: 0, markdown: 'Fine.' }], usage: { pages: 1 } }
    },
  }),
}) as never

/** One model of each kind for each provider. */
const PROVIDERS = {
  public: { use: recorder, options: { baseURL: 'https://api.example.org/v1' } },
  inside: { use: recorder, options: { baseURL: 'http://10.0.0.7:8000/v1' } },
  trusted: { use: recorder, options: { baseURL: 'http://10.0.0.7:8000/v1' }, privateUrls: true },
}
const models = Object.keys(PROVIDERS).flatMap((provider) => {
  const deployments = [{ provider, model: 'm' }]
  const chat = { pricing: { prompt: '0', completion: '0' }, capabilities: ['VISION', 'FILE_INPUT'] }
  return [
    [`${provider}/chat`, { ...chat, deployments }],
    [`${provider}/ocr`, { pricing: { page: '0' }, deployments }],
  ] as const
})

/** Ways to send an address, with the path of its member, and where a provider finds it. */
const ROUTES = {
  'an image of a message': {
    model: 'chat',
    path: '/v1/chat/completions',
    param: 'messages[0].content[0].image_url.url',
    body: (url: string) => message({ type: 'image_url', image_url: { url, detail: 'low' } }),
    sent: (input: any) => input.messages[0].content[0].image_url.url,
  },
  'an image as a text': {
    model: 'chat',
    path: '/v1/chat/completions',
    param: 'messages[0].content[0].image_url.url',
    body: (url: string) => message({ type: 'image_url', image_url: url }),
    sent: (input: any) => input.messages[0].content[0].image_url.url,
  },
  'a file of a message': {
    model: 'chat',
    path: '/v1/chat/completions',
    param: 'messages[0].content[0].file.file_data',
    body: (url: string) => message({ type: 'file', file: { filename: 'a.png', file_data: url } }),
    sent: (input: any) => input.messages[0].content[0].file.file_data,
  },
  'a document': {
    model: 'ocr',
    path: '/v1/ocr',
    param: 'document.document_url',
    body: (url: string) => ({ document: { type: 'document_url', document_url: url } }),
    sent: (input: any) => input.document.url ?? dataUrlOf(input.document.file),
  },
  'an image to read': {
    model: 'ocr',
    path: '/v1/ocr',
    param: 'document.image_url',
    body: (url: string) => ({ document: { type: 'image_url', image_url: { url } } }),
    sent: (input: any) => input.document.url ?? dataUrlOf(input.document.file),
  },
}
const PNG = Buffer.from('89504e470d0a1a0a', 'hex')
const PNG_URL = `data:image/png;base64,${PNG.toString('base64')}`

function message(part: object) {
  return { messages: [{ role: 'user', content: [part] }] }
}

function dataUrlOf({ bytes, mediaType }: { bytes: Uint8Array; mediaType: string }): string {
  return `data:${mediaType};base64,${Buffer.from(bytes).toString('base64')}`
}

let t: TestGateway
/** What the gateway has downloaded. Tests have no public addresses. */
const downloaded: string[] = []
beforeAll(async () => {
  t = await createTestGateway({
    providers: PROVIDERS,
    models: Object.fromEntries(models) as never,
  })
  Object.assign(t.gateway.runtime, {
    download: async (url: string) => {
      downloaded.push(url)
      return { bytes: PNG, contentType: 'image/png' }
    },
  })
})
beforeEach(() => void [inputs, downloaded].forEach((list) => list.splice(0)))
afterAll(() => t.close())

describe.each(Object.entries(ROUTES))('%s', (_, { model, path, param, body, sent }) => {
  const ask = (provider: string, url: string) =>
    t.ask('POST', path, { body: { model: `${provider}/${model}`, ...body(url) } })

  it.each(['public', 'inside'])(
    'reaches no %s provider from inside a network',
    async (provider) => {
      for (const url of [...PRIVATE, ...WRONG]) {
        const { status, json } = await ask(provider, url)
        expect([url, status, json.error]).toMatchObject([url, 400, { code: 'fetch_failed', param }])
      }
      expect([inputs, downloaded]).toEqual([[], []])
    },
  )

  it('goes to a provider on the internet as it is', async () => {
    for (const url of PUBLIC) {
      expect((await ask('public', url)).status).toBe(200)
      expect(sent(inputs.at(-1))).toBe(url)
    }
    expect(downloaded).toEqual([])
  })

  it('goes to a provider inside the network as bytes', async () => {
    for (const url of PUBLIC) {
      expect((await ask('inside', url)).status).toBe(200)
      expect(sent(inputs.at(-1))).toBe(PNG_URL)
    }
    expect(downloaded).toEqual(PUBLIC)
  })

  it('goes anywhere with privateUrls', async () => {
    for (const url of ['https://10.1.2.3/a.png', PUBLIC[0]!]) {
      expect((await ask('trusted', url)).status).toBe(200)
      expect(sent(inputs.at(-1))).toBe(url)
    }
    expect(downloaded).toEqual([])
  })
})

it('http is refused in messages, and never sent on', async () => {
  const { path, body } = ROUTES['an image of a message']
  const sent = { model: 'public/chat', ...body('http://example.org/a.png') }
  const { status, json } = await t.ask('POST', path, { body: sent })
  expect([status, json.error.code]).toEqual([400, 'fetch_failed'])
  expect(inputs).toEqual([])
})

it('what was downloaded already is not downloaded twice for one request', async () => {
  const part = { type: 'image_url', image_url: { url: PUBLIC[0] } }
  const messages = [{ role: 'user', content: [part, part] }]
  expect((await t.chat({ model: 'inside/chat', messages })).status).toBe(200)
  expect(downloaded).toEqual([PUBLIC[0]])
  expect(inputs[0].messages[0].content.map((one: any) => one.image_url.url)).toEqual([
    PNG_URL,
    PNG_URL,
  ])
})
