import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ConfigError, Unavailable } from '../../../src/errors/errors.ts'
import { MAX_AMOUNT } from '../../../src/money/money.ts'
import { SCHEMA } from '../../../src/state/ledger/ledger.ts'
import { checkVersion } from '../../../src/state/sqlite/file.ts'
import {
  announceGateway,
  judgeFileSystem,
  openFolder,
  runningGateway,
} from '../../../src/state/sqlite/folder.ts'
import { Store, type StoreCommand, type WriteName } from '../../../src/state/sqlite/store.ts'
import { folder } from '../../_folder.ts'
import {
  admit,
  charge,
  collect,
  DAY,
  integrityOf,
  KEY,
  LIMITS,
  NOON,
  open,
  openPaid,
  settlement,
  WRITER,
} from './_engine.ts'
import { holdOf } from '../_hold.ts'
import { toSchema8 } from './_older.ts'

describe('a disk that cannot be written', () => {
  it('admits nothing, keeps settlements, and writes them when it can', async () => {
    const { ledger, records, path, logged } = await openPaid()
    const running = admit(ledger, 'req_1', 5n)
    const late = admit(ledger, 'req_2', 5n)
    const db = new DatabaseSync(join(path, 'ledger.db'))
    onTestFinished(() => db.close())
    db.exec('BEGIN IMMEDIATE')

    let state = 'running'
    const settled = ledger.settle(settlement(running.request, 40n)).then((answer) => {
      state = 'settled'
      return answer
    })
    await expect.poll(() => ledger.health().ok).toBe(false)
    expect(ledger.health()).toMatchObject({ outbox: 1, oldestMs: expect.any(Number) })
    const entry = { ...KEY, request: 'req_3', revision: 1 }
    const freeTier = { rpm: 1, concurrency: 1 }
    expect(() => ledger.enter({ ...entry, freeTier })).toThrow(Unavailable)
    const hold = { ...KEY, request: 'req_1', at: NOON, ...holdOf(0n), free: false }
    expect(() => ledger.hold(hold)).toThrow(Unavailable)
    const topUp = { kind: 'top-up' as const, account: 'acct', amount: 1n, reference: 'more' }
    await expect(ledger.book(topUp)).rejects.toThrow(Unavailable)
    await expect(ledger.limits('acct', 'key', LIMITS, 2)).rejects.toThrow(Unavailable)
    await expect(records.put('account:acct', {})).rejects.toThrow(Unavailable)
    const alsoSettled = ledger.settle(settlement(late.request, 2n))
    expect(await collect(ledger.usage('acct'))).toHaveLength(1)
    expect(state).toBe('running')
    expect(logged.join()).toContain('no calls are admitted')

    db.exec('ROLLBACK')
    expect(await settled).toMatchObject({ state: 'charged', cost: 40n })
    expect(await alsoSettled).toMatchObject({ state: 'charged', cost: 2n })
    expect(ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
    expect(ledger.enter({ ...entry, freeTier })).toMatchObject({ ok: true })
    expect(await collect(ledger.usage('acct'))).toHaveLength(3)
    expect(await ledger.verify()).toEqual([])
  })

  it('logs settlements that are not written when the ledger is closed', async () => {
    const { ledger, path, logged } = await openPaid()
    const db = new DatabaseSync(join(path, 'ledger.db'))
    onTestFinished(() => db.close())
    db.exec('BEGIN IMMEDIATE')
    const settled = ledger.settle(settlement('req_1', 40n))
    await expect(ledger.close()).rejects.toThrow('1 settlement could not be booked')
    expect(await settled).toMatchObject({ state: 'deferred', cost: 40n })
    expect(logged.join()).toContain('closed with 1 entries unwritten')
    const [, row] = /settlement not booked \(.*?\): (.*)$/m.exec(logged.join('\n'))!
    expect(JSON.parse(row!)).toMatchObject({
      kind: 'usage',
      request: 'req_1',
      cost: '0.00000000004',
    })
  })

  it('stores nothing of a batch for which there was no space', async () => {
    const { db, close } = openFolder(await folder({}))
    onTestFinished(close)
    const store = new Store(db)
    const body = 'x'.repeat(1000)
    const batch = Array.from({ length: 100 }, (_, i) => charge(`req_${i}`, 1n, { body }))
    db.exec('PRAGMA max_page_count = 20')
    expect(() => store.commit(batch)).toThrow('full')
    expect(store.rows('acct', Infinity, 1000)).toEqual([])
    expect(store.load(DAY).size).toBe(0)
    db.exec('PRAGMA max_page_count = 10000')
    const numbers = [expect.any(Number), expect.any(Number)]
    expect(store.commit(batch)).toEqual(batch.map(() => [1n, ...numbers]))
    expect(store.rows('acct', Infinity, 1000)).toHaveLength(100)
  })
})

it('a ledger of an older version gets the sums of what was paid in', async () => {
  const path = await folder({})
  const first = await open(path)
  const paid = [5n, 4n * 10n ** 18n - 7n, 10n ** 18n + 1n]
  for (const [i, amount] of paid.entries()) {
    const topUp = {
      kind: 'top-up' as const,
      account: `acct_${i % 2}`,
      amount,
      reference: `invoice ${i}`,
    }
    await first.ledger.book(topUp)
  }
  await first.ledger.book({ kind: 'top-up', account: 'acct_1', amount: 1n, reference: 'invoice 4' })
  await first.ledger.settle({ ...settlement('req', 4n * 10n ** 18n), account: 'acct_1' })
  await first.ledger.book({
    kind: 'top-up',
    account: 'acct_1',
    amount: 10n ** 18n,
    reference: 'invoice 5',
  })
  await first.ledger.close()
  const db = new DatabaseSync(join(path, 'ledger.db'), { readBigInts: true })
  const paidIn = () =>
    db.prepare('SELECT id, paid_in_usd, paid_in_pico FROM account ORDER BY id').all()
  const stored = paidIn()
  expect(stored).toEqual([
    { id: 'acct_0', paid_in_usd: 1_000_000n, paid_in_pico: 6n },
    { id: 'acct_1', paid_in_usd: 4_999_999n, paid_in_pico: 10n ** 12n - 6n },
  ])
  toSchema8(db)
  db.exec(
    `ALTER TABLE account DROP COLUMN paid_in; DROP TABLE identity; DROP TABLE audit;
      DELETE FROM spend WHERE key = '@account'; UPDATE meta SET version = 2`,
  )
  await rm(join(path, 'owner.db'))
  const second = await open(path)
  expect(paidIn()).toEqual(stored)
  db.close()
  expect(schemaOf(path)).toEqual(schemaOf((await open()).path))
  expect(await second.ledger.verify()).toEqual([])
})

it('a ledger of an older version keeps its rows, and takes adjustments', async () => {
  const path = await folder({})
  const first = await openPaid(path)
  await first.ledger.settle(settlement('req_1', 5n))
  await first.ledger.settle(settlement('req_2', 7n))
  const rows = await collect(first.ledger.usage('acct'))
  await first.ledger.close()
  const db = new DatabaseSync(join(path, 'ledger.db'))
  toSchema8(db)
  const text = (sql: string) => String(db.prepare(sql).get()!.sql)
  const schema = text(`SELECT sql FROM sqlite_schema WHERE name = 'usage'`)
  const older = schema.replace(/"usage"/, 'usage').replace(`'adjust', `, '')
  expect(older).not.toBe(schema)
  db.exec(`ALTER TABLE usage RENAME TO newer; ${older};
    INSERT INTO usage SELECT * FROM newer WHERE request <> 'req_1';
    INSERT INTO usage SELECT * FROM newer WHERE request = 'req_1';
    DROP TABLE newer;
    CREATE INDEX usage_account ON usage (account);
    CREATE INDEX usage_day ON usage (day) WHERE kind = 'usage';
    CREATE INDEX usage_orphan ON usage (kind) WHERE kind = 'orphan';
    ALTER TABLE identity DROP COLUMN folded_to;
    DROP TABLE audit; DELETE FROM spend WHERE key = '@account'; UPDATE meta SET version = 4`)
  db.close()
  const { ledger } = await open(path)
  expect(await collect(ledger.usage('acct'))).toEqual(rows)
  const again = await ledger.settle(settlement('req_1', 5n))
  expect(again).toMatchObject({ state: 'duplicate', cost: 5n })
  const adjustment = {
    kind: 'adjust' as const,
    account: 'acct',
    amount: 12n,
    reference: 'ticket',
    note: 'goodwill',
  }
  expect(await ledger.book(adjustment)).toMatchObject({ state: 'charged', cost: -12n })
  expect((await collect(ledger.usage('acct')))[0]!.seq).toBe(rows[0]!.seq + 1)
  expect(await ledger.verify()).toEqual([])
  expect(integrityOf(path)).toBe('ok')
  const fresh = await open()
  expect(schemaOf(path)).toEqual(schemaOf(fresh.path))
})

/** The tables and indexes of a ledger, as SQLite has their text. */
function schemaOf(path: string): unknown {
  using db = new DatabaseSync(join(path, 'ledger.db'))
  return db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY type, name').all()
}

it('writes of a batch have the sums of those before them', async () => {
  const { db, close } = openFolder(await folder({}))
  onTestFinished(close)
  const store = new Store(db)
  const topUp = (reference: string, amount: bigint): StoreCommand<'book'> => {
    return { name: 'book', args: [{ kind: 'top-up', account: 'acct', reference, amount }, NOON] }
  }
  const batch = [
    topUp('first', MAX_AMOUNT),
    charge('req_1', 5n),
    charge('req_1', 6n),
    charge('req_2', 2n),
    topUp('second', 7n),
  ]
  expect(store.commit(batch)).toMatchObject([
    { fresh: true },
    [5n, 2, 1],
    { before: 5n },
    [2n, 3, 2],
    { fresh: true },
  ])
  expect([...store.load(DAY)]).toMatchObject([['acct', { balance: MAX_AMOUNT }]])
  expect(store.commit([charge('req_3', 1n), topUp('third', 2n)])[1]).toMatchObject({ fresh: true })
  expect([...store.load(DAY)]).toMatchObject([['acct', { balance: MAX_AMOUNT + 1n }]])
})

it('an illegal write is refused, and the rest of its batch is stored', async () => {
  const { db, close } = openFolder(await folder({}))
  onTestFinished(close)
  const store = new Store(db)
  const most = 4n * 10n ** 18n
  const batch: StoreCommand<WriteName>[] = [
    ...['req_1', 'req_2', 'req_3'].map((request) => charge(request, most)),
    { name: 'orphan', args: ['req_4', 'acct', 'key', 0.5] },
    charge('req_6', 2n ** 64n),
    {
      name: 'book',
      args: [{ kind: 'top-up', account: 'other', reference: 'x', amount: most + 1n }, NOON],
    },
    charge('req_5', 7n, { account: 'other' }),
  ]
  const outcomes = store.commit(batch)
  const refused = { refused: expect.any(String) }
  const [first, second, third] = [4, 5, 6]
  expect(outcomes).toEqual([
    [most, first, 0],
    [most, second, first],
    [most, third, second],
    refused,
    refused,
    refused,
    [7n, expect.any(Number), 0],
  ])
  expect(store.rows('acct', Infinity, 9).map(({ request }) => request)).toEqual([
    'req_3',
    'req_2',
    'req_1',
  ])
  expect([...store.load(DAY)]).toMatchObject([
    ['acct', { balance: -3n * most, paid: false, paidIn: 0n }],
    ['other', { balance: -7n, paid: false, paidIn: 0n }],
  ])
})

describe('a folder', () => {
  it('is for its owner only', async () => {
    const { path } = await openPaid(join(await folder({}), 'new', 'state'))
    expect(statSync(path).mode & 0o777).toBe(0o700)
    for (const file of ['ledger.db', 'ledger.db-wal', 'owner.db']) {
      expect([file, statSync(join(path, file)).mode & 0o777]).toEqual([file, 0o600])
    }
  })

  it('has one owner at a time, in this process', async () => {
    const { path, ledger } = await open()
    const refused = refusalOf(path)
    expect(await refused).toMatch(
      /belongs to a process that is running.*several gateways need Redis/,
    )
    await ledger.close()
    await open(path)
  })

  it('has one owner at a time, among processes', async () => {
    const path = await folder({})
    const child = spawn(process.execPath, [WRITER, path, '0'])
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    child.stdout.resume()
    const sentence = await refusalOf(path)
    expect(sentence).toBe(
      `${path} belongs to a process that is running: one process owns such a folder, several gateways need Redis.`,
    )
    child.kill('SIGKILL')
    await once(child, 'exit')
    await open(path)
  })

  it('names the gateway that owns it, while that runs', async () => {
    const { path, ledger } = await open()
    const gateway = { url: 'http://127.0.0.1:9', pid: 7, started_at: '2026-11-29T07:12:00Z' }
    announceGateway(path, { ...gateway, version: '0' })
    expect(statSync(join(path, 'gateway.json')).mode & 0o777).toBe(0o600)
    expect(runningGateway(path)).toMatchObject(gateway)
    expect(await refusalOf(path)).toMatch(
      /^A gateway runs here already: http:\/\/127\.0\.0\.1:9 \(process 7, since 2026-11-29 07:12 UTC/,
    )
    await ledger.close()
    expect(runningGateway(path)).toBeUndefined()
    await open(path)
  })

  it('has to be a folder', async () => {
    const path = await folder({ file: '' })
    expect(await refusalOf(join(path, 'file'))).toContain('cannot be used: EEXIST')
    expect(await refusalOf(join(path, 'file', 'x'))).toContain('cannot be used: ENOTDIR')
  })

  it('is not below node_modules, which the next installation deletes', async () => {
    const path = join(await folder({}), 'node_modules/sluicegate/data')
    expect(await refusalOf(path)).toMatch(/is below node_modules.* --data or SLUICEGATE_DATA\.$/)
    expect(existsSync(path)).toBe(false)
  })

  it('holds nothing of something else', async () => {
    const path = await folder({ 'novel.txt': 'Chapter one', '.hidden': '' })
    expect(await refusalOf(path)).toMatch(
      /holds files of something else, such as novel\.txt\..*--data/,
    )
    expect(readdirSync(path).sort()).toEqual(['.hidden', 'novel.txt'])
    mkdirSync(join(path, 'cache'))
    mkdirSync(join(path, 'log'))
    expect(await refusalOf(path)).toContain('holds files of something else, such as novel.txt.')
    rmSync(join(path, 'novel.txt'))
    mkdirSync(join(path, 'lost+found'))
    await open(path)
  })

  it.runIf(process.getuid?.() !== 0)('has to be writable', async () => {
    const path = await folder({})
    chmodSync(path, 0o500)
    onTestFinished(() => chmodSync(path, 0o700))
    expect(await refusalOf(path)).toContain('cannot be used: EACCES')
  })

  it('is refused with a file that is not a database, and accepted once that is removed', async () => {
    const path = await folder({ 'ledger.db': 'not a database, whatever it says '.repeat(100) })
    expect(await refusalOf(path)).toContain('ledger.db is damaged or not a database')
    await rm(join(path, 'ledger.db'))
    await open(path)
  })

  it('is refused with a file that is damaged inside', async () => {
    const { path, ledger } = await openPaid()
    await ledger.close()
    const file = join(path, 'ledger.db')
    await writeFile(file, Buffer.alloc(4096 * 8, 0x7f), { flag: 'r+', flush: true })
    expect(await refusalOf(path)).toContain('damaged or not a database')
  })

  it('is refused with a foreign database, and with one of a newer version', async () => {
    const path = await folder({})
    const db = new DatabaseSync(join(path, 'ledger.db'))
    db.exec('CREATE TABLE other (x)')
    expect(await refusalOf(path)).toContain('is a database, but not a ledger')
    db.exec('DROP TABLE other; CREATE TABLE meta (version INTEGER); INSERT INTO meta VALUES (99)')
    // Both engines have one number.
    expect(await refusalOf(path)).toContain(`its schema is 99, the newest known here ${SCHEMA}`)
    db.close()
  })

  it('is refused on a network file system, with a warning where that is hidden', () => {
    for (const type of [0x6969, 0x517b, 0xfe534d42, 0xff534d42, 0xff534d42 - 2 ** 32]) {
      expect(() => judgeFileSystem('/srv/state', type)).toThrow(
        /network file system \((NFS|SMB|CIFS)\)/,
      )
    }
    expect(judgeFileSystem('/srv/state', 0x65735546)).toContain('is on FUSE')
    expect(judgeFileSystem('/srv/state', 0xef53)).toBeUndefined()
  })

  it('is refused with a version of SQLite that may lose transactions', () => {
    for (const version of ['3.51.2', '3.50.9', '2.99.99']) {
      expect(() => checkVersion(version)).toThrow(`SQLite ${version} in this Node.js`)
    }
    for (const version of ['3.51.3', '3.52.0', '4.0.0']) checkVersion(version)
  })
})

/** The message with which a folder is refused. */
async function refusalOf(path: string): Promise<string> {
  const refused = await open(path).catch((error: unknown) => error)
  if (!(refused instanceof ConfigError)) throw refused
  expect(refused.issues).toMatchObject([{ path: 'state.path' }])
  return refused.issues[0]!.message
}
