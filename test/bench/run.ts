/**
 * `npm run bench`: what the built gateway costs in its default configuration, beside the floor (`floor.ts`), a proxy that reads
 * nothing (`bare.ts`) and, where asked, other systems. All processes stay alive and take bursts of half a second in turn, forth
 * and back; figures are compared within a turn.
 *
 * Options: `--quick` (two minutes), `--all` (all sizes), `--rounds <n>` (turns of a load), `--unpinned`, `--json` (for machines).
 * Each of these adds systems: `--against <commit>` (`last`: the one that landed last, if there is one), `--state memory|redis`,
 * `--reports` (with nothing logged, and with everything sent and watched).
 */
import { readFileSync, mkdtempSync, rmSync } from 'node:fs'
import { cpus, release, tmpdir, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { hasRedis, NOT_INSTALLED } from '../state/redis/_redis.ts'
import { judge, type Figures, type Line, type Turn } from './judge.ts'
import { loadsOf, type Load } from './loads.ts'
import { LAST, otherCommit, run } from './commit.ts'
import { BARE, builtIn, canPin, FLOOR, ROOT, Systems, type Program } from './systems.ts'
import { forTerminal, type Panel } from './table.ts'

/** One run, as `--json` prints it. */
export interface Run {
  readonly heading: string
  /** YYYY-MM-DD. */
  readonly date: string
  readonly panels: readonly Panel[]
}

const LEAST_TURNS = 20
const PRODUCT = 'product'

type Options = ReturnType<typeof optionsOf>

function optionsOf() {
  const boolean = { type: 'boolean', default: false } as const
  const text = { type: 'string' } as const
  const flags = { quick: boolean, all: boolean, unpinned: boolean, json: boolean, reports: boolean }
  const { values } = parseArgs({
    options: { ...flags, rounds: text, against: text, state: text },
  })
  const turns = Number(values.rounds ?? (values.quick ? LEAST_TURNS : 2 * LEAST_TURNS))
  if (!Number.isInteger(turns) || turns < 1) {
    throw new Error(`--rounds takes a whole number from 1 up, not ${values.rounds}`)
  }
  return { ...values, turns, isPinned: canPin && !values.unpinned }
}

/** The systems that are compared, the gateway last. */
function programsOf({ against, state, reports }: Options): Program[] {
  const programs = [BARE, FLOOR]
  if (state !== undefined) {
    if (state !== 'memory' && state !== 'redis') {
      throw new Error(`--state takes memory, redis, not ${state}`)
    }
    if (state === 'redis' && !hasRedis()) throw new Error(NOT_INSTALLED)
    programs.push(builtIn(ROOT, `state ${state}`, { BENCH_STATE: state }))
  }
  if (reports) {
    programs.push(builtIn(ROOT, 'no reports', { BENCH_REPORTS: 'none' }))
    programs.push(builtIn(ROOT, 'all reports', { BENCH_REPORTS: 'all' }))
  }
  try {
    if (against !== undefined) programs.push(otherCommit(against))
  } catch (error) {
    if (against !== LAST) throw error
    process.stderr.write(`no earlier commit to compare with: ${(error as Error).message}\n`)
  }
  return [...programs, builtIn(ROOT, PRODUCT)]
}

function headingOf({ isPinned, turns }: Options): string {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const commit = run('git', ['describe', '--always', '--dirty'])
  const processor = cpus()[0]?.model.replaceAll(/\((?:R|TM)\)/g, '') ?? 'unknown processor'
  const gigabytes = Math.round(totalmem() / 2 ** 30)
  const machine = `${processor}, ${cpus().length} cores, ${gigabytes} GB, ${type()} ${release().split('-')[0]}`
  const cores = isPinned ? 'the systems on core 0, all else on core 1' : 'shared cores'
  return `Sluicegate ${version} (${commit}), Node.js ${process.versions.node}, ${machine}, ${cores}, ${turns} bursts`
}

/** Forth, then back, then forth from the next one: each is first, last and twice in a row as often as the others. */
function inTurn(names: readonly string[], turn: number): string[] {
  const from = Math.floor(turn / 2) % names.length
  const forth = [...names.slice(from), ...names.slice(0, from)]
  return turn % 2 === 0 ? forth : forth.toReversed()
}

/** Turns of one load, those that count. */
async function turnsOf(
  load: Load,
  names: readonly string[],
  open: () => Systems | Promise<Systems>,
): Promise<Turn[]> {
  const { warm, policy, job, turns } = load
  const taken: Turn[] = []
  const warmTurns = warm?.turns ?? 0
  for (let i = 0; i < warmTurns + turns; i++) {
    const isWarming = i < warmTurns
    process.stderr.write(
      `\r${load.name}: ${isWarming ? 'warming up' : i + 1 - warmTurns}`.padEnd(40),
    )
    const given = isWarming && warm?.calls ? { ...job, warmRequests: warm.calls, ms: 0 } : job
    const systems = await open()
    await using _own = load.isFresh ? systems : undefined
    // With the names in their order, which is that of the columns.
    const turn: Record<string, Figures> = Object.fromEntries(names.map((name) => [name, {}]))
    for (const name of inTurn(names, i)) {
      const key = name === 'policy' ? policy : undefined
      turn[name] = await systems.take(policy ? PRODUCT : name, load.name, given, key)
    }
    if (!isWarming) taken.push(turn)
  }
  return taken
}

async function play(options: Options): Promise<Run['panels']> {
  const programs = programsOf(options)
  const names = programs.map(({ name }) => name)
  const start = () => Systems.start(programs, options.isPinned)
  const main: Line[] = []
  const policy: Line[] = []
  const loads = loadsOf({ isQuick: options.quick, isAll: options.all, turns: options.turns })
  for (const load of loads.filter(({ isFresh }) => isFresh)) {
    main.push(...linesOf(load, PRODUCT, await turnsOf(load, names, start)))
  }
  await using systems = await start()
  for (const name of ['direct', ...names]) await systems.take(name, 'check', { kind: 'check' })
  for (const load of loads.filter(({ isFresh }) => !isFresh)) {
    if (load.policy) {
      const turns = await turnsOf(load, ['plain', 'policy'], () => systems)
      policy.push(...linesOf(load, 'policy', turns))
    } else {
      const chosen = load.withDirect ? ['direct', ...names] : names
      main.push(...linesOf(load, PRODUCT, await turnsOf(load, chosen, () => systems)))
    }
  }
  return [
    { subject: PRODUCT, lines: main },
    { subject: 'policy', lines: policy },
  ]
}

function linesOf({ rows }: Load, subject: string, turns: readonly Turn[]): Line[] {
  return rows.map((row) => judge(row, subject, turns))
}

function print(run: Run, { json }: Options): void {
  process.stderr.write('\r'.padEnd(41))
  process.stdout.write(
    json ? `${JSON.stringify(run)}\n` : `\n${run.panels.map(forTerminal).join('')}`,
  )
  const speed = run.panels[0]!.lines.find(({ label }) => label.includes('calls a second'))
  if ((speed?.compared.direct?.median ?? 0) > 0.5) {
    process.stderr.write('warning: the vendor alone is not twice as fast: only CPU figures count\n')
  }
}

async function main(): Promise<void> {
  const compiled = mkdtempSync(join(tmpdir(), 'gateway-bench-compiled-'))
  process.on('exit', () => rmSync(compiled, { recursive: true, force: true }))
  process.env.NODE_COMPILE_CACHE = compiled
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  try {
    const options = optionsOf()
    const heading = headingOf(options)
    process.stderr.write(`${heading}\n`)
    run('npm', ['run', 'build'])
    const date = new Date().toISOString().slice(0, 10)
    print({ heading, date, panels: await play(options) }, options)
  } catch (error) {
    process.stderr.write(`\nthis run is void: ${(error as Error).message}\n`)
    process.exit(1)
  }
}

if (import.meta.main) await main()
