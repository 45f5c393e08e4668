/** The request log that gateways share in Redis. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { lineOf, type CallRecord } from '../../../src/observe/record.ts'
import type { LogQuery } from '../../../src/observe/log/query.ts'
import { RedisLog } from '../../../src/observe/log/redis-log.ts'
import { requestId } from '../../../src/state/ids.ts'
import { needRedis, sharedServer } from '../../state/redis/_engine.ts'
import { SILENT } from '../../state/sqlite/_engine.ts'
import { DAY_MS } from '../usage/_index.ts'

/** Of today: Redis removes days that have ended by its own clock. */
const NOON = Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2
const KEEP_ALL = { keep: 30, size: 2 ** 40 }

async function open({ bounds = KEEP_ALL, now = () => NOON, url = '', holdsLedger = true } = {}) {
  const place = { url: url || (await sharedServer()).url, holdsLedger }
  const log = new RedisLog({ ...place, bounds, log: SILENT, now })
  onTestFinished(() => log.close())
  return log
}

function lineAt(at: number, more: Partial<CallRecord> = {}): string {
  const call = { method: 'POST', path: '/v1/chat/completions', status: 200, outcome: 'completed' }
  const record = { at, requestId: requestId(at), ...call, ms: 12, account: 'acme', key: 'k1' }
  return lineOf({ ...record, ...more } as CallRecord)
}

/** Ids of all pages. */
async function all(log: RedisLog, query: Partial<LogQuery> = {}): Promise<string[]> {
  const ids: string[] = []
  let after: string | undefined
  do {
    const page = await log.list({ filters: {}, limit: 7, ...query, ...(after && { after }) })
    ids.push(...page.rows.map(({ id }) => String(id)))
    after = page.next
  } while (after)
  return ids
}

const idOf = (line: string) => line.slice(0, 26)

describe('a request log in Redis', () => {
  needRedis()

  it('has the calls of all gateways, newest first, in pages and by filters', async () => {
    const [one, other] = [await open(), await open()]
    const lines = Array.from({ length: 40 }, (_, i) =>
      lineAt(NOON - i * 4_000_000, { key: `k${i % 4}`, status: i % 5 === 0 ? 429 : 200 }),
    )
    const [odd, even] = [1, 0].map((rest) => lines.filter((_, i) => i % 2 === rest))
    expect(await one.store(odd!.toReversed().join('\n'))).toMatchObject({ rows: 20, dropped: {} })
    expect(await other.store(even!.join('\n'))).toMatchObject({ rows: 20, dropped: {} })
    await other.store(even!.join('\n'))
    expect(await all(one)).toEqual(lines.map(idOf))
    const ids = (wanted: (i: number) => boolean) => lines.filter((_, i) => wanted(i)).map(idOf)
    expect(await all(other, { filters: { key: ['k1'] } })).toEqual(ids((i) => i % 4 === 1))
    expect(await all(one, { status: [[400, 499]] })).toEqual(ids((i) => i % 5 === 0))
    const [from, to] = [NOON - 30 * 4_000_000, NOON - 10 * 4_000_000 + 1]
    expect(await all(one, { from, to })).toEqual(ids((i) => i >= 10 && i <= 30))
  })

  it('reads a row as a file does', async () => {
    const log = await open()
    const line = lineAt(NOON, { usage: { promptTokens: 3, seconds: 1.5 }, stream: true })
    await log.store(line)
    expect(await log.find(idOf(line))).toMatchObject({
      id: idOf(line),
      status: 200n,
      stream: 1n,
      prompt_tokens: 3n,
      completion_tokens: null,
      seconds: 1.5,
      cost: null,
      account: 'acme',
      model: null,
    })
    expect(await log.find(requestId(NOON).slice(4))).toBeUndefined()
    expect(await log.find(requestId(NOON - 9 * DAY_MS).slice(4))).toBeUndefined()
  })

  it('keeps the newest rows of the last days', async () => {
    const server = await sharedServer()
    let now = NOON
    const log = await open({
      bounds: { keep: 3, size: 100 * 512 },
      now: () => now,
      url: server.url,
    })
    const lines = Array.from({ length: 150 }, (_, i) => lineAt(NOON - (150 - i) * 1_200_000))
    const late = lineAt(NOON - 3 * DAY_MS)
    expect(await log.store([late, ...lines].join('\n'))).toMatchObject({
      rows: 150,
      dropped: { late: 1 },
    })
    now += 60_000
    await log.store(lineAt(now))
    expect(await all(log)).toHaveLength(101)
    expect((await all(log)).slice(1)).toEqual(lines.slice(50).toReversed().map(idOf))
    const keys = await server.ask((client) => client.keys('gw:log:*'))
    for (const key of keys) {
      expect(await server.ask((client) => client.expiretime(key))).toBeGreaterThan(0)
    }
  })

  it('drops rows while Redis cannot be used or is full, and says why', async () => {
    const away = await open({ url: 'nowhere' })
    expect(await away.store(`${lineAt(NOON)}\n${lineAt(NOON)}`)).toMatchObject({
      rows: 0,
      dropped: { disk: 2 },
      fault: expect.stringContaining('cannot be written'),
    })
    const server = await sharedServer()
    let now = NOON
    const full = await open({ now: () => now, url: server.url })
    await server.ask((client) => client.config('SET', 'maxmemory', '1mb'))
    expect(await full.store(lineAt(NOON))).toMatchObject({ dropped: { disk: 1 } })
    await server.ask((client) => client.config('SET', 'maxmemory', '0'))
    now += 60_000
    expect(await full.store(lineAt(NOON))).toMatchObject({ rows: 1, dropped: {} })
  })

  it('has a server of its own with any settings', async () => {
    const server = await sharedServer()
    await server.ask((client) => client.config('SET', 'maxmemory-policy', 'allkeys-lru'))
    onTestFinished(async () => {
      await server.ask((client) => client.config('SET', 'maxmemory-policy', 'noeviction'))
    })
    const [beside, own] = [await open(), await open({ holdsLedger: false })]
    expect(await beside.store(lineAt(NOON))).toMatchObject({ dropped: { disk: 1 } })
    const line = lineAt(NOON)
    expect(await own.store(line)).toMatchObject({ rows: 1, dropped: {} })
    expect(await own.find(idOf(line))).toMatchObject({ status: 200n })
  })
})
