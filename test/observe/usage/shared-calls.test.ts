/** Circumstances of calls at several gateways on one Redis: all see those of all, each call once. */
import { deflateRawSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CalledTables, SharedCalls } from '../../../src/observe/usage/called.ts'
import { lineOf } from '../../../src/observe/record.ts'
import { openTables } from '../../../src/observe/usage/work.ts'
import type { Announcements } from '../../../src/state/announcements.ts'
import { openRedisAnnouncements } from '../../../src/state/redis/announcements.ts'
import { folder } from '../../_folder.ts'
import { needRedis, sharedServer } from '../../state/redis/_engine.ts'
import { callAt } from '../_calls.ts'
import { EARLIER_LINES } from '../log/_earlier.ts'
import { NOON, SILENT } from '../../state/sqlite/_engine.ts'

/** A call that a limit has refused. */
function refused(key: string): string {
  return lineOf(
    callAt(NOON, {
      status: 429,
      code: 'rate_limited',
      limited_by: 'key.rpm',
      outcome: 'failed',
      key_id: key,
    }),
  )
}

/** One gateway's part of it. @param through changes how it speaks with the others */
async function open(url: string, path?: string, through = (one: Announcements) => one) {
  const { announcements, close } = await openRedisAnnouncements(url, SILENT)
  onTestFinished(close)
  const tables = openTables(path ?? (await folder({})))
  let closed = false
  const shut = () => {
    if (!closed) tables.close()
    closed = true
  }
  onTestFinished(shut)
  const { db } = tables
  const calls = new SharedCalls(through(announcements), db, new CalledTables(db))
  const counts = () =>
    Object.fromEntries(
      db
        .prepare(
          `SELECT key, sum(refused) AS refused FROM called_hour JOIN called_group ON id = group_id
           GROUP BY key ORDER BY key`,
        )
        .all()
        .map(({ key, refused: count }) => [key, count]),
    )
  return { calls, counts, close: shut, exchange: () => calls.exchange() }
}

describe('calls of several gateways', () => {
  needRedis()

  it('are in the tables of each, once, also after one was away', async () => {
    const [{ url }, path] = [await sharedServer(), await folder({})]
    const [one, other] = [await open(url), await open(url, path)]
    await Promise.all([one.exchange(), other.exchange()])
    one.calls.add([refused('a'), refused('b')].join('\n'))
    other.calls.add(refused('a'))
    for (let i = 0; i < 2; i++) {
      await one.exchange()
      await other.exchange()
    }
    await one.exchange()
    expect(one.counts()).toEqual({ a: 2, b: 1 })
    expect(other.counts()).toEqual(one.counts())
    other.close()
    one.calls.add(refused('c'))
    await one.exchange()
    const again = await open(url, path)
    await again.exchange()
    expect(again.counts()).toEqual({ a: 2, b: 1, c: 1 })
    await again.exchange()
    expect(again.counts()).toEqual(one.counts())
  })

  it('are told again after a failure, and still added once', async () => {
    let fails: 'before' | 'after' | undefined
    const flaky = (real: Announcements): Announcements => ({
      hear: (...of) => real.hear(...of),
      async tell(...of) {
        if (fails === 'before') throw new Error('away')
        await real.tell(...of)
        if (fails === 'after') throw new Error('no answer')
      },
    })
    const { url } = await sharedServer()
    const [one, other] = [await open(url, undefined, flaky), await open(url)]
    await Promise.all([one.exchange(), other.exchange()])
    for (const how of ['before', 'after', undefined] as const) {
      fails = how
      one.calls.add(refused(String(how)))
      await one.exchange().catch(() => undefined)
      await other.exchange()
    }
    await one.exchange()
    await other.exchange()
    expect(other.counts()).toEqual({ after: 1, before: 1, undefined: 1 })
    expect(one.counts()).toEqual(other.counts())
  })

  it('of a gateway of the release before are heard too', async () => {
    const { url } = await sharedServer()
    const own = await open(url)
    await own.exchange()
    const { announcements, close } = await openRedisAnnouncements(url, SILENT)
    onTestFinished(close)
    const calls = deflateRawSync(EARLIER_LINES.join('\n')).toString('base64')
    await announcements.tell('called', JSON.stringify({ sender: 'other', number: 1, calls }))
    await own.exchange()
    expect(own.counts()).toEqual({ k1: 0, k2: 1 })
  })
})
