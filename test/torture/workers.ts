/**
 * `node test/torture/workers.ts`: one gateway with two workers on one Redis, under load. Limits hold over both, a worker
 * that is killed or hangs takes its own calls with it, a reload and an end disturb no call, a worker that cannot be kept ends
 * the gateway; and what a call costs of processor time, against one worker and against two gateways. `--short` does little of
 * it, and does not judge that cost; `--only <name>` does one part: limits, killed, hung, reloads, hopeless or cost.
 * Fails when clients hear what they must not, and when rows and sums are not what clients were told.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { booked, Clients, metric, report, until, type Heard } from './_clients.ts'
import { startGateway, type GatewayProcess } from './_gateway.ts'
import { measureCost } from './_workers-cost.ts'
import { workersOf } from './_processes.ts'

const { short, only } = parseArgs({
  allowPositionals: true,
  options: { short: { type: 'boolean', default: false }, only: { type: 'string' } },
}).values
const loadSeconds = short ? 4 : 30
const kills = short ? 1 : 10
const TOKEN = 'torture-token-0123456789'
const SECRETS = {
  open: 'torture-open-0123456789',
  fifty: 'torture-fifty-0123456789',
  rate: 'torture-rate-0123456789',
  capped: 'torture-capped-0123456789',
}
const CAP = '0.002'
const VENDOR_PORT = 18_000 + (process.pid % 10_000)
const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
const ending: (() => void)[] = [() => rmSync(folder, { recursive: true, force: true })]
process.on('exit', () => ending.forEach((end) => end()))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

let files = 0

/** Starts a gateway. @param change what changes the configuration's text */
async function start(
  redis: RedisServer,
  workers: number,
  change = (config: string) => config,
): Promise<{ readonly gateway: GatewayProcess; readonly file: string; readonly config: string }> {
  const own = `${++files}`
  const file = join(folder, `${own}.yaml`)
  const outbox = join(folder, 'outbox')
  const key = (id: keyof typeof SECRETS, limits: string) =>
    `{ id: ${id}, name: ${id}, secret: '${SECRETS[id]}', ${limits} }`
  const many = 'rpm_limit: 100000000'
  const config = change(`
server: { host: 127.0.0.1, workers: ${workers} }
state: { driver: redis, url: '${redis.url}', outbox: '${outbox}' }
admin: { token: '${TOKEN}' }
log: { level: info, format: json, access: false, path: '${join(folder, `log-${own}`)}' }
billing: { hold: ceiling }
providers:
  mock: { use: mock }
  vendor:
    use: openai-compatible
    options: { baseURL: 'http://127.0.0.1:${VENDOR_PORT}/v1', apiKey: none }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002000001' }
    capabilities: [STREAMING]
    max_output_tokens: 500
    deployments: [{ provider: mock, model: echo }]
  mock/slow:
    pricing: { prompt: '0.000001', completion: '0.000002000001' }
    capabilities: [STREAMING]
    max_output_tokens: 500
    deployments:
      - { provider: mock, model: slow, options: { paceMs: 100, reply: '${'word '.repeat(30)}' } }
  mock/slower:
    pricing: { prompt: '0.000001', completion: '0.000002000001' }
    capabilities: [STREAMING]
    max_output_tokens: 500
    deployments:
      - { provider: mock, model: slow, options: { paceMs: 1000, reply: '${'word '.repeat(60)}' } }
  bench/model:
    pricing: { prompt: '0.000001', completion: '0.000004' }
    deployments: [{ provider: vendor, model: model }]
seed:
  accounts:
    - id: torture
      name: Torture
      credits: '100000'
      keys:
        - ${key('open', `${many}, concurrency_limit: 100000, spend_cap: { usd: '90000', scope: month }`)}
        - ${key('fifty', `${many}, concurrency_limit: 50`)}
        - ${key('rate', 'rpm_limit: 100, concurrency_limit: 1000')}
        - ${key('capped', `${many}, concurrency_limit: 1000, spend_cap: { usd: '${CAP}', scope: lifetime }`)}
`)
  writeFileSync(file, config)
  return { gateway: await startGateway(file, folder), file, config }
}

function count(heard: readonly Heard[], wanted: (one: Heard) => boolean): number {
  return heard.filter(wanted).length
}

/** Slots, rates and caps are those of one gateway. */
async function limits(redis: RedisServer): Promise<void> {
  const { gateway } = await start(redis, 2)
  const clients = new Clients()
  const fifty = Promise.all(
    Array.from({ length: 200 }, () => clients.ask(gateway, SECRETS.fifty, 'mock/slower', 'go')),
  )
  const refused = await until(
    async () => (clients.refusals.get('429 too_many_concurrent') ?? 0) === 150,
    60_000,
  )
  const running = await metric(gateway, 'sluicegate_requests_running', TOKEN)
  const rated = await Promise.all(
    Array.from({ length: 300 }, () => clients.ask(gateway, SECRETS.rate, 'mock/echo', 'now')),
  )
  let [spent, worst] = [0n, 0n]
  await Promise.all(
    Array.from({ length: 40 }, async (_, lane) => {
      for (let i = 0; ; i++) {
        const words = 'so it goes '.repeat(1 + ((lane * 7 + i) % 20))
        const heard = await clients.ask(gateway, SECRETS.capped, 'mock/echo', words)
        const cost = parsePico(heard.cost ?? '0')
        spent += cost
        if (cost > worst) worst = cost
        if (heard.status === 402 || heard.status === 403) return
        if (heard.status !== 200) await sleep(5)
      }
    }),
  )
  const streams = await fifty
  const { wrong } = await booked(clients, redis, folder)
  report(
    refused < Infinity && spent <= parsePico(CAP) + worst && spent > 0n,
    `200 calls at once against 50 slots: ${count(streams, ({ status }) => status === 200)} admitted, ${running} running; ` +
      `300 against a rate of 100: ${count(rated, ({ status }) => status === 200)}; ${formatPico(spent)} USD of a cap of ${CAP}`,
    {
      ...wrong,
      slots: Math.abs(count(streams, ({ status }) => status === 200) - 50) + Math.abs(running - 50),
      rate: Math.abs(count(rated, ({ status }) => status === 200) - 100),
    },
  )
  await clients.close()
  await gateway.kill()
}

/** Mixed calls until they are told to stop. */
function load(gateway: GatewayProcess, clients: Clients, lanes: number) {
  const over = new AbortController()
  const heard: Heard[] = []
  const running = Array.from({ length: lanes }, async (_, lane) => {
    while (!over.signal.aborted) {
      const model = lane % 2 === 0 ? 'mock/slow' : 'mock/echo'
      heard.push(await clients.ask(gateway, SECRETS.open, model, 'as always'))
    }
  })
  return {
    heard,
    async end() {
      over.abort()
      await Promise.all(running)
      return heard
    },
  }
}

/** Workers are killed one after the other, and each takes its own calls with it. */
async function killed(redis: RedisServer): Promise<void> {
  const { gateway } = await start(redis, 2)
  const clients = new Clients()
  const lanes = 60
  const calls = load(gateway, clients, lanes)
  for (let i = 0; i < kills; i++) {
    await sleep(1500)
    // Not too often for one and the same: that would end the gateway.
    process.kill(workersOf(gateway)[0]!, 'SIGKILL')
    const back = await until(async () => {
      const asked = metric(gateway, 'sluicegate_worker_restarts_total', TOKEN)
      // The one that was asked may be the one that is killed.
      return (await asked.catch(() => 0)) === i + 1
    }, 60_000)
    if (back === Infinity) break
    if (kills > 3) await sleep(10_500)
  }
  await sleep(2000)
  const heard = await calls.end()
  const lost = count(heard, ({ whole, status }) => status === 0 || !whole)
  const refused = count(heard, ({ status }) => status !== 0 && status !== 200)
  const { wrong, orphans } = await booked(clients, redis, folder)
  const restarts = await metric(gateway, 'sluicegate_worker_restarts_total', TOKEN)
  report(
    restarts === kills && lost > 0 && lost <= kills * lanes * 0.8,
    `${kills} workers killed under ${lanes} callers: ${heard.length} calls, ${lost} lost, ${orphans} orphans so far`,
    { ...wrong, refused, 'workers missing': Math.abs(2 - workersOf(gateway).length) },
  )
  await clients.close()
  await gateway.kill()
}

/** A worker that hangs is noticed and replaced; calls of the other one go on meanwhile. */
async function hung(redis: RedisServer): Promise<void> {
  const { gateway } = await start(redis, 2)
  const clients = new Clients()
  const lanes = 20
  const calls = load(gateway, clients, lanes)
  await sleep(1000)
  const before = calls.heard.length
  process.kill(workersOf(gateway)[0]!, 'SIGSTOP')
  await sleep(5000)
  const meanwhile = calls.heard.length - before
  const took = await until(async () => gateway.said().includes('"event":"worker.started"'), 90_000)
  const after = calls.heard.length
  await sleep(2000)
  const heard = await calls.end()
  const { wrong } = await booked(clients, redis, folder)
  const lost = count(heard, ({ whole, status }) => status === 0 || !whole)
  report(
    took < Infinity &&
      meanwhile > 0 &&
      heard.length - after > lanes &&
      // A caller is lost with the connection that it had to the worker that hangs.
      lost < lanes,
    `a worker that hangs under ${lanes} callers: ${meanwhile} calls of the other one in 5 s, replaced after ${Math.round(5 + took / 1000)} s, ${lost} lost`,
    { ...wrong, refused: count(heard, ({ status }) => status !== 0 && status !== 200) },
  )
  await clients.close()
  await gateway.kill()
}

/** Reloads, some of which are refused, and the end disturb no call. */
async function reloads(redis: RedisServer): Promise<void> {
  const { gateway, file, config } = await start(redis, 2)
  const clients = new Clients()
  const calls = load(gateway, clients, 40)
  const end = performance.now() + loadSeconds * 1000
  let [done, refused] = [0, 0]
  const times = (event: string) => gateway.said().split(`"event":"${event}"`).length - 1
  for (let i = 1; performance.now() < end || i < 4; i++) {
    const isWrong = i % 3 === 0
    const [event, before] = isWrong
      ? (['config.refused', times('config.refused')] as const)
      : (['config.reloaded', times('config.reloaded')] as const)
    const next = config.replace('max_output_tokens: 500', `max_output_tokens: ${500 + i}`)
    writeFileSync(file, isWrong ? next.replace('use: mock', 'use: ./none.ts') : next)
    const took = await until(async () => times(event) !== before, 60_000)
    if (took === Infinity) break
    if (isWrong) refused++
    else done++
  }
  const heardBefore = (await calls.end()).length
  const last = Array.from({ length: 40 }, () =>
    clients.ask(gateway, SECRETS.open, 'mock/slow', 'to the end'),
  )
  await until(
    async () => (await metric(gateway, 'sluicegate_requests_running', TOKEN)) === 40,
    30_000,
  )
  const status = await gateway.end('SIGTERM')
  const heard = [...calls.heard, ...(await Promise.all(last))]
  const { wrong } = await booked(clients, redis, folder)
  report(
    done >= 2 && refused >= 1 && status === 0,
    `${done} reloads and ${refused} refused ones under 40 callers, ${heardBefore} calls, then SIGTERM with 40 streams open: status ${status}`,
    { ...wrong, disturbed: count(heard, (one) => one.status !== 200 || !one.whole) },
  )
  await clients.close()
}

/** A worker that dies again and again soon after its start ends the gateway, and says so. */
async function hopeless(redis: RedisServer): Promise<void> {
  const flag = join(folder, 'deadly')
  const plugin = join(folder, 'deadly.ts')
  writeFileSync(
    plugin,
    `
import { existsSync } from 'node:fs'
import { defineProvider } from '${join(import.meta.dirname, '../../src/plugin.ts')}'

export default defineProvider({
  name: 'deadly',
  options: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  setup() {
    if (existsSync('${flag}')) process.kill(process.pid, 'SIGKILL')
    return {}
  },
})
`,
  )
  const { gateway } = await start(redis, 2, (config) =>
    config.replace(
      '  mock: { use: mock }',
      `  mock: { use: mock }\n  deadly: { use: '${plugin}' }`,
    ),
  )
  writeFileSync(flag, '')
  process.kill(workersOf(gateway)[0]!, 'SIGKILL')
  const status = await gateway.end()
  const said = gateway.said().includes('which ends again and again soon after its start')
  report(
    status === 70 && said,
    `a worker that cannot be kept: the gateway ends with status ${status}`,
    {},
  )
  rmSync(flag)
}

/** What a call costs of processor time with two workers, against one and against two gateways. */
async function cost(redis: RedisServer): Promise<void> {
  const [one, two, other, another] = [
    await start(redis, 1),
    await start(redis, 2),
    await start(redis, 1),
    await start(redis, 1),
  ].map(({ gateway }) => gateway) as [
    GatewayProcess,
    GatewayProcess,
    GatewayProcess,
    GatewayProcess,
  ]
  const compared = { one, two, apart: [other, another] }
  await measureCost(compared, { secret: SECRETS.open, vendorPort: VENDOR_PORT, isShort: short })
  for (const gateway of [one, two, other, another]) await gateway.kill()
}

if (!hasRedis()) {
  process.stdout.write(`skipped: ${NOT_INSTALLED}\n`)
  process.exit()
}
for (const part of [limits, killed, hung, reloads, hopeless, cost]) {
  if (only !== undefined && part.name !== only) continue
  await using redis = await RedisServer.start()
  await part(redis)
}
process.exit()
