/** What gateways on one Redis tell each other: that they run, and which deployments are taken out. */
import { createConsola } from 'consola'
import { expect, it, onTestFinished } from 'vitest'
import { createGateway } from '../../../src/gateway/gateway.ts'
import { listen } from '../../../src/server/server.ts'
import { createTestGateway, hello, loaded, MOCK_CONFIG, send } from '../../_setup.ts'
import { folder } from '../../_folder.ts'
import { needRedis, sharedServer } from './_engine.ts'

const TOKEN = 'token-of-all-gateways'
needRedis()

it('know each other, and which deployments an operator has taken out', async () => {
  const { url } = await sharedServer()
  const configOf = async () => {
    const state = { driver: 'redis' as const, url, outbox: await folder({}) }
    return { ...MOCK_CONFIG, state, admin: { token: TOKEN } }
  }
  const log = createConsola({ level: 0 })
  const other = await createGateway(loaded(await configOf()), { log })
  const server = await listen(other, { host: '127.0.0.1', port: 0 })
  onTestFinished(async () => {
    await server.close({ graceSeconds: 0 })
    await other.close()
  })
  const one = await createTestGateway(await configOf())
  const headers = { authorization: `Bearer ${TOKEN}` }
  const gateways = async () => {
    const { json } = await send(`${server.url}/admin/gateways`, 'GET', undefined, headers)
    return json.data.map(({ id }: { id: string }) => id)
  }
  const status = async () => {
    const own = { authorization: `Bearer ${one.key.secret}`, 'content-type': 'application/json' }
    const url = `${server.url}/v1/chat/completions`
    return (await send(url, 'POST', JSON.stringify(hello), own)).status
  }
  const ids = [other, one.gateway].map(({ runtime }) => runtime.gatewayId)
  try {
    await expect.poll(gateways, { timeout: 60_000 }).toEqual(ids)
    const [deployment] = one.gateway.runtime.catalog.get('mock/echo')!.deployments
    const path = `/admin/deployments/${encodeURIComponent(deployment!.id)}`
    const out = await one.ask('POST', `${path}/cooldown`, { key: TOKEN, body: { seconds: 600 } })
    expect(out.status).toBe(200)
    await expect.poll(status, { timeout: 60_000 }).toBe(503)
    expect((await one.ask('POST', `${path}/resume`, { key: TOKEN, body: {} })).status).toBe(200)
    await expect.poll(status, { timeout: 60_000 }).toBe(200)
  } finally {
    await one.close()
  }
  await expect.poll(gateways, { timeout: 60_000 }).toEqual(ids.slice(0, 1))
})
