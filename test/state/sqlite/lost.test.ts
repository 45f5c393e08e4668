/** A ledger file that is removed, replaced, emptied or damaged while a gateway uses it. */
import { existsSync, readdirSync } from 'node:fs'
import {
  copyFile,
  open as openFile,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { LostState, Unavailable } from '../../../src/errors/errors.ts'
import type { SqliteLedger } from '../../../src/state/sqlite/engine.ts'
import { openReader } from '../../../src/state/sqlite/reader.ts'
import { checkPages, openHistory } from '../../../src/state/sqlite/worker-client.ts'
import { RescueFile } from '../../../src/state/sqlite/rescue.ts'
import { folder } from '../../_folder.ts'
import * as cli from '../../_cli.ts'
import {
  admit,
  collect,
  integrityOf,
  KEY,
  open,
  openPaid,
  settlement,
  type Opened,
} from './_engine.ts'

/** Settles until the ledger is lost. @returns what was acknowledged, by request, and the reason of the loss */
async function underLoad({ ledger }: Opened, damage: () => Promise<void>) {
  const acknowledged = new Map<string, bigint>()
  const now = { lost: false }
  const loss = ledger.lost.finally(() => (now.lost = true))
  const settle = async (writer: number) => {
    for (let i = 0; !now.lost; i++) {
      // Some calls come between two looks at the file; a busy loop would show no more.
      await setTimeout(20)
      const { state, cost } = await ledger.settle(settlement(`req_${writer}_${i}`, BigInt(i + 1)))
      expect(state).toBe('charged')
      acknowledged.set(`req_${writer}_${i}`, cost)
      if (i === 20 && writer === 0) await damage()
    }
  }
  const running = admit(ledger, 'running', 5n)
  await Promise.all([0, 1, 2].map(settle))
  const freeTier = { rpm: 1, concurrency: 1 }
  const entry = { ...KEY, request: 'req_late', revision: 1, freeTier }
  expect(() => ledger.enter(entry)).toThrow(Unavailable)
  await expect(ledger.limits('acct', 'key', { ...freeTier, disabled: false }, 2)).rejects.toThrow(
    Unavailable,
  )
  expect(ledger.health().ok).toBe(false)
  // A call that was running can still be charged.
  expect(await ledger.settle(settlement(running.request, 7n))).toMatchObject({ state: 'charged' })
  acknowledged.set(running.request, 7n)
  return { acknowledged, reason: await loss }
}

async function costsOf(ledger: SqliteLedger): Promise<Map<string, bigint>> {
  const rows = await collect(ledger.usage('acct'))
  return new Map(rows.filter(({ kind }) => kind === 'usage').map((row) => [row.request, row.cost]))
}

const lossOf = (ledger: SqliteLedger) =>
  ledger.close().then(
    () => 'none',
    (error: unknown) => {
      expect(error).toBeInstanceOf(LostState)
      return (error as Error).message
    },
  )

describe('a ledger whose file leaves its place', () => {
  it.each([
    ['removed', (path: string) => rm(join(path, 'ledger.db'))],
    [
      'removed',
      async (path: string) => {
        for (const part of ['', '-wal', '-shm']) await rm(join(path, `ledger.db${part}`))
      },
    ],
    ['removed', (path: string) => rename(join(path, 'ledger.db'), join(path, 'elsewhere.db'))],
    ['removed', (path: string) => rm(path, { recursive: true })],
    [
      'replaced',
      async (path: string) => {
        const other = await openPaid()
        await other.ledger.close()
        await rename(join(other.path, 'ledger.db'), join(path, 'ledger.db'))
      },
    ],
  ])('has every acknowledged cost in a copy: it was %s', async (what, damage) => {
    const opened = await openPaid()
    const { ledger, path, logged } = opened
    const file = join(path, 'ledger.db')
    const { acknowledged, reason } = await underLoad(opened, () => damage(path))
    expect(reason).toBe(`${file} was ${what}`)
    expect(logged.join('\n')).toContain(`the ledger is lost, the gateway ends: ${reason}`)
    const loss = await lossOf(ledger)
    const [, copy] = / while the gateway used it; (\S+ledger\.rescued-\d+\.db) has all of it$/.exec(
      loss,
    )!
    expect(readdirSync(path).filter((name) => /wal|shm/.test(name))).toEqual([])

    const refused = (await open(path).catch((error: unknown) => error)) as Error
    expect(refused.message).toContain(copy)
    await rename(copy!, file)
    const again = await open(path)
    expect(await costsOf(again.ledger)).toEqual(acknowledged)
    expect(await again.ledger.verify()).toEqual([])
    expect(again.logged).toEqual([])
    await again.ledger.close()
    expect(integrityOf(path)).toBe('ok')
  })
})

it('threads beside a ledger read no file that has taken its place', async () => {
  const { ledger, path } = await openPaid()
  const [file, { signal }] = [join(path, 'ledger.db'), new AbortController()]
  const { ino: inode } = await stat(file)
  const other = await openPaid()
  await other.ledger.close()
  await rename(join(other.path, 'ledger.db'), file)
  // It would find no damage in the other one, and empty the index of the log of the first.
  expect(await checkPages(file, inode, signal)).toBe(undefined)
  const history = await openHistory(file, inode, signal)
  await expect(history.accounts()).rejects.toThrow('was replaced')
  history.close()
  expect(() => openReader(file, inode)).toThrow('was replaced')
  expect(await ledger.settle(settlement('req_1', 1n))).toMatchObject({ state: 'charged' })
  await lossOf(ledger)
})

/** Writes random bytes over the middle of a file, over which a gateway has no lock. */
async function overwrite(file: string): Promise<void> {
  const target = await openFile(file, 'r+')
  const { size } = await target.stat()
  await target.write(Buffer.alloc(size - 8192, 0xa5), 0, size - 8192, 8192)
  await target.sync()
  await target.close()
}

describe('a ledger that is damaged while it is used', () => {
  it.each([
    ['emptied', (file: string) => truncate(file, 0)],
    ['overwritten', overwrite],
  ])('writes what is charged afterwards as lines to import: %s', async (_, damage) => {
    const path = await folder({})
    const first = await openPaid(path)
    const before = Array.from({ length: 300 }, (_, i) => settlement(`first_${i}`, 1n))
    await Promise.all(before.map((call) => first.ledger.settle(call)))
    await first.ledger.close()
    const file = join(path, 'ledger.db')
    const copy = join(await folder({}), 'ledger.db')
    await copyFile(file, copy)
    const opened = await open(path)
    const { acknowledged } = await underLoad(opened, async () => {
      await damage(file)
      // Pages that are in memory hide the damage. What reads the file finds it.
      if (existsSync(file)) await opened.ledger.verify().catch(() => {})
    })
    const loss = await lossOf(opened.ledger)
    expect(loss).toMatch(
      /^the ledger is damaged: .*; settlements are in \S+rescue\.jsonl, for "ledger import"/,
    )
    const lines = (await readFile(join(path, 'rescue.jsonl'), 'utf8')).trimEnd().split('\n')
    const rescued = lines.slice(1).map((line) => JSON.parse(line))
    expect(rescued.map(({ request }) => request)).toContain('running')

    const target = await folder({})
    await copyFile(copy, join(target, 'ledger.db'))
    const args = ['ledger', 'import', join(path, 'rescue.jsonl'), '--data', target]
    for (const added of [rescued.length, 0]) {
      const { code, out, err } = await cli.call(args)
      expect([code, err]).toEqual([0, ''])
      expect(out).toContain(`${added} were new. Every sum equals its rows.`)
    }
    const restored = await open(target)
    const costs = await costsOf(restored.ledger)
    for (const { request } of rescued) expect(costs.get(request)).toBe(acknowledged.get(request))
  })

  it('is found although its log would fill the emptied file again', async () => {
    const { ledger, records, path } = await openPaid()
    const names = Array.from({ length: 300 }, (_, i) => `req_${i}`)
    await Promise.all(names.map((name) => ledger.settle(settlement(name, 1n))))
    // Ten of them make the log so long that it is moved into the file.
    const write = async () => {
      for (let i = 0; i < 12; i++) await records.put('large', { text: `${i}`.repeat(900_000) })
    }
    const file = join(path, 'ledger.db')
    await write()
    expect((await stat(file)).size).toBeGreaterThan(900_000)
    await truncate(file, 0)
    await write().catch(() => {})
    expect(await ledger.lost).toBe(`${file} was emptied`)
  })

  it('is found by the check at the start, which ends the gateway', async () => {
    const { ledger, path } = await openPaid()
    const calls = Array.from({ length: 300 }, (_, i) => settlement(`req_${i}`, 1n))
    await Promise.all(calls.map((call) => ledger.settle(call)))
    await ledger.close()
    const db = new DatabaseSync(join(path, 'ledger.db'))
    const { rootpage } = db
      .prepare(`SELECT rootpage FROM sqlite_schema WHERE name = 'usage_orphan'`)
      .get()!
    db.close()
    // A page that no query of a start reads.
    const target = await openFile(join(path, 'ledger.db'), 'r+')
    await target.write(Buffer.alloc(4096, 0xa5), 0, 4096, (Number(rootpage) - 1) * 4096)
    await target.close()
    const second = await open(path)
    expect(await second.ledger.lost).not.toBe('')
    expect(second.logged.join('\n')).toContain('the ledger is lost, the gateway ends: ')
    await second.ledger.settle(settlement('req_late', 1n))
    expect(await lossOf(second.ledger)).toContain('rescue.jsonl')
    expect(await readFile(join(path, 'rescue.jsonl'), 'utf8')).toContain('"request":"req_late"')
  })
})

describe('lines of rescued settlements', () => {
  it('go on after a line that was cut off, and are imported without it', async () => {
    const path = join(await folder({}), 'rescue.jsonl')
    const header = '{"kind":"rescue","version":1}\n'
    for (const torn of ['', '{"kind":"res', `${header}{"kind":"usage","acc`]) {
      await writeFile(path, torn)
      const file = new RescueFile(path)
      file.append(settlement('req_1', 40n))
      file.append(settlement('req_2', 2n))
      file.close()
      const text = await readFile(path, 'utf8')
      expect(text.startsWith(header)).toBe(true)
      expect(text.split('\n')).toHaveLength(4)
    }
    await writeFile(path, '{"kind":"usage","account":"ac', { flag: 'a' })
    const data = await folder({})
    const imported = await cli.call(['ledger', 'import', path, '--data', data])
    expect(imported).toMatchObject({ code: 0, err: '' })
    expect(imported.out).toContain('2 were new')
    await writeFile(path, '\n{}\n', { flag: 'a' })
    const { code, err } = await cli.call(['ledger', 'import', path, '--data', data])
    expect([code, err]).toEqual([1, `${path}, line 4: expected a JSON object.\n`])
  })
})
