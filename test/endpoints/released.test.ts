/** What clients sent is freed as soon as the answer has begun, and no other provider can be asked for it. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it, onTestFinished } from 'vitest'
import * as v from 'valibot'
import { ocr } from '../../src/endpoints/ocr/endpoint.ts'
import { defineProvider, type ProviderPlugin } from '../../src/plugin.ts'
import { dataUrl } from '../_documents.ts'
import { MODELS, PNG, SOUND } from '../_every-endpoint.ts'
import { createTestGateway } from '../_setup.ts'
import { wav } from './audio/_sounds.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Answers that go on when they are told to, and what they were asked. */
function vendor() {
  const asked: WeakRef<object>[] = []
  const gate = Promise.withResolvers<void>()
  const note = (given: object | undefined) => void asked.push(new WeakRef(given!))
  const partsOf = async function* <Part>(first: Part, last: Part): AsyncGenerator<Part> {
    yield first
    await gate.promise
    yield last
  }
  const b64_json = PNG.toString('base64')
  const usage = { prompt_tokens: 10, completion_tokens: 5 }
  const chunk = (content: string) => ({ index: 0, delta: { content } })
  const plugin = defineProvider({
    name: 'vendor',
    options: v.optional(v.looseObject({}), {}),
    setup: () => ({
      async chat({ input }) {
        note(input.messages[0])
        return partsOf<any>(
          { choices: [chunk('one')] },
          { choices: [{ ...chunk('two'), finish_reason: 'stop' }], usage },
        )
      },
      async generateImage({ input }) {
        note(input)
        return partsOf<any>(
          { type: 'partial', b64_json, index: 0 },
          { type: 'completed', data: [{ b64_json }] },
        )
      },
      async editImage({ input }) {
        for (const image of [...input.images, input.mask]) note(image)
        return partsOf<any>(
          { type: 'partial', b64_json, index: 0 },
          { type: 'completed', data: [{ b64_json }] },
        )
      },
      async transcribe({ input }) {
        note(input.file)
        return partsOf<any>({ type: 'delta', text: 'Turn ' }, { type: 'done', text: 'Turn left.' })
      },
      async speech({ input }) {
        note(input)
        return { bytes: partsOf(SOUND, SOUND) }
      },
    }),
  }) as ProviderPlugin
  return { plugin, asked, gate }
}

const png = dataUrl('image/png', PNG)
const streamed = { stream: true }

it.each<[name: 'chat' | 'image' | 'transcription' | 'speech', path: string, body: object]>([
  [
    'chat',
    '/v1/chat/completions',
    { messages: [{ role: 'user', content: 'Hello.' }], ...streamed },
  ],
  ['image', '/v1/images/generations', { prompt: 'A cat.', partial_images: 1, ...streamed }],
  [
    'image',
    '/v1/images/edits',
    {
      prompt: 'A cat.',
      images: [{ image_url: png }],
      mask: { image_url: png },
      partial_images: 1,
      ...streamed,
    },
  ],
  [
    'transcription',
    '/v1/audio/transcriptions',
    { file: dataUrl('audio/wav', wav(1)), ...streamed },
  ],
  ['speech', '/v1/audio/speech', { input: 'Hello there.', voice: 'a' }],
])('%s frees its request with the first part of the answer: %s', async (name, path, body) => {
  const { plugin, asked, gate } = vendor()
  const t = await createTestGateway({
    providers: { every: { use: plugin } },
    models: { [`acme/${name}`]: MODELS[`acme/${name}`] },
  })
  onTestFinished(() => t.close())
  const answer = t.ask('POST', path, { body: { model: `acme/${name}`, ...body } })
  await expect.poll(() => asked.length).toBeGreaterThan(0)
  await expect
    .poll(() => {
      collect()
      return asked.filter((one) => one.deref() !== undefined).length
    })
    .toBe(0)
  expect(t.gateway.running.size).toBe(1)
  gate.resolve()
  expect((await answer).status).toBe(200)
  expect(await t.gateway.runtime.ledger.verify()).toEqual([])
})

it('OCR, whose answers come whole, frees the document with the answer', () => {
  const document = { kind: 'image', file: { bytes: PNG, mediaType: 'image/png' } }
  const schema = { type: 'json_schema', json_schema: { name: 'a', schema: {} } }
  const left = ocr.endpoint.withoutContent!({
    model: 'm',
    document,
    document_annotation_format: schema,
  })
  expect(JSON.parse(JSON.stringify(left))).toEqual({
    model: 'm',
    document: { kind: 'document', url: '' },
  })
})
