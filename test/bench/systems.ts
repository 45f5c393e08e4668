/** The processes of the bench: the upstream, the minimal proxy, the gateway and the clients. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { RedisServer } from '../state/redis/_redis.ts'
import type { Checked, Figures, Setting, System, Turn } from './judge.ts'
import { memoryKb, type Target } from './load.ts'
import type { Group, Steps } from './steps.ts'

const CONFIG = 'test/bench/gateway.config.ts'
/** @param data folder of its own: one of the checkout may hold a ledger, beside which no other is begun */
const PROGRAMS = {
  bare: (_data: string) => ['test/bench/bare.ts'],
  gateway: (data: string) => ['src/cli.ts', 'serve', '--config', CONFIG, '--data', data],
}
/** Warming up goes by turns too: V8 lets go of compiled code where a process idles for long. */
const WARM_SLICE = 10_000
/** Requests before those that count, so that connections are open. */
const RAMP = 100
const PATIENCE_MS = 30_000
/** Every child, and the end of what it wrote to standard error. */
const children = new Map<ChildProcess, string>()
/** Whether processes can be kept on cores of their own here. */
export const canPin = ['0', '1'].every(
  (core) => spawnSync('taskset', ['-c', core, 'true']).status === 0,
)

function start(
  { pinned }: Setting,
  core: 0 | 1,
  args: string[],
  env: NodeJS.ProcessEnv = {},
  channel?: 'ipc',
): ChildProcess {
  const node = [process.execPath, ...args]
  const [command, ...rest] = pinned ? ['taskset', '-c', String(core), ...node] : node
  const child = spawn(command!, rest, {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, ...env },
    // Standard output goes nowhere: the access log is made and written as always.
    stdio: ['ignore', 'ignore', 'pipe', channel],
  })
  children.set(child, '')
  child.stderr!.on('data', (text) => children.set(child, (children.get(child) + text).slice(-2000)))
  return child
}

/** Starts a server on a free port; resolves once it answers there. */
async function serve(setting: Setting, core: 0 | 1, args: string[], env: NodeJS.ProcessEnv = {}) {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const port = String((probe.address() as AddressInfo).port)
  await once(probe.close(), 'close')
  const startedAt = performance.now()
  const child = start(setting, core, [...args, '--port', port], env)
  const url = `http://127.0.0.1:${port}`
  for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await sleep(20)) {
    if (child.exitCode !== null) break
    if (await fetch(`${url}/health`).catch(() => undefined)) {
      return { url, pid: child.pid!, startSeconds: (performance.now() - startedAt) / 1000 }
    }
  }
  throw new Error(`${args.join(' ')} does not start`)
}

/** What was measured, and how many answers with how many text events were found whole and right. */
export interface Taken {
  readonly turns: Turn[]
  readonly checked: Checked
}

/** Takes systems, in fresh processes, through their steps. The turns returned are those that count. */
export async function measure(
  setting: Setting,
  systems: readonly System[],
  groups: readonly Group[],
): Promise<Taken> {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  using _folder = { [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
  await using redis = setting.state === 'redis' ? await RedisServer.start() : undefined
  // Like another machine, as the upstream is.
  if (redis && setting.pinned) spawnSync('taskset', ['-acp', '1', String(redis.pid)])
  // With the name of a policy behind it, the key is still one block of SHA-256.
  const key = `bench-${randomBytes(20).toString('hex')}`
  const env = {
    BENCH_KEY: key,
    BENCH_STATE: setting.state,
    BENCH_FOLDER: folder,
    BENCH_REDIS: redis?.url,
  }
  const targets = await serveAll(setting, systems, folder, env)
  const clients = new Clients(start(setting, 1, ['test/bench/load.ts'], {}, 'ipc'), targets)
  const turns: Turn[] = []
  for (const { turns: count, warmRequests = 0, rehearsed = false, steps } of groups) {
    for (let warmed = 0; warmed < warmRequests; warmed += WARM_SLICE) {
      const slice = Math.min(WARM_SLICE, warmRequests - warmed)
      for (const system of systems) await clients.take(system, steps, slice)
    }
    for (let i = 0; i < count; i++) {
      const turn: Turn = { direct: {}, bare: {}, gateway: {} }
      const forth = Object.entries(steps)
      const inOrder = Object.fromEntries(i % 2 ? forth.toReversed() : forth)
      for (const system of i % 2 ? systems.toReversed() : systems) {
        if (rehearsed) await clients.take(system, inOrder, RAMP)
        turn[system] = await clients.take(system, inOrder, RAMP)
      }
      turns.push(turn)
    }
  }
  const end: Turn = { direct: {}, bare: {}, gateway: {} }
  for (const system of systems) {
    end[system]['end.peakMb'] = memoryKb(targets[system].pid, 'VmHWM') / 1024
  }
  await stop()
  return { turns: [...turns, end], checked: clients.checked }
}

type Targets = Record<System, Target & { readonly startSeconds: number }>

async function serveAll(
  setting: Setting,
  systems: readonly System[],
  folder: string,
  given: NodeJS.ProcessEnv,
): Promise<Targets> {
  const upstream = await serve(setting, 1, ['test/bench/upstream.ts'])
  const env = { ...given, BENCH_UPSTREAM: upstream.url }
  const targets = {} as Targets
  for (const system of systems) {
    // The upstream's own CPU time and memory are not measured: no process has the number 0.
    const server =
      system === 'direct'
        ? { ...upstream, pid: 0 }
        : await serve(setting, 0, PROGRAMS[system](folder), env)
    targets[system] = { ...server, key: given.BENCH_KEY!, gateway: system === 'gateway' }
  }
  return targets
}

/** The process with the clients. */
class Clients {
  readonly #load: ChildProcess
  readonly #targets: Targets
  /** So far. */
  checked: Checked = { answers: 0, events: 0 }

  constructor(load: ChildProcess, targets: Targets) {
    this.#load = load
    this.#targets = targets
  }

  /** Has them take some steps. @throws Error for an answer that is wrong */
  async take(system: System, steps: Steps, warmRequests: number): Promise<Figures> {
    const figures: Figures = {}
    for (const [name, step] of Object.entries(steps)) {
      const target = this.#targets[system]
      const policy = /^(?:guarded|ruled)(?=-)/.exec(name)?.[0]
      const asker = policy ? { ...target, key: `${target.key}-${policy}` } : target
      this.#load.send({ target: asker, job: { requestBytes: 2048, warmRequests, ...step } })
      const signal = AbortSignal.timeout(PATIENCE_MS)
      const [answer] = await once(this.#load, 'message', { signal }).catch(() => [HANGS])
      if (answer.error) throw new Error(`${system}, ${name}: ${answer.error}`)
      this.checked = answer.checked
      // NaN arrives as null.
      for (const figure in answer.figures) {
        figures[`${name}.${figure}`] = answer.figures[figure] ?? NaN
      }
      if (name === 'check') figures['check.startSeconds'] = target.startSeconds
    }
    return figures
  }
}

const HANGS = { error: 'hangs' }

/** Ends all processes. */
async function stop(): Promise<void> {
  for (const child of children.keys()) {
    children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

/** Ends all processes at once, while this one ends. */
export function kill(): void {
  children.forEach((_, child) => child.kill('SIGKILL'))
}

/** What the processes have said of errors. */
export function said(): string {
  return [...children.values()].join('')
}
