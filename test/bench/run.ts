/**
 * `npm run bench`: one load, straight to a local upstream, through the bare proxy and through the gateway in its default
 * configuration, in alternating turns and in fresh processes each round. Options: `--rounds <n>` (5), `--quick` (1 short
 * round), `--state memory|redis` (instead of `file`), `--unpinned`, `--all` (every state, pinned and not), `--json` (for
 * machines). `publish.ts` writes what `--json` prints into the documentation.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, release, tmpdir, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { hasRedis, NOT_INSTALLED } from '../state/redis/_redis.ts'
import { judge, STATES, SYSTEMS, type Run, type Setting, type State } from './judge.ts'
import {
  addedByGuards,
  addedToDirect,
  CHECK,
  groupsOf,
  guardGroups,
  memoryGroups,
} from './steps.ts'
import { canPin, kill, measure, said, type Taken } from './systems.ts'
import { combined, tableOf, titleOf } from './table.ts'

/** Of a command line. */
interface Order {
  readonly settings: readonly Setting[]
  readonly rounds: number
  /** Of durations. */
  readonly scale: number
  readonly isAll: boolean
  readonly isJson: boolean
}

/** @throws Error for what cannot be measured */
function orderOf(): Order {
  const boolean = { type: 'boolean', default: false } as const
  const text = { type: 'string' } as const
  const flags = { quick: boolean, unpinned: boolean, all: boolean, json: boolean }
  const { values } = parseArgs({ options: { rounds: text, state: text, ...flags } })
  const { rounds: wanted, state, quick, unpinned, all, json } = values
  if (all && (state !== undefined || unpinned)) {
    throw new Error('--all has every state, pinned and not: leave --state and --unpinned out')
  }
  if (state !== undefined && !isState(state)) {
    throw new Error(`--state takes ${STATES.join(', ')}, not ${state}`)
  }
  const rounds = Number(wanted ?? (quick ? 1 : 5))
  if (!Number.isInteger(rounds) || rounds < 1) {
    throw new Error(`--rounds takes a whole number from 1 up, not ${wanted}`)
  }
  const ways = all && canPin ? [true, false] : [canPin && !unpinned]
  const states = all ? STATES : [state ?? 'file']
  if (states.includes('redis') && !hasRedis()) throw new Error(NOT_INSTALLED)
  const settings = ways.flatMap((pinned) => states.map((one) => ({ state: one, pinned })))
  return { settings, rounds, scale: quick ? 0.4 : 1, isAll: all, isJson: json }
}

function isState(name: string): name is State {
  return (STATES as readonly string[]).includes(name)
}

/** One round of a setting. */
async function round(
  setting: Setting,
  { scale, isFirst, withGuards }: { scale: number; isFirst: boolean; withGuards: boolean },
): Promise<Taken[]> {
  const taken: Taken[] = []
  if (isFirst) {
    for (const system of ['bare', 'gateway'] as const) {
      taken.push(await measure(setting, [system], memoryGroups()))
    }
  }
  const { turns, checked } = await measure(setting, SYSTEMS, groupsOf(scale))
  taken.push({ turns: turns.map(addedToDirect), checked })
  if (withGuards) {
    const guarded = await measure(setting, ['gateway'], guardGroups(scale))
    taken.push({ turns: guarded.turns.map(addedByGuards), checked: guarded.checked })
  }
  return taken
}

/** Goes through all settings in every round, so that what else happens on the machine falls on all of them. */
async function play({ settings, rounds, scale, isAll }: Order): Promise<Run> {
  const compiled = mkdtempSync(join(tmpdir(), 'gateway-bench-compiled-'))
  using _compiled = { [Symbol.dispose]: () => rmSync(compiled, { recursive: true, force: true }) }
  process.env.NODE_COMPILE_CACHE = compiled
  const taken = new Map(settings.map((setting) => [setting, [] as Taken[]]))
  for (const [setting] of taken) {
    // The first start compiles, as after an installation; those that count find it done.
    await measure(setting, ['gateway'], [CHECK])
  }
  for (let i = 0; i < rounds; i++) {
    const order = settings.map((_, j) => settings[(i + j) % settings.length]!)
    for (const setting of order) {
      const { state, pinned } = setting
      const where = `${state}, ${pinned ? 'pinned' : 'shared cores'}`
      process.stderr.write(`\rround ${i + 1}: ${where.padEnd(24)}`)
      // What guards add does not depend on where state is.
      const withGuards = !isAll || setting === settings[0]
      taken.get(setting)!.push(...(await round(setting, { scale, isFirst: i === 0, withGuards })))
    }
  }
  const measured = [...taken].map(([setting, some]) => {
    const sum = (of: 'answers' | 'events') => some.reduce((all, one) => all + one.checked[of], 0)
    const checked = { answers: sum('answers'), events: sum('events') }
    const turns = some.flatMap((one) => one.turns)
    return judge(setting, turns, checked)
  })
  return { ...here(), rounds, settings: measured }
}

/** What is measured, when and where. */
function here(): Pick<Run, 'version' | 'date' | 'machine' | 'node'> {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const commit = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: ROOT, encoding: 'utf8' })
  const processor = cpus()[0]?.model.replaceAll(/\((?:R|TM)\)/g, '') ?? 'unknown processor'
  const gigabytes = Math.round(totalmem() / 2 ** 30)
  return {
    version: commit.status === 0 ? `${version} (${commit.stdout.trim()})` : version,
    date: new Date().toISOString().slice(0, 10),
    machine: `${processor}, ${cpus().length} cores, ${gigabytes} GB, ${type()} ${release().split('-')[0]}`,
    node: process.versions.node,
  }
}

const ROOT = join(import.meta.dirname, '../..')

function print(run: Run, { isAll, isJson }: Order): void {
  const { settings } = run
  process.stderr.write('\n\n')
  if (isJson) process.stdout.write(`${JSON.stringify(run)}\n`)
  else process.stdout.write(isAll ? combined(run) : tableOf(settings[0]!))
  for (const measured of settings) {
    const { answers, events } = measured.checked
    const title = titleOf(measured)
    const counts = `${answers.toLocaleString('en-US')} answers with ${events.toLocaleString('en-US')} events`
    process.stderr.write(`${title}: ${counts} were read to the end, all whole and right\n`)
    if (!measured.limited) continue
    process.stderr.write(
      `warning: ${title}: direct is not twice as fast as the gateway: only CPU figures count\n`,
    )
  }
}

process.on('exit', kill)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
try {
  const order = orderOf()
  const { version, machine, node } = here()
  const [only] = order.settings
  const what = order.isAll ? 'all settings' : titleOf(only!)
  process.stderr.write(
    `sluicegate ${version}, node ${node}, ${machine}, ${what}, ${order.rounds} rounds\n`,
  )
  print(await play(order), order)
} catch (error) {
  process.stderr.write(`\nthis run is void: ${(error as Error).message}\n${said()}`)
  process.exit(1)
}
