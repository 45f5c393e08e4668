/**
 * `npm run bench`: one load, straight to a local upstream, through the bare proxy and through the gateway in its default
 * configuration, in alternating turns and in fresh processes each round. Options: `--rounds <n>` (5), `--quick` (1 short
 * round), `--state memory|redis` (instead of `file`), `--unpinned`, `--json` (for machines).
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { RedisServer } from '../state/redis/_redis.ts'
import { memoryKb, type Figures, type Job, type Target } from './load.ts'

const STATES = ['file', 'memory', 'redis'] as const
type State = (typeof STATES)[number]

const SYSTEMS = ['direct', 'bare', 'gateway'] as const
type System = (typeof SYSTEMS)[number]
/** Figures by system, named `step.figure`: those of one group of steps, taken one system right after the other. */
type Turn = Record<System, Figures>
/** By name, in order. */
type Steps = Record<string, Partial<Job> & Pick<Job, 'kind'>>
/** Steps that are taken so many times, once there were so many requests that do not count. */
interface Group {
  readonly turns: number
  readonly warmRequests?: number
  /** Turns of the others are so long that V8 lets go of compiled code meanwhile: the steps are taken once before they count. */
  readonly rehearsed?: boolean
  readonly steps: Steps
}

/**
 * How a figure is judged: the gateway's divided by bare's (`/`), less bare's (`-`) or alone (``); 1 if more is better, -1 if
 * less is; the gate, which must hold, and the target.
 */
type Bound = [how: '/' | '-' | '', sign: 1 | -1, gate: number, target: number]

function rowsFor(state: State): readonly [label: string, figure: string, bound?: Bound][] {
  const cpu: Bound = state === 'memory' ? ['/', -1, 2.2, 1.6] : ['/', -1, 2.5, 1.9]
  return [
    ['JSON 2 -> 4 KB, c=32: CPU us/request', 'json.cpuMicros', cpu],
    ['  requests/s', 'json.perSecond', ['/', 1, 0.4, 0.52]],
    ['latency, c=8: p50 ms', 'latency.p50Ms', ['/', -1, 3, 2]],
    ['  p99 ms', 'latency.p99Ms', ['/', -1, 3, 2]],
    ['lone request: p50 ms', 'lone.p50Ms', ['-', -1, 0.9, 0.6]],
    ['JSON 100 -> 4 KB, c=32: CPU us/request', 'large.cpuMicros'],
    ['  requests/s', 'large.perSecond'],
    ['SSE fast, c=16: CPU us/event', 'fast.eventMicros', ['/', -1, 1.2, 1]],
    ['  events/s', 'fast.eventsPerSecond'],
    ['  coalesced: events/s', 'coalesced.eventsPerSecond'],
    ['SSE paced, 300 streams: CPU us/event', 'paced.cpuMicros', ['/', -1, 1.3, 1.13]],
    ['  gap between chunks, p99 ms', 'paced.gapP99Ms'],
    ['  added to direct', 'added.gapP99Ms', ['', -1, 6, 3]],
    ['guard, 8 literals: share of requests/s', 'guard.share', ['', 1, 0.85, 0.9]],
    ['  us/event', 'guard.eventMicros', ['', -1, 2.5, 2]],
    ['  first word, p95 ms', 'guard.firstMs', ['', -1, 5, 1]],
    ['  32 patterns: ms/request of 100 KB', 'guard.largeMs', ['', -1, 3, 1.5]],
    ['start, compiled before: s to an answer', 'check.startSeconds', ['', -1, 1.2, 0.6]],
    ['memory: idle MB', 'check.idleMb', ['', -1, 200, 150]],
    ['  peak MB', 'end.peakMb'],
    ['  KB/open stream', 'memory.kbPerStream'],
    ['  open streams per GB', 'memory.perGb', ['', 1, 12_000, 15_000]],
  ]
}

/**
 * In the order in which every process goes through them. The systems take turns at each group, so that what else happens
 * on the machine falls on all of them; figures are compared within a turn. `scale` is of durations.
 */
function groupsOf(scale: number): Group[] {
  const { json, large, fast } = loads(scale)
  const coalesced = { ...fast, answer: 'sse-coalesced-200' }
  // Five seconds, of which a slow machine may need some until all streams are open.
  const paced = { kind: 'streams', lanes: 300, answer: 'sse-paced-100-50', ms: 60_000 } as const
  const latency = { ...json, kind: 'open', lanes: 8, everyMs: 5, ms: 600 * scale } as const
  return [
    { turns: 1, steps: { check: { kind: 'check' } } },
    // The first tenths of a second after a pause are slower than the rest.
    { turns: 5, warmRequests: 60_000 * scale, steps: { json: { ...json, ms: 2000 * scale } } },
    { turns: 3, steps: { latency } },
    { turns: 3, steps: { lone: { ...latency, lanes: 1, ms: 2000 * scale } } },
    { turns: 4, warmRequests: 500, steps: { large } },
    { turns: 3, warmRequests: 100, steps: { fast } },
    { turns: 3, warmRequests: 100, steps: { coalesced } },
    // At this pace other paths are hot than at full speed.
    { turns: Math.ceil(2 * scale), rehearsed: true, steps: { paced } },
  ]
}

function loads(scale: number) {
  const json = { kind: 'closed', answer: 'json-4k', lanes: 32, ms: 400 * scale } as const
  return {
    json,
    large: { ...json, requestBytes: 102_400 },
    fast: { ...json, answer: 'sse-fast-200', lanes: 16 },
  }
}

/** In a process of its own too: the same load with a key without a policy and with keys that have one. */
function guardGroups(scale: number): Group[] {
  const { json, large, fast } = loads(scale)
  const first = { kind: 'open', answer: 'sse-fast-20', lanes: 4, everyMs: 10 } as const
  const words = { ...first, ms: 800 * scale }
  const check = { kind: 'check' } as const
  const checks = ['plain', 'guarded', 'ruled'].map((key) => [`${key}-check`, check])
  return [
    { turns: 1, steps: Object.fromEntries(checks) },
    {
      turns: 10,
      warmRequests: 30_000 * scale,
      steps: { 'plain-json': json, 'guarded-json': json },
    },
    { turns: 8, warmRequests: 1000 * scale, steps: { 'plain-fast': fast, 'guarded-fast': fast } },
    { turns: 4, warmRequests: 100, steps: { 'plain-first': words, 'guarded-first': words } },
    { turns: 4, warmRequests: 500, steps: { 'plain-large': large, 'ruled-large': large } },
  ]
}

/** What guards add, by the steps of {@link guardGroups}: NaN for what was not in this turn. */
function addedByGuards({ gateway: figures }: Turn): Turn {
  const added = (guarded: string, plain: string) => figures[guarded]! - figures[plain]!
  const gateway = {
    'guard.share': figures['guarded-json.perSecond']! / figures['plain-json.perSecond']!,
    'guard.eventMicros': added('guarded-fast.eventMicros', 'plain-fast.eventMicros'),
    'guard.firstMs': added('guarded-first.firstP95Ms', 'plain-first.firstP95Ms'),
    'guard.largeMs': added('ruled-large.cpuMicros', 'plain-large.cpuMicros') / 1000,
  }
  return { direct: {}, bare: {}, gateway }
}

function addedToDirect(turn: Turn): Turn {
  const figure = 'paced.gapP99Ms'
  for (const system of ['bare', 'gateway'] as const) {
    turn[system]['added.gapP99Ms'] = turn[system][figure]! - turn.direct[figure]!
  }
  return turn
}

/**
 * In a process of its own: one that has served requests has free room in its heap, which would hide the streams. Never fewer:
 * what grows once, with the first streams, would count as theirs.
 */
function memoryGroups(): Group[] {
  const memory = { lanes: 4000, answer: 'sse-paced-1000-500', ms: 1500 } as const
  return [{ turns: 1, steps: { check: { kind: 'check' }, memory: { kind: 'streams', ...memory } } }]
}

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
const canPin = ['0', '1'].every((core) => spawnSync('taskset', ['-c', core, 'true']).status === 0)

/** How the systems run, of the command line. */
interface Setting {
  readonly state: State
  readonly pinned: boolean
}

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

/** Takes systems, in fresh processes, through their steps. The turns returned are those that count. */
async function measure(
  setting: Setting,
  systems: readonly System[],
  groups: Group[],
): Promise<Turn[]> {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  using _folder = { [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
  await using redis = setting.state === 'redis' ? await RedisServer.start() : undefined
  // With the name of a policy behind it, the key is still one block of SHA-256.
  const key = `bench-${randomBytes(20).toString('hex')}`
  const upstream = await serve(setting, 1, ['test/bench/upstream.ts'])
  const targets = {} as Record<System, Target & { readonly startSeconds: number }>
  for (const system of systems) {
    const env = {
      BENCH_UPSTREAM: upstream.url,
      BENCH_KEY: key,
      BENCH_STATE: setting.state,
      BENCH_FOLDER: folder,
      BENCH_REDIS: redis?.url,
    }
    // The upstream's own CPU time and memory are not measured: no process has the number 0.
    const server =
      system === 'direct'
        ? { ...upstream, pid: 0 }
        : await serve(setting, 0, PROGRAMS[system](folder), env)
    targets[system] = { ...server, key, gateway: system === 'gateway' }
  }
  const load = start(setting, 1, ['test/bench/load.ts'], {}, 'ipc')

  async function take(system: System, steps: Steps, warmRequests: number): Promise<Figures> {
    const figures: Figures = {}
    for (const [name, step] of Object.entries(steps)) {
      const target = targets[system]
      const policy = /^(?:guarded|ruled)(?=-)/.exec(name)?.[0]
      const asker = policy ? { ...target, key: `${key}-${policy}` } : target
      load.send({ target: asker, job: { requestBytes: 2048, warmRequests, ...step } })
      const signal = AbortSignal.timeout(PATIENCE_MS)
      const [answer] = await once(load, 'message', { signal }).catch(() => [{ error: 'hangs' }])
      if (answer.error) throw new Error(`${system}, ${name}: ${answer.error}`)
      // NaN arrives as null.
      for (const figure in answer.figures) {
        figures[`${name}.${figure}`] = answer.figures[figure] ?? NaN
      }
      if (name === 'check') figures['check.startSeconds'] = target.startSeconds
    }
    return figures
  }

  const turns: Turn[] = []
  for (const { turns: count, warmRequests = 0, rehearsed = false, steps } of groups) {
    for (let warmed = 0; warmed < warmRequests; warmed += WARM_SLICE) {
      const slice = Math.min(WARM_SLICE, warmRequests - warmed)
      for (const system of systems) await take(system, steps, slice)
    }
    for (let i = 0; i < count; i++) {
      const turn: Turn = { direct: {}, bare: {}, gateway: {} }
      const forth = Object.entries(steps)
      const inOrder = Object.fromEntries(i % 2 ? forth.toReversed() : forth)
      for (const system of i % 2 ? systems.toReversed() : systems) {
        if (rehearsed) await take(system, inOrder, RAMP)
        turn[system] = await take(system, inOrder, RAMP)
      }
      turns.push(turn)
    }
  }
  const end: Turn = { direct: {}, bare: {}, gateway: {} }
  for (const system of systems) {
    end[system]['end.peakMb'] = memoryKb(targets[system].pid, 'VmHWM') / 1024
  }
  await stop()
  return [...turns, end]
}

async function stop(): Promise<void> {
  for (const child of children.keys()) {
    children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

/** Middle and quartiles of the turns that have the figure; NaN when none has. */
function spread(values: (number | undefined)[]) {
  const sorted = values.filter(Number.isFinite).toSorted((a, b) => a! - b!) as number[]
  const at = (share: number) => {
    const index = (sorted.length - 1) * share
    return (sorted[Math.floor(index)]! + sorted[Math.ceil(index)]!) / 2
  }
  return { median: at(0.5), from: at(0.25), to: at(0.75) }
}

function report(state: State, turns: Turn[]) {
  return rowsFor(state).map(([label, figure, bound]) => {
    const of = (system: System) => spread(turns.map((turn) => turn[system][figure]))
    const systems = { direct: of('direct'), bare: of('bare'), gateway: of('gateway') }
    return { label, figure, ...systems, ...(bound && judge(turns, figure, bound)) }
  })
}

function judge(turns: Turn[], figure: string, [how, sign, gate, target]: Bound) {
  const compared = turns.map(({ bare, gateway }) => {
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
      ratio ? `${show(ratio.median)} (${show(ratio.from)}..${show(ratio.to)})` : '',
      ratio ? `${show(gate)} ${verdict}` : '',
      ratio ? `${show(target)} ${reached ? 'yes ' : 'no  '}` : '',
    ],
  )
  const head = ['medians', ...SYSTEMS, 'to bare (quartiles)', 'gate', 'target']
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
  const text = { type: 'string' } as const
  const options = { rounds: text, state: text, quick: boolean, unpinned: boolean, json: boolean }
  const { rounds: wanted, state = 'file', quick, unpinned, json } = parseArgs({ options }).values
  if (!isState(state)) throw new Error(`--state takes ${STATES.join(', ')}, not ${state}`)
  const count = Number(wanted ?? (quick ? 1 : 5))
  if (!Number.isInteger(count) || count < 1) {
    throw new Error(`--rounds takes a whole number from 1 up, not ${wanted}`)
  }
  const setting: Setting = { state, pinned: canPin && !unpinned }
  const cores = setting.pinned
    ? 'pinned: system on core 0, load and upstream on core 1'
    : 'shared cores'
  const node = `node ${process.version}, ${cpus()[0]?.model}`
  const machine = `${node}, state ${state}, ${cores}, ${count} rounds`
  process.stderr.write(`${machine}\n`)
  const scale = quick ? 0.4 : 1
  const turns: Turn[] = []
  const compiled = mkdtempSync(join(tmpdir(), 'gateway-bench-compiled-'))
  using _compiled = { [Symbol.dispose]: () => rmSync(compiled, { recursive: true, force: true }) }
  process.env.NODE_COMPILE_CACHE = compiled
  // The first start compiles, as after an installation; those that count find it done.
  await measure(setting, ['gateway'], [{ turns: 1, steps: { check: { kind: 'check' } } }])
  for (let round = 1; round <= count; round++) {
    const say = (what: string) => process.stderr.write(`\rround ${round}: ${what.padEnd(10)}`)
    if (round === 1) {
      say('memory')
      for (const system of ['bare', 'gateway'] as const) {
        turns.push(...(await measure(setting, [system], memoryGroups())))
      }
    }
    say('systems')
    turns.push(...(await measure(setting, SYSTEMS, groupsOf(scale))).map(addedToDirect))
    say('guards')
    turns.push(...(await measure(setting, ['gateway'], guardGroups(scale))).map(addedByGuards))
  }
  const rows = report(state, turns)
  const { direct, gateway } = rows.find(({ figure }) => figure === 'json.perSecond')!
  const limited = direct.median < 2 * gateway.median
  process.stderr.write('\n\n')
  process.stdout.write(json ? `${JSON.stringify({ machine, rows, limited })}\n` : table(rows))
  if (!limited) return
  process.stderr.write(
    'warning: direct is not twice as fast as the gateway: only CPU figures count\n',
  )
}

function isState(name: string): name is State {
  return (STATES as readonly string[]).includes(name)
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
