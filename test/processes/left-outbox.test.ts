/** A gateway ends while Redis is away: what its outbox holds is told, listed, imported and booked, once. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, it, type TestContext } from 'vitest'
import { call, start, TOKEN } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { hello, send } from '../_setup.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'

const CHAT = '/v1/chat/completions'
const CALLS = 6
const authorization = `Bearer ${TOKEN}`

beforeEach((context: TestContext) => {
  if (!hasRedis()) context.skip(NOT_INSTALLED)
})

function configOf(server: RedisServer, more = ''): string {
  return `
server: { port: 0, shutdownGrace: 0 }
admin: { token: ${TOKEN} }
log: { access: false, format: json }
state: { driver: redis, url: '${server.url}', outbox: ./data/outbox${more} }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    deployments: [{ provider: mock, model: echo, options: { paceMs: 1000 } }]
`
}

/** Runs calls that end after Redis has gone. @returns the gateway, and the sum of what their clients were told */
async function fill(server: RedisServer, more?: string) {
  const cwd = await folder({ 'gateway.config.yaml': configOf(server, more) })
  const running = await start(['serve', '--print-key'], { cwd })
  const started = () =>
    running
      .said()
      .split('\n')
      .find((line) => line.includes('"started"'))
  await expect.poll(started).toBeDefined()
  const { url, key } = JSON.parse(started()!)
  const body = JSON.stringify({
    ...hello,
    messages: [{ role: 'user', content: 'one two three' }],
    stream: true,
    stream_options: { include_usage: true },
  })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const chat = () => fetch(url + CHAT, { method: 'POST', headers, body })
  // Their heads have arrived, so that the calls are admitted.
  const answers = await Promise.all(Array.from({ length: CALLS }, chat))
  await server.kill()
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  for (const text of texts) expect(text).toContain('"cost":')
  const costs = texts.map((text) => Number(/"cost":([\d.e-]+)/.exec(text)![1]))
  expect(costs).toHaveLength(CALLS)
  return { cwd, running, sum: costs.reduce((all, cost) => all + cost, 0) }
}

/** What the first account has spent, by the ledger. */
async function spent(url: string): Promise<number> {
  const { json } = await send(`${url}/admin/accounts/local`, 'GET', undefined, { authorization })
  return 10 - json.data.balance_usd
}

/** Starts a gateway on a folder. @returns its address, which its log names */
async function startedOn(cwd: string): Promise<string> {
  const gateway = await start(['serve'], { cwd })
  const line = () =>
    gateway
      .said()
      .split('\n')
      .find((one) => one.includes('"started"'))
  await expect.poll(line).toBeDefined()
  return JSON.parse(line()!).url
}

it('a pod that was killed is started again on its folder, and books every cost that was told', async () => {
  await using server = await RedisServer.start()
  const { cwd, running, sum } = await fill(server)
  running.child.kill('SIGKILL')
  await running.ended
  const { out } = await call(['ledger', 'unsent'], { cwd })
  const rows = out.trimEnd().split('\n').slice(1, -1)
  const left = rows.reduce((all, row) => all + Number(JSON.parse(row).cost), 0)
  expect([rows.length, left]).toEqual([CALLS, expect.closeTo(sum, 12)])
  await server.start()
  const again = await start(['serve'], { cwd })
  const started = () =>
    again
      .said()
      .split('\n')
      .find((line) => line.includes('"started"'))
  await expect.poll(started).toBeDefined()
  const { url } = JSON.parse(started()!)
  await expect.poll(() => spent(url)).toBeCloseTo(sum, 12)
  const verified = await call(['ledger', 'verify', '--url', url, '--token', TOKEN], { cwd })
  expect(verified.code).toBe(0)
})

it('a gateway that ends while Redis is away for a moment books all that it has told', async () => {
  await using server = await RedisServer.start()
  const { cwd, running, sum } = await fill(server)
  running.child.kill('SIGTERM')
  await expect.poll(running.said).toContain('"stopped"')
  await server.start()
  expect(await running.ended).toMatchObject({ code: 0 })
  expect(running.said()).not.toContain('"outbox.left"')
  expect(await spent(await startedOn(cwd))).toBeCloseTo(sum, 12)
})

it('a folder is booked without a gateway, and lines of it that are imported before cost nothing more', async () => {
  await using server = await RedisServer.start()
  const { cwd, running, sum } = await fill(server)
  running.child.kill('SIGKILL')
  await running.ended
  const { out } = await call(['ledger', 'unsent'], { cwd })
  await writeFile(join(cwd, 'left.jsonl'), out)
  await server.start()
  const imported = await call(['ledger', 'import', 'left.jsonl'], { cwd })
  expect(imported.out).toContain(`${CALLS} were new`)
  const sent = await call(['ledger', 'send'], { cwd })
  expect(sent.code).toBe(0)
  expect(await spent(await startedOn(cwd))).toBeCloseTo(sum, 12)
})

it('where the folder goes with the machine, each settlement is a line of the log, and the status is 74', async () => {
  await using server = await RedisServer.start()
  const { cwd, running, sum } = await fill(server, ', outboxKept: false')
  running.child.kill('SIGTERM')
  const { code, err, out } = await running.ended
  expect(code).toBe(74)
  const line = `${out}${err}`.split('\n').find((one) => one.includes('"outbox.left"'))
  expect(JSON.parse(line!)).toMatchObject({ entries: CALLS, path: join(cwd, 'data/outbox') })
  const rows = [...`${out}${err}`.matchAll(/settlement not booked \(.*?\): (\{.*?\})"/g)]
  const costs = rows.map(([, row]) => Number(JSON.parse(JSON.parse(`"${row}"`)).cost))
  expect([costs.length, costs.reduce((all, cost) => all + cost, 0)]).toEqual([
    CALLS,
    expect.closeTo(sum, 12),
  ])
})
