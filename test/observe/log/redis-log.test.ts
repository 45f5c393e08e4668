/** The request log that gateways share in Redis. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { callIn, lineOf, type KnownCall } from '../../../src/observe/record.ts'
import type { LogQuery } from '../../../src/observe/log/query.ts'
import { RedisLog } from '../../../src/observe/log/redis-log.ts'
import { requestId, ulidAt } from '../../../src/state/ids.ts'
import { needRedis, sharedServer } from '../../state/redis/_engine.ts'
import { SILENT } from '../../state/sqlite/_engine.ts'
import { callAt } from '../_calls.ts'
import { DAY_MS } from '../usage/_index.ts'
import { EARLIER_LINES } from './_earlier.ts'

/** The noon of today, in ms. Redis removes days that have ended by its own clock, so another day would not do. */
const NOON = Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2
const KEEP_ALL = { keep: 30, size: 2 ** 40 }

async function open({ bounds = KEEP_ALL, now = () => NOON, url = '', holdsLedger = true } = {}) {
  const place = { url: url || (await sharedServer()).url, holdsLedger }
  const log = new RedisLog({ ...place, bounds, log: SILENT, now })
  onTestFinished(() => log.close())
  return log
}

function lineAt(at: number, more: Partial<KnownCall> = {}): string {
  return lineOf(callAt(at, more))
}

/** Ids of all pages. */
async function all(log: RedisLog, query: Partial<LogQuery> = {}): Promise<string[]> {
  const ids: string[] = []
  let after: string | undefined
  do {
    const page = await log.list({ filters: {}, limit: 7, ...query, ...(after && { after }) })
    ids.push(...page.calls.map(({ id }) => id))
    after = page.next
  } while (after)
  return ids
}

const bare = (line: string) => idOf(line).slice(4)
const idOf = (line: string) => callIn(line).id

describe('a request log in Redis', () => {
  needRedis()

  it('has the calls of all gateways, newest first, in pages and by filters', async () => {
    const [one, other] = [await open(), await open()]
    const lines = Array.from({ length: 40 }, (_, i) =>
      lineAt(NOON - i * 4_000_000, { key_id: `k${i % 4}`, status: i % 5 === 0 ? 429 : 200 }),
    )
    const [odd, even] = [1, 0].map((rest) => lines.filter((_, i) => i % 2 === rest))
    expect(await one.store(odd!.toReversed().join('\n'))).toMatchObject({ rows: 20, dropped: {} })
    expect(await other.store(even!.join('\n'))).toMatchObject({ rows: 20, dropped: {} })
    await other.store(even!.join('\n'))
    expect(await all(one)).toEqual(lines.map(idOf))
    const ids = (wanted: (i: number) => boolean) => lines.filter((_, i) => wanted(i)).map(idOf)
    expect(await all(other, { filters: { key: ['k1'] } })).toEqual(ids((i) => i % 4 === 1))
    expect(await all(one, { status: [[400, 499]] })).toEqual(ids((i) => i % 5 === 0))
    expect(await all(one, { filters: { key: ['', 'k1'], code: [''] } })).toEqual(
      ids((i) => i % 4 === 1),
    )
    expect(await all(one, { filters: { key: [''] } })).toEqual([])
    const [from, to] = [NOON - 30 * 4_000_000, NOON - 10 * 4_000_000 + 1]
    expect(await all(one, { from, to })).toEqual(ids((i) => i >= 10 && i <= 30))
  })

  it('reads a call as it was, whatever is in it', async () => {
    const log = await open()
    const call = callAt(NOON, {
      usage: { prompt_tokens: 3, seconds: 1.5 },
      stream: true,
      model: 'acme/modèle-é',
      error: '参数错误\t"x"\n',
    })
    await log.store(lineOf(call))
    expect(await log.find(call.id.slice(4))).toEqual(call)
    expect(await log.find(requestId(NOON).slice(4))).toBeUndefined()
    expect(await log.find(requestId(NOON - 9 * DAY_MS).slice(4))).toBeUndefined()
  })

  it('has the calls of gateways of the release before among its own', async () => {
    const log = await open()
    const server = await sharedServer()
    const moments = [1, 2, 3].map((n) => ulidAt(NOON + 2000 * n))
    const ids = moments.map((moment, i) => `${moment}000000000000000${i}`)
    const lines = EARLIER_LINES.map((line, i) => `${ids[i]}${line.slice(26)}`)
    const day = new Date(NOON).toISOString().slice(0, 10)
    await server.ask((client) =>
      client.zadd(`gw:log:${day}`, ...lines.flatMap((line) => ['0', line])),
    )
    const between = lineAt(NOON + 3000)
    await log.store(between)
    const [first, second, third] = ids.map((id) => `req_${id}`)
    expect(await all(log)).toEqual([third, second, idOf(between), first])
    expect(await all(log, { filters: { key: ['k1'] } })).toEqual([idOf(between), first])
    expect(await log.find(ids[0]!)).toMatchObject({
      id: first,
      attempts: [{ deployment: 'a/b', message: 'Too many, wait' }, { result: 'ok' }],
      cost_usd: '100000.000855',
      decided: [{ rule: 'pii:email' }, { side: 'all' }],
    })
  })

  it('keeps the newest rows of the last days', async () => {
    const server = await sharedServer()
    let now = NOON
    const log = await open({
      bounds: { keep: 3, size: 100 * 768 },
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
    const { completeFrom } = await log.list({ filters: {}, limit: 1 })
    expect(completeFrom).toBe(NOON - 100 * 1_200_000)
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
    expect(await own.find(bare(line))).toMatchObject({ status: 200 })
  })
})
