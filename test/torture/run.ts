/**
 * `npm run torture -- <suite> [options]` runs one suite, `npm run torture` all of them, `npm run torture -- --short` their
 * short forms. `README.md` has the suites and their options.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { playInWorkers } from './_workers.ts'

/** Each with its options for the short form; without them the suite has none. */
const SUITES: Readonly<Record<string, readonly string[] | undefined>> = {
  'fuzz-http': ['--short'],
  'fuzz-json': ['--short'],
  'fuzz-vendor': ['--short'],
  'fuzz-plugin': ['--short'],
  chaos: ['--short'],
  soak: ['--short'],
  'edge-money': ['--short'],
  embedded: undefined,
  redis: ['--short'],
  gateways: ['--short'],
  laws: undefined,
  'event-loop': undefined,
  guard: undefined,
  bodies: [],
}

const [first, ...rest] = process.argv.slice(2)
if (first !== undefined && !first.startsWith('-')) {
  if (!Object.hasOwn(SUITES, first)) {
    const names = Object.keys(SUITES).join(', ')
    process.stderr.write(`there is no suite ${first}; expected one of ${names}\n`)
    process.exit(2)
  }
  const at = rest.indexOf('--workers')
  if (at < 0) process.exit(play(first, rest))
  const [workers, options] = [Number(rest[at + 1]), rest.toSpliced(at, 2)]
  process.exit(await playInWorkers(first, fileOf(first), options, workers))
}
const isShort = first === '--short'
for (const [suite, short] of Object.entries(SUITES)) {
  if (isShort && !short) continue
  process.exitCode = Math.max(Number(process.exitCode ?? 0), play(suite, isShort ? short! : []))
}

function play(suite: string, options: readonly string[]): number {
  return spawnSync(process.execPath, [fileOf(suite), ...options], { stdio: 'inherit' }).status ?? 1
}

function fileOf(suite: string): string {
  return join(import.meta.dirname, `${suite}.ts`)
}
