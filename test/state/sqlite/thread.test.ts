/** A ledger whose thread ends while it is used: another one takes its place. */
import { EventEmitter } from 'node:events'
import { existsSync, renameSync } from 'node:fs'
import { readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { Unavailable } from '../../../src/errors/errors.ts'
import type { Log } from '../../../src/state/ledger/ledger.ts'
import type { SqliteLedger } from '../../../src/state/sqlite/engine.ts'
import { openMemoryDatabase } from '../../../src/state/sqlite/file.ts'
import { Store, type ToStore } from '../../../src/state/sqlite/store.ts'
import { WorkerClient } from '../../../src/state/sqlite/worker-client.ts'
import type { WorkThread } from '../../../src/threads/client.ts'
import { watchThreads } from './_workers.ts'
import { admit, collect, integrityOf, LIMITS, open, openPaid, settlement } from './_engine.ts'

const costsOf = async (ledger: SqliteLedger) => {
  const rows = await collect(ledger.usage('acct'))
  const charged = rows.filter(({ kind }) => kind === 'usage')
  return charged.map(({ request, cost }) => [request, cost]).sort()
}

describe('a ledger whose thread ends', () => {
  it('has every acknowledged cost once, in its file and in memory', async () => {
    const threads = watchThreads()
    const opened = await openPaid()
    const { ledger, records, path, logged } = opened
    const acknowledged = new Map<string, bigint>()
    const settle = async (writer: number) => {
      for (let i = 0; i < 100; i++) {
        const request = `req_${writer}_${i}`
        const cost = BigInt(i + 1)
        const held = ledger.health().ok && i % 2 === 0
        const call = held ? admit(ledger, request, 5n) : { request }
        const settled = await ledger.settle(settlement(call.request, cost))
        expect(['charged', 'duplicate']).toContain(settled.state)
        expect(settled.cost).toBe(cost)
        acknowledged.set(request, cost)
        if (writer === 0 && i === 20) await threads.last!.terminate()
        // In the middle of a batch, whether or not it is written by then.
        if (writer === 1 && i === 60) {
          threads.onBatch = () => {
            threads.onBatch = () => {}
            void threads.last!.terminate()
          }
        }
      }
    }
    const topUps = async () => {
      for (let i = 0; i < 40; i++) {
        const topUp = {
          kind: 'top-up' as const,
          account: 'acct',
          amount: 1000n,
          reference: `top-up ${i}`,
        }
        // Refused, and tried again, while there is no thread.
        await expect
          .poll(() => ledger.book(topUp).catch(() => undefined))
          .toMatchObject({ cost: -1000n })
      }
    }
    const noted = async () => {
      for (let i = 0; i < 40; i++) {
        await expect
          .poll(() =>
            records.put(`note:${i}`, { i }).then(
              () => true,
              () => false,
            ),
          )
          .toBe(true)
      }
    }
    await Promise.all([settle(0), settle(1), settle(2), topUps(), noted()])
    expect(logged.filter((line) => line.includes('the ledger has a thread again'))).toHaveLength(2)
    await expect.poll(() => ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })

    const spent = [...acknowledged.values()].reduce((sum, cost) => sum + cost, 0n)
    const balance = 10n ** 13n + 40_000n - spent
    expect(await costsOf(ledger)).toEqual([...acknowledged].sort())
    expect(await ledger.account('acct')).toEqual({ balance, available: balance, paid: true })
    expect(await ledger.verify()).toEqual([])
    // Limits that are in memory hold as before.
    admit(ledger, 'req_after', 5n)
    await ledger.settle(settlement('req_after', 0n))
    await ledger.close()

    const again = await open(path)
    expect(await costsOf(again.ledger)).toHaveLength(301)
    expect((await again.ledger.account('acct')).balance).toBe(balance)
    for (let i = 0; i < 40; i++) expect(await again.records.get(`note:${i}`)).toEqual({ i })
    expect(await again.ledger.verify()).toEqual([])
    await again.ledger.close()
    expect(integrityOf(path)).toBe('ok')
  })

  it('admits nothing until another one has the file', async () => {
    const threads = watchThreads()
    const { ledger, path } = await openPaid()
    const call = admit(ledger, 'running', 5n)
    await threads.last!.terminate()
    expect(ledger.health().ok).toBe(false)
    expect(() => admit(ledger, 'late')).toThrow(Unavailable)
    await expect(ledger.limits('acct', 'key', LIMITS, 2)).rejects.toThrow(Unavailable)
    expect(await ledger.settle(settlement(call.request, 7n))).toMatchObject({ state: 'charged' })
    expect(ledger.health().ok).toBe(true)
    admit(ledger, 'late')
    expect(existsSync(join(path, 'rescue.jsonl'))).toBe(false)
  })

  it('is closed while it has none, with its settlements in lines to import', async () => {
    const threads = watchThreads()
    const { ledger, path, logged } = await openPaid()
    // The second attempt never comes, however long the end takes here.
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    // No other thread takes another ledger, or begins one.
    // The one that ends may not see it either.
    const ended = threads.last!.terminate()
    renameSync(path, `${path}-away`)
    await ended
    await expect.poll(() => logged.join('\n')).toContain('could not be opened by another thread')
    expect(existsSync(path)).toBe(false)
    await rename(`${path}-away`, path)
    const settled = ledger.settle(settlement('req_1', 7n))
    await expect(ledger.close()).rejects.toThrow('rescue.jsonl')
    expect(await settled).toMatchObject({ state: 'charged', cost: 7n })
    expect(await readFile(join(path, 'rescue.jsonl'), 'utf8')).toContain('"req_1"')
  })
})

/** A thread that is told to end. */
class EndingWorker extends EventEmitter implements WorkThread {
  readonly store = new Store(openMemoryDatabase())

  send(message: ToStore): void {
    if ('close' in message) this.emit('exit')
    else this.emit('message', this.store.run(message))
  }

  ref(): void {}

  unref(): void {}
}

describe('attempts at another thread', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  })
  afterEach(() => vi.useRealTimers())

  /** A client whose first thread ends. @param fails how many of the next ones cannot start */
  function client(fails: number) {
    const logged: string[] = []
    const write = (...args: unknown[]) => void logged.push(args.join(' '))
    const log = { info: write, warn: write, error: write } as unknown as Log
    const workers = [new EndingWorker()]
    let attempts = 0
    const restart = async () => {
      if (attempts++ < fails) throw new Error('it is locked')
      const worker = new EndingWorker()
      workers.push(worker)
      return { worker, snapshot: new Map() }
    }
    const made = new WorkerClient(workers[0]!, log, { restart })
    return { made, workers, logged, attempts: () => attempts }
  }

  it('are made every two seconds, three in all', async () => {
    const { made, workers, logged, attempts } = client(Infinity)
    let lost: string | undefined
    void made.lost.then((reason) => (lost = reason))
    const read = made.read('accounts')
    read.catch(() => {})
    workers[0]!.emit('exit')
    for (const [after, so] of [
      [0, 1],
      [1999, 1],
      [1, 2],
      [1999, 2],
    ] as const) {
      await vi.advanceTimersByTimeAsync(after)
      expect([attempts(), made.ok, lost]).toEqual([so, false, undefined])
    }
    await vi.advanceTimersByTimeAsync(1)
    expect([attempts(), lost, made.broken]).toEqual([3, 'its thread has ended', true])
    await expect(read).rejects.toThrow('no other one could be started')
    expect(logged.at(-1)).toContain('the thread of the ledger has ended, the gateway ends')
    await made.close()
  })

  it('go on with what was asked for', async () => {
    const { made, workers, attempts } = client(2)
    workers[0]!.emit('exit')
    const reads = [made.read('accounts'), made.read('accounts')]
    await vi.advanceTimersByTimeAsync(4000)
    expect(await Promise.all(reads)).toEqual([[], []])
    expect([attempts(), made.ok]).toEqual([3, true])
    await made.close()
  })

  it('are used up by threads that end again and again, until one has run for a minute', async () => {
    const { made, workers, attempts } = client(0)
    for (const so of [1, 2]) {
      workers.at(-1)!.emit('exit')
      await vi.advanceTimersByTimeAsync(2000)
      expect([attempts(), made.ok]).toEqual([so, true])
    }
    await vi.advanceTimersByTimeAsync(60_000)
    for (const so of [3, 4, 5]) {
      workers.at(-1)!.emit('exit')
      await vi.advanceTimersByTimeAsync(2000)
      expect([attempts(), made.ok]).toEqual([so, true])
    }
    workers.at(-1)!.emit('exit')
    await vi.advanceTimersByTimeAsync(2000)
    expect([attempts(), made.ok, made.broken]).toEqual([5, false, true])
  })
})
