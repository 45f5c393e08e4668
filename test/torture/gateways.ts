/**
 * `node test/torture/gateways.ts`: several gateways on one Redis. One of three is killed with streams open; Redis is away
 * for a while under load; many workers spend the last of a balance. `--short` does little of it. Options: `--streams <n>`
 * of the gateway that is killed (100), `--outage <seconds>` (30), `--workers <n>` (100).
 * Fails when clients hear what they must not, when slots or settlements come too late, and when rows and sums are not what
 * clients were told.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { slowness } from '../_patience.ts'
import { booked, Clients, metric, report, until, type Heard } from './_clients.ts'
import { startGateway, type GatewayProcess } from './_gateway.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    streams: { type: 'string' },
    outage: { type: 'string' },
    workers: { type: 'string' },
  },
})
const streams = Number(values.streams ?? (values.short ? 40 : 100))
const outageSeconds = Number(values.outage ?? (values.short ? 6 : 30))
const workers = Number(values.workers ?? (values.short ? 40 : 100))
/** A slot lives for 30 s. Asked when it is judged: the machine may be slower than at the start. */
const slotsWithinMs = () => 30_000 + 1000 * slowness()
const settledWithinMs = () => 10_000 * slowness()
/** Longer than any of these bounds. */
const NEVER_MS = 90_000
const TOKEN = 'torture-token-0123456789'
const KEYS = { streams: 'torture-streams-0123456789', short: 'torture-short-0123456789' }
const LAST_CREDITS = '0.05'
const WORDS_PER_SECOND = 5
const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

type HoldPolicy = 'adaptive' | 'ceiling'

interface Setting {
  readonly name: string
  readonly credits: string
  readonly hold?: HoldPolicy
  /** The most calls at once of the key for streams. */
  readonly concurrency: number
  readonly streamSeconds?: number
}

/** Gateways that differ in nothing but where they keep what Redis has not confirmed. */
async function startGateways(
  count: number,
  redis: RedisServer,
  { name, credits, hold = 'adaptive', concurrency, streamSeconds = 1 }: Setting,
): Promise<GatewayProcess[]> {
  const reply = 'word '.repeat(streamSeconds * WORDS_PER_SECOND)
  const endless = 'word '.repeat(3600 * WORDS_PER_SECOND)
  const starting = Array.from({ length: count }, (_, i) => {
    const config = join(folder, `${name}-${i}.yaml`)
    writeFileSync(
      config,
      `
server: { host: 127.0.0.1 }
state: { driver: redis, url: '${redis.url}', outbox: '${join(folder, `${name}-${i}`)}' }
admin: { token: '${TOKEN}' }
log: { level: error, access: false }
billing: { hold: ${hold} }
providers: { mock: { use: mock } }
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
      - { provider: mock, model: slow, options: { paceMs: ${1000 / WORDS_PER_SECOND}, reply: '${reply}' } }
  # Runs until its gateway is killed, however long the machine takes to begin all of them.
  mock/endless:
    pricing: { prompt: '0.000001', completion: '0.000002000001' }
    capabilities: [STREAMING]
    max_output_tokens: 20000
    deployments:
      - { provider: mock, model: slow, options: { paceMs: ${1000 / WORDS_PER_SECOND}, reply: '${endless}' } }
seed:
  accounts:
    - id: torture
      name: Torture
      credits: '${credits}'
      keys:
        - { id: streams, name: Streams, secret: '${KEYS.streams}', rpm_limit: 1000000, concurrency_limit: ${concurrency} }
        - { id: short, name: Short, secret: '${KEYS.short}', rpm_limit: 100000000, concurrency_limit: 1000 }
`,
    )
    return startGateway(config, folder)
  })
  return Promise.all(starting)
}

/** The slots of a gateway that is killed come back; no other gateway notices it. */
async function killOneOfThree(): Promise<void> {
  await using redis = await RedisServer.start()
  const others = Math.ceil(streams / 3)
  const concurrency = streams + 2 * others
  // Longer than it takes until the slots are back.
  const setting = { name: 'kill', credits: '1000', concurrency, streamSeconds: 45 }
  const [first, second, third] = (await startGateways(3, redis, setting)) as [
    GatewayProcess,
    GatewayProcess,
    GatewayProcess,
  ]
  const clients = new Clients()
  // A call that has begun to answer holds money.
  let begun = 0
  const open = (gateway: GatewayProcess, count: number, model: string) =>
    Array.from({ length: count }, () =>
      clients.ask(gateway, KEYS.streams, model, 'go', () => begun++),
    )
  const doomed = open(first, streams, 'mock/endless')
  const spared = [...open(second, others, 'mock/slow'), ...open(third, others, 'mock/slow')]
  const opened = await until(async () => begun === concurrency, NEVER_MS)
  const over = new AbortController()
  const short = [second, third].map(async (gateway) => {
    let answered = 0
    while (!over.signal.aborted) {
      const { status } = await clients.ask(gateway, KEYS.short, 'mock/echo', 'as always')
      if (status === 200) answered++
      await sleep(20)
    }
    return answered
  })
  await first.kill()
  const killedAt = performance.now()
  // All slots are back when as many calls as before run at once.
  let lastMs = 0
  const again = await Promise.all(
    Array.from({ length: streams }, async (): Promise<Heard> => {
      for (;;) {
        const heard = await clients.ask(third, KEYS.streams, 'mock/slow', 'go', (status) => {
          if (status === 200) lastMs = Math.max(lastMs, performance.now() - killedAt)
        })
        if (heard.code !== 'too_many_concurrent') return heard
        if (performance.now() - killedAt > NEVER_MS) return heard
        await sleep(250)
      }
    }),
  )
  const whole = await Promise.all(spared)
  await Promise.all(doomed)
  over.abort()
  const answered = (await Promise.all(short)).reduce((sum, count) => sum + count, 0)
  const { wrong, orphans } = await booked(clients, redis, folder)
  report(
    opened < Infinity && lastMs <= slotsWithinMs() && orphans === streams,
    `one of three gateways killed with ${streams} streams open: slots back after ${(lastMs / 1000).toFixed(1)} s, ` +
      `${orphans} orphans, ${2 * others} other streams and ${answered} short calls undisturbed`,
    {
      ...wrong,
      'false 402 or 403': [...clients.refusals.keys()].filter((name) => /^40[23]/.test(name))
        .length,
      'streams disturbed': whole.filter((one) => !one.whole || one.cost === undefined).length,
      'slots not back': again.filter(({ status }) => status !== 200).length,
    },
  )
  await clients.close()
  await Promise.all([second.kill(), third.kill()])
}

/** Redis is away: what runs is answered, what comes is refused, and everything is booked soon after it is back. */
async function outage(): Promise<void> {
  await using redis = await RedisServer.start()
  const count = 200
  const streamSeconds = Math.max(4, outageSeconds - 5)
  const setting = { name: 'outage', credits: '1000', concurrency: 10_000, streamSeconds }
  const gateways = await startGateways(2, redis, setting)
  const clients = new Clients()
  let begun = 0
  const whole = Array.from({ length: count }, (_, i) =>
    clients.ask(gateways[i % 2]!, KEYS.streams, 'mock/slow', 'go', () => begun++),
  )
  await until(async () => begun === count, NEVER_MS)
  await redis.kill()
  const away = performance.now()
  const refused: Heard[] = []
  while (performance.now() - away < outageSeconds * 1000) {
    const asked = gateways.map((one) => clients.ask(one, KEYS.short, 'mock/echo', 'now'))
    refused.push(...(await Promise.all(asked)))
    await sleep(100)
  }
  const answers = await Promise.all(whole)
  await redis.start()
  const settled = await until(async () => {
    const depths = await Promise.all(
      gateways.map((one) => metric(one, 'sluicegate_outbox_entries', TOKEN)),
    )
    return depths.every((depth) => depth === 0)
  }, NEVER_MS)
  const after = await clients.ask(gateways[0]!, KEYS.short, 'mock/echo', 'and now')
  const wrong = {
    ...(await booked(clients, redis, folder)).wrong,
    'answers cut': answers.filter((one) => !one.whole || one.cost === undefined).length,
    'admitted blindly': refused.filter(({ status }) => status === 200).length,
    'refused otherwise': refused.filter(
      ({ status, retryAfter }) => status !== 200 && (status !== 503 || !retryAfter),
    ).length,
    'refused afterwards': Number(after.status !== 200),
  }
  report(
    settled <= settledWithinMs() && refused.length > 0,
    `Redis away for ${outageSeconds} s with ${count} streams open: all of them complete, ` +
      `${refused.length} calls refused with 503, everything booked ${(settled / 1000).toFixed(1)} s after its return`,
    wrong,
  )
  await clients.close()
  await Promise.all(gateways.map((one) => one.kill()))
}

/** How far below zero the last calls may take a balance. */
async function overrun(hold: HoldPolicy): Promise<void> {
  await using redis = await RedisServer.start()
  const concurrency = 30
  const setting = { name: `overrun-${hold}`, credits: LAST_CREDITS, hold, concurrency }
  const gateways = await startGateways(3, redis, setting)
  const clients = new Clients()
  let worst = 0n
  await Promise.all(
    Array.from({ length: workers }, async (_, lane) => {
      for (let i = 0; ; i++) {
        const gateway = gateways[(lane + i) % gateways.length]!
        const words = 'so it goes '.repeat(1 + ((lane * 7 + i) % 120))
        const heard = await clients.ask(gateway, KEYS.streams, 'mock/echo', words)
        if (heard.cost !== undefined && parsePico(heard.cost) > worst) worst = parsePico(heard.cost)
        if (heard.status === 402) return
        if (heard.status !== 200) await sleep(5)
      }
    }),
  )
  const spent = [...clients.costs.values()].reduce((sum, cost) => sum + parsePico(cost), 0n)
  const over = spent - parsePico(LAST_CREDITS)
  // A quarter of all top-ups, or one call.
  const exposure = hold === 'ceiling' ? 0n : parsePico(LAST_CREDITS) / 4n
  const bound = worst > exposure ? worst : exposure
  const refusals = [...clients.refusals].map(([name, count]) => `${count} times ${name}`)
  report(
    over <= bound,
    `${workers} workers on three gateways, hold ${hold}: ${clients.costs.size} calls, ` +
      `${formatPico(over > 0n ? over : 0n)} USD over, at most ${formatPico(bound)}; ${refusals.join(', ')}`,
    (await booked(clients, redis, folder)).wrong,
  )
  await clients.close()
  await Promise.all(gateways.map((one) => one.kill()))
}

if (!hasRedis()) {
  process.stdout.write(`skipped: ${NOT_INSTALLED}\n`)
  process.exit()
}
for (const hold of ['adaptive', 'ceiling'] as const) await overrun(hold)
await outage()
await killOneOfThree()
process.exit()
