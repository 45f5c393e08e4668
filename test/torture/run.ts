/**
 * `npm run torture -- <suite> [options]` runs one suite, `npm run torture` all of them, `npm run torture -- --short` their
 * short forms. `README.md` has the suites and their options.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { playInWorkers } from './_workers.ts'

/** The short form of the suites that fuzz. Two workers on two processors take half as long. */
const SHORT_FUZZ = ['--short', '--workers', '2', '--seconds', '8']
/** Each with the options of its short form, or of several; a suite without them has none. */
const SUITES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'fuzz-http': [SHORT_FUZZ],
  'fuzz-json': [SHORT_FUZZ],
  'fuzz-vendor': [SHORT_FUZZ],
  'fuzz-plugin': [SHORT_FUZZ],
  chaos: [['--short', '--seconds', '25']],
  soak: [['--short']],
  dialects: [['--short']],
  'edge-money': [['--short']],
  // `.ci/run` kills the built package on a file by itself.
  embedded: [['--state', 'redis', '--kills', '6']],
  'usage-size': [],
  console: [],
  redis: [['--short']],
  gateways: [['--short']],
  workers: [],
  streams: [],
  laws: [],
  'event-loop': [],
  guard: [],
  bodies: [[]],
  mutants: [],
  faults: [['--short']],
  doubt: [['--short']],
  seeds: [],
}

/**
 * Suites that wait for most of their time and judge none of it: of their short forms two run at once. The longest begin first.
 * `chaos` waits, too, but holds gateways to their own bounds of time while their disk is slow and their process stands still.
 */
const WAITING: readonly string[] = [
  'gateways',
  'faults',
  'edge-money',
  'soak',
  'embedded',
  'redis',
  'dialects',
]

// Gateways in processes of their own start in half the time.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../../node_modules/.cache/compiled')

const [first, ...rest] = process.argv.slice(2)
if (first !== undefined && !first.startsWith('-')) {
  if (!Object.hasOwn(SUITES, first)) {
    const names = Object.keys(SUITES).join(', ')
    process.stderr.write(`there is no suite ${first}; expected one of ${names}\n`)
    process.exit(2)
  }
  process.exit(await play(first, rest))
}
const isShort = first === '--short'
const plays = Object.entries(SUITES).flatMap(([suite, short]) =>
  (isShort ? short : [[]]).map((options) => ({ suite, options })),
)
const waiting = plays.filter(({ suite }) => isShort && WAITING.includes(suite))
for (const { suite, options } of plays.filter((one) => !waiting.includes(one)))
  note(await play(suite, options))
waiting.sort((a, b) => WAITING.indexOf(a.suite) - WAITING.indexOf(b.suite))
const lane = async () => {
  for (let next; (next = waiting.shift());) note(await playBeside(next.suite, next.options))
}
await Promise.all([lane(), lane()])

function note(status: number): void {
  process.exitCode = Math.max(Number(process.exitCode ?? 0), status)
}

/** Plays a suite in a process of its own, and prints what it says when it has ended. */
async function playBeside(suite: string, options: readonly string[]): Promise<number> {
  const began = performance.now()
  const child = spawn(process.execPath, [fileOf(suite), ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const said: Buffer[] = []
  for (const output of [child.stdout, child.stderr]) output.on('data', (part) => said.push(part))
  const [code] = (await once(child, 'close')) as [number | null]
  process.off('exit', kill)
  const seconds = ((performance.now() - began) / 1000).toFixed(0)
  process.stdout.write(`${suite}, ${seconds} s:\n${Buffer.concat(said).toString()}`)
  return code ?? 1
}

async function play(suite: string, options: readonly string[]): Promise<number> {
  const file = fileOf(suite)
  const at = options.indexOf('--workers')
  if (at >= 0) {
    return playInWorkers(suite, file, options.toSpliced(at, 2), Number(options[at + 1]))
  }
  return spawnSync(process.execPath, [file, ...options], { stdio: 'inherit' }).status ?? 1
}

function fileOf(suite: string): string {
  return join(import.meta.dirname, `${suite}.ts`)
}
