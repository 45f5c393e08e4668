/** The processes of the bench: vendor, clients, and the systems that are measured. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisServer } from '../state/redis/_redis.ts'
import type { Figures } from './judge.ts'
import type { Target } from './load.ts'
import type { GivenJob } from './loads.ts'

export const ROOT = join(import.meta.dirname, '../..')
const PATIENCE_MS = 120_000
/** Calls before those of a burst, so that connections are open. */
const RAMP = 100
const SINK_MS = 2000
/** Whether processes can be kept on cores of their own here. */
export const canPin = ['0', '1'].every(
  (core) => spawnSync('taskset', ['-c', core, 'true']).status === 0,
)

/** A program that is measured. */
export interface Program {
  readonly name: string
  /** Arguments of Node.js; the port follows them. */
  readonly args: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** It charges: its answers have a cost and a request id. */
  readonly gateway: boolean
}

export const BARE: Program = { name: 'bare', args: ['test/bench/bare.ts'], gateway: false }
export const FLOOR: Program = { name: 'floor', args: ['test/bench/floor.ts'], gateway: true }

/** The gateway that was built in this folder. */
export function builtIn(root: string, name: string, env?: NodeJS.ProcessEnv): Program {
  const config = join(ROOT, 'test/bench/gateway.config.ts')
  const args = [join(root, 'dist/src/cli.js'), 'serve', '--config', config]
  return { name, args, gateway: true, ...(env && { env }) }
}

type Started = Target & { readonly startSeconds: number }

/** One of each, all alive until they are disposed of. */
export class Systems implements AsyncDisposable {
  readonly #isPinned: boolean
  readonly #folder = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  /** Every child, and the end of what it wrote to standard error. */
  readonly #children = new Map<ChildProcess, string>()
  readonly #targets = new Map<string, Started>()
  readonly #others = new AsyncDisposableStack()
  #clients!: ChildProcess
  readonly #onExit = () => {
    for (const child of this.#children.keys()) child.kill('SIGKILL')
    rmSync(this.#folder, { recursive: true, force: true })
  }

  static async start(programs: readonly Program[], isPinned: boolean): Promise<Systems> {
    const systems = new Systems(isPinned)
    try {
      await systems.#start(programs)
      return systems
    } catch (error) {
      await systems[Symbol.asyncDispose]()
      throw error
    }
  }

  private constructor(isPinned: boolean) {
    this.#isPinned = isPinned
    process.on('exit', this.#onExit)
  }

  async #start(programs: readonly Program[]): Promise<void> {
    const key = `bench-${randomBytes(20).toString('hex')}`
    const vendor = await this.#serve(1, ['test/bench/upstream.ts'])
    // Processor time of the vendor itself is not measured: no process has the number 0.
    this.#targets.set('direct', { ...vendor, pid: 0, key, gateway: false })
    for (const { name, args, env = {}, gateway } of programs) {
      const folder = join(this.#folder, name)
      const settings = {
        BENCH_KEY: key,
        BENCH_FOLDER: folder,
        BENCH_UPSTREAM: vendor.url,
        ...(env.BENCH_STATE === 'redis' && { BENCH_REDIS: await this.#redis() }),
        ...(env.BENCH_REPORTS === 'all' && { BENCH_SINK: await this.#slowReceiver() }),
      }
      const data = args.includes('serve') ? ['--data', folder] : []
      const server = await this.#serve(0, [...args, ...data], { ...settings, ...env })
      this.#targets.set(name, { ...server, key, gateway })
      if (settings.BENCH_SINK) await watch(server.url, key)
    }
    this.#clients = this.#spawn(1, ['test/bench/load.ts'], {}, 'ipc')
  }

  async #redis(): Promise<string> {
    const redis = this.#others.use(await RedisServer.start())
    // Like another machine, as the vendor is.
    if (this.#isPinned) spawnSync('taskset', ['-acp', '1', String(redis.pid)])
    return redis.url
  }

  async #slowReceiver(): Promise<string> {
    const server = createHttpServer((request, response) => {
      request.resume()
      setTimeout(() => response.end('{}'), SINK_MS)
    })
    this.#others.defer(() => server.closeAllConnections())
    this.#others.defer(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  #spawn(
    core: 0 | 1,
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
    channel?: 'ipc',
  ): ChildProcess {
    const node = [process.execPath, ...args]
    const [command, ...rest] = this.#isPinned ? ['taskset', '-c', String(core), ...node] : node
    const child = spawn(command!, rest, {
      cwd: ROOT,
      env: { ...process.env, ...env },
      // Standard output goes nowhere: the access log is made and written as always.
      stdio: ['ignore', 'ignore', 'pipe', channel],
    })
    this.#children.set(child, '')
    child.stderr!.on('data', (text) =>
      this.#children.set(child, (this.#children.get(child) + text).slice(-2000)),
    )
    return child
  }

  /** Starts a server on a free port; resolves once it answers there. */
  async #serve(core: 0 | 1, args: readonly string[], env?: NodeJS.ProcessEnv) {
    const probe = createServer().listen(0, '127.0.0.1')
    await once(probe, 'listening')
    const { port } = probe.address() as AddressInfo
    await once(probe.close(), 'close')
    const startedAt = performance.now()
    const child = this.#spawn(core, [...args, '--port', String(port)], env)
    const url = `http://127.0.0.1:${port}`
    for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await sleep(20)) {
      if (child.exitCode !== null) break
      if (await fetch(`${url}/health`).catch(() => undefined)) {
        return { url, pid: child.pid!, startSeconds: (performance.now() - startedAt) / 1000 }
      }
    }
    throw new Error(`${args.join(' ')} does not start: ${this.#children.get(child)}`)
  }

  /** Has one system take a load once. @throws Error for an answer that is wrong */
  async take(system: string, name: string, job: GivenJob, policy?: string): Promise<Figures> {
    const { startSeconds, ...target } = this.#targets.get(system)!
    const key = policy ? `${target.key}-${policy}` : target.key
    const usual = {
      answer: '',
      lanes: 1,
      requestBytes: 2048,
      warmRequests: RAMP,
      ms: 0,
      everyMs: 0,
    }
    this.#clients.send({ target: { ...target, key }, job: { ...usual, ...job } })
    const signal = AbortSignal.timeout(PATIENCE_MS)
    const [answer] = await once(this.#clients, 'message', { signal }).catch(() => [HANGS])
    if (answer.error) throw new Error(`${system}, ${name}: ${answer.error}\n${this.#stderr()}`)
    // NaN arrives as null.
    const figures = Object.entries<number | null>(answer.figures)
    return {
      startSeconds,
      ...Object.fromEntries(figures.map(([key, value]) => [key, value ?? NaN])),
    }
  }

  #stderr(): string {
    return [...this.#children.values()].join('')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.keys()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    await this.#others.disposeAsync()
    rmSync(this.#folder, { recursive: true, force: true })
    process.off('exit', this.#onExit)
  }
}

const HANGS = { error: 'hangs' }

/** A console that is open, and reads everything. It ends with its gateway. */
async function watch(url: string, token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const { body, status } = await fetch(`${url}/admin/events`, { headers })
  if (status !== 200) throw new Error(`/admin/events answered ${status}`)
  void body!.pipeTo(new WritableStream()).catch(() => undefined)
}
