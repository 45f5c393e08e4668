import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Settled, Settlement } from '../../../src/state/ledger/ledger.ts'
import { Unconfirmed } from '../../../src/state/ledger/unconfirmed.ts'
import { OutboxFile, Outbox, type ReceiptLookup } from '../../../src/state/redis/outbox.ts'
import type { Log } from '../../../src/state/ledger/ledger.ts'
import { folder } from '../../_folder.ts'
import { KEY, settlement } from '../sqlite/_engine.ts'
import { eventually } from '../../_wait.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const HOLDER = join(import.meta.dirname, '_outbox-holder.ts')

/** The requests of the settlements that the log has. */
function unbooked(logged: readonly string[]): string[] {
  return logged.flatMap((line) => {
    const [, row] = /settlement not booked \(.*?\): (.*)$/.exec(line) ?? []
    return row === undefined ? [] : [JSON.parse(row).request]
  })
}

/** A Redis that books each request once, and can be unreachable. */
class FakeStore {
  away = false
  readonly booked = new Map<string, bigint>()
  /** Every request that was sent, repetitions included. */
  readonly sent: string[] = []
  ledger: string | undefined = 'ledger'
  readonly was = new Set<string>()
  lookUps = 0
  lookUp: ReceiptLookup = { booked: new Set(), unclear: new Set() }
  /** Gateways that have ended and whose settlements are booked. */
  readonly told: string[] = []
  /** Numbers of bookings that were lost and are booked again. */
  readonly replayed: number[] = []

  async send({ request, cost }: Settlement): Promise<Settled> {
    this.sent.push(request)
    if (this.away) throw new Error('away')
    const state = this.booked.has(request) ? 'duplicate' : 'charged'
    if (state === 'charged') this.booked.set(request, cost)
    return { state, cost: this.booked.get(request)!, balance: 7n }
  }
}

async function open(store: FakeStore, path?: string, gateway = 'gw_1', isKept = true) {
  path ??= await folder({})
  const logged: string[] = []
  const write =
    (level: string) =>
    (...args: unknown[]) =>
      void logged.push([level, ...args].join(' '))
  const log = { info: write('info'), warn: write('warn'), error: write('error') } as unknown as Log
  const file = OutboxFile.open(path)
  const onDisk = new Outbox({
    file,
    isKept,
    send: (settlement) => store.send(settlement),
    lookUp: async () => {
      store.lookUps++
      return store.lookUp
    },
    receiptMs: 24 * HOUR_MS,
    gateway,
    async tellBooked(id) {
      if (store.away) throw new Error('away')
      store.told.push(id)
    },
    ledger: () => store.ledger,
    wasIts: async (id) => store.was.has(id),
    booked: (settlement, settled) => outbox.booked(settlement, settled),
    replayed: (bookings) => void store.replayed.push(bookings),
    log,
  })
  const outbox = new Unconfirmed<undefined>({
    store: {
      send({ settlement }, done, failed) {
        onDisk.book(settlement, MINUTE_MS).then(done, failed)
      },
    },
    disk: onDisk,
    log,
  })
  onTestFinished(() => outbox.close().catch(() => {}))
  const settle = (settlement: Settlement) => outbox.settle(settlement, undefined)
  const replay = () => {
    onDisk.mayLack()
    void outbox.retry()
  }
  return { outbox, onDisk, settle, replay, file, path, logged }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date', 'performance'] })
})
afterEach(() => vi.useRealTimers())

describe('an outbox', () => {
  it('tells that a gateway has nothing left to book, itself or by the one that has its file', async () => {
    const store = new FakeStore()
    const idle = await open(store, undefined, 'gw_idle')
    await idle.outbox.close()
    expect(store.told).toEqual(['gw_idle'])
    store.away = true
    const first = await open(store, undefined, 'gw_first')
    await first.settle(settlement('req_1', 3n))
    await first.outbox.close()
    const heir = await open(store, first.path, 'gw_heir')
    await vi.advanceTimersByTimeAsync(3000)
    expect(store.told).toEqual(['gw_idle'])
    store.away = false
    await vi.advanceTimersByTimeAsync(3000)
    await expect.poll(() => store.told).toEqual(['gw_idle', 'gw_first'])
    expect(store.booked.get('req_1')).toBe(3n)
    await heir.outbox.close()
    expect(store.told).toEqual(['gw_idle', 'gw_first', 'gw_heir'])
  })

  it('answers like Redis while it can be reached', async () => {
    const store = new FakeStore()
    const { outbox, settle } = await open(store)
    const answer = { cost: 3n, balance: 7n }
    expect(await settle(settlement('req_1', 3n))).toEqual({ state: 'charged', ...answer })
    expect(await settle(settlement('req_1', 3n))).toEqual({ state: 'duplicate', ...answer })
    expect(outbox.health()).toEqual({ waiting: 0, oldestMs: 0 })
  })

  it('stores unconfirmed settlements on disk, and sends them in their order', async () => {
    const store = new FakeStore()
    const { outbox, path, settle } = await open(store)
    store.away = true
    const requests = Array.from({ length: 450 }, (_, i) => `req_${i}`)
    for (const request of requests.slice(0, 50)) await settle(settlement(request, 3n))
    const cost = 2n ** 61n
    await Promise.all(requests.slice(50).map((request) => settle(settlement(request, cost))))
    expect(outbox.health().waiting).toBe(450)
    using db = new DatabaseSync(join(path, 'outbox-1.db'), { readOnly: true })
    expect(db.prepare('SELECT count(*) AS n FROM waiting').get()).toEqual({ n: 450 })
    store.away = false
    store.sent.length = 0
    await vi.advanceTimersByTimeAsync(1000)
    await eventually(() => expect(outbox.health().waiting).toBe(0))
    expect(store.sent).toEqual(requests)
    expect(store.booked.get('req_0')).toBe(3n)
    expect(store.booked.get('req_449')).toBe(cost)
    expect(db.prepare('SELECT count(*) AS n FROM waiting').get()).toEqual({ n: 0 })
  })

  it('tells the first cost of a settlement that is repeated with another one while Redis is away', async () => {
    const store = new FakeStore()
    const { outbox, logged, settle, replay } = await open(store)
    await settle(settlement('req_before', 54n))
    store.away = true
    await settle(settlement('req_during', 54n))
    for (const request of ['req_before', 'req_during']) {
      expect(await settle(settlement(request, 210n))).toMatchObject({ cost: 54n })
    }
    expect(outbox.conflicts).toBe(2)
    expect(logged.filter((line) => line.includes('this stands'))).toHaveLength(2)
    store.away = false
    replay()
    await eventually(() => expect(outbox.health().waiting).toBe(0))
    expect([...store.booked.values()]).toEqual([54n, 54n])
  })

  it('sends the others when one is refused', async () => {
    const store = new FakeStore()
    const { outbox, settle } = await open(store)
    store.away = true
    for (const request of ['req_1', 'bad', 'req_2']) await settle(settlement(request, 3n))
    store.away = false
    const send = store.send.bind(store)
    store.send = (asked) =>
      asked.request === 'bad' ? Promise.reject(new Error('no')) : send(asked)
    await vi.advanceTimersByTimeAsync(1000)
    await eventually(() => expect(outbox.health().waiting).toBe(1))
    expect([...store.booked.keys()]).toEqual(['req_1', 'req_2'])
    store.send = send
    await vi.advanceTimersByTimeAsync(1000)
    await eventually(() => expect(outbox.health().waiting).toBe(0))
    expect([...store.booked.keys()]).toEqual(['req_1', 'req_2', 'bad'])
  })

  it('reports the age of the oldest settlement, and logs an error once a minute when it is too old', async () => {
    const store = new FakeStore()
    const { outbox, logged, settle } = await open(store)
    store.away = true
    await settle(settlement('req_1', 3n))
    await vi.advanceTimersByTimeAsync(50_000)
    await settle(settlement('req_2', 3n))
    expect(outbox.health()).toEqual({ waiting: 2, oldestMs: 50_000 })
    expect(logged).toEqual([])
    await vi.advanceTimersByTimeAsync(90_000)
    expect(logged).toEqual([
      'error 2 settlements wait to be booked, the oldest for 60 s',
      'error 2 settlements wait to be booked, the oldest for 120 s',
    ])
  })

  describe('that can be written nowhere', () => {
    async function stuck() {
      const store = new FakeStore()
      const opened = await open(store)
      store.away = true
      const append = vi.spyOn(opened.file, 'append').mockRejectedValue(new Error('disk full'))
      return { ...opened, store, append }
    }
    const ids = (n: number) => Array.from({ length: n }, (_, i) => `req_${i}`)

    it('defers settlements, says so once, and books them in their order', async () => {
      const { outbox, store, logged, settle } = await stuck()
      for (const request of ids(50)) {
        const settled = await settle(settlement(request, 3n))
        expect(settled).toEqual({ state: 'deferred', cost: 3n, balance: 0n })
      }
      expect(logged).toEqual([expect.stringMatching(/^error .*outbox-1\.db cannot be written/)])
      expect(logged[0]).toContain('disk full')
      expect([outbox.why, outbox.health().waiting]).toEqual([
        '50 settlements are only in memory',
        50,
      ])
      await vi.advanceTimersByTimeAsync(5000)
      expect(outbox.health()).toEqual({ waiting: 50, oldestMs: 5000 })
      // One attempt a second, of the oldest.
      expect(new Set(store.sent.slice(50))).toEqual(new Set(['req_0']))
      store.away = false
      store.sent.length = 0
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.why).toBeUndefined())
      expect(store.sent).toEqual(ids(50))
      expect(outbox.health()).toEqual({ waiting: 0, oldestMs: 0 })
    })

    it('stores them on the disk when that can be written first', async () => {
      const { outbox, store, append, settle } = await stuck()
      await settle(settlement('req_1', 3n))
      append.mockRestore()
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.why).toBeUndefined())
      expect(outbox.health().waiting).toBe(1)
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.health().waiting).toBe(0))
      expect(store.booked).toEqual(new Map([['req_1', 3n]]))
    })

    it('books a waived settlement with 0', async () => {
      const { outbox, store, settle } = await stuck()
      await settle(settlement('req_1', 3n))
      await settle(settlement('req_2', 5n))
      const waived = { state: 'deferred', cost: 0n, balance: 0n }
      expect(outbox.waive({ ...KEY, request: 'req_1' })).toEqual(waived)
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.why).toBeUndefined())
      expect(Object.fromEntries(store.booked)).toEqual({ req_1: 0n, req_2: 5n })
      expect(outbox.conflicts).toBe(0)
    })

    it('lets a booking stand whose answer was lost, and counts it', async () => {
      const { outbox, store, logged, settle } = await stuck()
      await settle(settlement('req_1', 3n))
      store.booked.set('req_1', 3n)
      outbox.waive({ ...KEY, request: 'req_1' })
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.why).toBeUndefined())
      expect(store.booked.get('req_1')).toBe(3n)
      expect(outbox.conflicts).toBe(1)
      expect(logged.join('\n')).toContain('req_1 was booked before with 0.000000000003 USD, not 0')
      expect(outbox.waive({ ...KEY, request: 'req_1' })).toMatchObject({
        state: 'duplicate',
        cost: 3n,
      })
    })

    it('waives a settlement that is still on its way to Redis', async () => {
      const { outbox, store, append, settle } = await stuck()
      append.mockRestore()
      const settled = settle(settlement('req_1', 3n))
      expect(outbox.waive({ ...KEY, request: 'req_1' })).toMatchObject({ cost: 0n })
      await settled
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.health().waiting).toBe(0))
      expect(store.booked).toEqual(new Map([['req_1', 0n]]))
      expect(outbox.conflicts).toBe(0)
    })

    it('counts a booking that Redis makes while it is waived', async () => {
      const { outbox, store, settle } = await stuck()
      store.away = false
      const settled = settle(settlement('req_1', 3n))
      outbox.waive({ ...KEY, request: 'req_1' })
      expect(await settled).toMatchObject({ state: 'deferred', cost: 3n })
      await eventually(() => expect(outbox.health().waiting).toBe(0))
      expect(store.booked.get('req_1')).toBe(3n)
      expect(outbox.conflicts).toBe(1)
      expect(outbox.waive({ ...KEY, request: 'req_1' })).toMatchObject({
        state: 'duplicate',
        cost: 3n,
      })
    })

    it('logs one that does not fit with 0 when it is waived at once', async () => {
      const { outbox, logged, settle } = await stuck()
      const all = ids(10_000)
      await Promise.all(all.map((request) => settle(settlement(request, 3n))))
      await settle(settlement('late', 3n)).then(() => {
        outbox.waive({ ...KEY, request: 'late' })
      })
      await new Promise((resolve) => setImmediate(resolve))
      const line = logged.find((one) => one.includes('"request":"late"'))
      expect(line).toContain('"cost":"0"')
      await expect(outbox.close()).rejects.toThrow('10001 settlements')
    })

    it('logs a settlement that comes after its end', async () => {
      const { outbox, logged, settle } = await stuck()
      await outbox.close()
      expect(await settle(settlement('late', 3n))).toMatchObject({ state: 'deferred' })
      expect(unbooked(logged)).toEqual(['late'])
    })

    it('goes on while its file cannot be read', async () => {
      const { outbox, file, store, logged, append, settle } = await stuck()
      append.mockRestore()
      await settle(settlement('req_1', 3n))
      const summary = vi.spyOn(file, 'summary').mockImplementation(() => {
        throw new Error('disk I/O error')
      })
      expect(outbox.health().waiting).toBeGreaterThanOrEqual(0)
      await vi.advanceTimersByTimeAsync(3000)
      expect(logged.filter((line) => line.includes('cannot be read'))).toHaveLength(1)
      summary.mockRestore()
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.health()).toEqual({ waiting: 0, oldestMs: 0 }))
    })

    it('logs what does not fit, and at the end what is left, as lines of an export', async () => {
      const { outbox, logged, settle } = await stuck()
      const all = ids(10_001)
      await Promise.all(all.map((request) => settle(settlement(request, 3n))))
      expect(outbox.health().waiting).toBe(10_000)
      await eventually(() => expect(unbooked(logged)).toEqual(['req_10000']))
      await expect(outbox.close()).rejects.toThrow('10001 settlements could not be booked')
      expect(unbooked(logged)).toEqual(['req_10000', ...all.slice(0, -1)])
    })
  })

  it('reports nothing pending after it was closed', async () => {
    const store = new FakeStore()
    const { outbox, path, settle } = await open(store)
    store.away = true
    await settle(settlement('req_1', 3n))
    await outbox.close()
    expect(outbox.health()).toEqual({ waiting: 0, oldestMs: 0 })
    store.away = false
    const next = await open(store, path)
    expect(next.outbox.health()).toMatchObject({ waiting: 1 })
  })

  describe('when Redis may have lost writes', () => {
    it('sends the bookings of the last two minutes again', async () => {
      const store = new FakeStore()
      const { logged, settle, replay } = await open(store)
      await settle(settlement('req_old', 1n))
      await vi.advanceTimersByTimeAsync(2 * MINUTE_MS + 1)
      const requests = Array.from({ length: 500 }, (_, i) => `req_${i}`)
      for (const request of requests) await settle(settlement(request, 1n))
      store.booked.delete('req_7')
      store.booked.delete('req_old')
      store.sent.length = 0
      replay()
      const warning = 'warn Redis had lost 1 bookings; they are booked again'
      await eventually(() => expect(logged).toEqual([warning]))
      expect(store.sent).toEqual(requests)
      expect(store.booked.has('req_7')).toBe(true)
      expect(store.replayed).toEqual([1])
    })

    it('keeps older bookings while no new one is confirmed', async () => {
      const store = new FakeStore()
      const { settle, replay } = await open(store)
      await settle(settlement('req_1', 1n))
      store.booked.clear()
      await vi.advanceTimersByTimeAsync(30 * MINUTE_MS)
      replay()
      await eventually(() => expect([...store.booked.keys()]).toEqual(['req_1']))
    })

    it('sends nothing again whose receipt may have expired', async () => {
      const store = new FakeStore()
      const { settle, replay } = await open(store)
      await settle(settlement('req_1', 1n))
      await vi.advanceTimersByTimeAsync(13 * HOUR_MS)
      await settle(settlement('req_2', 1n))
      await vi.advanceTimersByTimeAsync(1)
      store.sent.length = 0
      replay()
      await eventually(() => expect(store.sent).toEqual(['req_2']))
    })

    it('tries again until it succeeds, and keeps a repeated booking for another two minutes', async () => {
      const store = new FakeStore()
      const { settle, replay } = await open(store)
      await settle(settlement('req_1', 1n))
      await vi.advanceTimersByTimeAsync(MINUTE_MS)
      store.booked.clear()
      store.away = true
      replay()
      await vi.advanceTimersByTimeAsync(5000)
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(store.booked.has('req_1')).toBe(true))
      await vi.advanceTimersByTimeAsync(1.5 * MINUTE_MS)
      await settle(settlement('req_2', 1n))
      store.booked.clear()
      replay()
      await eventually(() => expect([...store.booked.keys()]).toEqual(['req_1', 'req_2']))
    })

    it('sends settlements to the ledger that they belong to, or one accepted in its place', async () => {
      const store = new FakeStore()
      const { outbox, settle, replay } = await open(store)
      store.away = true
      await settle(settlement('req_1', 3n))
      Object.assign(store, { away: false, ledger: 'other' })
      replay()
      await vi.advanceTimersByTimeAsync(3000)
      expect([store.booked.size, outbox.health().waiting]).toEqual([0, 1])
      store.ledger = undefined
      replay()
      await vi.advanceTimersByTimeAsync(3000)
      expect(store.booked.size).toBe(0)
      store.ledger = 'other'
      store.was.add('ledger')
      await vi.advanceTimersByTimeAsync(3000)
      expect([...store.booked]).toEqual([['req_1', 3n]])
    })

    it('sends bookings from the file and remembered ones again', async () => {
      const store = new FakeStore()
      const { settle, replay, onDisk } = await open(store)
      store.away = true
      await settle(settlement('req_1', 1n))
      store.away = false
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(store.booked.size).toBe(1))
      onDisk.remember(() => store.send(settlement('top_up', -5n)))
      store.booked.clear()
      replay()
      await eventually(() => expect([...store.booked.keys()]).toEqual(['req_1', 'top_up']))
    })
  })

  describe('with settlements older than half the life of a receipt', () => {
    async function openOld(lookUp: ReceiptLookup) {
      const store = new FakeStore()
      const { outbox, file, logged, settle } = await open(store)
      store.away = true
      for (const request of ['req_1', 'req_2']) await settle(settlement(request, 1n))
      vi.setSystemTime(Date.now() + 12 * HOUR_MS + 1)
      Object.assign(store, { away: false, lookUp })
      await vi.advanceTimersByTimeAsync(1000)
      await eventually(() => expect(outbox.health().waiting).toBe(0))
      return { store, file, logged }
    }

    it('drops those that have a row, and books the others', async () => {
      const { store, file } = await openOld({
        booked: new Set(['req_1']),
        unclear: new Set(),
      })
      expect([...store.booked.keys()]).toEqual(['req_2'])
      expect(store.lookUps).toBe(1)
      expect(file.summary()).toMatchObject({ waiting: 0, quarantined: 0 })
    })

    it('quarantines those that the rows cannot decide', async () => {
      const { store, file, logged } = await openOld({
        booked: new Set(['req_1']),
        unclear: new Set(['req_2']),
      })
      expect(store.booked.size).toBe(0)
      expect(file.summary()).toMatchObject({ waiting: 0, quarantined: 1 })
      const quarantine = /^error 1 settlements in .*outbox-1\.db are too old/
      expect(logged).toContainEqual(expect.stringMatching(quarantine))
    })
  })
})

describe("an outbox's file", () => {
  it('is for its owner only', async () => {
    const path = join(await folder({}), 'new', 'outbox')
    const { file } = await open(new FakeStore(), path)
    expect(file.path).toBe(join(path, 'outbox-1.db'))
    for (const name of readdirSync(path)) {
      if (name.endsWith('.db')) expect(statSync(join(path, name)).mode & 0o777).toBe(0o600)
    }
  })

  it('belongs to one process; another process creates its own', async () => {
    const path = await folder({})
    const first = OutboxFile.open(path)
    const second = OutboxFile.open(path)
    expect([first.path, second.path]).toEqual(
      ['outbox-1.db', 'outbox-2.db'].map((name) => join(path, name)),
    )
    first.close()
    const third = OutboxFile.open(path)
    expect(third.path).toBe(first.path)
    third.close()
    second.close()
  })

  it('is adopted with its settlements, also after its process was killed', async () => {
    const path = await folder({})
    const own = OutboxFile.open(path)
    const child = spawn(process.execPath, [HOLDER, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    const [written] = (await once(child.stdout!, 'data')) as [Buffer]
    expect(String(written)).toBe('written\n')
    // The process lives, so its file stays its own.
    const beside = OutboxFile.open(path)
    expect(beside.path).toBe(join(path, 'outbox-3.db'))
    expect(beside.summary().waiting).toBe(0)
    beside.close()
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
    own.close()
    const heir = OutboxFile.open(path)
    expect(heir.path).toBe(join(path, 'outbox-1.db'))
    const waiting = heir
      .page('ledger', 0, 10)
      .map(({ settlement: { request, cost } }) => [request, cost])
    expect(waiting).toEqual([
      ['req_1', 1n],
      ['req_2', 2n],
      ['req_3', 3n],
    ])
    heir.close()
    // The settlements were moved, not copied.
    const last = OutboxFile.open(path)
    expect(last.summary().waiting).toBe(3)
    last.close()
  })

  it('fails with the reason when the folder cannot be used', async () => {
    const path = await folder({ file: '' })
    expect(() => OutboxFile.open(join(path, 'file'))).toThrow('EEXIST')
    writeFileSync(
      join(path, 'outbox-1.db'),
      'this is no database, whatever its name may be'.repeat(99),
    )
    mkdirSync(join(path, 'sub'))
    expect(() => OutboxFile.open(path)).toThrow('not a database')
  })
})

it('a file takes no more than its limit, and takes settlements again when some were removed', async () => {
  const file = OutboxFile.open(await folder({}), 200_000)
  onTestFinished(() => file.close())
  let stored = 0
  const fill = async () => {
    for (; ; stored++) await file.append({ settlement: settlement(`req_${stored}`, 3n) }, null)
  }
  await expect(fill()).rejects.toThrow('full')
  expect(stored).toBeGreaterThan(100)
  expect(statSync(file.path).size).toBeLessThanOrEqual(204_800)
  const batch = file.page('ledger', 0, 10_000)
  expect(batch).toHaveLength(stored)
  file.remove(batch.slice(0, 100).map(({ seq }) => seq))
  await file.append({ settlement: settlement('req_more', 3n) }, null)
})
