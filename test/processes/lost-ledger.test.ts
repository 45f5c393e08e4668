/** A gateway as a process whose ledger is taken away or damaged while it streams. */
import { existsSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { call, run } from '../_cli.ts'
import { complete, configOf, post, serveWith, spentAt, startStreams, TOKEN } from './_streams.ts'

/** What a gateway says of itself; undefined once it listens no more. */
async function ready(url: string): Promise<Readiness | undefined> {
  const response = await fetch(`${url}/readyz`).catch(() => undefined)
  return response && ((await response.json()) as Readiness)
}

interface Readiness {
  readonly status: string
  readonly reasons: readonly string[]
}

/** The sum of all charges in a folder that no gateway uses, in USD. */
async function chargedIn(cwd: string): Promise<number> {
  const { code, err, out } = await call(['ledger', 'export'], { cwd })
  expect([code, err]).toEqual([0, ''])
  const rows = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  return rows.reduce((sum, { kind, cost }) => sum + (kind === 'usage' ? Number(cost) : 0), 0)
}

describe('a ledger that is removed under load', () => {
  it('lets 20 streams end, is in a copy with all of their costs, and ends the process with 74', async () => {
    const { url, cwd, ended } = await serveWith(configOf('', { paceMs: 150 }))
    const streams = await startStreams(url)
    const file = join(cwd, 'data/ledger.db')
    await rm(file)
    let refused: Readiness | undefined
    await expect.poll(async () => (refused = await ready(url))?.status).not.toBe('ok')
    // It stops to listen soon after it is not ready any more.
    if (refused) expect(refused.reasons).toContain('ledger')
    const late = await post(url, { model: 'mock/echo' }).catch(() => undefined)
    if (late) expect(late.status).toBe(503)
    const cost = await complete(streams)
    const { code, err, out } = await ended
    expect(code).toBe(74)
    expect(out + err).toContain(`the ledger is lost, the gateway ends: ${file} was removed`)
    const [, copy] = /ledger\.db was removed while the gateway used it; (\S+) has all of it\n/.exec(
      err,
    )!

    const { err: message, code: status } = await call(['ledger', 'export'], { cwd })
    expect(status).toBe(1)
    expect(message).toContain(`Cannot open the state: ${file} is missing`)
    expect(message).toContain(`Put ${copy} there`)
    await rename(copy!, file)
    const again = await serveWith('', { cwd })
    expect(await spentAt(again.url)).toBeCloseTo(cost, 9)
    const verified = await call(['ledger', 'verify', '--url', again.url, '--token', TOKEN], { cwd })
    expect(verified).toMatchObject({ code: 0 })
    again.child.kill('SIGTERM')
    expect(await again.ended).toMatchObject({ code: 0 })
  })
})

/** Ends the thread of the ledger on SIGUSR2. @param once whether others may take its place */
const killer = (once: boolean) => [
  '--import',
  `data:text/javascript,${encodeURIComponent(`
  import { Worker } from 'node:worker_threads'
  const { postMessage, on } = Worker.prototype
  let ledger
  let ended = false
  let ending = false
  Worker.prototype.on = function (...args) {
    // To end a thread adds a listener too.
    if (ended && !${once} && this.threadName === 'ledger' && !ending) {
      ending = true
      this.terminate()
      ending = false
    }
    return on.apply(this, args)
  }
  Worker.prototype.postMessage = function (message, ...more) {
    if (this.threadName === 'ledger') ledger = this
    postMessage.call(this, message, ...more)
  }
  process.on('SIGUSR2', () => {
    ended = true
    ledger.terminate()
  })`)}`,
]

describe('a ledger whose thread ends', () => {
  it('has another one, and disturbs no stream', async () => {
    const config = configOf('', { paceMs: 50 })
    const { url, cwd, child, ended, said } = await serveWith(config, {}, killer(true))
    const streams = await startStreams(url)
    child.kill('SIGUSR2')
    const cost = await complete(streams)
    expect(said()).toContain('the ledger has a thread again')
    expect((await post(url, { model: 'mock/echo' })).status).toBe(200)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
    expect(await chargedIn(cwd)).toBeGreaterThan(cost)
    expect(existsSync(join(cwd, 'data/rescue.jsonl'))).toBe(false)
  })

  it('ends an idle process with 70, and the next start is clean', async () => {
    const { url, cwd, child, ended, said } = await serveWith(configOf(), {}, killer(false))
    const cost = await complete(await startStreams(url, 2))
    child.kill('SIGUSR2')
    const { code, err } = await ended
    expect(said()).toContain('the thread of the ledger has ended')
    expect(err).toContain('Ended by the end of the ledger: its thread has ended.')
    expect(code).toBe(70)
    const again = await serveWith('', { cwd })
    expect(await spentAt(again.url)).toBeCloseTo(cost, 9)
    again.child.kill('SIGTERM')
    expect(await again.ended).toMatchObject({ code: 0 })
  })

  it('lets 20 streams end, whose costs can be imported, and ends the process with 74', async () => {
    const { url, cwd, child, ended } = await serveWith(
      configOf('', { paceMs: 50 }),
      {},
      killer(false),
    )
    const streams = await startStreams(url)
    child.kill('SIGUSR2')
    const cost = await complete(streams)
    const { code, err } = await ended
    expect(err).toContain('rescue.jsonl')
    expect(code).toBe(74)
    const imported = await call(['ledger', 'import', join(cwd, 'data/rescue.jsonl')], { cwd })
    expect([imported.code, imported.err]).toEqual([0, ''])
    expect(await chargedIn(cwd)).toBeCloseTo(cost, 9)
  })
})

describe('a ledger with a damaged page', () => {
  it('ends each start in a sentence, with 74', async () => {
    const { cwd, child, ended } = await serveWith(configOf())
    child.kill('SIGTERM')
    await ended
    const file = join(cwd, 'data/ledger.db')
    const db = new DatabaseSync(file)
    const index = db
      .prepare(`SELECT rootpage FROM sqlite_schema WHERE name = 'usage_orphan'`)
      .get()!
    db.close()
    const target = await open(file, 'r+')
    await target.write(Buffer.alloc(4096, 0xa5), 0, 4096, (Number(index.rootpage) - 1) * 4096)
    await target.close()
    for (let start = 0; start < 2; start++) {
      const { code, err } = await run(['serve'], { cwd })
      expect(err).toMatch(/\nThe ledger is damaged: .*\n$/i)
      expect(code).toBe(74)
    }
  })
})
