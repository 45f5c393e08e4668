/** Redis engines for tests: with an outbox that is removed with the test, and a log that can be read. */
import type { Redis } from 'ioredis'
import { beforeEach, onTestFinished } from 'vitest'
import type {
  HoldGranted,
  KeyLimits,
  Lease,
  Ledger,
  Log,
} from '../../../src/state/ledger/ledger.ts'
import { openRedis, type RedisLedger } from '../../../src/state/redis/engine.ts'
import { parsePico } from '../../../src/money/money.ts'
import type { Audit } from '../../../src/state/audit.ts'
import type { Records } from '../../../src/state/records.ts'
import { folder } from '../../_folder.ts'
import { ManualClock, type TestClock } from '../../conformance/ledger.ts'
import { KEY, LIMITS } from '../sqlite/_engine.ts'
import { hasRedis, NOT_INSTALLED, RedisServer, startCluster, type ServerOptions } from './_redis.ts'
import { holdOf } from '../_hold.ts'

export const installed = hasRedis()
/** Reads the time of a {@link storedClock}. */
export const STORED_CLOCK = `local now = tonumber(redis.call('GET', 'now'))`
export const FREE_TIER = { rpm: 1, concurrency: 1 }

export interface Engine {
  readonly ledger: RedisLedger
  readonly records: Records
  readonly audit: Audit
  /** Folder of its outbox. */
  readonly outbox: string
  /** Everything that was logged, with its level. */
  readonly logged: string[]
  close(): Promise<void>
}

/** Skips the tests of a file, with a message, where Redis is not installed. */
export function needRedis(): void {
  beforeEach((context) => {
    if (!installed) context.skip(NOT_INSTALLED)
  })
}

let shared: Promise<RedisServer> | undefined

/** The one server of this worker, emptied, for tests that neither stop it nor change its settings. */
export async function sharedServer(): Promise<RedisServer> {
  const server = await (shared ??= RedisServer.start())
  await server.ask((client) => client.flushall())
  return server
}

/** A server for one test, which may stop it and change its settings. */
export async function serverForTest(options?: ServerOptions): Promise<RedisServer> {
  const server = await RedisServer.start(options)
  onTestFinished(() => server[Symbol.asyncDispose]())
  return server
}

/** A cluster for one test. */
export async function startedCluster(size: number): Promise<RedisServer[]> {
  const servers = await startCluster(size)
  onTestFinished(async () => {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()))
  })
  return servers
}

/** Opens an engine; it is closed with the test, unless the test has closed it. */
export async function open(
  url: string | readonly string[],
  options: {
    readonly outbox?: string
    readonly clock?: string
    readonly retentionDays?: number
  } = {},
): Promise<Engine> {
  const { outbox = await folder({}), ...clock } = options
  const logged: string[] = []
  const write =
    (level: string) =>
    (...args: unknown[]) =>
      void logged.push([level, ...args].join(' '))
  const log = { info: write('info'), warn: write('warn'), error: write('error') } as unknown as Log
  const { ledger, records, audit } = await openRedis({ url, outbox, log, ...clock })
  let open = true
  const close = async () => {
    if (!open) return
    open = false
    await ledger.close()
    await records.close()
  }
  onTestFinished(close)
  return { ledger, records, audit, outbox, logged, close }
}

/** Puts 10 USD into `acct`, and gives `key` limits that no test reaches, or those given. */
export async function pay(ledger: Ledger, limits: KeyLimits = LIMITS): Promise<void> {
  await ledger.book({
    kind: 'top-up',
    account: 'acct',
    amount: parsePico('10'),
    reference: 'first',
  })
  await ledger.limits('acct', 'key', limits, 1)
}

/** Admits a call, up to its hold. */
export async function admit(
  ledger: Ledger,
  request: string,
  hold = 0n,
  account = KEY.account,
): Promise<Lease & HoldGranted> {
  const lease = { account, key: KEY.key, request }
  const entered = await ledger.enter({ ...lease, revision: 1, freeTier: FREE_TIER })
  if (!entered.ok) throw new Error(`${request} was not admitted: ${entered.why}`)
  const held = await ledger.hold({ ...lease, at: entered.at, ...holdOf(hold), free: false })
  if (!held.ok) throw new Error(`${request} was refused: ${held.why}`)
  return { ...lease, ...held }
}

/** A clock in the store, which is emptied first. */
export async function storedClock(server: RedisServer, start?: number): Promise<TestClock> {
  const clock = new ManualClock()
  if (start !== undefined) clock.advance(start - clock.now())
  const client = server.client()
  onTestFinished(() => client.disconnect())
  await client.flushall()
  await client.set('now', clock.now())
  return {
    now: () => clock.now(),
    async advance(ms) {
      clock.advance(ms)
      await client.set('now', clock.now())
    },
  }
}

/** Limits as releases of schema 8 store them. */
export const LIMITS_8 = '1|0||1000|100||'

/** Makes the limits of a ledger those of schema 8, and takes the number of its schema away. */
export async function toSchema8(client: Redis): Promise<void> {
  for (const book of await client.keys('gw:{*}:book')) {
    for (const [field, text] of Object.entries(await client.hgetall(book))) {
      if (!field.startsWith('l:')) continue
      const [revision, disabled, expires, rpm, concurrency, list = ''] = text.split('|')
      const [scope = '', amount = ''] = list.replace(/^cap\./, '').split(',')
      const members = [Number(revision) % 1e14, disabled, expires, rpm, concurrency, scope, amount]
      await client.hset(book, field, members.join('|'))
    }
  }
  await client.del('gw:ledger')
}
