/**
 * The schema of the ledger in Redis: what a newer release changes, once, while older ones still run beside it. The number is in the
 * hash `gw:ledger`, with the identity of the ledger; without it the schema is 8. Releases from before it do not know the number: every
 * key is stale to them, because revisions are stored above theirs (`liftedRevision`).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '../../errors/errors.ts'
import { randomId } from '../ids.ts'
import { ACCOUNT, SCHEMA, type Log } from '../ledger/ledger.ts'
import { batchesOf, keysOf, PREFIX, type RedisConnection } from './connection.ts'
import { liftedLimits } from './limits-text.ts'
import { Lock } from './lock.ts'
import type { ScriptClient } from './replies.ts'
import type { RedisRecords } from './records.ts'
import { accountsIn } from './rows.ts'

/** Hash with the identity of the ledger (`id`), its `schema`, and `epoch`. */
export const LEDGER = `${PREFIX}:ledger`
/** Where releases of schema 8 have the identity. */
const OLD_IDENTITY = `${PREFIX}:identity`
/** It is held by the gateway that moves the ledger. */
const MOVING = `${PREFIX}:moving`
const MOVING_MS = 15_000
const FIRST_SCHEMA = 8
const POLL_MS = 100

/**
 * Brings the ledger to this release's schema. One gateway moves it, the others wait. Every step can be repeated.
 * @throws ConfigError for a ledger of a newer schema; Unavailable while Redis does not answer, or refuses
 */
export async function openSchema(connection: RedisConnection, log: Log): Promise<void> {
  const lock = new Lock(connection, MOVING, MOVING_MS)
  for (;;) {
    const schema = await readSchema(connection)
    if (schema > SCHEMA) throw newer(schema)
    if (schema === SCHEMA) return
    if (await lock.take()) return move(connection, lock, log, schema)
    await sleep(POLL_MS)
  }
}

async function readSchema(connection: RedisConnection): Promise<number> {
  const schema = await connection.ask(() => connection.client.hget(LEDGER, 'schema'))
  return Number(schema ?? FIRST_SCHEMA)
}

export function newer(schema: number): ConfigError {
  const message =
    `the ledger has schema ${schema}, this release knows ${SCHEMA}: ` +
    'start the release that has moved it, or a newer one.'
  return new ConfigError('the configuration', [{ path: 'state.url', message }])
}

async function move(
  connection: RedisConnection,
  lock: Lock,
  log: Log,
  from: number,
): Promise<void> {
  const store = connection.client as ScriptClient
  const accounts = await accountsIn(connection)
  if (accounts.length > 0) {
    log.info(`the ledger of ${accounts.length} accounts is moved from schema ${from} to ${SCHEMA}`)
  }
  for (const batch of batchesOf(accounts)) {
    await lock.take()
    await connection.askMany(batch, (account) => store.lift(...keysOf(account, 'book', 't')))
  }
  const identity = await connection.ask(() => store.get(OLD_IDENTITY))
  await connection.ask(() => store.hsetnx(LEDGER, 'id', identity ?? randomId('ledger_')))
  await connection.ask(() => store.hsetnx(LEDGER, 'epoch', '0'))
  await connection.ask(() => store.hset(LEDGER, 'schema', String(SCHEMA)))
  await lock.release()
}

type ChangedRecords = Pick<RedisRecords, 'changesSince' | 'get'>

/** Lifts what releases of a lower schema write: limits of accounts and keys that were made there after the move. */
export class Lifter {
  readonly #connection: RedisConnection
  readonly #records: ChangedRecords
  #cursor: string | undefined

  constructor(connection: RedisConnection, records: ChangedRecords) {
    this.#connection = connection
    this.#records = records
  }

  /** Begins with what is written from now on. @throws Unavailable */
  async begin(): Promise<void> {
    this.#cursor ??= (await this.#records.changesSince(undefined)).cursor
  }

  /** Lifts what was written since the last time. @throws Unavailable */
  async lift(): Promise<void> {
    const { ids, cursor } = await this.#records.changesSince(this.#cursor)
    for (const id of ids) await this.#lift(id)
    this.#cursor = cursor
  }

  /** @param id `account:<id>` or `key:<id>` */
  async #lift(id: string): Promise<void> {
    const [kind, name = ''] = id.split(':', 2)
    const isKey = kind === 'key'
    const record = isKey ? await this.#records.get<{ account: string }>(id) : { account: name }
    if (!record) return
    const of = isKey ? name : ACCOUNT
    const [book = '', holds = ''] = keysOf(record.account, 'book', 'h')
    const store = this.#connection.client as ScriptClient
    const text = await this.#connection.ask(() => store.hget(book, `l:${of}`))
    const lifted = text === null ? undefined : liftedLimits(text)
    if (lifted !== undefined)
      await this.#connection.ask(() => store.limits(book, holds, of, lifted))
  }
}
