import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DayFiles } from '../../../src/observe/log/day-files.ts'
import { endedCall, lineOf, type KnownCall } from '../../../src/observe/record.ts'
import { matches, type LogQuery } from '../../../src/observe/log/query.ts'
import { endOf, ENDS } from '../../../src/server/admin/resources/request.ts'
import { callView, limitsView } from '../../../src/server/admin/requests.ts'
import { requestId } from '../../../src/state/ids.ts'
import { formatPico } from '../../../src/money/money.ts'
import { folder } from '../../_folder.ts'
import { callAt } from '../_calls.ts'
import { EARLIER_SQL, EARLIER_VIEW } from './_earlier.ts'

const DAY_MS = 86_400_000
const NOON = Date.UTC(2026, 10, 23, 12)
const KEEP_ALL = { keep: 30, size: 2 ** 40 }

const callOf = (at: number, more: Partial<KnownCall> = {}) =>
  callAt(at, { model: 'mock/echo', ...more })

const BLOCKED = { mode: 'block', side: 'input', outcome: 'blocked', rule: 'not this' }
const decisionOf = (i: number) =>
  i % 7 === 0 ? BLOCKED : { mode: 'block', side: 'all', outcome: 'passed', rule: '' }

function open(path: string | undefined, bounds = KEEP_ALL, now = () => NOON): DayFiles {
  const files = new DayFiles(path, bounds, now)
  onTestFinished(() => files.close())
  return files
}

function store(files: DayFiles, records: readonly KnownCall[]) {
  return files.store(records.map(lineOf).join('\n'))
}

/** Ids of all pages. */
function all(files: DayFiles, query: Partial<LogQuery> = {}): string[] {
  const ids: string[] = []
  let after: string | undefined
  do {
    const page = files.list({ filters: {}, limit: 7, ...query, ...(after && { after }) })
    ids.push(...page.calls.map(({ id }) => id))
    after = page.next
  } while (after)
  return ids
}

describe('a request log in memory', () => {
  it('keeps the newest calls, within its bytes', () => {
    const size = 512 * 1024
    const files = open(undefined, { keep: 30, size })
    const records = Array.from({ length: 6000 }, (_, i) => callOf(NOON - 6000 + i))
    let most = 0
    for (let i = 0; i < records.length; i += 50) {
      const { bytes } = store(files, records.slice(i, i + 50))
      most = Math.max(most, bytes)
    }
    // A batch may come before what is removed for it.
    expect(most).toBeLessThan(1.1 * size)
    expect(most).toBeGreaterThan(size / 2)
    const { calls } = files.list({ filters: {}, limit: 200 })
    const newest = records.slice(-200).toReversed()
    expect(calls.map(({ id }) => id)).toEqual(newest.map(({ id }) => id))
    expect(files.find(records[0]!.id.slice(4))).toBeUndefined()
  })
})

describe.each([
  ['in files', () => folder({})],
  ['in memory', async () => undefined],
])('the request log %s', (_, place) => {
  it('gives calls of several days newest first, each once, in pages', async () => {
    const files = open(await place())
    const records = Array.from({ length: 50 }, (_, i) => callOf(NOON - i * (DAY_MS / 60)))
    expect(store(files, records)).toMatchObject({ rows: 50, dropped: {} })
    expect(all(files)).toEqual(records.map(({ id }) => id))
    expect(files.find(records[30]!.id.slice(4))).toEqual(records[30])
    expect(files.find(requestId(NOON).slice(4))).toBeUndefined()
  })

  it('filters, alone and together', async () => {
    const path = await place()
    const files = open(path)
    const records = Array.from({ length: 60 }, (_, i) =>
      callOf(NOON - i * 1000, {
        key_id: `k${i % 3}`,
        model: i % 2 ? 'mock/echo' : 'mock/tools',
        status: i % 5 ? 200 : 404,
        stream: i % 4 === 0,
        times: { total_ms: i },
        cost_usd: formatPico(BigInt(i) * 10n ** 16n),
        guard: {
          outcome: i % 7 === 0 ? 'blocked' : i % 11 === 0 ? 'monitored' : 'passed',
          rules: [],
        },
        ...(i % 13 === 0 && { code: 'rate_limited', limited_by: 'key.rpm', outcome: 'failed' }),
        ...(i % 17 === 1 && { outcome: 'cancelled' }),
        ...(i % 19 === 3 && { outcome: 'failed' }),
        ...(i % 4 === 0 && { tag: 'team', user: `u${i % 8}` }),
        ...(i % 21 === 18 && { key_id: undefined }),
        decided: [decisionOf(i), ...(i % 14 === 0 ? [{ ...BLOCKED, side: 'output' }] : [])],
      }),
    )
    store(files, records)
    const ids = (keep: (record: KnownCall, i: number) => boolean) =>
      records.filter(keep).map(({ id }) => id)
    const asked: [Partial<LogQuery>, (record: KnownCall, i: number) => boolean][] = [
      [{ filters: { key: ['k1'] } }, ({ key_id }) => key_id === 'k1'],
      [{ filters: { key: ['k1', 'k2'] } }, (_, i) => i % 3 > 0],
      [{ filters: { account: ['acme'], model: ['mock/tools'] } }, (_, i) => i % 2 === 0],
      [{ filters: {}, status: [[400, 499]] }, (_, i) => i % 5 === 0],
      [{ filters: { key: ['k0'] }, status: [[404, 404]] }, (_, i) => i % 15 === 0],
      [{ filters: { guard: ['blocked'] }, stream: true }, (_, i) => i % 28 === 0],
      [{ filters: {}, minMs: 40 }, (_, i) => i >= 40],
      // The amount is above the exact range of a double.
      [{ filters: {}, minCost: 59n * 10n ** 16n }, (_, i) => i === 59],
      [{ filters: {}, from: NOON - 30_000, to: NOON - 10_000 }, (_, i) => i > 10 && i <= 30],
      [{ filters: { key: ['none'] } }, () => false],
      [
        { filters: { guard: ['blocked', 'monitored'] } },
        ({ guard }) => guard?.outcome !== 'passed',
      ],
      [{ filters: { guard: ['passed'] } }, ({ guard }) => guard?.outcome === 'passed'],
      [{ filters: { code: ['rate_limited'] } }, (_, i) => i % 13 === 0],
      [{ filters: { limited_by: ['key.rpm', 'balance'] } }, (_, i) => i % 13 === 0],
      [
        { filters: { outcome: ['failed', 'cancelled'], key: ['k1'] } },
        ({ key_id, outcome }) => key_id === 'k1' && outcome !== 'completed',
      ],
      [{ filters: { account: ['acme'], code: ['x'] } }, () => false],
      // An empty value finds the calls that have none.
      [{ filters: { code: [''] } }, (_, i) => i % 13 > 0],
      [{ filters: { limited_by: [''], key: ['k1'] } }, (_, i) => i % 13 > 0 && i % 3 === 1],
      [{ filters: { tag: ['', 'team'] } }, () => true],
      [{ filters: { user: ['', 'u4'] } }, (_, i) => i % 4 > 0 || i % 8 === 4],
      [{ filters: { key: [''] } }, (_, i) => i % 21 === 18],
      [{ filters: { guard: [''] } }, () => false],
      [{ filters: { account: ['acme'] }, status: [[400, 599]] }, (_, i) => i % 5 === 0],
      [{ filters: { tag: ['team'], user: ['u4'] } }, (_, i) => i % 8 === 4],
      [{ filters: {}, keyed: true }, ({ key_id }) => key_id !== undefined],
      [{ filters: { model: ['mock/tools'] }, keyed: false }, (_, i) => i % 42 === 18],
      [{ filters: {}, decided: ['block input blocked not this'] }, (_, i) => i % 7 === 0],
      [{ filters: {}, decided: ['block output blocked not this'] }, (_, i) => i % 14 === 0],
      [
        { filters: { key: ['k0'] }, decided: ['block input blocked not this'] },
        (_, i) => i % 21 === 0,
      ],
      [
        { filters: {}, decided: ['block all passed', 'block output blocked not this'] },
        (_, i) => i % 7 !== 0 || i % 14 === 0,
      ],
      [{ filters: {}, decided: ['block input seen not this'] }, () => false],
    ]
    // The columns say what the record says, for one word and for all but the good one.
    for (const ends of [...ENDS.map((end) => [end]), ENDS.slice(1)]) {
      asked.push([
        { filters: {}, ends },
        (record) =>
          ends.includes(endOf(endedCall(record))) &&
          matches(record, { filters: {}, ends, limit: 1 }),
      ])
    }
    for (const [query, keep] of asked) expect(all(files, query)).toEqual(ids(keep))
    if (path === undefined) return
    // A file may have fewer indexes.
    files.close()
    const day = new DatabaseSync(join(path, '2026-11-23', 'calls.db'))
    for (const { name } of day.prepare("SELECT name FROM pragma_index_list('call')").all()) {
      if (String(name).startsWith('call_')) day.exec(`DROP INDEX ${String(name)}`)
    }
    day.close()
    for (const [query, keep] of asked) expect(all(files, query)).toEqual(ids(keep))
  })

  it('keeps every text of a call as it is, and no call in the place of another', async () => {
    const files = open(await place())
    const odd = callOf(NOON, {
      error: 'a\tb\nc "é" \u0000 {"id":"req_01M844DZG00000000000000000"} 参数错误',
      attempts: [
        { deployment: 'a/b', ms: 3, result: 'rate_limited', status: 429, message: 'a; b 5 ok;' },
        { deployment: 'c/d', ms: 4, result: 'ok' },
      ],
    })
    const other = callOf(NOON - 1, { id: 'req_01M844DZG00000000000000000' })
    store(files, [odd, other])
    expect(all(files)).toEqual([odd.id, other.id])
    expect(files.find(odd.id.slice(4))).toEqual(odd)
    expect(files.find(other.id.slice(4))).toEqual(other)
  })

  it('leaves out what sinks alone are told, and stores a call that comes again once', async () => {
    const files = open(await place())
    const told = { request: { max_tokens: 5 }, response: { finish_reasons: ['stop'] } }
    const guard = { outcome: 'passed', rules: [] }
    const call = callOf(NOON, { ...told, guard: { ...guard, policy: 'abc' } })
    expect(store(files, [call])).toMatchObject({ rows: 1 })
    expect(store(files, [call])).toMatchObject({ rows: 0 })
    expect(files.find(call.id.slice(4))).toEqual(callOf(NOON, { id: call.id, guard }))
    expect(all(files)).toEqual([call.id])
  })
})

describe('the files of the request log', () => {
  it('are one per day, removed when they are old or too large, but never that of today', async () => {
    const path = await folder({})
    let now = NOON
    const files = open(path, KEEP_ALL, () => now)
    const days = () => readdir(path)
    for (let day = 0; day < 5; day++, now += DAY_MS) store(files, [callOf(now)])
    now -= DAY_MS
    expect(await days()).toHaveLength(5)

    const young = open(path, { keep: 2, size: 2 ** 40 }, () => now)
    young.trim()
    expect(await days()).toEqual(['2026-11-25', '2026-11-26', '2026-11-27'])
    const { completeFrom } = files.list({ filters: {}, limit: 1 })
    expect(completeFrom).toBe(Date.UTC(2026, 10, 25))
    const small = open(path, { keep: 2, size: 1 }, () => now)
    expect(store(small, [callOf(now)])).toMatchObject({
      rows: 0,
      dropped: { disk: 1 },
      fault: expect.stringContaining('log.size'),
    })
    expect(await days()).toEqual(['2026-11-27'])
  })

  it('take no calls of a day that was removed', async () => {
    const files = open(await folder({}))
    const old = callOf(NOON - 3 * DAY_MS)
    expect(store(files, [old, callOf(NOON)])).toMatchObject({ rows: 1, dropped: { late: 1 } })
  })

  it('are of their owner alone', async () => {
    const path = join(await folder({}), 'log')
    store(open(path), [callOf(NOON)])
    const { stat } = await import('node:fs/promises')
    expect((await stat(path)).mode & 0o777).toBe(0o700)
    expect((await stat(join(path, '2026-11-23'))).mode & 0o777).toBe(0o700)
    expect((await stat(join(path, '2026-11-23', 'calls.db'))).mode & 0o777).toBe(0o600)
  })

  it('that cannot be written are said once it is tried, and tried again later', async () => {
    const path = join(await folder({ file: '' }), 'file')
    let now = NOON
    const files = open(join(path, 'log'), KEEP_ALL, () => now)
    const failed = store(files, [callOf(now)])
    expect(failed).toMatchObject({ rows: 0, dropped: { disk: 1 } })
    expect(failed.fault).toContain('cannot be written')
    await import('node:fs/promises').then(({ rm }) => rm(path))
    await mkdir(path)
    expect(store(files, [callOf(now)])).toMatchObject({ dropped: { disk: 1 } })
    now += 31_000
    expect(store(files, [callOf(now)])).toMatchObject({ rows: 1, dropped: {} })
  })

  it('are found again by the next process, and a damaged one hides its own calls alone', async () => {
    const path = await folder({})
    const before = callOf(NOON - DAY_MS)
    const first = open(path)
    store(first, [before, callOf(NOON)])
    first.close()
    const second = open(path)
    expect(all(second)).toHaveLength(2)
    second.close()
    await writeFile(
      join(path, '2026-11-22', 'calls.db'),
      'not a database at all, but a text'.repeat(200),
    )
    const third = open(path)
    expect(store(third, [callOf(NOON + 1)])).toMatchObject({ rows: 1 })
    const page = third.list({ filters: {}, limit: 10 })
    expect(page).toMatchObject({ calls: [{}, {}], unreadable: ['2026-11-22'] })
    expect(() => third.find(before.id.slice(4))).toThrow()
  })

  it('have no calls while they are empty, and are not damaged', async () => {
    const path = await folder({})
    const files = open(path)
    store(files, [callOf(NOON)])
    await writeFile(join(path, '2026-11-22.db'), '')
    const page = files.list({ filters: {}, limit: 10 })
    expect(page).toMatchObject({ calls: [{}], unreadable: [] })
    expect(files.find(callOf(NOON - DAY_MS).id.slice(4))).toBeUndefined()
  })

  it('answer a question about many calls a part at a time', async () => {
    const path = await folder({})
    const files = open(path)
    const many = Array.from({ length: 12_000 }, (_, i) => callOf(NOON - i))
    store(files, [...many, callOf(NOON - 13_000, { agent: 'curl' })])
    expect(all(files, { filters: { agent: ['curl'] } })).toHaveLength(1)
    const file = new DatabaseSync(join(path, '2026-11-23', 'calls.db'), { readOnly: true })
    expect(file.prepare('SELECT count(*) AS n FROM call').get()).toEqual({ n: 12_001 })
    file.close()
  })

  it('of the release before are read, filtered and removed like those of now', async () => {
    const path = await folder({})
    const earlier = new DatabaseSync(join(path, '2026-11-23.db'))
    earlier.exec(EARLIER_SQL)
    earlier.close()
    let now = NOON + 60_000
    const files = open(path, { keep: 2, size: 2 ** 40 }, () => now)
    const [first, second, third] = [1, 2, 3].map((n) => `req_01M844DZG${n}000000000000000${n}`)
    const call = callOf(NOON + 1000)
    store(files, [call])
    expect(all(files)).toEqual([call.id, third, second, first])
    expect(all(files, { filters: { key: ['k1'] } })).toEqual([call.id, first])
    expect(all(files, { filters: {}, status: [[400, 499]] })).toEqual([third, second])
    expect(all(files, { filters: { limited_by: ['key.rpm'] } })).toEqual([second])
    expect(all(files, { filters: {}, minCost: 10n ** 17n })).toEqual([first])
    // Its file has no column for what came later.
    expect(all(files, { filters: { team: ['', 'x'] } })).toEqual([call.id, third, second, first])
    expect(all(files, { filters: { team: ['x'] } })).toEqual([])
    const found = files.find(first!.slice(4))!
    const { limits, ...view } = EARLIER_VIEW
    expect(JSON.parse(JSON.stringify(callView(found, false)))).toEqual({ ...view, running: false })
    expect(limitsView(found)).toEqual(limits)
    now += 4 * DAY_MS
    files.trim()
    expect(await readdir(path)).toEqual([])
  })

  it('of a newer version are not written', async () => {
    const path = await folder({})
    await mkdir(join(path, '2026-11-23'))
    const newer = new DatabaseSync(join(path, '2026-11-23', 'calls.db'))
    newer.exec('PRAGMA user_version = 9')
    newer.close()
    expect(store(open(path), [callOf(NOON)])).toMatchObject({
      rows: 0,
      dropped: { disk: 1 },
      fault: expect.stringContaining('newer version'),
    })
  })
})
