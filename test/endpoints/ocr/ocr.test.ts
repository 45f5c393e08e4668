import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import { dataUrl, pdfOf, pngOfPixels } from '../../_documents.ts'
import { createTestGateway, type Answer, type TestGateway } from '../../_setup.ts'

const ajv = new Ajv2020({ strict: false })
const isAnswer = ajv.compile(schema('ocr-response'))
const isError = ajv.compile(schema('error'))

const model = (name: string, options: object = {}, capabilities: 'STRUCTURED_OUTPUTS'[] = []) => ({
  pricing: { page: '0.0017' },
  capabilities,
  deployments: [{ provider: 'mock', model: name, options: { ...options } }],
})

const CONFIG = {
  providers: { mock: { use: 'mock' } },
  models: {
    'acme/ocr': model('ocr'),
    'acme/ocr-annotated': model('ocr', {}, ['STRUCTURED_OUTPUTS']),
    'acme/secret': model('ocr', { reply: 'The password is swordfish.' }),
    'acme/uncounted': model('ocr', { usage: 'none' }),
    'acme/refusing': model('ocr', { error: { class: 'content_blocked', message: 'No.' } }),
    'acme/busy': model('ocr', { error: { class: 'overloaded', retryAfterMs: 2000 } }),
    'acme/chat': {
      pricing: { prompt: '0', completion: '0' },
      deployments: [{ provider: 'mock', model: 'echo' }],
    },
  },
} satisfies UserConfig

const PDF = pdfOf([{ text: 'Hello', y: 700 }])
const PDF_URL = dataUrl('application/pdf', PDF)
const PNG_URL = dataUrl('image/png', pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)))
const pdf = { type: 'document_url', document_url: PDF_URL }
const png = { type: 'image_url', image_url: PNG_URL }
const format = {
  type: 'json_schema',
  json_schema: {
    name: 'invoice',
    schema: { type: 'object', properties: { total: { type: 'string' } }, required: ['total'] },
  },
}

let t: TestGateway

beforeAll(async () => {
  t = await createTestGateway(CONFIG)
})
afterAll(() => t.close())

function ask(body: object, key?: string): Promise<Answer> {
  const whole = { model: 'acme/ocr', document: pdf, ...body }
  return t.ask('POST', '/v1/ocr', { body: whole, ...(key !== undefined && { key }) })
}

async function pagesOf(body: object): Promise<number[]> {
  const { status, json } = await ask(body)
  expect(status, JSON.stringify(json)).toBe(200)
  expect(isAnswer(json), ajv.errorsText(isAnswer.errors)).toBe(true)
  return json.pages.map(({ index }: { index: number }) => index)
}

describe('an answer', () => {
  it('has pages, model, quantities and cost', async () => {
    const before = await t.balance()
    const { status, headers, json } = await ask({ document: { ...pdf, document_name: 'a.pdf' } })
    expect(status).toBe(200)
    expect(isAnswer(json), ajv.errorsText(isAnswer.errors)).toBe(true)
    const dimensions = { dpi: 200, height: 2200, width: 1700 }
    expect(json.pages[1]).toEqual({
      index: 1,
      markdown: '# Page 2\n\na.pdf',
      images: [],
      dimensions,
    })
    // Three pages of 0.0017 USD.
    expect({ ...json, pages: json.pages.length }).toEqual({
      pages: 3,
      model: 'acme/ocr',
      document_annotation: null,
      usage_info: { pages_processed: 3, doc_size_bytes: PDF.length },
      usage: { pages_processed: 3, cost: 0.0051, cost_details: { page_cost: 0.0051 } },
    })
    expect(headers['x-service-cost']).toBe('0.0051')
    expect(before - (await t.balance())).toBe(5_100_000_000n)
  })

  it('counts pages where the vendor does not', async () => {
    const { json } = await ask({ model: 'acme/uncounted', pages: [0, 2] })
    expect(json.usage).toMatchObject({ pages_processed: 2, cost: 0.0034 })
  })

  it('takes an image as one page', async () => {
    const { json } = await ask({ document: png })
    expect(json.pages.map(({ index }: any) => index)).toEqual([0])
    expect(json.usage_info).toEqual({ pages_processed: 1, doc_size_bytes: null })
  })

  it('is annotated by models that can', async () => {
    const body = { document_annotation_format: format, document_annotation_prompt: 'The sum.' }
    const { json } = await ask({ ...body, model: 'acme/ocr-annotated' })
    expect(JSON.parse(json.document_annotation)).toEqual({ total: 'text' })
    expect(isAnswer(json), ajv.errorsText(isAnswer.errors)).toBe(true)
  })

  it('does not mind options that the model lacks, nor what it does not know', async () => {
    const rest = { include_blocks: true, table_format: 'html', id: 'x', image_limit: null }
    expect(await pagesOf({ ...rest, confidence_scores_granularity: 'word' })).toEqual([0, 1, 2])
  })
})

describe('documents', () => {
  it.each([
    ['a type that is missing, of a document', { document_url: PDF_URL }],
    ['a type that is missing, of an image', { image_url: PNG_URL }],
    ['a type that is null', { type: null, image_url: PNG_URL }],
    ['an image in an object', { type: 'image_url', image_url: { url: PNG_URL } }],
    ['an https document', { type: 'document_url', document_url: 'https://example.com/a.pdf' }],
    ['an https image', { type: 'image_url', image_url: 'https://example.com/a.png' }],
    ['base64 with line breaks', { document_url: PDF_URL.replace(/(.{76})/g, '$1\r\n') }],
    ['a type that only the bytes tell', { document_url: dataUrl('', PDF) }],
    [
      'an image of a type without a mark',
      { image_url: dataUrl('image/x-new', Buffer.from('abc')) },
    ],
  ])('%s', async (_what, document) => {
    expect((await ask({ document })).status).toBe(200)
  })

  it('are decoded from every coding a body may have', async () => {
    const { gzipSync } = await import('node:zlib')
    const body = gzipSync(JSON.stringify({ model: 'acme/ocr', document: pdf }))
    const headers = { 'content-encoding': 'gzip', 'content-type': 'application/json' }
    expect((await t.ask('POST', '/v1/ocr', { body, headers })).status).toBe(200)
  })
})

describe('the selection of pages', () => {
  it.each([
    [
      [2, 0, 2],
      [0, 2],
    ],
    ['1', [1]],
    ['0,1-2', [0, 1, 2]],
    [' 2 , 0 - 1 ', [0, 1, 2]],
    [null, [0, 1, 2]],
  ])('%j', async (pages, expected) => {
    expect(await pagesOf({ pages })).toEqual(expected)
  })

  it('charges what was selected', async () => {
    expect((await ask({ pages: '1' })).json.usage.cost).toBe(0.0017)
  })

  it('may name the page of an image', async () => {
    expect(await pagesOf({ pages: [0], document: png })).toEqual([0])
  })
})

describe('errors', () => {
  const file = (url: string) => ({ document: { type: 'document_url', document_url: url } })
  const image = (image_url: unknown) => ({ document: { type: 'image_url', image_url } })

  it.each([
    ['no model', { model: undefined }, 'missing_required_parameter', 'model'],
    ['no document', { document: undefined }, 'missing_required_parameter', 'document'],
    ['an empty document', { document: {} }, 'missing_required_parameter', 'document.document_url'],
    ['a document that is a text', { document: PDF_URL }, 'invalid_type', 'document'],
    [
      'a file id',
      { document: { type: 'file', file_id: 'x' } },
      'unsupported_value',
      'document.type',
    ],
    ['an unknown type', { document: { type: 'zip' } }, 'invalid_value', 'document.type'],
    [
      'a type without its member',
      { document: { type: 'image_url', document_url: PDF_URL } },
      'missing_required_parameter',
      'document.image_url',
    ],
    ['http', file('http://example.com/a.pdf'), 'invalid_value', 'document.document_url'],
    [
      'an image over http',
      image('http://example.com/a.png'),
      'invalid_value',
      'document.image_url',
    ],
    ['no address', file('a.pdf'), 'invalid_value', 'document.document_url'],
    ['a broken address', file('https://[1/a.pdf'), 'invalid_value', 'document.document_url'],
    ['an empty address', file(''), 'empty_string', 'document.document_url'],
    [
      'an endless address',
      file(`https://example.com/${'a'.repeat(9000)}`),
      'string_above_max_length',
      'document.document_url',
    ],
    [
      'bad base64',
      file('data:application/pdf;base64,JVBE*'),
      'invalid_base64',
      'document.document_url',
    ],
    ['no base64', file('data:application/pdf,JVBE'), 'invalid_base64', 'document.document_url'],
    [
      'no PDF',
      file(dataUrl('application/pdf', Buffer.from('hello'))),
      'invalid_document',
      'document.document_url',
    ],
    ['an image as document', file(PNG_URL), 'invalid_document', 'document.document_url'],
    ['a PDF as image', image(PDF_URL), 'invalid_image', 'document.image_url'],
    [
      'no image',
      image({ url: dataUrl('image/png', Buffer.from('hello')) }),
      'invalid_image',
      'document.image_url.url',
    ],
    ['an image of a wrong type', image(7), 'invalid_type', 'document.image_url'],
    ['a page that is no number', { pages: ['1'] }, 'invalid_type', 'pages[0]'],
    ['a page below 0', { pages: [0, -1] }, 'integer_below_min_value', 'pages[1]'],
    ['a page beyond all', { pages: [10_000] }, 'integer_above_max_value', 'pages[0]'],
    ['no pages', { pages: [] }, 'empty_array', 'pages'],
    ['one page as a number', { pages: 1 }, 'invalid_type', 'pages'],
    ['a range backwards', { pages: '3-1' }, 'invalid_value', 'pages'],
    ['a range that never ends', { pages: '0-999999999' }, 'invalid_value', 'pages'],
    ['an empty text of pages', { pages: '' }, 'invalid_value', 'pages'],
    ['a page outside', { pages: [0, 3] }, 'invalid_value', 'pages'],
    ['a second page of an image', { pages: '0-1', document: png }, 'invalid_value', 'pages'],
    [
      'a flag that is a text',
      { include_image_base64: 'true' },
      'invalid_type',
      'include_image_base64',
    ],
    ['a limit below 0', { image_limit: -1 }, 'integer_below_min_value', 'image_limit'],
    ['half a pixel', { image_min_size: 0.5 }, 'invalid_type', 'image_min_size'],
    ['another format of tables', { table_format: 'csv' }, 'invalid_value', 'table_format'],
    [
      'another format of annotations',
      { bbox_annotation_format: { type: 'json_object' } },
      'missing_required_parameter',
      'bbox_annotation_format.json_schema',
    ],
    [
      'a prompt without a format',
      { document_annotation_prompt: 'x' },
      'invalid_value',
      'document_annotation_prompt',
    ],
    [
      'annotations of a model that has none',
      { document_annotation_format: format },
      'unsupported_parameter',
      'document_annotation_format',
    ],
    [
      'annotations of boxes',
      { bbox_annotation_format: format },
      'unsupported_parameter',
      'bbox_annotation_format',
    ],
    ['a model of another route', { model: 'acme/chat' }, 'wrong_endpoint', 'model'],
    ['a policy that is none', { policy: null }, 'invalid_policy', 'policy'],
    ['what the vendor refuses', { model: 'acme/refusing' }, 'content_policy_violation', null],
  ])('400: %s', async (_what, body, code, param) => {
    const before = await t.balance()
    const { status, json } = await ask(body)
    expect(isError(json), ajv.errorsText(isError.errors)).toBe(true)
    expect({ status, code: json.error.code, param: json.error.param }).toEqual({
      status: 400,
      code,
      param,
    })
    expect(JSON.stringify(json)).not.toContain('JVBE')
    expect(await t.balance()).toBe(before)
  })

  it('503 where the vendor is busy', async () => {
    const { status, headers, json } = await ask({ model: 'acme/busy' })
    expect([status, json.error.code]).toEqual([503, 'provider_overloaded'])
    expect(headers['retry-after']).toBe('2')
  })

  it('404, 405, 415 and 401', async () => {
    expect((await ask({ model: 'acme/none' })).status).toBe(404)
    expect((await t.ask('GET', '/v1/ocr')).status).toBe(405)
    const headers = { 'content-type': 'multipart/form-data; boundary=x' }
    expect((await t.ask('POST', '/v1/ocr', { headers, body: 'x' })).status).toBe(415)
    expect((await ask({}, 'sk-none')).status).toBe(401)
  })

  it('tells of other routes where OCR models are', async () => {
    const body = { model: 'acme/ocr', messages: [{ role: 'user', content: 'Hi' }] }
    const { json } = await t.chat(body)
    expect(json.error).toMatchObject({ code: 'wrong_endpoint', param: 'model' })
    expect(json.error.message).toContain('/v1/ocr')
  })
})

describe('size', () => {
  const limit = 3000
  const urlOf = (bytes: number) =>
    dataUrl('application/pdf', Buffer.concat([PDF, Buffer.alloc(bytes - PDF.length)]))

  async function small<T>(use: (small: TestGateway) => Promise<T>): Promise<T> {
    const gateway = await createTestGateway({ ...CONFIG, server: { limits: { document: limit } } })
    try {
      return await use(gateway)
    } finally {
      await gateway.close()
    }
  }

  it('is counted after decoding, to the byte, blanks left out, and goes before other errors', () =>
    small(async (gateway) => {
      const send = (document_url: string, rest = {}) => {
        const body = { model: 'acme/ocr', document: { document_url }, ...rest }
        return gateway.ask('POST', '/v1/ocr', { body })
      }
      expect((await send(urlOf(limit))).status).toBe(200)
      expect((await send(urlOf(limit).replace(/(.{200})/g, '$1\n'))).status).toBe(200)
      const { status, json } = await send(urlOf(limit + 1), { model: null })
      expect(status).toBe(413)
      expect(json.error).toMatchObject({ code: 'file_too_large', param: 'document' })
    }))

  it('is refused while it is uploaded, with a whole answer', () =>
    small(async (gateway) => {
      const { port } = new URL(gateway.url)
      const socket = connect(Number(port), '127.0.0.1')
      const head = [
        'POST /v1/ocr HTTP/1.1',
        'host: x',
        `authorization: Bearer ${gateway.key.secret}`,
        'content-type: application/json',
        'transfer-encoding: chunked',
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n`)
      const piece = `${(1000).toString(16)}\r\n${'x'.repeat(1000)}\r\n`
      socket.write('2\r\n{"\r\n')
      // More than may be, and no end: the answer comes first.
      for (let i = 0; i < 6; i++) socket.write(piece)
      const answer = await new Promise<string>((resolve, reject) => {
        let text = ''
        socket.on('data', (bytes) => {
          text += bytes.toString()
          const [top, body = ''] = text.split('\r\n\r\n')
          const length = Number(/content-length: (\d+)/i.exec(top!)?.[1])
          if (body.length >= length) resolve(text)
        })
        socket.once('error', reject)
      })
      socket.destroy()
      expect(answer).toMatch(/^HTTP\/1.1 413 /)
      expect(JSON.parse(answer.split('\r\n\r\n')[1]!).error.code).toBe('request_too_large')
    }))
})

describe('policies', () => {
  const policy = { version: 1, bannedPatterns: ['swordfish'] } as const

  it('refuse what was read, and charge for it', async () => {
    const { secret } = await t.newKey({ policy })
    const before = await t.balance()
    const { status, headers, json, text } = await ask({ model: 'acme/secret' }, secret)
    expect([status, json.error.code]).toEqual([400, 'policy_violation'])
    expect(json.error.usage).toEqual({
      pages_processed: 3,
      cost: 0.0051,
      cost_details: { page_cost: 0.0051 },
    })
    expect(headers['x-service-cost']).toBe('0.0051')
    expect(headers['x-service-guard']).toContain('bannedPatterns[0]')
    expect(text).not.toContain('password')
    expect(before - (await t.balance())).toBe(5_100_000_000n)
  })

  it('say what no guard could read', async () => {
    const { secret } = await t.newKey({ policy })
    const { json } = await ask({}, secret)
    expect(json.guard).toMatchObject({ outcome: 'passed', unscanned: ['file'] })
    expect(isAnswer(json), ajv.errorsText(isAnswer.errors)).toBe(true)
    expect((await ask({ document: png }, secret)).json.guard.unscanned).toEqual(['image'])
  })

  it.each([
    ['a name', { document: { ...pdf, document_name: 'swordfish.pdf' } }],
    ['an address', { document: { document_url: 'https://example.com/swordfish.pdf' } }],
    [
      'a prompt',
      { document_annotation_format: format, document_annotation_prompt: 'Find swordfish.' },
    ],
    [
      'a schema',
      {
        document_annotation_format: {
          ...format,
          json_schema: { name: 'x', schema: { description: 'swordfish' } },
        },
      },
    ],
  ])('refuse %s before anything goes upstream', async (_what, body) => {
    const { secret } = await t.newKey({ policy })
    const before = await t.balance()
    const { status, json } = await ask({ model: 'acme/ocr-annotated', ...body }, secret)
    expect([status, json.error.code]).toEqual([400, 'policy_violation'])
    expect(await t.balance()).toBe(before)
  })

  it('tighten by the request', async () => {
    const { json } = await ask({ model: 'acme/secret', policy })
    expect(json.error.code).toBe('policy_violation')
  })
})

function schema(name: string): object {
  return JSON.parse(
    readFileSync(new URL(`../../wire/schemas/${name}.json`, import.meta.url), 'utf8'),
  ) as object
}
