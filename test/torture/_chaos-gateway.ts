/**
 * The gateway of `chaos.ts`: a process that is killed, stopped and loses its ledger, and an operator beside it who does what
 * `docs/operations.md` says, starts it again, and does nothing else.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const CLI = resolve(import.meta.dirname, '../../src/cli.ts')
const CONFIG = join(import.meta.dirname, '_chaos-config.ts')
const PATIENCE_MS = 360_000

/** Ends the thread of the ledger on SIGUSR2. */
const END_THREAD = `data:text/javascript,${encodeURIComponent(`
  import { isMainThread, Worker } from 'node:worker_threads'
  const { postMessage } = Worker.prototype
  let ledger
  if (isMainThread) {
    Worker.prototype.postMessage = function (message, ...more) {
      if (this.threadName === 'ledger') ledger = this
      postMessage.call(this, message, ...more)
    }
    process.on('SIGUSR2', () => ledger?.terminate())
  }`)}`

/** How a process may end: its status, or the signal. */
export type Ending = number | NodeJS.Signals

/** Starts at {@link start}; the owner ends it. */
export class ChaosGateway {
  /** How the process may end by itself. */
  endings: readonly Ending[] = []
  /** The address of the process that runs; undefined while none does. */
  url: string | undefined
  /** Processes so far. */
  starts = 0
  /** What the operator had to do. */
  readonly repairs = new Map<string, number>()
  readonly #folder: string
  readonly #data: string
  readonly #env: NodeJS.ProcessEnv
  readonly #onEnd: (ended: Ending) => void
  #child: ChildProcess | undefined
  #said = ''
  #isEnding = false

  /**
   * @param data the folder of the ledger, or of the outbox
   * @param onEnd is told of a process that ended as it must not
   */
  constructor(
    folder: string,
    data: string,
    env: Readonly<Record<string, string>>,
    onEnd: (ended: Ending) => void,
  ) {
    this.#folder = folder
    this.#data = data
    this.#env = { ...process.env, ...env }
    this.#onEnd = onEnd
    process.once('exit', () => this.#child?.kill('SIGKILL'))
  }

  /** What the process logged last. */
  get said(): string {
    return this.#said.slice(-4000)
  }

  /** The process that runs and is to go on; what connects to one that ends may be cut off. */
  get steady(): number | undefined {
    return this.url !== undefined && !this.#isEnding && this.endings.length === 0
      ? this.starts
      : undefined
  }

  /** Starts a process, and waits until it takes calls. @throws Error with what it said, if it does not start */
  async start(): Promise<void> {
    const args = ['--import', END_THREAD, CLI, 'serve', '--config', CONFIG, '--port', '0']
    const child = spawn(process.execPath, args, {
      cwd: this.#folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    this.#said = ''
    this.endings = []
    this.#isEnding = false
    this.starts++
    const hear = (text: Buffer) => (this.#said = (this.#said + text).slice(-200_000))
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    const found = () => /Sluicegate \S+ +(http:\/\/127\.0\.0\.1:\d+)/.exec(this.#said)?.[1]
    const hasEnded = () => child.exitCode !== null || child.signalCode !== null
    await until(() => found() !== undefined || hasEnded(), 'the gateway starts')
    const url = found()
    if (!url)
      throw new Error(`the gateway ended with ${child.exitCode} at its start: ${this.#said}`)
    this.url = url
    const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    void ended.then(([code, signal]) => {
      if (this.#isEnding) return
      this.url = undefined
      const ending = (code ?? signal)!
      if (!this.endings.includes(ending)) this.#onEnd(ending)
    })
    await this.ready()
  }

  /** Waits until calls are admitted, or the process has ended. @returns whether calls are admitted */
  async ready(): Promise<boolean> {
    await until(async () => {
      if (!this.url) return true
      const answer = await fetch(`${this.url}/readyz`).catch(() => undefined)
      return answer?.ok === true
    }, 'the gateway takes calls again')
    return this.url !== undefined
  }

  /** Sends a signal that does not end the process. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** @returns how the process ended, of which nothing else is told */
  async end(signal?: 'SIGKILL' | 'SIGTERM'): Promise<Ending> {
    const child = this.#child!
    this.#isEnding = true
    if (child.exitCode === null && child.signalCode === null) {
      const exit = once(child, 'exit')
      if (signal) child.kill(signal)
      const late = sleep(PATIENCE_MS, 'late', { ref: false })
      if ((await Promise.race([exit, late])) === 'late') {
        child.kill('SIGKILL')
        throw new Error(`the gateway does not end: ${this.#said}`)
      }
    }
    this.#child = undefined
    this.url = undefined
    return (child.exitCode ?? child.signalCode)!
  }

  /** What the documentation says is to be done before the next start. */
  repair(): void {
    const ledger = join(this.#data, 'ledger.db')
    const copy = readdirSync(this.#data).find((name) => name.startsWith('ledger.rescued-'))
    if (copy && !existsSync(ledger)) {
      renameSync(join(this.#data, copy), ledger)
      this.#count('renamed a rescued copy')
    }
    const lines = [...this.#said.matchAll(/settlement not booked \(.*?\): (.*)$/gm)]
    if (lines.length > 0) {
      const rows = lines.map(([, row]) => `${row}\n`).join('')
      const head = '{"kind":"export","version":1,"at":0}\n'
      const file = join(this.#folder, 'unbooked.jsonl')
      writeFileSync(file, `${head}${rows}{"kind":"end","lines":${lines.length + 2}}\n`)
      this.#import(file, 'imported lines of the log')
    }
    const rescue = join(this.#data, 'rescue.jsonl')
    if (!existsSync(rescue)) return
    this.#import(rescue, 'imported rescue.jsonl')
    rmSync(rescue)
  }

  /** Costs of calls in the ledger, as decimal text, by request id. No process may run. */
  booked(): { readonly costs: Map<string, string>; readonly doubled: number } {
    const costs = new Map<string, string>()
    let doubled = 0
    for (const line of this.command('ledger', 'export').split('\n')) {
      if (!line.startsWith('{"kind":"usage"')) continue
      const { request, cost } = JSON.parse(line) as { request: string; cost: string }
      if (costs.has(request)) doubled++
      costs.set(request, cost)
    }
    return { costs, doubled }
  }

  /** Runs a command of the command line. @returns what it printed @throws Error when it fails */
  command(...args: string[]): string {
    const line = [CLI, ...args, '--config', CONFIG]
    const options = { cwd: this.#folder, env: this.#env, maxBuffer: 2 ** 30 }
    const { status, stdout, stderr } = spawnSync(process.execPath, line, options)
    if (status === 0) return stdout.toString()
    throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`)
  }

  #import(file: string, what: string): void {
    this.command('ledger', 'import', file)
    this.#count(what)
  }

  #count(what: string): void {
    this.repairs.set(what, (this.repairs.get(what) ?? 0) + 1)
  }
}

/** Waits for a condition. @throws Error when it does not come within six minutes */
export async function until(is: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + PATIENCE_MS
  while (!(await is())) {
    if (performance.now() > end) throw new Error(`not within ${PATIENCE_MS / 1000} s: ${what}`)
    await sleep(20)
  }
}
