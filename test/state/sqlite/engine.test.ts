import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LEASE_MS } from '../../../src/state/ledger/ledger.ts'
import { folder } from '../../_folder.ts'
import { ledgerConformance } from '../../conformance/ledger.ts'
import {
  admit,
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

const HOUR_MS = 3_600_000

// It decides by the same book as the ledger in memory, whose tests have the examples; `npm run test:processes` has them here too.
ledgerConformance(
  'sqlite',
  async (clock) => (await open(await folder({}), () => clock.now())).ledger,
  { only: 'walk' },
)

describe('the SQLite engine', () => {
  it('answers enter, hold and leave without a promise', async () => {
    const { ledger } = await openPaid()
    const lease = { ...KEY, request: 'req_1' }
    const freeTier = { rpm: 1, concurrency: 1 }
    const entered = ledger.enter({ ...lease, revision: 1, freeTier })
    expect(entered).toMatchObject({ ok: true, at: NOON, lease: NOON + LEASE_MS })
    const held = ledger.hold({ ...lease, at: NOON, ...holdOf(1n), free: false })
    expect(held).toEqual({ ok: true, day: DAY, billed: true, tight: false })
    expect(ledger.leave(lease)).toBeUndefined()
  })

  it('charges a held call at once, and answers when the charge is on disk', async () => {
    const { ledger } = await openPaid()
    const call = admit(ledger, 'req_1', 7n)
    const commits = ledger.commits
    const settled = ledger.settle(settlement(call.request, 5n))
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 5n })
    expect(ledger.commits).toBe(commits)
    expect(ledger.health()).toMatchObject({ ok: true, outbox: 1 })
    await settled
    expect(ledger.commits).toBe(commits + 1)
    expect(ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
  })

  it('never lends money before the file has accepted it', async () => {
    const { ledger } = await openPaid()
    await ledger.settle(settlement('req_1', 10n ** 13n - 1n))
    const again = ledger.settle(settlement('req_1', 5n))
    const topUp = ledger.book({ kind: 'top-up', account: 'acct', amount: 100n, reference: 'first' })
    expect(await ledger.account('acct')).toMatchObject({ balance: 1n })
    expect(await again).toMatchObject({ state: 'duplicate', cost: 10n ** 13n - 1n })
    expect(await topUp).toMatchObject({ state: 'duplicate', cost: -(10n ** 13n) })
    expect(await ledger.account('acct')).toMatchObject({ balance: 1n })
  })

  it('writes a thousand simultaneous settlements in a few batches', async () => {
    const { ledger } = await openPaid()
    const calls = Array.from({ length: 1000 }, (_, i) => admit(ledger, `req_${i}`))
    const commits = ledger.commits
    await Promise.all(calls.map(({ request }) => ledger.settle(settlement(request, 1n))))
    expect((ledger.commits - commits) / calls.length).toBeLessThanOrEqual(0.3)
    expect(await collect(ledger.usage('acct'))).toHaveLength(1001)
    expect(await ledger.verify()).toEqual([])
  })

  it('charges one of many that race for the same receipt', async () => {
    const { ledger } = await openPaid()
    admit(ledger, 'req_1', 9n)
    const costs = [40n, 41n, 42n, 43n]
    const settled = await Promise.all(costs.map((cost) => ledger.settle(settlement('req_1', cost))))
    const balance = 10n ** 13n - 40n
    expect(settled[0]).toEqual({ state: 'charged', cost: 40n, balance })
    for (const one of settled.slice(1)) {
      expect(one).toEqual({ state: 'duplicate', cost: 40n, balance })
    }
    expect(await ledger.verify()).toEqual([])
  })

  it('reverses an early charge for a request id that was used before', async () => {
    const { ledger } = await openPaid()
    await ledger.settle(settlement('req_1', 40n))
    admit(ledger, 'req_1')
    const balance = 10n ** 13n - 40n
    const settled = await ledger.settle(settlement('req_1', 1000n))
    expect(settled).toEqual({ state: 'duplicate', cost: 40n, balance })
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 40n, day: 40n, inFlight: 0 })
    expect(await ledger.verify()).toEqual([])
  })

  it('does not write limits again that are in force and on disk', async () => {
    const { ledger } = await openPaid()
    const { commits } = ledger
    await ledger.limits('acct', 'key', { ...LIMITS }, 1)
    await ledger.limits('acct', 'key', { ...LIMITS, disabled: true }, 0)
    expect(ledger.commits).toBe(commits)
    await ledger.limits('acct', 'key', { ...LIMITS, rpm: 5 }, 1)
    expect(ledger.commits).toBe(commits + 1)
  })

  it('reads a long history page by page', async () => {
    const { ledger } = await openPaid()
    const ids = Array.from({ length: 500 }, (_, i) => `req_${i}`)
    await Promise.all(ids.map((id) => ledger.settle(settlement(id, 1n))))
    const rows = await collect(ledger.usage('acct'))
    expect(rows.map(({ request }) => request)).toEqual([...ids.toReversed(), 'first'])
  })

  it('starts with a script on the command line and under a watcher, and keeps no process alive that has nothing to write', async () => {
    const path = await folder({})
    const module = join(import.meta.dirname, '../../../src/state/sqlite/engine.ts')
    const script = `
      const { openSqlite } = await import(${JSON.stringify(module)})
      const { ledger } = await openSqlite({ path: ${JSON.stringify(path)}, log: console })
      await ledger.book({ kind: 'top-up', account: 'acct', amount: 5n, reference: 'x' })`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      // `node --watch` sets it; every thread then reports its imports.
      env: { ...process.env, WATCH_REPORT_DEPENDENCIES: '1' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    expect(await once(child, 'exit')).toEqual([0, null])
    const { ledger } = await open(path)
    expect(await ledger.account('acct')).toMatchObject({ balance: 5n })
  })
})

describe('a folder that is opened again', () => {
  it('has everything that was acknowledged', async () => {
    const first = await openPaid()
    const counted = [{ id: 'cap.day', value: 50n }]
    const expiresAt = NOON + HOUR_MS
    await first.ledger.limits('acct', 'key', { ...LIMITS, rpm: 3, expiresAt, counted }, 7)
    await first.ledger.settle(settlement('req_1', 40n))
    await first.ledger.settle(settlement('req_2', 10n, '20260514'))
    await first.records.put('account:acct', { name: 'Acme' })
    const rows = await collect(first.ledger.usage('acct'))
    await first.ledger.close()

    const { ledger, records } = await open(first.path)
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 50n, paid: true })
    const spend = { lifetime: 50n, day: 40n, month: 50n, inFlight: 0 }
    expect(await ledger.key('acct', 'key')).toEqual(spend)
    expect(await collect(ledger.usage('acct'))).toEqual(rows)
    expect(await records.get('account:acct')).toEqual({ name: 'Acme' })
    const entry = { ...KEY, revision: 6, freeTier: { rpm: 1, concurrency: 1 } }
    expect(ledger.enter({ ...entry, request: 'req_3' })).toEqual({ ok: false, why: 'stale' })
    const entered = ledger.enter({ ...entry, request: 'req_3', revision: 7 })
    expect(entered).toMatchObject({ ok: true, paid: true, rate: { limit: 3 } })
    expect(await ledger.settle(settlement('req_1', 99n))).toMatchObject({
      state: 'duplicate',
      cost: 40n,
    })
    const topUp = { kind: 'top-up' as const, account: 'acct', amount: 1n, reference: 'first' }
    expect(await ledger.book(topUp)).toMatchObject({ state: 'duplicate', cost: -(10n ** 13n) })
    await ledger.settle(settlement('req_3', 10n))
    const hold = { ...KEY, request: 'req_4', at: NOON, ...holdOf(0n), free: false }
    ledger.enter({ ...entry, request: 'req_4', revision: 7 })
    expect(ledger.hold(hold)).toMatchObject({ ok: false, why: 'limit', limit: { name: 'cap.day' } })
    expect(await ledger.verify()).toEqual([])
  })

  it('knows the money, spend and limits of accounts that were not used yet', async () => {
    const { path, ledger } = await openPaid()
    const most = 4n * 10n ** 18n
    const capped = {
      disabled: false,
      counted: [{ id: 'cap.month', value: most }],
      expiresAt: NOON + 1,
    } as const
    await ledger.limits('acct', '@account', { disabled: true }, 7)
    await ledger.limits('acct', 'capped', capped, NOON)
    await ledger.settle(settlement('req_1', 3n))
    await ledger.settle({ ...settlement('req_2', 5n), key: 'capped' })
    await ledger.settle({ ...settlement('req_3', 7n, '20260514'), account: 'other' })
    const known = async (of: typeof ledger) => [
      await of.balances(['acct', 'other', 'none']),
      await of.spends(['key', 'capped', 'none'].map((key) => ({ account: 'acct', key }))),
    ]
    const before = await known(ledger)
    await ledger.close()
    const { ledger: again } = await open(path)
    expect(await known(again)).toEqual(before)
    expect(await again.verify()).toEqual([])
    const entry = {
      account: 'acct',
      accountRevision: 7,
      request: 'req_4',
      freeTier: { rpm: 1, concurrency: 1 },
    }
    expect(again.enter({ ...entry, key: 'key', revision: 0 })).toMatchObject({ why: 'stale' })
    expect(again.enter({ ...entry, key: 'key', revision: 1 })).toMatchObject({
      why: 'disabled',
      of: 'account',
    })
    const { commits } = again
    await again.limits('acct', 'capped', capped, NOON)
    expect(again.commits).toBe(commits)
    expect(await again.key('acct', 'capped')).toMatchObject({ lifetime: 5n, day: 5n, month: 5n })
    expect(await known(again)).toEqual(before)
    expect(await again.verify()).toEqual([])
  })

  it('charges days that it has not loaded', async () => {
    const first = await openPaid()
    await first.ledger.settle(settlement('req_1', 40n, '20250102'))
    await first.ledger.close()
    const { ledger } = await open(first.path)
    await ledger.settle(settlement('req_2', 2n, '20250102'))
    expect(await ledger.key('acct', 'key')).toMatchObject({ lifetime: 42n, day: 0n, month: 0n })
    expect(await ledger.verify()).toEqual([])
  })

  it('has everything that was acknowledged before a kill, once', async () => {
    const path = await folder({})
    const promised = new Map<string, string>()
    for (let run = 0; run < 2; run++) {
      const child = spawn(process.execPath, [WRITER, path, String(run)])
      onTestFinished(() => void child.kill('SIGKILL'))
      let [out, err] = ['', '']
      child.stderr.on('data', (text: Buffer) => (err += text))
      child.stdout.on('data', (text: Buffer) => {
        out += text
        if (out.length > 15_000 * (run + 1)) child.kill('SIGKILL')
      })
      await once(child, 'close')
      expect(err).toBe('')
      expect(child.signalCode).toBe('SIGKILL')
      for (const line of out.split('\n').slice(0, -1)) {
        const [what, name, amount] = line.split(' ')
        promised.set(`${what} ${name}`, amount!)
      }
    }
    const { ledger, records } = await open(path)
    const found = new Map<string, string>()
    const twice: string[] = []
    for (let n = 0; n < 5; n++) {
      let balance = 0n
      for (const { kind, request, cost } of await collect(ledger.usage(`acct${n}`))) {
        const name = kind === 'usage' ? `usage ${request}` : `top-up acct${n}/${request}`
        if (found.has(name)) twice.push(name)
        found.set(name, String(kind === 'usage' ? cost : -cost))
        balance -= cost
      }
      expect(await ledger.account(`acct${n}`)).toMatchObject({ balance, paid: true })
    }
    expect(promised.size).toBeGreaterThan(1000)
    const isRecord = (name: string) => name.startsWith('record ')
    const booked = [...promised].filter(([name]) => !isRecord(name))
    expect(booked.map(([name]) => [name, found.get(name)])).toEqual(booked)
    expect(twice).toEqual([])
    for (const [name, amount] of promised) {
      if (!isRecord(name)) continue
      const record = await records.get<{ count: number }>(`count:${name.slice(7)}`)
      expect(record!.count).toBeGreaterThanOrEqual(Number(amount))
    }
    expect(await ledger.verify()).toEqual([])
    expect(integrityOf(path)).toBe('ok')
  })
})

describe('verifying', () => {
  it('finds no discrepancy while calls are being settled', async () => {
    const { ledger } = await openPaid()
    const settle = async (writer: number) => {
      for (let i = 0; i < 60; i++) {
        const { request } = admit(ledger, `req_${writer}_${i}`, 3n)
        await ledger.settle(settlement(request, BigInt(i)))
        // Ten in all, each at another moment: each starts a thread.
        if (i === 6 * writer) expect(await ledger.verify()).toEqual([])
      }
    }
    await Promise.all(Array.from({ length: 20 }, (_, writer) => settle(writer)))
    expect(await collect(ledger.usage('acct'))).toHaveLength(1 + 20 * 60)
  })

  it('finds sums in the file that differ from the rows, and logs them at the next start', async () => {
    const first = await openPaid()
    await first.ledger.settle(settlement('req_1', 40n))
    await first.ledger.close()
    const db = new DatabaseSync(join(first.path, 'ledger.db'))
    db.exec(`UPDATE usage SET cost = 41 WHERE request = 'req_1'`)
    db.close()
    const { ledger, logged } = await open(first.path)
    const account = 'acct'
    const balance = { stored: 10n ** 13n - 40n, recomputed: 10n ** 13n - 41n }
    const spend = { stored: 40n, recomputed: 41n }
    const found = await ledger.verify()
    expect(found).toContainEqual({ account, what: 'balance', ...balance })
    expect(found).toContainEqual({ account, what: 'spend of key key, lifetime', ...spend })
    expect(found).toContainEqual({ account, what: 'spend of key key, 20260515', ...spend })
    expect(found).toContainEqual({ account, what: 'spend of key key, 202605', ...spend })
    expect(await ledger.verify('acct')).toEqual(found)
    expect(await ledger.verify('other')).toEqual([])
    await expect
      .poll(() => logged.join())
      .toContain('acct does not add up: balance: 9.99999999996 is')
  })

  it('finds sums in memory that differ from the file', async () => {
    const { ledger, path } = await openPaid()
    await ledger.settle(settlement('req_1', 40n))
    const db = new DatabaseSync(join(path, 'ledger.db'))
    db.exec(`DELETE FROM usage WHERE kind = 'usage'; DELETE FROM spend;
      UPDATE account SET usd = 10, pico = 0`)
    db.close()
    const found = await ledger.verify()
    expect(found.map(({ what }) => what).sort()).toEqual([
      'balance, in memory',
      'spend of key key, 202605, in memory',
      'spend of key key, 20260515, in memory',
      'spend of key key, lifetime, in memory',
      'spend of the account, 202605, in memory',
      'spend of the account, 20260515, in memory',
      'spend of the account, lifetime, in memory',
    ])
  })

  it('adds up exactly when intermediate sums exceed 64 bits', async () => {
    const { ledger } = await open()
    const most = 4n * 10n ** 18n
    for (const key of ['a', 'b', 'c']) {
      await ledger.book({ kind: 'top-up', account: 'acct', amount: most, reference: key })
      const correction = {
        kind: 'adjust' as const,
        account: 'acct',
        reference: key,
        note: 'paid by mistake',
      }
      await ledger.book({ ...correction, amount: 1n - most })
      await ledger.settle({ ...settlement(`req_${key}`, 1n), key })
    }
    expect(await ledger.account('acct')).toMatchObject({ balance: 0n })
    expect(await ledger.verify()).toEqual([])
  })
})
