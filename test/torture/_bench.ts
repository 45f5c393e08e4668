/** A gateway in this process, with an account, a key and a connection for each lane; and what has to hold at its end. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { UserConfig } from '../../src/config/config.ts'
import { parsePico, formatPico, type Pico } from '../../src/money/money.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { Connection } from './_connection.ts'
import { ownFolder, type Driver } from './_run.ts'

/** More than any run spends, and still a sum that the ledger can count. */
const CREDITS = '4000000'
const MANY = 1_000_000_000
/** The longest wait, in ms, for the end of calls whose client has its answer or has left. */
const PATIENCE_MS = 60_000

/** One caller: everything it does is in order. */
export interface Lane {
  readonly account: string
  readonly key: string
  readonly secret: string
  readonly connection: Connection
  /** What its answers said that it costs. */
  spent: Pico
  /** It has left before the end of an answer, which may have cost more than it knows. */
  hasLeft: boolean
}

/** A gateway under test. The owner closes it. */
export class Bench {
  readonly gateway: TestGateway
  readonly lanes: readonly Lane[]
  readonly #redis: RedisServer | undefined

  /** @throws Error for redis where it is not installed */
  static async open(config: UserConfig, lanes: number, driver: Driver): Promise<Bench> {
    if (driver === 'redis' && !hasRedis()) throw new Error(NOT_INSTALLED)
    const redis = driver === 'redis' ? await RedisServer.start() : undefined
    // As a configuration beside a ledger has it: what a log in memory holds would count as growth.
    const log = driver === 'memory' ? config.log : { ...config.log, path: join(ownFolder(), 'log') }
    const gateway = await createTestGateway({ ...config, log, state: stateOf(driver, redis) })
    const made: Lane[] = []
    for (let i = 0; i < lanes; i++) {
      const account = `lane-${i}`
      await gateway.newAccount(account, CREDITS)
      const { id: key, secret } = await gateway.newKey({ account, rpm: MANY, concurrency: MANY })
      const connection = new Connection(gateway.url)
      made.push({ account, key, secret, connection, spent: 0n, hasLeft: false })
    }
    return new Bench(gateway, made, redis)
  }

  private constructor(gateway: TestGateway, lanes: readonly Lane[], redis?: RedisServer) {
    this.gateway = gateway
    this.lanes = lanes
    this.#redis = redis
  }

  /** What the gateway logged of faults of its own since the last call. */
  faults(): string[] {
    const { logged } = this.gateway
    const found = logged.filter((line) => /internal error|unhandled|uncaught/i.test(line))
    logged.length = 0
    return found
  }

  /** Ends the gateway. @returns what is left, lost, or counted wrongly */
  async close(): Promise<string[]> {
    const { gateway, lanes } = this
    for (const { connection } of lanes) connection.close()
    const faults: string[] = []
    const { running, runtime } = gateway.gateway
    const { ledger } = runtime
    for (let waited = 0; running.size > 0 && waited < PATIENCE_MS; waited += 20) await sleep(20)
    if (running.size > 0) faults.push(`${running.size} calls do not end`)
    faults.push(...this.faults())
    for (const { account, spent, hasLeft } of lanes) {
      const { balance, available } = await ledger.account(account)
      const booked = parsePico(CREDITS) - balance
      if (hasLeft ? booked < spent : booked !== spent) {
        faults.push(`${account} paid ${formatPico(booked)}, and was told ${formatPico(spent)}`)
      }
      if (available !== balance) faults.push(`${account} has money held although nothing runs`)
    }
    for (const { account, what } of await ledger.verify()) faults.push(`${account}: wrong ${what}`)
    // What was written last may be on its way still.
    const isWell = () => ledger.health().ok && ledger.health().outbox === 0
    for (let waited = 0; !isWell() && waited < PATIENCE_MS; waited += 20) await sleep(20)
    if (!isWell()) {
      faults.push(`the ledger is not well, ${ledger.health().outbox} settlements wait`)
    }
    await gateway.close()
    await this.#redis?.[Symbol.asyncDispose]()
    return faults
  }
}

function stateOf(driver: Driver, redis: RedisServer | undefined): NonNullable<UserConfig['state']> {
  if (driver === 'memory') return { driver }
  const folder = ownFolder()
  if (driver === 'file') return { driver, path: folder }
  return { driver, url: redis!.url, outbox: join(folder, 'outbox') }
}
