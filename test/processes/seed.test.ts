/** A start whose seed the store cannot take yet: not ready, tried again, booked once. */
import { beforeEach, expect, it, type TestContext } from 'vitest'
import { start, TOKEN, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { freePort } from '../_ports.ts'
import { send } from '../_setup.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'

beforeEach((context: TestContext) => {
  if (!hasRedis()) context.skip(NOT_INSTALLED)
})

const configOf = (redis: RedisServer, port: number) => `
server: { port: ${port} }
admin: { token: ${TOKEN} }
log: { access: false, format: json }
state: { driver: redis, url: '${redis.url}', outbox: ./data/outbox }
providers: { mock: { use: mock } }
models: { mock/echo: { pricing: { request: '0.001' }, deployments: [{ provider: mock, model: echo }] } }
seed:
  accounts:
    - { id: me, name: Me, credits: '2.50', time_zone: Europe/Berlin, keys: [{ id: laptop, name: Laptop, secret: sk-a-secret-of-the-seed-0001 }] }
`

it.each([
  ['one process', '1'],
  ['workers', '2'],
])(
  'with Redis at maxmemory %s serve once it can, and the credits are booked once',
  async (_, workers) => {
    await using redis = await RedisServer.start({ args: ['--maxmemory', '1'] })
    const port = await freePort()
    const cwd = await folder({ 'gateway.config.yaml': configOf(redis, port!) })
    const running = await start(['serve'], { cwd, env: { SLUICEGATE__SERVER__WORKERS: workers } })
    const url = `http://127.0.0.1:${port}`
    const ready = async () => {
      const answer = await fetch(`${url}/readyz`).catch(() => undefined)
      return answer ? [answer.status, await answer.json()] : undefined
    }
    const waiting = { status: 'unavailable', reasons: ['seed', 'ledger'] }
    await expect.poll(ready).toEqual([503, waiting])
    // Longer than the pause between two tries.
    const tries = () => redis.ask((client) => client.info('errorstats'))
    const failed = async () => Number(/errorstat_OOM:count=(\d+)/.exec(await tries())?.[1] ?? 0)
    const before = await failed()
    await expect.poll(failed).toBeGreaterThan(before + 5)
    expect(running.said()).toContain('the seed is not in the ledger yet')
    expect(running.child.exitCode).toBeNull()
    await redis.ask((client) => client.config('SET', 'maxmemory', '0'))
    await expect.poll(ready).toEqual([200, { status: 'ok', reasons: [] }])
    expect(await urlOf(running)).toBe(url)
    const asked = { authorization: `Bearer ${TOKEN}` }
    const { json: account } = await send(`${url}/admin/accounts/me`, 'GET', undefined, asked)
    expect(account.data).toMatchObject({ balance_usd: 2.5, time_zone: 'Europe/Berlin' })
    const { json } = await send(`${url}/admin/accounts/me/ledger`, 'GET', undefined, asked)
    expect(json.data).toHaveLength(1)
    const key = { authorization: 'Bearer sk-a-secret-of-the-seed-0001' }
    expect((await send(`${url}/v1/key`, 'GET', undefined, key)).status).toBe(200)
  },
)
