/** Text of vendors, models and clients is whole wherever an operator reads it: request log, events, CSV, sinks, access log. */
import { expect, it, vi } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { json, startUpstream } from '../upstream.ts'

const TOKEN = 'admin-token-of-the-test'
const SAID = '参数错误：模型不存在; für Müller 🦊'
const MODEL = 'acme/modèle-é'

it('a Chinese error of a vendor and a model with an accent are whole in logs, answers, CSV and sinks', async () => {
  await using vendor = await startUpstream(json({ error: { message: SAID } }, 400))
  await using hook = await startUpstream(json({}))
  const written: string[] = []
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written.push(String(text))
    return true
  })
  await using t = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    log: { access: true, format: 'json' },
    providers: {
      ...MOCK_CONFIG.providers,
      far: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1`, apiKey: 'k' } },
    },
    models: {
      ...MOCK_CONFIG.models,
      [MODEL]: {
        pricing: { prompt: '0', completion: '0' },
        deployments: [{ provider: 'far', model: 'modèle' }],
      },
    },
    sinks: [
      {
        use: 'webhook',
        options: { url: hook.url, secret: 'secret-of-the-webhook', events: ['call.ended'] },
      },
    ],
  })
  const get = (path: string) => t.ask('GET', `/admin${path}`, { key: TOKEN })
  const failed = await t.chat({ ...hello, model: MODEL })
  const unknown = await t.chat({ ...hello, model: 'acme/autre-modèle' })
  expect([failed.status, unknown.status]).toEqual([400, 404])
  const id = failed.headers['x-request-id']
  const attempt = { deployment: 'far/modèle', message: SAID }
  const { data } = (await get(`/requests/${id}`)).json
  expect(data).toMatchObject({ id, model: MODEL, error: failed.json.error.message })
  expect(data.attempts).toEqual([expect.objectContaining(attempt)])
  expect((await get(`/requests?model=${encodeURIComponent(MODEL)}`)).json.data).toHaveLength(1)
  const [first] = (await get('/requests?status=404')).json.data
  expect(first.error).toBe(unknown.json.error.message)
  expect(first.error).toContain('acme/autre-modèle')
  const csv = await get('/requests?format=csv')
  for (const text of [SAID, MODEL, 'autre-modèle']) expect(csv.text).toContain(text)
  await eventually(() => expect(hook.requests.length).toBeGreaterThan(1))
  const events = hook.requests.map(({ body }) => JSON.parse(String(body)))
  const told = events.find(({ data: call }) => call.id === id)
  expect(told.data).toMatchObject({ model: MODEL, attempts: [attempt] })
  await t.close()
  spy.mockRestore()
  const lines = written
    .join('')
    .split('\n')
    .filter((line) => line.includes(String(id)))
  const line = lines.map((text) => JSON.parse(text)).find(({ event }) => event === 'request')
  expect(line).toMatchObject({ model: MODEL, deployment: 'far/modèle' })
  expect(JSON.stringify([data, first, told, line])).not.toMatch(/\?\?|\?rreur|mod\?le/)
})
