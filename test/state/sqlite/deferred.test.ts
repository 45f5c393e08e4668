/** Settlements that a store does not write: after ten seconds their callers get an answer all the same. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { Clock } from '../../../src/state/ledger/windows.ts'
import type { Log } from '../../../src/state/ledger/ledger.ts'
import { firstDay, SqliteLedger } from '../../../src/state/sqlite/engine.ts'
import { WorkerClient } from '../../../src/state/sqlite/worker-client.ts'
import { FaultyWorker } from './_workers.ts'
import { admit, collect, LIMITS, NO_HISTORY, NOON, settlement } from './_engine.ts'

async function open() {
  const worker = new FaultyWorker()
  const logged: string[] = []
  const write = (...args: unknown[]) => void logged.push(args.join(' '))
  const log = { info: write, warn: write, error: write } as unknown as Log
  const clock = new Clock(() => NOON)
  const from = firstDay(clock)
  const ledger = new SqliteLedger({
    client: new WorkerClient(worker, log),
    clock,
    from,
    snapshot: worker.store.load(from),
    exportItems: async function* () {},
    openHistory: async () => NO_HISTORY,
    log,
  })
  onTestFinished(() => ledger.close().catch(() => {}))
  await ledger.book({ kind: 'top-up', account: 'acct', amount: 10n ** 13n, reference: 'first' })
  await ledger.limits('acct', 'key', LIMITS, 1)
  return { worker, ledger, logged }
}

const usageRows = async (ledger: SqliteLedger) =>
  (await collect(ledger.usage('acct'))).filter(({ kind }) => kind === 'usage')

/** The rows that the log has. */
function unbooked(logged: readonly string[]) {
  return logged.flatMap((line) => {
    const [, row] = /settlement not booked \(.*?\): (.*)$/.exec(line) ?? []
    return row === undefined ? [] : [JSON.parse(row)]
  })
}

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'],
  })
})
afterEach(() => vi.useRealTimers())

describe('a store that does not write', () => {
  it('defers settlements after ten seconds, and admits nothing until all are written', async () => {
    const { worker, ledger } = await open()
    const calls = [admit(ledger, 'req_1', 50n), admit(ledger, 'req_2', 50n)]
    worker.fault = 'fails'
    let answered = 0
    const settled = calls.map(async ({ request }) => {
      const answer = await ledger.settle(settlement(request, 40n))
      answered++
      return answer
    })
    await vi.advanceTimersByTimeAsync(9500)
    expect(answered).toBe(0)
    await vi.advanceTimersByTimeAsync(1000)
    expect(await Promise.all(settled)).toMatchObject([
      { state: 'deferred', cost: 40n },
      { state: 'deferred', cost: 40n },
    ])
    expect(() => admit(ledger, 'req_3')).toThrow('cannot write to its ledger')
    // What is deferred is in the balance: the next admission after the repair sees it.
    expect(await ledger.account('acct')).toMatchObject({ available: 10n ** 13n - 80n })
    worker.fault = 'none'
    await vi.advanceTimersByTimeAsync(250)
    expect(ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
    expect((await usageRows(ledger)).map(({ request, cost }) => [request, cost])).toEqual([
      ['req_2', 40n],
      ['req_1', 40n],
    ])
    admit(ledger, 'req_3')
    expect(await ledger.verify()).toEqual([])
  })

  it('writes a waived settlement with 0', async () => {
    const { worker, ledger } = await open()
    const call = admit(ledger, 'req_1', 50n)
    worker.fault = 'fails'
    const settled = ledger.settle(settlement('req_1', 40n))
    await vi.advanceTimersByTimeAsync(10_500)
    await settled
    expect(await ledger.waive(call)).toMatchObject({ state: 'deferred', cost: 0n })
    expect(await ledger.account('acct')).toMatchObject({ available: 10n ** 13n })
    worker.fault = 'none'
    await vi.advanceTimersByTimeAsync(250)
    expect(await usageRows(ledger)).toMatchObject([
      { request: 'req_1', cost: 0n, usage: { outcome: 'failed' } },
    ])
    expect(ledger.conflicts).toBe(0)
    expect(await ledger.verify()).toEqual([])
  })

  it('lets a booking stand that was under way when it was waived, and counts it', async () => {
    const { worker, ledger, logged } = await open()
    const call = admit(ledger, 'req_1', 50n)
    worker.fault = 'hangs'
    const settled = ledger.settle(settlement('req_1', 40n))
    await new Promise((resolve) => setImmediate(resolve))
    // Before its ten seconds are over, too.
    expect(await ledger.waive(call)).toMatchObject({ state: 'deferred', cost: 0n })
    expect(await settled).toMatchObject({ state: 'deferred', cost: 40n })
    worker.answer()
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 40n })
    expect(ledger.conflicts).toBe(1)
    expect(logged.join()).toContain('req_1 was booked before with 0.00000000004 USD, not 0')
    expect(await ledger.waive(call)).toMatchObject({ state: 'duplicate', cost: 40n })
    expect(await ledger.verify()).toEqual([])
  })

  it('writes or logs each settlement exactly once, however many do not fit', async () => {
    const { worker, ledger, logged } = await open()
    const calls = Array.from({ length: 10_040 }, (_, i) => admit(ledger, `req_${i}`))
    worker.fault = 'fails'
    const settled = calls.map(({ request }) => ledger.settle(settlement(request, 1n)))
    await vi.advanceTimersByTimeAsync(10_600)
    for (const answer of await Promise.all(settled)) expect(answer.state).toBe('deferred')
    expect(ledger.health()).toMatchObject({ ok: false, outbox: 10_000 })
    // The answers of these were not sent.
    await Promise.all([calls[5]!, calls[10_020]!].map((call) => ledger.waive(call)))
    worker.fault = 'none'
    await vi.advanceTimersByTimeAsync(1000)
    expect(ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
    const rows = new Map((await usageRows(ledger)).map(({ request, cost }) => [request, cost]))
    const lines = unbooked(logged)
    expect([rows.size, lines.length]).toEqual([10_000, 40])
    for (const { request } of calls) {
      expect(rows.has(request!), request).toBe(!lines.some((line) => line.request === request))
    }
    expect(rows.get('req_5')).toBe(0n)
    const total = [...rows.values()].reduce((sum, cost) => sum + cost)
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - total })
    expect(await ledger.verify()).toEqual([])
    await expect(ledger.close()).rejects.toThrow('40 settlements could not be booked')
  })

  it('logs one that does not fit with 0 when it is waived at once', async () => {
    const { worker, ledger, logged } = await open()
    const calls = Array.from({ length: 10_002 }, (_, i) => admit(ledger, `req_${i}`))
    worker.fault = 'fails'
    const settled = calls.map(async (call, i) => {
      await ledger.settle(settlement(call.request, 1n))
      if (i === 10_001) await ledger.waive(call)
    })
    await vi.advanceTimersByTimeAsync(10_600)
    await Promise.all(settled)
    expect(unbooked(logged)).toMatchObject([
      { request: 'req_10000', cost: '0.000000000001' },
      { request: 'req_10001', cost: '0', usage: { outcome: 'failed' } },
    ])
    worker.fault = 'none'
    await vi.advanceTimersByTimeAsync(1000)
    await expect(ledger.close()).rejects.toThrow('2 settlements could not be booked')
  })

  it('logs a settlement that comes after its end', async () => {
    const { ledger, logged } = await open()
    admit(ledger, 'req_1', 50n)
    await ledger.close()
    expect(await ledger.settle(settlement('req_1', 40n))).toMatchObject({ state: 'deferred' })
    expect(unbooked(logged)).toMatchObject([{ request: 'req_1', cost: '0.00000000004' }])
  })

  it('logs what a disk that does not answer keeps from being written, and ends', async () => {
    const { worker, ledger, logged } = await open()
    const calls = ['req_1', 'req_2'].map((request) => admit(ledger, request, 50n))
    worker.fault = 'hangs'
    const settled = calls.map(({ request }) => ledger.settle(settlement(request, 40n)))
    await new Promise((resolve) => setImmediate(resolve))
    const closed = ledger.close().catch((error: Error) => error.message)
    await ledger.waive(calls[1]!)
    await vi.advanceTimersByTimeAsync(4000)
    expect(await Promise.all(settled)).toMatchObject([{ state: 'deferred' }, { state: 'deferred' }])
    expect(await closed).toContain('2 settlements could not be booked')
    // Too late: they are in the log.
    worker.answer()
    const costs = unbooked(logged).map(({ request, cost }) => [request, cost])
    expect(costs.toSorted()).toEqual([
      ['req_1', '0.00000000004'],
      ['req_2', '0'],
    ])
  })

  it('logs what the end of its thread has left unwritten', async () => {
    const { worker, ledger, logged } = await open()
    admit(ledger, 'req_1', 50n)
    worker.fault = 'hangs'
    const settled = ledger.settle(settlement('req_1', 40n))
    await new Promise((resolve) => setImmediate(resolve))
    worker.emit('error', new Error('the thread is gone'))
    worker.emit('exit')
    expect(await settled).toMatchObject({ state: 'deferred' })
    await expect(ledger.close()).rejects.toThrow('1 settlement could not be booked')
    expect(logged.join('\n')).toMatch(/settlement not booked \(the gateway ends\): \{.*req_1/)
  })
})
