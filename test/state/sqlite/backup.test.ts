import { existsSync, statSync } from 'node:fs'
import { copyFile, mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { copyLedger } from '../../../src/state/sqlite/worker-client.ts'
import { folder } from '../../_folder.ts'
import { collect, integrityOf, NOON, open, openPaid, settlement } from './_engine.ts'

const DAY_MS = 86_400_000
const { signal } = new AbortController()

describe('dated copies of a ledger', () => {
  it('have it as of one moment, are made while it is in use and can be opened', async () => {
    const { ledger: first, path } = await openPaid()
    await first.settle(settlement('req_before', 40n))
    await first.close()
    const { ledger } = await open(path, undefined, 2)
    const copy = join(path, 'copies', 'ledger-20260515.db')
    let settled = 0
    const settle = async (writer: number) => {
      for (let i = 0; i < 100 || !existsSync(copy); i++) {
        await setTimeout(10)
        await ledger.settle(settlement(`req_${writer}_${i}`, 1n))
        settled++
      }
    }
    await Promise.all([1, 2, 3].map(settle))
    expect(statSync(copy).mode & 0o777).toBe(0o600)
    expect(await readdir(join(path, 'copies'))).toEqual(['ledger-20260515.db'])
    const restored = await folder({})
    await copyFile(copy, join(restored, 'ledger.db'))
    const opened = await open(restored)
    const rows = await collect(opened.ledger.usage('acct'))
    expect(rows.map(({ request }) => request)).toContain('req_before')
    expect(await opened.ledger.verify()).toEqual([])
    expect((await collect(ledger.usage('acct'))).length).toBe(settled + 2)
    expect(integrityOf(path)).toBe('ok')
  })

  it('are one a day, and the oldest go', async () => {
    const path = await folder({})
    const copies = async () =>
      (await readdir(join(path, 'copies')).catch(() => [])).filter((name) => /\d/.test(name)).sort()
    const days = ['20260515', '20260515', '20260516', '20260517']
    for (const [i, day] of days.entries()) {
      const { ledger } = await open(path, () => NOON + (Number(day) - 20260515) * DAY_MS, 2)
      const kept = [...new Set(days.slice(0, i + 1))].slice(-2).map((day) => `ledger-${day}.db`)
      await expect.poll(copies).toEqual(kept)
      await ledger.close()
    }
  })

  it('stay when the ledger is damaged, which ends it', async () => {
    const { ledger, path } = await openPaid()
    const requests = Array.from({ length: 2000 }, (_, i) => settlement(`req_${i}`, 1n))
    await Promise.all(requests.map((one) => ledger.settle(one)))
    await ledger.close()
    const file = await readFile(join(path, 'ledger.db'))
    file.fill(0xff, file.length / 2, file.length / 2 + 4096)
    await writeFile(join(path, 'ledger.db'), file)
    const earlier = ['ledger-20260513.db', 'ledger-20260514.db']
    await mkdir(join(path, 'copies'))
    for (const name of earlier) await writeFile(join(path, 'copies', name), '')
    const { ledger: damaged } = await open(path, undefined, 2)
    expect(await damaged.lost).toMatch(/page/)
    await expect(damaged.close()).rejects.toThrow('the ledger is damaged')
    const { ino: inode } = await stat(join(path, 'ledger.db'))
    const copying = { folder: path, day: '20260515', keep: 2, signal }
    await expect(copyLedger({ ...copying, inode })).rejects.toThrow('the copy is damaged')
    await expect(copyLedger({ ...copying, inode: inode + 1 })).rejects.toThrow('was replaced')
    expect(await readdir(join(path, 'copies'))).toEqual(earlier)
  })

  it('are not made unless they are asked for', async () => {
    const { ledger, path } = await openPaid()
    expect(await ledger.verify()).toEqual([])
    await ledger.close()
    expect(await readdir(path)).not.toContain('copies')
  })
})
