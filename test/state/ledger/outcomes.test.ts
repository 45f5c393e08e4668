/**
 * What becomes of settlements while stores fail, threads end and servers are killed, by random walks: `settle` never rejects,
 * and each settlement is booked, or waived to 0, or a line that `ledger import` books. Nothing is lost or counted twice.
 */
import * as fc from 'fast-check'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { LostState } from '../../../src/errors/errors.ts'
import { parsePico, type Pico } from '../../../src/money/money.ts'
import { Clock } from '../../../src/state/ledger/windows.ts'
import type { Ledger, LedgerItem, Log, Settled } from '../../../src/state/ledger/ledger.ts'
import { OutboxFile } from '../../../src/state/redis/outbox.ts'
import { firstDay, SqliteLedger } from '../../../src/state/sqlite/engine.ts'
import { WorkerClient } from '../../../src/state/sqlite/worker-client.ts'
import * as redis from '../redis/_engine.ts'
import {
  admit,
  collect,
  KEY,
  LIMITS,
  NO_HISTORY,
  NOON,
  open,
  openPaid,
  settlement,
} from '../sqlite/_engine.ts'
import { FaultyWorker, watchThreads } from '../sqlite/_workers.ts'
import { runs } from '../../_runs.ts'

/** A ledger with a store that fails when it is told to. */
interface Scene {
  readonly ledger: Ledger
  readonly logged: readonly string[]
  /** Admits a call that holds money. */
  admit(request: string): unknown
  /** Makes the store fail. @param kind the number, from 0 on, of one of the kinds that it has */
  fail(kind: number): Promise<void>
  repair(): Promise<void>
  /** Ends what keeps the rows. @param written whether what is under way is written all the same */
  kill(written: boolean): Promise<void>
  /** Lets time pass. */
  pass(ms: number): Promise<void>
  /** Lines of a file of rescued settlements. */
  rescued(): readonly string[]
  /** A ledger without faults on the same store, after the first one was closed. */
  reopen(): Promise<Ledger>
}

const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('settle'),
      who: fc.nat(30),
      cost: fc.nat(1000),
      held: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('waive'), who: fc.nat(30) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('fail'), how: fc.nat(1) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('repair') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kill'), written: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass'), ms: fc.nat(12_000) }) },
)

interface Step {
  readonly kind: string
  readonly who?: number
  readonly cost?: number
  readonly held?: boolean
  readonly how?: number
  readonly written?: boolean
  readonly ms?: number
}

/** What a walk knows of one settlement. */
interface Known {
  /** Costs in the order in which they were told. */
  readonly costs: Pico[]
  readonly answers: Settled[]
  waived: boolean
}

/** Walks, ends in an outage or after a repair, and compares what is booked with what was answered. */
async function walk(scene: Scene, steps: readonly Step[], repaired: boolean): Promise<void> {
  const known = new Map<string, Known>()
  const pending = new Set<Promise<void>>()
  const settle = async (request: string, one: Known, cost: Pico) => {
    one.costs.push(cost)
    // A rejection would fail the walk at its end.
    one.answers.push(await scene.ledger.settle(settlement(request, cost)))
  }
  const take = async ({ kind, who, cost, held, how, written, ms }: Step) => {
    const request = `req_${who}`
    const one = known.get(request)
    switch (kind) {
      case 'settle': {
        const entry = one ?? { costs: [], answers: [], waived: false }
        known.set(request, entry)
        if (!one && held && scene.ledger.health().ok) {
          await Promise.resolve(scene.admit(request)).catch(() => undefined)
        }
        const settled = settle(request, entry, BigInt(cost!))
        pending.add(settled)
        return void settled.finally(() => pending.delete(settled)).catch(() => undefined)
      }
      case 'waive': {
        // Of calls whose answer was not sent: nothing was told that is charged.
        const untold = one?.answers.length && one.answers.every((all) => all.state === 'deferred')
        if (!untold || one.answers.length < one.costs.length) return
        one.waived = true
        const answer = await scene.ledger.waive({ ...KEY, request })
        if (answer.state !== 'deferred') one.answers.push(answer)
        return
      }
      case 'fail':
        return scene.fail(how!)
      case 'repair':
        return scene.repair()
      case 'kill':
        return scene.kill(written!)
      default:
        return scene.pass(ms!)
    }
  }
  for (const one of steps) await take(one)
  if (repaired) await checkRunning(scene, pending)
  const closing = scene.ledger.close().then(
    () => undefined,
    (error: unknown) => error,
  )
  const ended = Promise.all([closing, ...pending])
  const [reason] = await passing(scene, ended)
  if (reason !== undefined) expect(reason).toBeInstanceOf(LostState)

  const unbooked = scene.logged.flatMap((line) => /not booked \(.*?\): (.*)$/.exec(line)?.[1] ?? [])
  const lines = [...unbooked, ...scene.rescued()].map((line) => JSON.parse(line))
  await scene.repair()
  const after = await scene.reopen()
  for (const { cost, ...row } of lines) {
    // What the log says of one that a lost confirmation had booked stands beside its row, and changes nothing.
    await after.import([{ ...row, cost: parsePico(cost) } as LedgerItem])
  }
  const rows = (await collect(after.usage('acct'))).filter(({ kind }) => kind === 'usage')
  expect(rows.map(({ request }) => request).toSorted()).toEqual([...known.keys()].toSorted())
  for (const { request, cost } of rows) {
    const { costs, answers, waived } = known.get(request)!
    const told = answers.filter(({ state }) => state !== 'deferred')
    // The first cost that was told stands.
    for (const answer of told) expect([request, answer.cost]).toEqual([request, cost])
    expect(waived ? [0n, ...costs] : costs).toContain(cost)
  }
  expect(await after.verify()).toEqual([])
  const spent = rows.reduce((sum, { cost }) => sum + cost, 0n)
  expect((await after.account('acct')).balance).toBe(10n ** 13n - spent)
  await after.close()
}

/** What the ledger has in memory equals its rows, once it is repaired; one that is lost can only be closed. */
async function checkRunning(scene: Scene, pending: ReadonlySet<unknown>): Promise<void> {
  const { ledger } = scene
  const state = { lost: false }
  void ledger.lost.then(() => (state.lost = true))
  await scene.repair()
  while (!state.lost && (pending.size > 0 || !ledger.health().ok)) await scene.pass(250)
  if (!state.lost) expect(await passing(scene, ledger.verify())).toEqual([])
}

/** Lets time pass until there is a result. */
async function passing<Result>(scene: Scene, result: Promise<Result>): Promise<Result> {
  const state = { over: false }
  const finish = () => void (state.over = true)
  void result.then(finish, finish)
  while (!state.over) await scene.pass(250)
  return result
}

/** Runs a property of walks. */
function walks(openScene: () => Promise<Scene>, numRuns: number, length: number): Promise<void> {
  const property = fc.asyncProperty(
    fc.array(step as fc.Arbitrary<Step>, { minLength: 5, maxLength: length }),
    fc.boolean(),
    async (steps, repaired) => walk(await openScene(), steps, repaired),
  )
  return fc.assert(property, { numRuns, endOnFailure: true })
}

function logOf(logged: string[]): Log {
  const write = (...args: unknown[]) => void logged.push(args.join(' '))
  return { info: write, warn: write, error: write } as unknown as Log
}

/** Times of the main thread, in which nothing waits; threads and their disks take the time that they take. */
function fakeTime(): (ms: number) => Promise<void> {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'],
  })
  return async (ms) => {
    await vi.advanceTimersByTimeAsync(ms)
    await new Promise((resolve) => void setImmediate(resolve))
  }
}
afterEach(() => vi.useRealTimers())

/** The engine of the driver `memory`, whose store fails, hangs and ends. */
async function memoryScene(pass: (ms: number) => Promise<void>): Promise<Scene> {
  const logged: string[] = []
  const workers = [new FaultyWorker()]
  const { store } = workers[0]!
  const clock = new Clock(() => NOON)
  const from = firstDay(clock)
  const engineOn = (worker: FaultyWorker, log: Log) => {
    const restart = async () => {
      workers.push(new FaultyWorker(store))
      return { worker: workers.at(-1)!, snapshot: store.load(from) }
    }
    const client = new WorkerClient(worker, log, { restart })
    const exportItems = async function* () {}
    const openHistory = async () => NO_HISTORY
    return new SqliteLedger({
      client,
      clock,
      from,
      snapshot: store.load(from),
      exportItems,
      openHistory,
      log,
    })
  }
  const ledger = engineOn(workers[0]!, logOf(logged))
  await ledger.book({ kind: 'top-up', account: 'acct', amount: 10n ** 13n, reference: 'first' })
  await ledger.limits('acct', 'key', LIMITS, 1)
  return {
    ledger,
    logged,
    pass,
    admit: (request) => admit(ledger, request, 5n),
    fail: async (kind) => void (workers.at(-1)!.fault = kind === 0 ? 'fails' : 'hangs'),
    repair: async () => workers.at(-1)!.answer(),
    kill: async (written) => workers.at(-1)!.end(written),
    rescued: () => [],
    reopen: async () => engineOn(new FaultyWorker(store), logOf([])),
  }
}

/** The engine of the driver `file`, whose file another connection locks, and whose thread is ended. */
async function fileScene(
  pass: (ms: number) => Promise<void>,
  threads: ReturnType<typeof watchThreads>,
): Promise<Scene> {
  const { ledger, path, logged } = await openPaid()
  const other = new DatabaseSync(join(path, 'ledger.db'))
  onTestFinished(() => {
    if (other.isOpen) other.close()
  })
  const free = () => {
    if (other.isOpen && other.isTransaction) other.exec('ROLLBACK')
  }
  return {
    ledger,
    logged,
    pass,
    admit: (request) => admit(ledger, request, 5n),
    fail: async () => {
      // A batch may have it right now.
      if (!other.isTransaction) await eventuallyLocked(other)
    },
    repair: async () => free(),
    // A commit is under way or not.
    kill: async () => void (await threads.last!.terminate()),
    rescued() {
      const file = join(path, 'rescue.jsonl')
      return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n').slice(1) : []
    },
    async reopen() {
      other.close()
      // A thread that did not answer in time was given up; it would end with the process.
      await threads.last!.terminate()
      return (await open(path)).ledger
    },
  }
}

async function eventuallyLocked(db: DatabaseSync): Promise<void> {
  for (;;) {
    try {
      return db.exec('BEGIN IMMEDIATE')
    } catch {
      await new Promise((resolve) => void setImmediate(resolve))
    }
  }
}

/** The engine of the driver `redis`, whose server is killed and whose outbox cannot be written. */
async function redisScene(): Promise<Scene> {
  const server = await redis.serverForTest({ appendfsync: 'always' })
  const engine = await redis.open(server.url)
  await redis.pay(engine.ledger)
  const append = vi.spyOn(OutboxFile.prototype, 'append')
  onTestFinished(() => append.mockRestore())
  let runs = true
  const start = async () => {
    if (!runs) await server.start()
    runs = true
  }
  const end = async () => {
    await server.kill()
    runs = false
  }
  return {
    ledger: engine.ledger,
    logged: engine.logged,
    admit: (request) => redis.admit(engine.ledger, request, 5n),
    async fail(kind) {
      if (kind === 0) append.mockRejectedValue(new Error('disk full'))
      await end()
    },
    async repair() {
      append.mockRestore()
      await start()
    },
    async kill() {
      await end()
      await start()
    },
    pass: () => new Promise((resolve) => void setImmediate(resolve)),
    rescued: () => [],
    async reopen() {
      await engine.close().catch(() => undefined)
      const { ledger } = await redis.open(server.url, { outbox: engine.outbox })
      await expect.poll(() => ledger.health()).toMatchObject({ ok: true, outbox: 0, oldestMs: 0 })
      return ledger
    },
  }
}

describe('every settlement is booked, waived or written to the log, once', () => {
  it('with the driver memory', async () => {
    const pass = fakeTime()
    await walks(() => memoryScene(pass), runs(30), 80)
  })

  it('with the driver file', async () => {
    const pass = fakeTime()
    const threads = watchThreads()
    await walks(() => fileScene(pass, threads), runs(2), 40)
  })

  it.skipIf(!redis.installed)('with the driver redis', async () => {
    await walks(redisScene, runs(2), 40)
  })
})
