import { afterAll, beforeAll } from 'vitest'
import { archiveConformance } from '../../conformance/archive.ts'
import { ManualClock, type TestClock } from '../../conformance/ledger.ts'
import {
  installed,
  needRedis,
  open,
  sharedServer,
  STORED_CLOCK,
} from '../../state/redis/_engine.ts'
import type { RedisServer } from '../../state/redis/_redis.ts'
import { runs } from '../../_runs.ts'

let server: RedisServer
/** Each ledger has a database of its own on the server. */
let clients: ReturnType<RedisServer['client']>[] = []

needRedis()
beforeAll(async () => {
  if (installed) server = await sharedServer()
})
afterAll(disconnect)

archiveConformance(
  'redis',
  async (clock) => {
    const client = server.client()
    const number = clients.push(client)
    await client.select(number)
    await client.set('now', clock.now())
    return (await open(`${server.url}/${number}`, { clock: STORED_CLOCK })).ledger
  },
  { runs: runs(2), clock: emptied },
)

/** A clock in every database that is used from now on. */
async function emptied(): Promise<TestClock> {
  disconnect()
  const client = server.client()
  await client.flushall()
  client.disconnect()
  const clock = new ManualClock()
  return {
    now: () => clock.now(),
    async advance(ms) {
      clock.advance(ms)
      await Promise.all(clients.map((client) => client.set('now', clock.now())))
    },
  }
}

function disconnect(): void {
  for (const client of clients) client.disconnect()
  clients = []
}
