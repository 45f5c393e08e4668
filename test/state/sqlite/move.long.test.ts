/** A process that moves a ledger to the schema of this release is killed, at every step of the move and at every length of its log. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { folder } from '../../_folder.ts'
import { DAY, NOON, integrityOf, open, openPaid, settlement } from './_engine.ts'
import { toSchema8 } from './_older.ts'

const FILE_MODULE = pathToFileURL(join(import.meta.dirname, '../../../src/state/sqlite/file.ts'))
const LATER = NOON + 5 * 86_400_000
const CACHE_PAGES = 10
const [ACCOUNTS, ROWS, KILLS] = [200, 4500, 6]

/**
 * Moves a ledger, and kills itself where a kill is due: before a step that SQLite prepares, or as soon as the log has a length,
 * which a thread sees while the move runs. The small cache has SQLite write pages into the log before the move is committed.
 */
const MOVER = `
  import { statSync } from 'node:fs'
  import { Worker } from 'node:worker_threads'
  import { openDatabase } from ${JSON.stringify(FILE_MODULE.href)}
  const [file, what, most] = process.argv.slice(1)
  if (what === 'bytes') {
    const watching = new Int32Array(new SharedArrayBuffer(4))
    new Worker(\`
      const { statSync } = require('node:fs')
      const { workerData: { file, most, watching } } = require('node:worker_threads')
      const size = () => statSync(file + '-wal', { throwIfNoEntry: false })?.size ?? 0
      Atomics.store(watching, 0, 1)
      Atomics.notify(watching, 0)
      while (size() < most);
      process.kill(process.pid, 'SIGKILL')
    \`, { eval: true, execArgv: [], workerData: { file, most: Number(most), watching } })
    Atomics.wait(watching, 0, 0)
  }
  let steps = 0
  const db = openDatabase(file, (opened) => {
    opened.exec('PRAGMA cache_size = ${CACHE_PAGES}')
    opened.setAuthorizer(() => {
      steps++
      if (what === 'steps' && steps >= Number(most)) process.kill(process.pid, 'SIGKILL')
      return 0
    })
  })
  process.stdout.write(JSON.stringify({ steps, bytes: statSync(file + '-wal').size }), () => process.exit())
`

/** Moves the ledger of a folder. @returns what the move took, where it was not killed */
async function move(
  path: string,
  what = 'nothing',
  most = 0,
): Promise<{ steps: number; bytes: number } | undefined> {
  const args = ['--input-type=module', '-e', MOVER, join(path, 'ledger.db'), what, String(most)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [out] = await Promise.all([text(child.stdout), once(child, 'close')])
  if (child.signalCode === 'SIGKILL') return undefined
  expect(child.exitCode).toBe(0)
  return JSON.parse(out)
}

/** A ledger of schema 8 with rows of each kind, folded days, limits and records, two hundred accounts and two days. */
async function ledgerOfSchema8(): Promise<string> {
  let now = NOON
  const { path, ledger, records } = await openPaid(undefined, () => now)
  const of = (i: number) => ({ account: `acct_${i % ACCOUNTS}`, key: `key_${i % (2 * ACCOUNTS)}` })
  const book = (kind: 'top-up' | 'adjust', i: number) =>
    ledger.book({
      kind,
      account: of(i).account,
      amount: BigInt(10 ** 12 + i),
      reference: `${kind} ${i}`,
      note: 'a note',
    })
  const settle = (from: number, to: number, day: string) =>
    Promise.all(
      Array.from({ length: to - from }, (_, i) =>
        ledger.settle({
          ...settlement(`req_${from + i}`, BigInt(7 * (from + i)), day),
          ...of(from + i),
        }),
      ),
    )
  for (let i = 0; i < ACCOUNTS; i++) {
    await Promise.all([book('top-up', i), book('adjust', i)])
    const limits = { disabled: false, rpm: 60 + i, concurrency: 1 + i }
    await ledger.limits(of(i).account, of(i).key, limits, i + 1)
    await records.put(`key:${of(i).key}`, { name: `key ${i}` })
  }
  await settle(0, ROWS / 3, DAY)
  now = LATER
  expect(await ledger.fold(new Date(now))).toBe(ROWS / 3)
  await settle(ROWS / 3, ROWS, '20260520')
  await ledger.close()
  using db = new DatabaseSync(join(path, 'ledger.db'))
  toSchema8(db)
  return path
}

/** Everything that a ledger holds, by table. */
function contentsOf(path: string): unknown {
  using db = new DatabaseSync(join(path, 'ledger.db'), { readBigInts: true })
  const schema = db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY type, name').all()
  const tables = schema.filter(({ type }) => type === 'table')
  return {
    schema,
    rows: tables.map(({ name }) => [name, db.prepare(`SELECT * FROM ${name}`).all()]),
  }
}

/** How many rows the tables have that the move writes anew. */
function countsOf(path: string): unknown {
  using db = new DatabaseSync(join(path, 'ledger.db'))
  const tables = ['account', 'spend', 'usage', 'total', 'limits', 'record']
  return tables.map((name) =>
    db.prepare(`SELECT '${name}' AS name, count(*) AS n FROM ${name}`).get(),
  )
}

it('a move that is killed anywhere is finished by the next start, and nothing is lost or doubled', async () => {
  const older = await ledgerOfSchema8()
  const copy = async () => {
    const path = join(await folder({}), 'ledger')
    cpSync(older, path, { recursive: true })
    return path
  }
  const whole = await copy()
  const { steps, bytes } = (await move(whole))!
  // Several times the cache: most of it is in the log before the move is committed.
  expect(bytes).toBeGreaterThan(5 * CACHE_PAGES * 4096)
  const moved = contentsOf(whole)
  expect(countsOf(whole)).toEqual(countsOf(older))

  const kills = Array.from({ length: KILLS }, (_, i) => {
    const share = (i + Math.random()) / KILLS
    return [
      { what: 'steps', most: Math.ceil(share * steps) },
      { what: 'bytes', most: Math.ceil(share * bytes) },
    ]
  }).flat()
  const versions = new Set<number>()
  for (const { what, most } of kills) {
    const path = await copy()
    const finished = await move(path, what, most)
    // A thread that sees the last bytes of the log may kill too late.
    if (what === 'steps') expect(finished).toBeUndefined()
    versions.add(await versionOf(path))
    const { ledger, logged } = await open(path, () => LATER)
    expect(await ledger.verify()).toEqual([])
    await ledger.close()
    expect([what, most, contentsOf(path)]).toEqual([what, most, moved])
    expect(integrityOf(path)).toBe('ok')
    expect(logged.join()).not.toMatch(/error|warn/)
  }
  expect(versions).toContain(8)
})

/** The schema that a ledger was left with, of a copy: to open it would finish what the next start has to. */
async function versionOf(path: string): Promise<number> {
  const copy = join(await folder({}), 'ledger')
  cpSync(path, copy, { recursive: true })
  using db = new DatabaseSync(join(copy, 'ledger.db'))
  return Number(db.prepare('SELECT version FROM meta').get()!.version)
}
