import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dataUrl, pdfOf } from '../../_documents.ts'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { describeRecorded, whole } from '../../fixtures.ts'
import { json, startUpstream, type FakeUpstream } from '../../upstream.ts'

const schema = new URL('../../wire/schemas/ocr-response.json', import.meta.url)
const ajv = new Ajv2020({ strict: false })
const isAnswer = ajv.compile(JSON.parse(readFileSync(schema, 'utf8')))

const PDF = pdfOf([{ text: 'Hello', y: 700 }])
const document = { type: 'document_url', document_url: dataUrl('application/pdf', PDF) }
const ANSWER = { pages: [{ index: 0, markdown: 'Hello', images: [], dimensions: null }] }

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'sk-operator' }
  const model = (deployment: object) => ({
    pricing: { page: '0.002' },
    capabilities: ['STRUCTURED_OUTPUTS' as const],
    deployments: [{ provider: 'mistral', model: 'ocr-1', ...deployment }],
  })
  t = await createTestGateway({
    providers: { mistral: { use: 'mistral', options, privateUrls: true } },
    models: {
      'mistral/ocr': model({}),
      'mistral/plain': model({ options: { omit: ['include_blocks'] } }),
    },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

function ask(body: object) {
  return t.ask('POST', '/v1/ocr', { body: { model: 'mistral/ocr', document, ...body } })
}

describe('the request', () => {
  async function sent(body: object): Promise<any> {
    vendor.answer(json(ANSWER))
    const { status, text } = await ask(body)
    expect(status, text).toBe(200)
    return vendor.requests.at(-1)!
  }

  it('goes to Mistral with the key and known members', async () => {
    const json_schema = { name: 'x', schema: { type: 'object' }, strict: true }
    const format = { type: 'json_schema', json_schema }
    const known = {
      include_image_base64: true,
      image_limit: 3,
      image_min_size: 10,
      bbox_annotation_format: format,
      document_annotation_format: format,
      document_annotation_prompt: 'The sum.',
      table_format: 'html',
      extract_header: true,
      extract_footer: true,
      include_blocks: false,
      confidence_scores_granularity: 'word',
    }
    const named = { ...document, document_name: 'a.pdf' }
    const request = await sent({
      ...known,
      document: named,
      pages: '0',
      id: '1',
      policy: { version: 1 },
    })
    expect(request).toMatchObject({
      method: 'POST',
      path: '/v1/ocr',
      headers: { authorization: 'Bearer sk-operator' },
    })
    expect(request.json).toEqual({ model: 'ocr-1', document: named, pages: [0], ...known })
  })

  it('passes URLs on unchanged', async () => {
    const document_url = 'https://example.com/a.pdf?x=1'
    const { json: asked } = await sent({ document: { document_url } })
    expect(asked.document).toEqual({ type: 'document_url', document_url })
    const image_url = 'https://example.com/a.png'
    const { json: image } = await sent({ document: { image_url: { url: image_url } } })
    expect(image.document).toEqual({ type: 'image_url', image_url })
  })

  it('leaves out the members that a deployment omits', async () => {
    const { json: asked } = await sent({ model: 'mistral/plain', include_blocks: true })
    expect(asked).toEqual({ model: 'ocr-1', document })
  })
})

describe('the answer', () => {
  it('is charged by its pages when no usage is reported', async () => {
    vendor.answer(json({ ...ANSWER, usage_info: null }))
    expect((await ask({})).json.usage.cost).toBe(0.002)
  })

  it.each([
    ['garbage', { status: 200, pieces: ['<html>'] }, 502],
    ['no pages', json({ model: 'x' }), 502],
    ['pages without text', json({ pages: [{ index: 0 }] }), 502],
    ['an error inside', json({ object: 'error', message: 'No.', code: 500 }), 502],
    ['a bad key', json({ detail: 'Invalid API Key' }, 401), 502],
    ['a busy vendor', json({ message: 'Rate limit exceeded' }, 429), 429],
    ['a refusal', json({ object: 'error', message: 'Bad document.', type: 'x' }, 400), 400],
  ])('that is %s fails, and costs nothing', async (_what, answer, status) => {
    vendor.answer(answer)
    const before = await t.balance()
    const { status: got, text } = await ask({})
    expect(got).toBe(status)
    expect(text).not.toContain('sk-operator')
    expect(await t.balance()).toBe(before)
  })

  it('names the invalid member', async () => {
    const issue = { loc: ['body', 'pages'], msg: 'Input should be valid', type: 'x' }
    vendor.answer(json({ detail: [issue] }, 422))
    const { json: body } = await ask({})
    expect(body.error).toMatchObject({ code: 'upstream_rejected', param: 'pages' })
  })
})

describeRecorded('recorded OCR with mistral', ['mistral'], /\/ocr$/, (recordings) => {
  it.each(recordings)('$name', async (recording) => {
    vendor.answer(whole(recording))
    const said = JSON.parse(recording.body.toString())
    const { model: _name, ...request } = recording.request.body
    const { status, json: answer } = await ask(request)
    expect(status).toBe(200)
    expect(isAnswer(answer), ajv.errorsText(isAnswer.errors)).toBe(true)
    expect(vendor.requests.at(-1)!.json).toEqual({ model: 'ocr-1', ...request })
    const { pages_processed } = said.usage_info
    const cost = (pages_processed * 2) / 1000
    const usage = { pages_processed, cost, cost_details: { page_cost: cost } }
    const sent = Buffer.from(request.document.document_url?.split(',')[1] ?? '', 'base64').length
    const doc_size_bytes = said.usage_info.doc_size_bytes ?? (sent || null)
    expect(answer).toEqual({
      ...said,
      model: 'mistral/ocr',
      document_annotation: said.document_annotation ?? null,
      usage_info: { pages_processed, doc_size_bytes },
      usage,
    })
  })
})
