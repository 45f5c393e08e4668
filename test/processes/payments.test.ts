/** Gateways that are killed while webhooks come: every payment is booked, and once. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { start, TOKEN } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { send } from '../_setup.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'

const ROUNDS = 5
const PAYMENTS = 12
const SECRET = 'secret-of-the-test'
const authorization = `Bearer ${TOKEN}`

const PLUGIN = `
export default {
  kind: 'payments', api: 1, name: 'fake',
  options: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  setup: ({ url, secret }, host) => ({
    checkout: async ({ reference }) => ({ id: 'page_' + reference, url: 'https://pay.example/' + reference }),
    read: async ({ headers, body }) =>
      headers.get('x-secret') === secret ? JSON.parse(Buffer.from(body).toString()) : undefined,
    find: async (page, signal) => host.http(url + '/' + page, { signal }),
  }),
}
`

async function play(state: string): Promise<void> {
  const pages = createServer((_, response) => response.end('[]')).listen(0, '127.0.0.1')
  await once(pages, 'listening')
  onTestFinished(() => void pages.close())
  const url = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`
  const cwd = await folder({
    'pay.mjs': PLUGIN,
    'gateway.config.yaml': `
server: { port: 0, publicUrl: 'http://localhost:8787' }
admin: { token: ${TOKEN} }
log: { access: false, format: json }
state: ${state}
payments: { use: ./pay.mjs, max: '10000', options: { url: '${url}', secret: ${SECRET} } }
seed: { accounts: [${Array.from({ length: PAYMENTS }, (_, i) => `{ id: a${i}, name: A }`).join(', ')}] }
providers: { mock: { use: mock } }
models: { mock/echo: { pricing: { prompt: '0', completion: '0' }, deployments: [{ provider: mock, model: echo }] } }
`,
  })
  const begin = async () => {
    const running = await start(['serve'], { cwd })
    const line = () =>
      running
        .said()
        .split('\n')
        .find((one) => one.includes('"started"'))
    await expect.poll(line).toBeDefined()
    return { ...running, url: JSON.parse(line()!).url as string }
  }
  let gateway = await begin()
  const ask = async (method: string, path: string, body?: object) =>
    (
      await send(gateway.url + path, method, body && JSON.stringify(body), {
        authorization,
        'content-type': 'application/json',
      })
    ).json.data
  const deliver = (events: object[]) =>
    fetch(`${gateway.url}/payments/webhook`, {
      method: 'POST',
      headers: { 'x-secret': SECRET },
      body: JSON.stringify(events),
    }).then(
      ({ status }) => status === 200,
      () => false,
    )
  let confirmed = 0
  for (let round = 1; round <= ROUNDS; round++) {
    const told = await Promise.all(
      Array.from({ length: PAYMENTS }, async (_, i) => {
        const { reference } = await ask('POST', `/admin/accounts/a${i}/checkout`, { usd: '10' })
        const payment = `pi_${reference}`
        return [
          { type: 'refunded', id: `re_${reference}`, payment, amount: '1', currency: 'usd' },
          { type: 'paid', id: payment, reference, amount: '10.00', currency: 'usd' },
        ]
      }),
    )
    let answered = 0
    const sent = told.flatMap((events) => [deliver(events), deliver(events.toReversed())])
    // Others are under way, at any step.
    for (const one of sent) void one.then((isTaken) => void (answered += Number(isTaken)))
    await expect.poll(() => answered, { interval: 1 }).toBeGreaterThanOrEqual((round - 1) * 5)
    gateway.child.kill('SIGKILL')
    await gateway.ended
    confirmed += (await Promise.all(sent)).filter(Boolean).length
    gateway = await begin()
    for (const events of told) await expect.poll(() => deliver(events)).toBe(true)
  }
  const { length } = await ask('GET', '/admin/payments?state=booked&limit=200')
  expect(length).toBe(ROUNDS * PAYMENTS)
  for (let i = 0; i < PAYMENTS; i++) {
    const { balance_usd } = await ask('GET', `/admin/accounts/a${i}`)
    expect(balance_usd).toBe(9 * ROUNDS)
  }
  // Some rounds were cut in the middle.
  expect(confirmed).toBeGreaterThan(0)
  expect(confirmed).toBeLessThan(2 * ROUNDS * PAYMENTS)
}

it('with a file', () => play('{ driver: file, path: ./data }'))

it.skipIf(!hasRedis())(`with Redis (else: ${NOT_INSTALLED})`, async () => {
  await using server = await RedisServer.start({ appendfsync: 'always' })
  await play(`{ driver: redis, url: '${server.url}', outbox: ./outbox }`)
})
