/**
 * `npm run torture -- <suite> [options]` runs one suite, `npm run torture` all of them, `npm run torture -- --short` their
 * short forms. `README.md` has the suites and their options.
 */
import { spawnSync } from 'node:child_process'
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
for (const [suite, short] of Object.entries(SUITES)) {
  for (const options of isShort ? short : [[]]) {
    const status = await play(suite, options)
    process.exitCode = Math.max(Number(process.exitCode ?? 0), status)
  }
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
