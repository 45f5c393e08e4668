/** The thread of sinks: one that fails or is kept busy is ended and started again, and what is lost is counted. */
import { NO_NETWORK } from '../../../src/config/network.ts'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { ConfigIssue } from '../../../src/errors/errors.ts'
import type { SinksInit } from '../../../src/gateway/sinks/thread.ts'
import { SinkMetrics } from '../../../src/observe/metrics.ts'
import { Sinks } from '../../../src/observe/sinks/sinks.ts'
import { startAlone } from '../../../src/threads/client.ts'
import { folder } from '../../_folder.ts'
import { eventually } from '../../_wait.ts'

const SCRIPT = new URL('../../../src/gateway/sinks/thread.ts', import.meta.url)
const SECRET = 'secret-of-the-sink'

/** A sink that does what an alert tells it to. */
const ODD = `
import { existsSync, writeFileSync } from 'node:fs'
const spin = (file) => { writeFileSync(file, ''); for (;;); }
export default {
  kind: 'sink', api: 1, name: 'odd',
  options: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  setup({ busy, file }) {
    if (busy) spin(file)
    return {
      takes: ['alert'],
      batch: 1,
      send([{ data }]) {
        if (data.message === 'spin') spin(file)
        if (data.message === 'fail') setInterval(() => {
          if (existsSync(file)) throw new Error('a fault of the plugin')
        }, 20)
        return data.message === 'afterwards' ? undefined : new Promise(() => {})
      },
    }
  },
}`

/** Two sinks: one of a file, and an odd one. */
async function open(options: { readonly busy?: boolean } = {}) {
  const path = await folder({ 'odd.mjs': ODD })
  const events = join(path, 'events.jsonl')
  const file = join(path, 'sign')
  const init: Omit<SinksInit, 'entered' | 'without'> = {
    sinks: [
      { use: 'file', options: { path: events } },
      { use: './odd.mjs', options: { ...options, file, secret: SECRET } },
    ],
    directory: path,
    secrets: [],
    egress: {},
    network: NO_NETWORK,
    managed: [],
    gateway: 'gw_1',
    telemetry: { service: 'test', environment: undefined, attributes: {} } as never,
  }
  let looks = () => {}
  const logged: string[] = []
  const line = (...args: unknown[]) => void logged.push(args.map(String).join(' '))
  const metrics = new SinkMetrics()
  const sinks = new Sinks({
    gateway: 'gw_1',
    start: (entered, without) => startAlone('sinks', SCRIPT, { ...init, entered, without }),
    log: { error: line, warn: line, info: line, debug: line } as never,
    metrics,
    mask() {},
    repeat: (look) => void (looks = look),
    restartMs: 0,
  })
  let issues: readonly ConfigIssue[] | undefined
  void sinks.open().then((found) => (issues = found))
  /** The thread is kept busy from the moment on in which the file is there. */
  const lookUntil = async (check: () => void) => {
    await eventually(() => expect(existsSync(file)).toBe(true))
    await eventually(() => {
      looks()
      check()
    })
  }
  if (!options.busy) await eventually(() => expect(issues).toEqual([]))
  const tell = (message: string) =>
    sinks.tell('alert', { id: 'al_1', kind: 'ledger.down', object: '', state: 'raised', message })
  const written = async () => (await readFile(events, 'utf8')).trim().split('\n')
  const lost = (reason: string) =>
    new Map(metrics.families()[1]!.samples).get(`{sink="odd",reason="${reason}"}`)
  return {
    sinks,
    issues: () => issues,
    file,
    lookUntil,
    metrics,
    logged,
    tell,
    written,
    lost,
    [Symbol.asyncDispose]: () => sinks.close(),
  }
}

it('ends a thread that a sink keeps busy, and goes on without that sink', async () => {
  await using t = await open()
  t.tell('spin')
  await t.lookUntil(() => expect([...t.sinks.disabled.keys()]).toEqual(['odd']))
  await eventually(async () => {
    t.tell('afterwards')
    expect((await t.written()).at(-1)).toContain('afterwards')
  })
  expect(t.lost('thread')).toBeGreaterThan(0)
  expect(t.lost('disabled')).toBeGreaterThan(0)
  expect(t.logged.filter((line) => line.includes('sink.disabled: the sink odd'))).toHaveLength(1)
})

it('starts again after a fault of a sink, and counts what had waited', async () => {
  await using t = await open()
  t.tell('fail')
  t.tell('wait')
  await eventually(() => expect(t.metrics.queued.get('odd')).toBe(2))
  await writeFile(t.file, '')
  await eventually(() => expect(t.lost('thread')).toBe(2))
  expect([...t.metrics.queued.values()].some((events) => events > 0)).toBe(false)
  expect(t.logged.join()).toContain('a fault of the plugin')
  await eventually(async () => {
    t.tell('afterwards')
    expect((await t.written()).at(-1)).toContain('afterwards')
  })
  expect([...t.sinks.disabled]).toEqual([])
  expect(t.logged.join()).not.toContain(SECRET)
})

it('refuses a sink that does not let go of the thread while it is set up', async () => {
  await using t = await open({ busy: true })
  const issue = { path: 'sinks.1.use', message: expect.stringContaining('busy') }
  await t.lookUntil(() => expect(t.issues()).toEqual([issue]))
})
