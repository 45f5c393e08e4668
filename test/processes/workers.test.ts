/** Two workers on a real Redis, as one process that an operator has started. */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ask, run } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { eventually } from '../_wait.ts'
import { hasRedis, RedisServer } from '../state/redis/_redis.ts'
import {
  complete,
  configOf,
  SECRET,
  serveWith,
  spentAt,
  startStreams,
  STRAY,
  TOKEN,
  type Gateway,
} from './_streams.ts'

const MODELS = `
  mock/slow:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    capabilities: [STREAMING]
    deployments: [{ provider: mock, model: slow, options: { paceMs: 1000 } }]
`

const FIFTY = `{ id: fifty, name: Fifty, secret: ${SECRET}-50, rpm_limit: 100000, concurrency_limit: 50 }`

function configWith(redis: RedisServer): string {
  return `state: { driver: redis, url: '${redis.url}' }${configOf(MODELS, { paceMs: 100 })}`
    .replace('port: 0', 'port: 0, workers: 2')
    .replace('concurrency_limit: 100 }]', `concurrency_limit: 100 }, ${FIFTY}]`)
    .replace(', options: { throwsInClose: true }', '')
}

/** A stream that lasts, with a key that may have fifty of them. */
function fifty(url: string, signal: AbortSignal): Promise<Response> {
  const messages = [{ role: 'user', content: 'on and on '.repeat(20) }]
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${SECRET}-50`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'mock/slow', stream: true, messages }),
    signal,
  })
}

/** Processes of the workers. */
function workersOf({ child }: Gateway): number[] {
  const text = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
  return text.trim().split(' ').map(Number)
}

/** Samples of `/metrics`. */
async function metricsOf({ url }: Gateway): Promise<(name: string) => number> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const text = await (await fetch(`${url}/metrics`, { headers })).text()
  return (name) => {
    const lines = text.split('\n').filter((line) => line.startsWith(name))
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  }
}

/** How many calls run, once they are so many. */
function untilRunning(gateway: Gateway, count: number): Promise<void> {
  return eventually(async () => {
    const read = await metricsOf(gateway)
    expect(read('sluicegate_requests_running ')).toBe(count)
  })
}

describe.runIf(hasRedis())('two workers', () => {
  it('share limits and metrics, survive the end of one, reload as one, and end as one', async () => {
    await using redis = await RedisServer.start()
    const config = configWith(redis)
    const cwd = await folder({ 'gateway.config.yaml': config, 'stray.ts': STRAY })
    const gateway = await serveWith('', { cwd })
    const { url, said } = gateway
    const first = workersOf(gateway)
    expect(first).toHaveLength(2)
    const listed = async () => {
      const { data } = (await ask(url, TOKEN, '/admin/gateways')).json
      return data.map(({ worker }: { worker: number }) => worker).toSorted()
    }
    await eventually(async () => expect(await listed()).toEqual([1, 2]))

    // One worker is killed: its streams end, and those of the other are whole.
    const spent = await spentAt(url)
    const streams = []
    // One after the other, they go to the workers by turns.
    for (let i = 0; i < 6; i++) streams.push(...(await startStreams(url, 1)))
    await untilRunning(gateway, 6)
    process.kill(first[0]!, 'SIGKILL')
    const texts = await Promise.allSettled(streams.map((stream) => stream.text()))
    const costs = texts.flatMap((text) =>
      text.status === 'fulfilled' ? [Number(/"cost":([\d.]+)/.exec(text.value)![1])] : [],
    )
    expect(costs.length).toBeGreaterThan(0)
    expect(costs.length).toBeLessThan(6)
    await eventually(() => expect(said()).toMatch(/worker 1 serves again/))
    expect(said()).toMatch(/worker 1 \(process \d+\) has ended, by SIGKILL/)
    expect(workersOf(gateway)).toHaveLength(2)
    expect(await spentAt(url)).toBeCloseTo(spent + costs.reduce((a, b) => a + b), 9)
    expect((await ask(url, TOKEN, '/admin/ledger/verify')).json.data).toMatchObject({ ok: true })
    const after = await metricsOf(gateway)
    // What the killed one had counted when it was last asked is still there.
    expect(after('sluicegate_entries_total{result="ok"}')).toBeGreaterThanOrEqual(6)
    expect(after('sluicegate_worker_restarts_total')).toBe(1)

    // Two hundred calls at once against fifty slots: each worker admits some, and both together fifty.
    const leave = new AbortController()
    const calls = Array.from({ length: 200 }, () => fifty(url, leave.signal))
    const statuses = (await Promise.all(calls)).map(({ status }) => status)
    const count = (wanted: number) => statuses.filter((status) => status === wanted).length
    expect([count(200), count(429)]).toEqual([50, 150])
    leave.abort()
    await untilRunning(gateway, 0)
    const read = await metricsOf(gateway)
    expect(read('sluicegate_refusals_total')).toBe(150)
    expect(read('sluicegate_workers ')).toBe(2)

    // A configuration that no worker can use changes none; another one changes both.
    const file = join(cwd, 'gateway.config.yaml')
    await writeFile(file, config.replace('use: ./stray.ts', 'use: ./none.ts'))
    await eventually(() => expect(said()).toMatch(/the previous one stays in use: .*none\.ts/))
    await writeFile(file, config.replace('mock/slow:', 'mock/renamed:'))
    await eventually(() => expect(said()).toMatch(/the configuration was reloaded/))
    for (let i = 0; i < 4; i++) {
      const headers = { authorization: `Bearer ${SECRET}`, connection: 'close' }
      const { data } = (await (await fetch(`${url}/v1/models`, { headers })).json()) as {
        data: { id: string }[]
      }
      expect(data.map(({ id }) => id)).toEqual(['mock/echo', 'mock/renamed'])
    }
    // The log of both is one.
    const { data } = (
      await ask(url, TOKEN, '/admin/requests?limit=200&outcome=completed&model=mock/echo')
    ).json
    expect(data).toHaveLength(costs.length)

    const last = await startStreams(url, 4)
    gateway.child.kill('SIGTERM')
    await complete(last)
    expect(await gateway.ended).toMatchObject({ code: 0, signal: null })
  })

  it('do not start where one of them cannot', async () => {
    await using redis = await RedisServer.start()
    const config = configWith(redis).replace('use: ./stray.ts', 'use: ./deadly.ts')
    const deadly = `process.kill(process.pid, 'SIGKILL')`
    const cwd = await folder({ 'gateway.config.yaml': config, 'deadly.ts': deadly })
    const { code, err } = await run(['serve'], { cwd })
    expect([code, err]).toEqual([70, 'worker 1 has ended at its start, by SIGKILL.\n'])
  })
})
