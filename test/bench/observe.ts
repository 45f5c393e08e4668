/**
 * `node test/bench/observe.ts`: what it costs to report on calls. One load on two gateways in alternating turns: one with access
 * log, request log, usage, traces and webhooks to a slow receiver and a console that watches, and one with none of it. Prints the
 * processor time of the main thread, which is what calls wait for, and of all threads. `--rounds <n>` (7), `--json`.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Figures } from './judge.ts'
import type { Job, Target } from './load.ts'

const { values: options } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, json: { type: 'boolean', default: false } },
})

/** Least throughput with everything on, as a share of that with everything off. */
const GATE = 0.98
const SINK_MS = 2000
const JOB: Job = {
  kind: 'closed',
  answer: 'json-4k',
  lanes: 16,
  requestBytes: 2048,
  warmRequests: 0,
  ms: 3000,
  everyMs: 0,
}

const key = `sk-${randomBytes(16).toString('hex')}`
const token = randomBytes(16).toString('hex')
const folder = mkdtempSync(join(tmpdir(), 'bench-observe-'))
const children: ChildProcess[] = []

function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const child = spawn(process.execPath, args, {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  children.push(child)
  return child
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

async function answers(url: string): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    if (await fetch(url).catch(() => undefined)) return
    await sleep(100)
  }
  throw new Error(`${url} does not answer`)
}

async function startGateway(mode: string, upstream: string, sink: string): Promise<Target> {
  const port = await freePort()
  const child = start(['src/cli.ts', 'serve', '--config', 'test/bench/observe.config.ts'], {
    BENCH_OBSERVE: mode,
    BENCH_FOLDER: join(folder, mode),
    BENCH_UPSTREAM: upstream,
    BENCH_SINK: sink,
    BENCH_KEY: key,
    BENCH_TOKEN: token,
    SLUICEGATE__SERVER__PORT: String(port),
  })
  const url = `http://127.0.0.1:${port}`
  await answers(`${url}/readyz`)
  return { url, pid: child.pid!, key, gateway: true }
}

/** A console that watches, and reads everything. */
async function watch({ url }: Target): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const { body, status } = await fetch(`${url}/admin/events`, { headers })
  if (status !== 200) throw new Error(`/admin/events answered ${status}`)
  // It ends with its gateway.
  void body!.pipeTo(new WritableStream()).catch(() => undefined)
}

async function run(load: ChildProcess, target: Target, job: Job): Promise<Figures> {
  const answered = once(load, 'message')
  load.send({ target, job })
  const [answer] = (await answered) as [{ figures?: Figures; error?: string }]
  if (!answer.figures) throw new Error(answer.error)
  return answer.figures
}

/** Processor time of threads so far, us: of the main thread, and of all. */
function cpuOf({ pid }: Target): { readonly main: number; readonly all: number } {
  const micros = (thread: string) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]) / 1000
  const all = readdirSync(`/proc/${pid}/task`).map(micros)
  return { main: micros(String(pid)), all: all.reduce((sum, one) => sum + one, 0) }
}

/** us of a request. */
async function measure(load: ChildProcess, target: Target) {
  const before = cpuOf(target)
  const { perSecond } = await run(load, target, JOB)
  const after = cpuOf(target)
  const requests = (perSecond! * JOB.ms) / 1000
  return { main: (after.main - before.main) / requests, all: (after.all - before.all) / requests }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!
}

const receiver = createHttpServer((request, response) => {
  request.resume()
  setTimeout(() => response.end('{}'), SINK_MS)
}).listen(0, '127.0.0.1')
try {
  await once(receiver, 'listening')
  const sink = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const port = await freePort()
  start(['test/bench/upstream.ts', String(port)])
  const upstream = `http://127.0.0.1:${port}`
  const load = start(['test/bench/load.ts'])
  const on = await startGateway('on', upstream, sink)
  const off = await startGateway('off', upstream, sink)
  await watch(on)
  for (const target of [on, off]) {
    await run(load, target, { ...JOB, kind: 'check' })
    await run(load, target, { ...JOB, warmRequests: 5000, ms: 500 })
  }
  type Micros = Awaited<ReturnType<typeof measure>>
  const turns: { readonly on: Micros; readonly off: Micros }[] = []
  for (let round = 0; round < Number(options.rounds); round++) {
    // Each goes first as often as the other.
    const order = round % 2 === 0 ? [on, off] : [off, on]
    const found = new Map<Target, Micros>()
    for (const target of order) found.set(target, await measure(load, target))
    turns.push({ on: found.get(on)!, off: found.get(off)! })
  }
  const of = (mode: 'on' | 'off', what: 'main' | 'all') =>
    median(turns.map((one) => one[mode][what]))
  const share = median(turns.map((turn) => turn.off.main / turn.on.main))
  const figures = {
    mainMicros: { on: of('on', 'main'), off: of('off', 'main') },
    allMicros: { on: of('on', 'all'), off: of('off', 'all') },
    share,
    gate: GATE,
    passed: share >= GATE,
  }
  if (options.json) process.stdout.write(`${JSON.stringify(figures)}\n`)
  else {
    const line = ({ on, off }: { on: number; off: number }) =>
      `${on.toFixed(1)} on, ${off.toFixed(1)} off, ${(on - off).toFixed(1)} more`
    process.stdout.write(
      `us/request, main thread: ${line(figures.mainMicros)}\n` +
        `us/request, all threads: ${line(figures.allMicros)}\n` +
        `throughput of the main thread, on / off: ${share.toFixed(3)} (gate ${GATE})\n`,
    )
  }
  if (!figures.passed) process.exitCode = 1
} finally {
  for (const child of children) child.kill()
  receiver.close()
  receiver.closeAllConnections()
  await Promise.all(
    children.map((child) => child.exitCode ?? child.signalCode ?? once(child, 'exit')),
  )
  rmSync(folder, { recursive: true, force: true })
}
