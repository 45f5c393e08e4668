import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { request } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { Mistral } from '@mistralai/mistralai'
import tesseract from '../../providers/tesseract.ts'
import { readImageHeader } from '../../providers/tesseract/image.ts'
import { Threads } from '../../providers/tesseract/threads.ts'
import type { Task } from '../../providers/tesseract/thread.ts'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import type { Host, OcrInput } from '../../src/plugin.ts'
import { dataUrl, pdfOf, pngOf, pngOfPixels, type Line } from '../_documents.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'

const schema = new URL('../wire/schemas/ocr-response.json', import.meta.url)
const ajv = new Ajv2020({ strict: false })
const isAnswer = ajv.compile(JSON.parse(readFileSync(schema, 'utf8')))

const LETTER: readonly Line[] = [
  { text: 'Invoice number 4711', y: 720, size: 24 },
  { text: 'The quick brown fox jumps', y: 600 },
  { text: 'over the lazy dog.', y: 582 },
]
const PDF = pdfOf(LETTER, [{ text: 'Second page', y: 700 }], [{ text: 'The end', y: 700 }])
/** Takes almost no time to read. */
const SHORT = pdfOf([{ text: 'The end', y: 700 }])
const WORDS = 'Invoice number 4711\n\nThe quick brown fox jumps\nover the lazy dog.'
/** Takes minutes to read on any machine. */
const LONG = pdfOf(
  ...Array.from({ length: 90 }, () =>
    Array.from({ length: 50 }, (_, i) => ({
      text: `${i} lines that take their time`,
      y: 20 + 15 * i,
    })),
  ),
)

const data = dirname(createRequire(import.meta.url).resolve('@tesseract.js-data/eng/package.json'))
const ENGLISH = { name: 'eng', path: join(data, '4.0.0_best_int', 'eng.traineddata.gz') }

describe('through the gateway', () => {
  let t: TestGateway

  beforeAll(async () => {
    t = await createTestGateway({
      providers: { local: { use: 'tesseract', options: { threads: 1, maxPages: 90 } } },
      models: {
        'local/ocr': {
          free_tier: true,
          pricing: { page: '0' },
          deployments: [{ provider: 'local', model: 'tesseract' }],
        },
        'local/paid': {
          pricing: { page: '0.0005' },
          deployments: [{ provider: 'local', model: 'tesseract' }],
        },
      },
    })
  })
  afterAll(() => t.close())

  const ask = (body: object) => t.ask('POST', '/v1/ocr', { body: { model: 'local/ocr', ...body } })
  const document = (bytes: Uint8Array) => ({
    document: { document_url: dataUrl('application/pdf', bytes) },
  })

  it('reads the pages of a PDF, for the price of pages', async () => {
    const { status, json } = await ask({ model: 'local/paid', ...document(PDF) })
    expect(status, JSON.stringify(json)).toBe(200)
    expect(isAnswer(json), ajv.errorsText(isAnswer.errors)).toBe(true)
    expect(json.pages).toEqual([
      {
        index: 0,
        markdown: WORDS,
        images: [],
        dimensions: { dpi: 300, height: 3300, width: 2550 },
      },
      expect.objectContaining({ index: 1, markdown: 'Second page' }),
      expect.objectContaining({ index: 2, markdown: 'The end' }),
    ])
    expect(json.usage).toEqual({
      pages_processed: 3,
      cost: 0.0015,
      cost_details: { page_cost: 0.0015 },
    })
    expect(json.usage_info).toEqual({ pages_processed: 3, doc_size_bytes: PDF.length })
  })

  it('reads an image, with positions and confidence', async () => {
    const image_url = dataUrl('image/png', await pngOf(PDF))
    const options = { include_blocks: true, confidence_scores_granularity: 'word' }
    const { json } = await ask({ document: { image_url }, ...options })
    expect(isAnswer(json), ajv.errorsText(isAnswer.errors)).toBe(true)
    const [page] = json.pages
    expect(page.markdown).toBe(WORDS)
    expect(page.dimensions).toMatchObject({ height: 3300, width: 2550 })
    expect(page.blocks.map(({ content }: any) => content)).toEqual(WORDS.split('\n\n'))
    const { top_left_x: x, top_left_y: y } = page.blocks[0]
    // 72 points from the left edge, 52 to 72 from the upper one, at 300 dpi.
    expect([Math.abs(x - 300) < 20, y > 200 && y < 300]).toEqual([true, true])
    const scores = page.confidence_scores
    for (const { text, start_index } of scores.word_confidence_scores) {
      expect(WORDS.slice(start_index, start_index + text.length)).toBe(text)
    }
    expect(scores.average_page_confidence_score).toBeGreaterThan(0.8)
    expect(scores.minimum_page_confidence_score).toBeLessThanOrEqual(1)
    expect(json.usage).toEqual({ pages_processed: 1, cost: 0, cost_details: {} })
  })

  it('reads pages of the greatest length', async () => {
    const letter = pdfOf([{ text: 'Long receipt', x: 5, y: 9900, size: 12 }])
    const receipt = letter.toString('latin1').replace('[0 0 612 792]', '[0 0 99 9999]')
    const { json } = await ask(document(Buffer.from(receipt, 'latin1')))
    expect(json.pages.map(({ markdown }: any) => markdown)).toEqual(['Long receipt'])
  })

  it('reads the selected pages', async () => {
    const { json } = await ask({ ...document(PDF), pages: [2] })
    expect(json.pages.map(({ index, markdown }: any) => [index, markdown])).toEqual([
      [2, 'The end'],
    ])
  })

  it('understands the client of Mistral', async () => {
    const client = new Mistral({ apiKey: t.key.secret, serverURL: t.url })
    const documentUrl = dataUrl('application/pdf', PDF)
    const { pages, usageInfo, model } = await client.ocr.process({
      model: 'local/ocr',
      document: { type: 'document_url', documentUrl },
      pages: '1-2',
    })
    expect(pages.map(({ markdown }) => markdown)).toEqual(['Second page', 'The end'])
    expect(pages[0]!.blocks).toMatchObject([{ type: 'text', content: 'Second page' }])
    expect([usageInfo.pagesProcessed, model]).toEqual([2, 'local/ocr'])
    const imageUrl = dataUrl('image/png', await pngOf(SHORT))
    const image = await client.ocr.process({
      model: 'local/ocr',
      document: { type: 'image_url', imageUrl },
    })
    expect(image.pages[0]!.markdown).toBe('The end')
  })

  const page = { pages: 'pages', document: 'document.document_url', image: 'document.image_url' }
  const long = pngOfPixels({ width: 9, height: 33_000 }, Buffer.alloc(9 * 33_000, 255))
  const huge = pngOfPixels({ width: 60_000, height: 60_000 }, Buffer.alloc(4))
  it.each([
    [
      'a PDF in name only',
      document(Buffer.from('%PDF-1.4\nnothing')),
      'invalid_document',
      page.document,
    ],
    ['a page that is not there', { ...document(PDF), pages: '0,3' }, 'invalid_value', page.pages],
    [
      'too many pages',
      document(pdfOf(...Array.from({ length: 91 }, () => []))),
      'invalid_value',
      page.pages,
    ],
    [
      'a huge image',
      { document: { image_url: dataUrl('image/png', huge) } },
      'invalid_image',
      page.image,
    ],
    [
      'a long image',
      { document: { image_url: dataUrl('image/png', long) } },
      'invalid_image',
      page.image,
    ],
    [
      'a broken image',
      { document: { image_url: dataUrl('image/png', huge.subarray(0, 12)) } },
      'invalid_image',
      page.image,
    ],
    [
      'an image without its end',
      {
        document: {
          image_url: dataUrl(
            'image/png',
            pngOfPixels({ width: 9, height: 9 }, Buffer.alloc(0)).subarray(0, 40),
          ),
        },
      },
      'invalid_image',
      page.image,
    ],
    [
      'an image of another type',
      { document: { image_url: dataUrl('image/gif', Buffer.from('GIF89a')) } },
      'invalid_image',
      page.image,
    ],
    [
      'an address in our own network',
      { document: { document_url: 'https://127.0.0.1/a.pdf' } },
      'fetch_failed',
      page.document,
    ],
  ])('400: %s', async (_what, body, code, param) => {
    const { status, json } = await ask(body)
    expect({ status, code: json.error.code, param: json.error.param }).toEqual({
      status: 400,
      code,
      param,
    })
  })

  it('is free for others after a client disconnects', async () => {
    const left = Promise.withResolvers<void>()
    const body = JSON.stringify({ model: 'local/ocr', ...document(LONG) })
    const asking = request(`${t.url}/v1/ocr`, {
      method: 'POST',
      headers: { authorization: `Bearer ${t.key.secret}`, 'content-type': 'application/json' },
    })
    asking.on('error', () => left.resolve())
    asking.end(body)
    // A call that holds its deployment is being read.
    await expect
      .poll(() => [...t.gateway.running].some((call) => call.answer.deployment))
      .toBe(true)
    asking.destroy()
    await left.promise
    const { json } = await ask({ ...document(PDF), pages: [1] })
    expect(json.pages[0].markdown).toBe('Second page')
  })
})

describe('threads', () => {
  const fail: Host['fail'] = (failure, message, options) =>
    new UpstreamFailure(failure, message, options)
  const task = (bytes: Uint8Array): Task => ({
    kind: 'document',
    bytes,
    pages: undefined,
    maxPages: 100,
    blocks: false,
    scores: undefined,
  })
  const { signal } = new AbortController()

  it('are limited, and so are waiting tasks', async () => {
    const threads = new Threads(1, [ENGLISH], fail)
    const leaver = new AbortController()
    const running = threads.read(task(LONG), leaver.signal)
    const waiting = Array.from({ length: 8 }, () => threads.read(task(SHORT), leaver.signal))
    const failed = Promise.allSettled([running, ...waiting])
    await expect(threads.read(task(SHORT), signal)).rejects.toMatchObject({ failure: 'overloaded' })
    leaver.abort(new Error('gone'))
    for (const one of await failed) {
      expect(one).toMatchObject({ status: 'rejected', reason: { message: 'gone' } })
    }
    expect(await threads.read(task(SHORT), signal)).toMatchObject([{ markdown: 'The end' }])
    await threads.close()
  })

  it('take the next task when one is done', async () => {
    const threads = new Threads(1, [ENGLISH], fail)
    const both = await Promise.all([
      threads.read(task(SHORT), signal),
      threads.read({ ...task(PDF), pages: [2] }, signal),
    ])
    expect(both.map((pages) => pages.at(-1)!.markdown)).toEqual(['The end', 'The end'])
    await threads.close()
  })

  it('end with the plugin, even while busy', async () => {
    const threads = new Threads(1, [ENGLISH], fail)
    const all = Promise.allSettled([
      threads.read(task(LONG), signal),
      threads.read(task(PDF), signal),
    ])
    await threads.close()
    for (const one of await all) {
      expect(one).toMatchObject({ status: 'rejected', reason: { failure: 'overloaded' } })
    }
    await expect(threads.read(task(PDF), signal)).rejects.toMatchObject({ failure: 'overloaded' })
  })

  it('stop at a page that takes too long, and are free again', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const threads = new Threads(1, [ENGLISH], fail)
    const late = expect(threads.read(task(LONG), signal)).rejects.toMatchObject({
      failure: 'timeout',
    })
    const next = threads.read(task(SHORT), signal)
    // By now the first thread has its task.
    await new Promise((resolve) => setImmediate(resolve))
    vi.advanceTimersByTime(120_000)
    await late
    expect(await next).toMatchObject([{ markdown: 'The end' }])
    await threads.close()
  })

  it('fail with invalid data, and tell the operator', async () => {
    const threads = new Threads(1, [{ name: 'xyz', path: import.meta.filename }], fail)
    await expect(threads.read(task(PDF), signal)).rejects.toMatchObject({
      failure: 'upstream_error',
      cause: { message: 'Tesseract cannot use its data for xyz' },
    })
    await threads.close()
  })
})

describe('the plugin', () => {
  const setUp = async (options: object, host: Partial<Host> = {}) => {
    const { value, issues } = (await tesseract.options['~standard'].validate(options)) as any
    expect(issues).toBeUndefined()
    const fail = (failure: any, message: string) => new UpstreamFailure(failure, message)
    return tesseract.setup(value, { fail, ...host } as Host)
  }
  const ocrRequest = (document: OcrInput['document']) => ({
    input: { document },
    model: 'm',
    options: {},
    requestId: 'r',
    signal: new AbortController().signal,
    log: undefined as any,
  })

  it('downloads documents by URL', async () => {
    const asked: unknown[] = []
    const fetch: Host['download'] = async (url, _signal, options) => {
      asked.push(url, options)
      return { bytes: SHORT, contentType: 'application/pdf' }
    }
    const provider = await setUp({ threads: 1 }, { download: fetch })
    const url = 'https://example.com/a.pdf'
    const { pages, usage } = await provider.ocr!(ocrRequest({ kind: 'document', url }))
    expect(pages[0]!.markdown).toBe('The end')
    expect(usage).toEqual({ pages: 1 })
    expect(asked).toEqual([url, { param: 'document.document_url' }])
    await provider.close!()
  })

  it('reads several languages, from a folder', async () => {
    const path = await folder({})
    await copyFile(ENGLISH.path, join(path, 'xyz.traineddata.gz'))
    const provider = await setUp({ languages: ['eng', 'xyz'], folder: path, threads: 1 })
    const file = { bytes: SHORT, mediaType: 'application/pdf' }
    const { pages } = await provider.ocr!(ocrRequest({ kind: 'document', file }))
    expect(pages.map(({ markdown }) => markdown)).toEqual(['The end'])
    await provider.close!()
  })

  it('does not start without its data, and tells how to install it', async () => {
    await expect(setUp({ languages: ['tlh'] })).rejects.toThrow(
      'there is no data for the language "tlh": install @tesseract.js-data/tlh',
    )
  })

  it.each([[{ languages: [] }], [{ languages: ['../eng'] }], [{ threads: 0 }], [{ pages: 1 }]])(
    'refuses %j',
    async (options) => {
      const { issues } = (await tesseract.options['~standard'].validate(options)) as any
      expect(issues).toHaveLength(1)
    },
  )
})

describe('image headers', () => {
  const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')
  const riff = (kind: string, rest: string) =>
    Buffer.concat([Buffer.from(`RIFF\0\0\0\0WEBP${kind}`), hex(rest)])
  // APP1 with one EXIF entry, orientation 6, in both byte orders; then a frame of 3 by 2.
  const frame = 'ffc0 0011 08 0002 0003 03 000000 000000 000000'
  const little = '45786966 0000 4949 2a00 08000000 0100 1201 0300 01000000 0600 0000'
  const big = '45786966 0000 4d4d 002a 00000008 0001 0112 0003 00000001 0006 0000'

  it.each([
    ['PNG', pngOfPixels({ width: 3, height: 2 }, Buffer.alloc(6)), 1],
    ['JPEG', hex(`ffd8 ffe0 0004 0000 ${frame}`), 1],
    ['JPEG with fill bytes', hex(`ffd8 ffff ffe0 0004 0000 ${frame}`), 1],
    ['JPEG on its side', hex(`ffd8 ffe1 001e ${little} ${frame}`), 6],
    ['JPEG on its side, from elsewhere', hex(`ffd8 ffe1 001e ${big} ${frame}`), 6],
    ['JPEG with half an EXIF', hex(`ffd8 ffe1 0012 ${big.slice(0, 37)} ${frame}`), 1],
    ['WebP, lossy', riff('VP8 ', '00000000 000000 9d012a 0300 0200'), 1],
    ['WebP, lossless', riff('VP8L', '00000000 2f 02400000'), 1],
    ['WebP, extended', riff('VP8X', '0a000000 00000000 020000 010000'), 1],
  ])('%s', (_what, bytes, orientation) => {
    expect(readImageHeader(bytes)).toEqual({ width: 3, height: 2, orientation })
  })

  it('are undefined for truncated headers and other formats', () => {
    const whole = hex(`ffd8 ffe1 001e ${little} ${frame}`)
    // The size field of a frame ends ten bytes before its end.
    for (let end = 0; end < whole.length - 10; end++) {
      expect(readImageHeader(whole.subarray(0, end))).toBeUndefined()
    }
    expect(readImageHeader(Buffer.from('GIF89a'))).toBeUndefined()
  })
})
