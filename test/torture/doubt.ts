/**
 * `node test/torture/doubt.ts`: under load, a gateway's ledger is emptied, put back to an older snapshot, and replaced by that of
 * another store (Redis), or its volume is replaced by an older copy (a file), again and again (`--rounds <n>`, 20 each). Fails when it
 * is not unavailable within a second, when a client is told that its key is invalid, when a call is admitted while the ledger is in
 * doubt, when there is not one alert, when it does not go on with the right data, or when the one command to accept it does not suffice.
 */
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { slowness } from '../_patience.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { ownFolder } from './_run.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string' }, short: { type: 'boolean', default: false } },
})
const rounds = Number(values.rounds ?? (values.short ? 2 : 20))
const CLIENTS = 4
const WITHIN_MS = 1000
/** Longer than leases live that were released in the store which has gone. */
const PATIENCE_MS = 240_000
const TOKEN = 'token-of-the-admin-of-this-run'
const root = ownFolder()
const BODY = { model: 'mock/echo', messages: [{ role: 'user', content: 'hello' }] }

let faults = 0
function fault(what: string): void {
  faults++
  process.stdout.write(`FAILED: ${what}\n`)
}

const configOf = (state: object) => ({
  ...MOCK_CONFIG,
  state: state as never,
  admin: { token: TOKEN },
})
const call = async (gateway: TestGateway) =>
  (await gateway.ask('POST', '/v1/chat/completions', { body: BODY })).status
const admin = (gateway: TestGateway, method: string, path: string, body?: object) =>
  gateway.ask(method, `/admin/${path}`, {
    key: null,
    headers: { authorization: `Bearer ${TOKEN}` },
    ...(body && { body }),
  })

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + PATIENCE_MS; !(await isSo()); await sleep(20)) {
    if (performance.now() < end) continue
    return fault(`${what}: not within ${PATIENCE_MS} ms`)
  }
}

/** Statuses of calls, with the steady ms at which each was sent. */
class Load {
  readonly sent: { readonly at: number; readonly status: number }[] = []
  #ended = false
  readonly #clients: Promise<void>[]

  constructor(gateway: TestGateway) {
    this.#clients = Array.from({ length: CLIENTS }, async () => {
      while (!this.#ended) {
        const at = performance.now()
        this.sent.push({ at, status: await call(gateway) })
        await sleep(5)
      }
    })
  }

  async end(): Promise<void> {
    this.#ended = true
    await Promise.all(this.#clients)
  }
}

/** @returns ms from the change to the first refusal */
async function round(
  what: string,
  gateway: TestGateway,
  change: () => Promise<void>,
): Promise<number> {
  const load = new Load(gateway)
  await sleep(150)
  await change()
  const changed = performance.now()
  await sleep(WITHIN_MS * slowness() + 300)
  await load.end()
  const refused = load.sent.find(({ at, status }) => at > changed && status === 503)
  const took = refused ? refused.at - changed : Infinity
  const later = load.sent.filter(({ at }) => refused !== undefined && at > refused.at)
  const admitted = later.filter(({ status }) => status === 200).length
  if (took > WITHIN_MS && took > WITHIN_MS * slowness()) fault(`${what}: 503 after ${took} ms`)
  if (load.sent.some(({ status }) => status === 401)) fault(`${what}: a key was invalid`)
  if (admitted > 0) fault(`${what}: ${admitted} calls were admitted in doubt`)
  const { status, json } = await gateway.ask('GET', '/readyz', { key: null })
  if (status !== 503 || !json.reasons?.includes('ledger')) fault(`${what}: it is ready`)
  await until(`${what}: one alert`, async () => {
    const { data } = (await admin(gateway, 'GET', 'alerts')).json
    const isActive = (one: any) => one.kind === 'ledger.differs' && one.ended_at === null
    return data.filter(isActive).length === 1
  })
  return took
}

async function accept(what: string, gateway: TestGateway): Promise<void> {
  const { doubt } = (await admin(gateway, 'GET', 'ledger/state')).json.data
  const accepted = { id: doubt?.known.id, kind: doubt?.kind }
  const { status } = await admin(gateway, 'POST', 'ledger/accept', accepted)
  if (status !== 200) fault(`${what}: accept answers ${status}`)
  await until(`${what}: ready again`, async () => {
    return (await gateway.ask('GET', '/readyz', { key: null })).status === 200
  })
}

type Snapshot = readonly (readonly [key: string, ttl: number, value: Buffer])[]

const snapshotOf = (server: RedisServer): Promise<Snapshot> =>
  server.ask(async (client) => {
    // The snapshot is of one moment: it is taken again where keys came or went meanwhile.
    let [keys, values]: [string[], unknown[]] = [[], []]
    for (let isWhole = false; !isWhole;) {
      keys = (await client.keys('*')).sort()
      const step = client.multi()
      for (const key of keys) step.dumpBuffer(key).pttl(key)
      values = (await step.keys('*').exec())!.map(([, value]) => value)
      isWhole = (values.pop() as string[]).sort().join() === keys.join()
    }
    return keys.flatMap((key, i) => {
      const [value, ttl] = values.slice(2 * i) as [Buffer | null, number]
      return value ? [[key, Math.max(0, ttl), value] as const] : []
    })
  })

const restore = (server: RedisServer, snapshot: Snapshot): Promise<unknown> =>
  server.ask((client) => {
    const step = client.multi().flushall()
    for (const [key, ttl, value] of snapshot) step.restore(key, ttl, value)
    return step.exec()
  })

async function ofRedis(): Promise<void> {
  const open = async (server: RedisServer, name: string) =>
    createTestGateway(configOf({ driver: 'redis', url: server.url, outbox: join(root, name) }))
  await using other = await RedisServer.start()
  const stranger = await open(other, 'other')
  await call(stranger)
  await stranger.close()
  const foreign = await snapshotOf(other)
  const kinds = { emptied: [], older: foreign, foreign } as const
  for (const kind of Object.keys(kinds) as (keyof typeof kinds)[]) {
    await using server = await RedisServer.start()
    await using gateway = await open(server, kind)
    const times: number[] = []
    for (let i = 1; i <= rounds; i++) {
      const what = `${kind}, round ${i}`
      const older = await snapshotOf(server)
      // The store is older than what the gateway has seen last.
      if (kind === 'older') await sleep(WITHIN_MS + 200)
      // An account that an older store lacks.
      await gateway.newAccount(`late-${i}`)
      let right: Snapshot = []
      const change = async () => {
        right = await snapshotOf(server)
        await restore(server, kind === 'older' ? older : kinds[kind])
      }
      times.push(await round(what, gateway, change))
      // Half of the rounds go on with the right data, the others with what is there.
      if (i % 2 === 0) await accept(what, gateway)
      await restore(server, right)
      if (i % 2 === 0) {
        // The ledger that was given up is there again: it is in doubt in its turn.
        await sleep(WITHIN_MS + 300)
        const { doubt } = (await admin(gateway, 'GET', 'ledger/state')).json.data
        if (doubt) await accept(what, gateway)
      }
      await until(`${what}: calls again`, async () => (await call(gateway)) === 200)
    }
    report(kind, times)
    const wrong = await gateway.gateway.runtime.ledger.verify()
    for (const { what, stored, recomputed } of wrong)
      fault(`${kind}: ${what} is ${stored}, its rows make ${recomputed}`)
  }
}

/** A gateway that is started on an older copy of its folder's ledger. */
async function ofFile(): Promise<void> {
  const path = join(root, 'data')
  const open = (withAccount = false) =>
    createTestGateway(configOf({ driver: 'file', path }), undefined, { withAccount })
  let gateway = await open(true)
  const { secret } = gateway.key
  const again = async () => {
    await gateway.close()
    gateway = await open()
  }
  const callAs = async () =>
    (await gateway.ask('POST', '/v1/chat/completions', { key: secret, body: BODY })).status
  for (let i = 1; i <= rounds; i++) {
    const what = `swapped volume, round ${i}`
    await again()
    await gateway.close()
    const copy = join(root, `copy-${i}`)
    const files = ['ledger.db', 'ledger.db-wal', 'ledger.db-shm'].map((name) => join(path, name))
    cpSync(path, copy, { recursive: true })
    gateway = await open()
    if ((await callAs()) !== 200) fault(`${what}: no call before it`)
    await gateway.close()
    for (const file of files) rmSync(file, { force: true })
    cpSync(join(copy, 'ledger.db'), files[0]!)
    gateway = await open()
    const statuses = await Promise.all(Array.from({ length: 20 }, callAs))
    if (statuses.some((status) => status !== 503)) fault(`${what}: ${statuses.join(' ')}`)
    if ((await gateway.ask('GET', '/readyz', { key: null })).status !== 503)
      fault(`${what}: it is ready`)
    await accept(what, gateway)
    if ((await callAs()) !== 200) fault(`${what}: no call after it`)
    rmSync(copy, { recursive: true })
  }
  await gateway.close()
  process.stdout.write(`swapped volume: ${rounds} rounds, 503 from the first call on\n`)
}

function report(kind: string, times: readonly number[]): void {
  const ordered = times.toSorted((one, other) => one - other)
  const ms = [ordered[Math.floor(times.length / 2)]!, ordered.at(-1)!].map(Math.round)
  process.stdout.write(
    `${kind}: ${rounds} rounds, 503 after ${ms[0]} ms (median), ${ms[1]} ms (most)\n`,
  )
}

await ofFile()
if (hasRedis()) await ofRedis()
else process.stdout.write(`${NOT_INSTALLED}\n`)
if (faults === 0) process.stdout.write('ok: doubt\n')
process.exitCode = faults === 0 ? 0 : 1
