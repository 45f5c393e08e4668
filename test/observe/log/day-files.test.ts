import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DayFiles } from '../../../src/observe/log/day-files.ts'
import { lineOf, type CallRecord } from '../../../src/observe/record.ts'
import type { LogQuery } from '../../../src/observe/log/query.ts'
import { requestId } from '../../../src/state/ids.ts'
import { Bill } from '../../../src/money/money.ts'
import { folder } from '../../_folder.ts'

const DAY_MS = 86_400_000
const NOON = Date.UTC(2026, 10, 23, 12)
const KEEP_ALL = { keep: 30, size: 2 ** 40 }

function recordAt(at: number, more: Partial<CallRecord> = {}): CallRecord {
  return {
    at,
    requestId: requestId(at),
    method: 'POST',
    path: '/v1/chat/completions',
    status: 200,
    outcome: 'completed',
    ms: 12,
    account: 'acme',
    key: 'k1',
    model: 'mock/echo',
    ...more,
  }
}

function open(path: string | undefined, bounds = KEEP_ALL, now = () => NOON): DayFiles {
  const files = new DayFiles(path, bounds, now)
  onTestFinished(() => files.close())
  return files
}

function store(files: DayFiles, records: readonly CallRecord[]) {
  return files.store(records.map(lineOf).join('\n'))
}

/** Ids of all pages. */
function all(files: DayFiles, query: Partial<LogQuery> = {}): string[] {
  const ids: string[] = []
  let after: string | undefined
  do {
    const page = files.list({ filters: {}, limit: 7, ...query, ...(after && { after }) })
    ids.push(...page.rows.map(({ id }) => String(id)))
    after = page.next
  } while (after)
  return ids
}

describe('a request log in memory', () => {
  it('keeps the newest calls, within its bytes', () => {
    const size = 512 * 1024
    const files = open(undefined, { keep: 30, size })
    const records = Array.from({ length: 6000 }, (_, i) => recordAt(NOON - 6000 + i))
    let most = 0
    for (let i = 0; i < records.length; i += 50) {
      const { bytes } = store(files, records.slice(i, i + 50))
      most = Math.max(most, bytes)
    }
    // A batch may come before what is removed for it.
    expect(most).toBeLessThan(1.1 * size)
    expect(most).toBeGreaterThan(size / 2)
    const { rows } = files.list({ filters: {}, limit: 200 })
    const newest = records.slice(-200).toReversed()
    expect(rows.map(({ id }) => id)).toEqual(newest.map(({ requestId }) => requestId.slice(4)))
    expect(files.find(records[0]!.requestId.slice(4))).toBeUndefined()
  })
})

describe.each([
  ['in files', () => folder({})],
  ['in memory', async () => undefined],
])('the request log %s', (_, place) => {
  it('gives calls of several days newest first, each once, in pages', async () => {
    const files = open(await place())
    const records = Array.from({ length: 50 }, (_, i) => recordAt(NOON - i * (DAY_MS / 60)))
    expect(store(files, records)).toMatchObject({ rows: 50, dropped: {} })
    expect(all(files)).toEqual(records.map(({ requestId }) => requestId.slice(4)))
    expect(files.find(records[30]!.requestId.slice(4))).toMatchObject({ key: 'k1', status: 200n })
    expect(files.find(requestId(NOON).slice(4))).toBeUndefined()
  })

  it('filters, alone and together', async () => {
    const path = await place()
    const files = open(path)
    const records = Array.from({ length: 60 }, (_, i) =>
      recordAt(NOON - i * 1000, {
        key: `k${i % 3}`,
        model: i % 2 ? 'mock/echo' : 'mock/tools',
        status: i % 5 ? 200 : 404,
        stream: i % 4 === 0,
        ms: i,
        bill: new Bill(BigInt(i) * 10n ** 16n, []),
        guard: i % 7 === 0 ? 'blocked' : i % 11 === 0 ? 'monitored' : 'passed',
        ...(i % 13 === 0 && { code: 'rate_limited', limit: 'key.rpm', outcome: 'failed' }),
        ...(i % 4 === 0 && { tag: 'team', user: `u${i % 8}` }),
      }),
    )
    store(files, records)
    const ids = (keep: (record: CallRecord, i: number) => boolean) =>
      records.filter(keep).map(({ requestId }) => requestId.slice(4))
    const asked: [Partial<LogQuery>, (record: CallRecord, i: number) => boolean][] = [
      [{ filters: { key: ['k1'] } }, ({ key }) => key === 'k1'],
      [{ filters: { key: ['k1', 'k2'] } }, ({ key }) => key !== 'k0'],
      [{ filters: { account: ['acme'], model: ['mock/tools'] } }, (_, i) => i % 2 === 0],
      [{ filters: {}, status: [[400, 499]] }, (_, i) => i % 5 === 0],
      [{ filters: { key: ['k0'] }, status: [[404, 404]] }, (_, i) => i % 15 === 0],
      [{ filters: { guard: ['blocked'] }, stream: true }, (_, i) => i % 28 === 0],
      [{ filters: {}, minMs: 40 }, (_, i) => i >= 40],
      // Above the exact range of a double.
      [{ filters: {}, minCost: 59n * 10n ** 16n }, (_, i) => i === 59],
      [{ filters: {}, from: NOON - 30_000, to: NOON - 10_000 }, (_, i) => i > 10 && i <= 30],
      [{ filters: { key: ['none'] } }, () => false],
      [{ filters: { guard: ['blocked', 'monitored'] } }, ({ guard }) => guard !== 'passed'],
      [{ filters: { guard: ['passed'] } }, ({ guard }) => guard === 'passed'],
      [{ filters: { code: ['rate_limited'] } }, (_, i) => i % 13 === 0],
      [{ filters: { limited_by: ['key.rpm', 'balance'] } }, (_, i) => i % 13 === 0],
      [{ filters: { outcome: ['failed', 'cancelled'], key: ['k1'] } }, (_, i) => i % 39 === 13],
      [{ filters: { account: ['acme'], code: ['x'] } }, () => false],
      [{ filters: { account: ['acme'] }, status: [[400, 599]] }, (_, i) => i % 5 === 0],
      [{ filters: { tag: ['team'], user: ['u4'] } }, (_, i) => i % 8 === 4],
    ]
    for (const [query, keep] of asked) expect(all(files, query)).toEqual(ids(keep))
    if (path === undefined) return
    // A day of an earlier version has fewer indexes.
    files.close()
    const day = new DatabaseSync(join(path, '2026-11-23.db'))
    for (const { name } of day.prepare("SELECT name FROM pragma_index_list('call')").all()) {
      if (String(name).startsWith('call_')) day.exec(`DROP INDEX ${String(name)}`)
    }
    day.close()
    for (const [query, keep] of asked) expect(all(files, query)).toEqual(ids(keep))
  })

  it('keeps the texts of a row apart, whatever is in them', async () => {
    const files = open(await place())
    const odd = recordAt(NOON, {
      error: 'a\tb\nc "é" \u0000',
      session: 'a text\twith a tab',
      userAgent: 'OpenAI/Python 2.0',
      attempts: [
        { deployment: 'a/b', ms: 3, result: 'rate_limited' },
        { deployment: 'c/d', ms: 4, result: 'ok' },
      ],
    })
    store(files, [odd, recordAt(NOON - 1)])
    expect(all(files)).toHaveLength(2)
    const row = files.find(odd.requestId.slice(4))!
    expect(row.error).toBe('a?b?c "?" ?')
    expect(row.session).toMatch(/^[0-9a-f]{16}$/)
    expect(row.agent).toBe('openai-python')
    expect(row.attempts).toBe('a/b 3 rate_limited;c/d 4 ok')
    expect(row.prompt_tokens).toBeNull()
  })
})

describe('the files of the request log', () => {
  it('are one per day, removed when they are old or too large, but never that of today', async () => {
    const path = await folder({})
    let now = NOON
    const files = open(path, KEEP_ALL, () => now)
    const days = () => readdir(path).then((names) => names.filter((name) => name.endsWith('.db')))
    for (let day = 0; day < 5; day++, now += DAY_MS) store(files, [recordAt(now)])
    now -= DAY_MS
    expect(await days()).toHaveLength(5)

    const young = open(path, { keep: 2, size: 2 ** 40 }, () => now)
    young.trim()
    expect(await days()).toEqual(['2026-11-25.db', '2026-11-26.db', '2026-11-27.db'])
    const small = open(path, { keep: 2, size: 1 }, () => now)
    expect(store(small, [recordAt(now)])).toMatchObject({
      rows: 0,
      dropped: { disk: 1 },
      fault: expect.stringContaining('log.size'),
    })
    expect(await days()).toEqual(['2026-11-27.db'])
    expect((await readdir(path)).filter((name) => !name.startsWith('2026-11-27'))).toEqual([])
  })

  it('take no calls of a day that was removed', async () => {
    const files = open(await folder({}))
    const old = recordAt(NOON - 3 * DAY_MS)
    expect(store(files, [old, recordAt(NOON)])).toMatchObject({ rows: 1, dropped: { late: 1 } })
  })

  it('are of their owner alone', async () => {
    const path = join(await folder({}), 'log')
    store(open(path), [recordAt(NOON)])
    const { stat } = await import('node:fs/promises')
    expect((await stat(path)).mode & 0o777).toBe(0o700)
    expect((await stat(join(path, '2026-11-23.db'))).mode & 0o777).toBe(0o600)
  })

  it('that cannot be written are said once it is tried, and tried again later', async () => {
    const path = join(await folder({ file: '' }), 'file')
    let now = NOON
    const files = open(join(path, 'log'), KEEP_ALL, () => now)
    const failed = store(files, [recordAt(now)])
    expect(failed).toMatchObject({ rows: 0, dropped: { disk: 1 } })
    expect(failed.fault).toContain('cannot be written')
    await import('node:fs/promises').then(({ rm }) => rm(path))
    await mkdir(path)
    expect(store(files, [recordAt(now)])).toMatchObject({ dropped: { disk: 1 } })
    now += 31_000
    expect(store(files, [recordAt(now)])).toMatchObject({ rows: 1, dropped: {} })
  })

  it('are found again by the next process, and a damaged one hides its own calls alone', async () => {
    const path = await folder({})
    const before = recordAt(NOON - DAY_MS)
    const first = open(path)
    store(first, [before, recordAt(NOON)])
    first.close()
    const second = open(path)
    expect(all(second)).toHaveLength(2)
    second.close()
    await writeFile(join(path, '2026-11-22.db'), 'not a database at all, but a text'.repeat(200))
    const third = open(path)
    expect(store(third, [recordAt(NOON + 1)])).toMatchObject({ rows: 1 })
    const page = third.list({ filters: {}, limit: 10 })
    expect(page).toMatchObject({ rows: [{}, {}], unreadable: ['2026-11-22'] })
    expect(() => third.find(before.requestId.slice(4))).toThrow()
  })

  it('have no calls while they are empty, and are not damaged', async () => {
    const path = await folder({})
    const files = open(path)
    store(files, [recordAt(NOON)])
    await writeFile(join(path, '2026-11-22.db'), '')
    const page = files.list({ filters: {}, limit: 10 })
    expect(page).toMatchObject({ rows: [{}], unreadable: [] })
    expect(files.find(recordAt(NOON - DAY_MS).requestId.slice(4))).toBeUndefined()
  })

  it('answer a question about many calls a part at a time', async () => {
    const path = await folder({})
    const files = open(path)
    const many = Array.from({ length: 12_000 }, (_, i) => recordAt(NOON - i))
    store(files, [...many, recordAt(NOON - 13_000, { userAgent: 'curl/8' })])
    expect(all(files, { filters: { agent: ['curl'] } })).toHaveLength(1)
    const file = new DatabaseSync(join(path, '2026-11-23.db'), { readOnly: true })
    expect(file.prepare('SELECT count(*) AS n FROM call').get()).toEqual({ n: 12_001 })
    file.close()
  })
})
