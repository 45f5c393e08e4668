import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readChatRequest } from '../../src/endpoints/chat/dialects/chat/read.ts'
import { InvalidRequest } from '../../src/errors/errors.ts'
import { ROUTES } from '../../src/gateway/routes.ts'
import { bodies, mutate, mutations } from '../endpoints/chat/request.bodies.ts'
import { fakeProvider, paymentsOf } from '../payments/_provider.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { describeApi } from './_description.ts'
import { runs } from '../_runs.ts'

const text = readFileSync(new URL('../../config/openapi.json', import.meta.url), 'utf8')
const document = JSON.parse(text)
const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema(document, 'api')

/** A schema of the document. @param path the parts of a JSON Pointer, in plain text */
function schemaAt(...path: string[]): ValidateFunction {
  const pointer = path
    .map((one) => one.replaceAll('~', '~0').replaceAll('/', '~1'))
    .map(encodeURIComponent)
  return ajv.getSchema(`api#/${pointer.join('/')}`) as ValidateFunction
}

const bodyOf = (path: string) =>
  schemaAt('paths', path, 'post', 'requestBody', 'content', 'application/json', 'schema')

const model = (modality: string, pricing: object, more: object = {}) => ({
  modality: modality as 'chat',
  pricing: { ...pricing },
  deployments: [{ provider: 'mock', model: 'm' }],
  ...more,
})
const TOKENS = { prompt: '0.000001', completion: '0.000002' }

let t: TestGateway
beforeAll(async () => {
  t = await createTestGateway({
    ...paymentsOf(fakeProvider()),
    providers: { mock: { use: 'mock' } },
    models: {
      'example/chat': model('chat', TOKENS),
      'example/text': model('chat', TOKENS, { capabilities: ['COMPLETIONS'] }),
      'example/image': model('image', { image: '0.01' }, { capabilities: ['REFERENCES'] }),
      'example/ocr': model('ocr', { page: '0.001' }),
      'example/speech': model('speech', { character: '0.00001' }),
      'example/transcription': model('transcription', { second: '0.0001' }),
      'example/embedding': model('embedding', { prompt: '0.0000001' }),
      'example/rerank': model('rerank', { search_unit: '0.002' }),
      'example/moderation': model('moderation', { prompt: '0.0000001' }),
    },
  })
})
afterAll(() => t.close())

describe('the description of the API', () => {
  it('is as the checks of requests and the schemas of answers say: else run npm run openapi', () => {
    expect(document).toEqual(JSON.parse(JSON.stringify(describeApi())))
  })

  it('has no errors', async () => {
    const config = await createConfig({ extends: ['recommended'] })
    const found = await lintFromString({ source: text, absoluteRef: 'openapi.json', config })
    const errors = found.filter(({ severity }) => severity === 'error')
    expect(errors.map(({ message, ruleId }) => `${ruleId}: ${message}`)).toEqual([])
  })

  it('has every route, and no other', () => {
    const routes = ROUTES.filter(({ path }) => path.startsWith('/v1/'))
    const described = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(described.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort())
  })

  it('is served without a key, with a tag', async () => {
    const { status, headers, json } = await t.ask('GET', '/openapi.json', { key: null })
    expect([status, json]).toEqual([200, document])
    expect(headers['cache-control']).toBe('public, max-age=300')
    const again = await t.ask('GET', '/openapi.json', {
      key: null,
      headers: { 'if-none-match': headers.etag! },
    })
    expect(again.status).toBe(304)
  })
})

const EXAMPLES = Object.entries<any>(document.paths).flatMap(([path, { post }]) =>
  Object.entries<any>(post?.requestBody.content['application/json'].examples ?? {}).map(
    ([name, { value }]) => [path, name, value, post.responses['200'].content] as const,
  ),
)

describe('an example', () => {
  it.each(EXAMPLES)('of %s is valid and answered: %s', async (path, _name, body, content) => {
    const isBody = bodyOf(path)
    expect(isBody(body), JSON.stringify(isBody.errors)).toBe(true)
    const { status, headers, text: answer } = await t.ask('POST', path, { body })
    expect(status, answer).toBe(200)
    const type = headers['content-type']!.split(';')[0]!
    expect(Object.keys(content)).toContain(type)
    if (type !== 'application/json') return
    const isAnswer = schemaAt('paths', path, 'post', 'responses', '200', 'content', type, 'schema')
    expect(isAnswer(JSON.parse(answer)), JSON.stringify(isAnswer.errors)).toBe(true)
  })

  it('that is wrong is answered with an error of the description', async () => {
    for (const [path] of EXAMPLES) {
      const { status, json } = await t.ask('POST', path, { body: {} })
      const content = ['content', 'application/json', 'schema']
      const isError = schemaAt('paths', path, 'post', 'responses', '4XX', ...content)
      expect(status).toBe(400)
      expect(isError(json), `${path} ${JSON.stringify(isError.errors)}`).toBe(true)
      expect(bodyOf(path)({}), path).toBe(false)
    }
  })
})

it('accepts every chat that the gateway accepts', () => {
  const isBody = bodyOf('/v1/chat/completions')
  fc.assert(
    fc.property(bodies(), fc.nat(100), mutations(), (body, place, change) => {
      for (const one of [body, mutate(body, place, change)]) {
        if (isAccepted(one)) expect(isBody(one), JSON.stringify([one, isBody.errors])).toBe(true)
      }
    }),
    { numRuns: runs(100) },
  )
})

function isAccepted(body: object): boolean {
  try {
    readChatRequest(body)
    return true
  } catch (error) {
    if (error instanceof InvalidRequest) return false
    throw error
  }
}
