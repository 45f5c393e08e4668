/** Alerts as an operator sees them: in the list, the overview, the metrics and the audit log. */
import { expect, it } from 'vitest'
import { call } from '../../_cli.ts'
import type { UserConfig } from '../../../src/config/config.ts'
import { createTestGateway, hello, loaded, MOCK_CONFIG } from '../../_setup.ts'
import { json, startUpstream } from '../../upstream.ts'

const TOKEN = 'admin-token-of-the-test'
const VIEWER = 'viewer-token-of-the-test'

it('a model without a deployment that answers is an alert, which can be muted', async () => {
  await using vendor = await startUpstream(json({ error: { message: 'no such key' } }, 401))
  const config = (prompt: string): UserConfig => ({
    ...MOCK_CONFIG,
    admin: { token: TOKEN, tokens: [{ name: 'v', token: VIEWER, role: 'viewer' }] },
    providers: {
      vendor: {
        use: 'openai-compatible',
        options: { baseURL: `${vendor.url}/v1`, apiKey: 'key-of-the-vendor' },
      },
    },
    models: {
      'mock/echo': {
        pricing: { prompt, completion: '0.000002' },
        deployments: [{ provider: 'vendor', model: 'm' }],
      },
    },
  })
  await using t = await createTestGateway(config('0.000001'))
  const get = async (path: string, key = VIEWER) => (await t.ask('GET', path, { key })).json.data
  expect(await get('/admin/alerts')).toEqual([])
  expect((await t.chat(hello)).status).toBe(502)
  await expect.poll(() => get('/admin/alerts')).toHaveLength(1)
  const [alert] = await get('/admin/alerts')
  expect(alert).toMatchObject({ kind: 'model.down', object: 'mock/echo', ended_at: null })
  expect(alert.subject).toEqual({ kind: 'model', id: 'mock/echo', name: 'mock/echo' })
  expect((await get('/admin/overview')).alerts).toEqual([alert])
  const { text } = await t.ask('GET', '/metrics', { key: TOKEN })
  expect(text).toContain('sluicegate_alerts_active{kind="model.down"} 1')
  const told = () => t.logged.filter((line) => line.startsWith('alert model.down'))
  await expect.poll(told).toHaveLength(1)

  const mute = (key: string, seconds: unknown, id = alert.id) =>
    t.ask('POST', `/admin/alerts/${id}/mute`, { key, body: { seconds } })
  expect((await mute(VIEWER, 60)).status).toBe(403)
  expect((await mute(TOKEN, -1)).json.error).toMatchObject({ param: 'seconds' })
  expect((await mute(TOKEN, 60, 'al_none')).status).toBe(404)
  const muted = await mute(TOKEN, 60)
  expect(muted.json.data).toMatchObject({ id: alert.id, muted_until: expect.any(String) })
  const at = ['--url', t.url, '--token', TOKEN]
  const listed = await call(['alerts', 'list', ...at])
  expect(listed.err).toBe('')
  expect(listed.out).toMatch(new RegExp(`active +model.down +mock/echo .*${alert.id}`))
  expect((await call(['alerts', 'mute', alert.id, '--seconds', '9', ...at])).out).toContain(
    `Alert ${alert.id} is muted until 2`,
  )
  expect((await call(['alerts', 'mute', alert.id, '--seconds', 'x', ...at])).err).toContain(
    'seconds',
  )
  const [, entry] = await get('/admin/audit', TOKEN)
  expect(entry).toMatchObject({ action: 'alert.mute', object: `alert:${alert.id}` })

  // Another price of a model that was called is told once, and needs nothing to end.
  await t.gateway.reload(loaded(config('0.000003')))
  await t.gateway.reload(loaded(config('0.000003')))
  const prices = (await get('/admin/alerts')).filter((one: any) => one.kind === 'price.changed')
  expect(prices).toMatchObject([{ object: 'mock/echo', ended_at: expect.any(String) }])
})
