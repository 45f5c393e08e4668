/** Models of Google and Anthropic at Vertex AI: rules hold there, and nothing of the operator's project reaches a client. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { DIALECTS } from './_dialects.ts'

const WORD = 'nightjar'
const PROJECT = 'acme-prod-42'
const MESSAGES = { messages: [{ role: 'user', content: 'Hi' }] }
const FORMS = [
  ['/v1/chat/completions', MESSAGES],
  ['/v1/messages', { max_tokens: 100, ...MESSAGES }],
  ['/v1/responses', { input: 'Hi' }],
] as const
const WAYS = FORMS.flatMap(([path, body]) =>
  [false, true].map((stream) => ({ path, stream, body: { ...body, stream } })),
)

let vendor: FakeUpstream
let tokens: FakeUpstream
let t: TestGateway
let key: string
beforeAll(async () => {
  vendor = await startUpstream()
  tokens = await startUpstream(json({ access_token: 'ya29.vertex', expires_in: 3599 }))
  const credentials = JSON.stringify({
    type: 'authorized_user',
    client_id: 'client',
    client_secret: 'of the client',
    refresh_token: '1//refresh',
    token_uri: tokens.url,
  })
  const vertex = { project: PROJECT, location: 'europe-west1', credentials }
  const provider = (use: string) => ({ use, options: { baseURL: `${vendor.url}/v1`, vertex } })
  const model = (name: string) => ({
    pricing: { prompt: '0.000001', completion: '0.000002' },
    deployments: [{ provider: name, model: 'm' }],
  })
  t = await createTestGateway({
    providers: { anthropic: provider('anthropic'), google: provider('google') },
    models: { 'acme/anthropic': model('anthropic'), 'acme/google': model('google') },
    guards: { use: [] },
    routing: { cooldown: 0, attempts: 1 },
    defaults: { limits: { rpm: 10_000 } },
  })
  key = (await t.newKey({ policy: { version: 1, bannedPatterns: [WORD] } })).secret
})
afterAll(async () => {
  await t.close()
  await vendor.close()
  await tokens.close()
})

describe.each(['anthropic', 'google'])('%s at Vertex AI', (name) => {
  const model = `acme/${name}`
  const dialect = DIALECTS.find((one) => one.name === name)!
  const say = (text: string) =>
    vendor.answer(({ path }) => dialect[/stream/i.test(path) ? 'stream' : 'whole']({ text }))

  it.each(WAYS)('keeps a banned word from $path, stream: $stream', async ({ path, body }) => {
    say(`Look, a ${WORD} flies.`)
    const free = await t.ask('POST', path, { body: { model, ...body } })
    expect(free.text).toContain('Look')
    const { status, text } = await t.ask('POST', path, { key, body: { model, ...body } })
    expect(status).toBe(200)
    for (const part of [WORD, 'jar flies', 'flies']) expect(text).not.toContain(part)
  })

  it.each(WAYS)('is not asked about it by $path, stream: $stream', async ({ path, body }) => {
    const before = vendor.requests.length
    const asked = JSON.parse(JSON.stringify(body).replace('"Hi"', `"A ${WORD}?"`))
    await t.ask('POST', path, { key, body: { model, ...asked } })
    expect(vendor.requests.length).toBe(before)
  })

  it.each(WAYS)('names no project in errors of $path, stream: $stream', async ({ path, body }) => {
    const message = `Invalid value at projects/${PROJECT}/locations/europe-west1 by svc@${PROJECT}.iam.gserviceaccount.com, token ya29.vertex`
    for (const status of [400, 403, 404, 413, 429, 500]) {
      vendor.answer(json([{ error: { code: status, status: 'X', message } }], status))
      const answer = await t.ask('POST', path, { body: { model, ...body } })
      expect(answer.status).toBeGreaterThanOrEqual(400)
      for (const part of [PROJECT, 'ya29', 'europe-west1']) expect(answer.text).not.toContain(part)
    }
  })
})
