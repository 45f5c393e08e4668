/**
 * `npm run bench`: one load, straight to a local upstream, through the bare proxy and through the gateway, side by side and
 * in fresh processes each round. Options: `--rounds <n>` (5), `--quick` (2 short rounds), `--json` (for machines).
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { memoryKb, type Figures, type Job, type Target } from './load.ts'

const SYSTEMS = ['direct', 'bare', 'gateway'] as const
type System = (typeof SYSTEMS)[number]
/** Figures of one round by system, named `step.figure`. */
type Round = Record<System, Figures>

/** Gateway to bare: ratio, difference or alone; 1 if more is better; gate and target of the performance design, section 7. */
type Bound = [how: '/' | '-' | '', sign: 1 | -1, gate: number, target: number]

const ROWS: readonly [label: string, figure: string, bound?: Bound][] = [
  ['JSON 2 -> 4 KB, c=32: requests/s', 'json.perSecond', ['/', 1, 0.45, 0.6]],
  ['  CPU us/request', 'json.cpuMicros', ['/', -1, 2.2, 1.6]],
  ['latency, c=8: p50 ms', 'latency.p50Ms', ['/', -1, 2, 1.5]],
  ['  added to direct', 'added.p50Ms'],
  ['  p99 ms', 'latency.p99Ms', ['/', -1, 3, 2]],
  ['  added to direct', 'added.p99Ms'],
  ['JSON 100 -> 4 KB, c=32: requests/s', 'large.perSecond', ['/', 1, 0.3, 0.45]],
  ['  CPU us/request', 'large.cpuMicros'],
  ['SSE paced, 300 streams: CPU us/event', 'paced.cpuMicros', ['/', -1, 1.35, 1.15]],
  ['  gap between chunks, p99 ms', 'paced.gapP99Ms', ['-', -1, 6, 3]],
  ['SSE fast, c=16: events/s', 'fast.eventsPerSecond'],
  ['  coalesced: events/s', 'coalesced.eventsPerSecond'],
  ['guard, 8 literals: us/request of 2 KB', 'guard.requestMicros', ['', -1, 15, 12]],
  ['  and its answer of 4 KB', 'guard.answeredMicros'],
  ['  us/event', 'guard.eventMicros', ['', -1, 2, 1.5]],
  ['  events/s of 200, to no guard', 'guard.throughput', ['', 1, 0.8, 0.9]],
  ['  first word, p95 ms', 'guard.firstMs', ['', -1, 5, 1]],
  ['  32 patterns: ms/request of 100 KB', 'guard.largeMs', ['', -1, 3, 1.5]],
  ['memory: idle MB', 'check.idleMb'],
  ['  peak MB', 'end.peakMb'],
  ['  KB/open stream', 'memory.kbPerStream'],
  ['  open streams per GB', 'memory.perGb', ['', 1, 12_000, 15_000]],
]

/** In the order in which every process goes through them; `scale` is of durations. */
function stepsOf(scale: number): Steps {
  const json = { answer: 'json-4k', lanes: 32, warmRequests: 500, ms: 1500 * scale }
  const sse = { kind: 'closed', lanes: 16, warmRequests: 100, ms: 800 * scale } as const
  return {
    check: { kind: 'check' },
    json: { kind: 'closed', ...json, warmRequests: 60_000 * scale },
    latency: { kind: 'open', ...json, lanes: 8, everyMs: 5 },
    large: { kind: 'closed', ...json, requestBytes: 102_400 },
    fast: { ...sse, answer: 'sse-fast-200' },
    coalesced: { ...sse, answer: 'sse-coalesced-200' },
    // Not counted: at this pace other paths are hot than at full speed.
    'paced-warm': { kind: 'streams', lanes: 300, answer: 'sse-paced-30-50', ms: 60_000 },
    paced: { kind: 'streams', lanes: 300, answer: `sse-paced-${60 * scale}-50`, ms: 60_000 },
  }
}

/** In a process of its own too, without a policy first: the same, asked with keys whose policies are to be looked after. */
function guardSteps(scale: number): Steps {
  const { json, large, fast } = stepsOf(scale)
  const first = { kind: 'open', answer: 'sse-fast-20', lanes: 4, everyMs: 10, warmRequests: 50 }
  const words = { ...first, kind: 'open', ms: 1000 * scale } as const
  // Most of it is warm by then.
  const next = { ...json!, warmRequests: 10_000 * scale }
  return {
    'plain-check': { kind: 'check' },
    'asked-check': { kind: 'check' },
    'guarded-check': { kind: 'check' },
    'ruled-check': { kind: 'check' },
    'plain-json': json!,
    'asked-json': next,
    'guarded-json': next,
    'plain-fast': fast!,
    'guarded-fast': fast!,
    'plain-first': words,
    'guarded-first': words,
    'plain-large': large!,
    'ruled-large': large!,
  }
}

/** What guards add, by the steps of {@link guardSteps}. */
function addedByGuards(figures: Figures): Figures {
  const added = (guarded: string, plain: string) => figures[guarded]! - figures[plain]!
  return {
    'guard.requestMicros': added('asked-json.cpuMicros', 'plain-json.cpuMicros'),
    'guard.answeredMicros': added('guarded-json.cpuMicros', 'plain-json.cpuMicros'),
    'guard.eventMicros': added('guarded-fast.cpuMicros', 'plain-fast.cpuMicros') / 200,
    'guard.throughput':
      figures['guarded-fast.eventsPerSecond']! / figures['plain-fast.eventsPerSecond']!,
    'guard.firstMs': added('guarded-first.firstP95Ms', 'plain-first.firstP95Ms'),
    'guard.largeMs': added('ruled-large.cpuMicros', 'plain-large.cpuMicros') / 1000,
  }
}

/** In a process of its own: one that has worked has free room in its heap, where streams are not seen. */
function memorySteps(scale: number): Steps {
  const memory = { lanes: 4000 * scale, answer: 'sse-paced-1000-500', ms: 1500 } as const
  return { check: { kind: 'check' }, memory: { kind: 'streams', ...memory } }
}

type Steps = Record<string, Partial<Job> & Pick<Job, 'kind'>>
const PATIENCE_MS = 30_000
/** Every child, and the end of what it wrote to standard error. */
const children = new Map<ChildProcess, string>()
const pinned = ['0', '1'].every((core) => spawnSync('taskset', ['-c', core, 'true']).status === 0)

function start(core: 0 | 1, args: string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const node = [process.execPath, ...args]
  const [command, ...rest] = pinned ? ['taskset', '-c', String(core), ...node] : node
  const child = spawn(command!, rest, {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, ...env },
    // Standard output goes nowhere: the access log is made and written as always.
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  children.set(child, '')
  child.stderr!.on('data', (text) => children.set(child, (children.get(child) + text).slice(-2000)))
  return child
}

/** Starts a server on a free port; resolves once it answers there. */
async function serve(core: 0 | 1, args: string[], env: NodeJS.ProcessEnv = {}) {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const port = String((probe.address() as AddressInfo).port)
  await once(probe.close(), 'close')
  const child = start(core, [...args, '--port', port], env)
  const url = `http://127.0.0.1:${port}`
  for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await sleep(20)) {
    if (child.exitCode !== null) break
    if (await fetch(`${url}/health`).catch(() => undefined)) return { url, pid: child.pid! }
  }
  throw new Error(`${args.join(' ')} does not start`)
}

/** Takes one system, in fresh processes, through its steps. */
async function measure(system: System, steps: Steps): Promise<Figures> {
  const key = `bench-${randomBytes(24).toString('hex')}`
  const upstream = await serve(1, ['test/bench/upstream.ts'])
  const env = { BENCH_UPSTREAM: upstream.url, BENCH_KEY: key }
  const gateway = ['src/cli.ts', 'serve', '--config', 'test/bench/gateway.config.ts']
  const args = system === 'bare' ? ['test/bench/bare.ts'] : gateway
  // Of the upstream alone only the speed is of interest: no process has the number 0.
  const server = system === 'direct' ? { ...upstream, pid: 0 } : await serve(0, args, env)
  const target: Target = { ...server, key, gateway: system === 'gateway' }
  const load = start(1, ['test/bench/load.ts'])
  const figures: Figures = {}
  for (const [name, step] of Object.entries(steps)) {
    const policy = /^(?:asked|guarded|ruled)(?=-)/.exec(name)?.[0]
    const asker = policy ? { ...target, key: `${key}-${policy}` } : target
    load.send({ target: asker, job: { requestBytes: 2048, ...step } })
    const signal = AbortSignal.timeout(PATIENCE_MS)
    const [answer] = await once(load, 'message', { signal }).catch(() => [{ error: 'hangs' }])
    if (answer.error) throw new Error(`${system}, ${name}: ${answer.error}`)
    for (const figure in answer.figures) figures[`${name}.${figure}`] = answer.figures[figure]
  }
  figures['end.peakMb'] = memoryKb(server.pid, 'VmHWM') / 1024
  await stop()
  return figures
}

async function stop(): Promise<void> {
  for (const child of children.keys()) {
    children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

/** Middle, least and most over the rounds that have the figure; NaN when none has. */
function spread(values: (number | undefined)[]) {
  const sorted = values.filter(Number.isFinite).toSorted((a, b) => a! - b!)
  const middle = (sorted.length - 1) / 2
  const median = (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2
  return { median, min: sorted[0], max: sorted.at(-1) }
}

function report(rounds: Round[]) {
  return ROWS.map(([label, figure, bound]) => {
    const of = (system: System) => spread(rounds.map((round) => round[system][figure]))
    const systems = { direct: of('direct'), bare: of('bare'), gateway: of('gateway') }
    return { label, figure, ...systems, ...(bound && judge(rounds, figure, bound)) }
  })
}

function judge(rounds: Round[], figure: string, [how, sign, gate, target]: Bound) {
  const compared = rounds.map(({ bare, gateway }) => {
    const [ours = NaN, theirs = NaN] = [gateway[figure], bare[figure]]
    return how === '/' ? ours / theirs : how === '-' ? ours - theirs : ours
  })
  const ratio = spread(compared)
  const within = (bound: number) => sign * (ratio.median - bound) >= 0
  const verdict = Number.isNaN(ratio.median) ? 'unknown' : within(gate) ? 'pass' : 'FAIL'
  return { ratio, gate, verdict, target, reached: within(target) }
}

function table(rows: ReturnType<typeof report>): string {
  const lines = rows.map(
    ({ label, direct, bare, gateway, ratio, gate, verdict, target, reached }) => [
      label,
      ...[direct, bare, gateway].map(({ median }) => show(median)),
      ratio ? `${show(ratio.median)} (${show(ratio.min)}..${show(ratio.max)})` : '',
      ratio ? `${show(gate)} ${verdict}` : '',
      ratio ? `${show(target)} ${reached ? 'yes ' : 'no  '}` : '',
    ],
  )
  const head = ['medians', ...SYSTEMS, 'to bare (min..max)', 'gate', 'target']
  const widths = [38, 11, 11, 11, 26, 14, 12]
  return [head, ...lines]
    .map((line) => line.map((cell, i) => (i ? cell.padStart(widths[i]!) : cell.padEnd(widths[0]!))))
    .map((cells) => `${cells.join('').trimEnd()}\n`)
    .join('')
}

function show(value = NaN): string {
  if (Number.isNaN(value)) return ''
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 3
  return value.toLocaleString('en-US', { maximumFractionDigits: digits })
}

async function run(): Promise<void> {
  const boolean = { type: 'boolean', default: false } as const
  const options = { rounds: { type: 'string' }, quick: boolean, json: boolean } as const
  const { rounds: wanted, quick, json } = parseArgs({ options }).values
  const count = Number(wanted ?? (quick ? 2 : 5))
  if (!Number.isInteger(count) || count < 1) {
    throw new Error(`--rounds takes a whole number from 1 up, not ${wanted}`)
  }
  const cores = pinned ? 'pinned: system on core 0, load and upstream on core 1' : 'shared cores'
  const machine = `node ${process.version}, ${cpus()[0]?.model}, ${cores}, ${count} rounds`
  process.stderr.write(`${machine}\n`)
  const scale = quick ? 0.4 : 1
  const rounds: Round[] = []
  for (let i = 0; i < count; i++) {
    const round = {} as Round
    const order = SYSTEMS.map((_, j) => SYSTEMS[(i + j) % SYSTEMS.length]!)
    for (const system of order) {
      process.stderr.write(`\rround ${i + 1}: ${system.padEnd(10)}`)
      const memory = i === 0 && system !== 'direct' && (await measure(system, memorySteps(scale)))
      const guard = system === 'gateway' && addedByGuards(await measure(system, guardSteps(scale)))
      round[system] = { ...memory, ...guard, ...(await measure(system, stepsOf(scale))) }
    }
    for (const system of ['bare', 'gateway'] as const) {
      for (const figure of ['p50Ms', 'p99Ms']) {
        const [own, direct] = [round[system], round.direct].map((of) => of[`latency.${figure}`]!)
        round[system][`added.${figure}`] = own! - direct!
      }
    }
    rounds.push(round)
  }
  const rows = report(rounds)
  const [{ direct, gateway }] = rows as [(typeof rows)[0]]
  const limited = direct.median < 2 * gateway.median
  process.stderr.write('\n\n')
  process.stdout.write(json ? `${JSON.stringify({ machine, rows, limited })}\n` : table(rows))
  if (!limited) return
  process.stderr.write(
    'warning: direct is not twice as fast as the gateway: only CPU figures count\n',
  )
}

process.on('exit', () => children.forEach((_, child) => child.kill('SIGKILL')))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
try {
  await run()
} catch (error) {
  const said = [...children.values()].join('')
  process.stderr.write(`\nthis run is void: ${(error as Error).message}\n${said}`)
  process.exit(1)
}
