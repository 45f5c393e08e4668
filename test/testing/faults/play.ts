/** Runs the kit on a plugin with a fault, or on one that is unusual and right. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findPlugin } from '../../../src/gateway/plugin-code.ts'
import { runPluginJob } from '../../../src/testing/plugin-job.ts'
import { testPlugin, type KitReport } from '../../../src/testing.ts'
import { filesOf, type Variant } from './bases.ts'

/** Checks of what only a process of its own shows. */
const OF_PROCESSES = ['console', 'own connections', 'uncaught', 'handles']
/** Checks of what all others have brought about. */
const OF_ALL = [...OF_PROCESSES, 'secrets']
/** Checks that take seconds and run alone. */
const MEASURED = ['memory', 'time']
/** A short wait for plugins that do not end, so that a run over all of them takes minutes. */
const STALLED_MS = 2000
/** Every operation of a right plugin ends, however busy the machine is. */
const PATIENCE_MS = 60_000

/** @returns the lines of the checks that failed */
export async function failuresOf(variant: Variant, seed = 1): Promise<string[]> {
  const report = await play(variant, seed).catch((error: Error) => error)
  // The kit may also refuse a plugin that cannot be set up.
  if (report instanceof Error) return [`set up: ${report.message}`]
  return report.failed.map(({ name, on, notes }) => `${name}: ${on ?? ''} ${notes[0]}`)
}

/** Whether one of the checks that are about the fault has found it. */
export function isCaught({ checks }: Variant, failures: readonly string[]): boolean {
  return checks.some((check) => failures.some((line) => line.startsWith(`${check}:`)))
}

async function play(variant: Variant, seed: number): Promise<KitReport> {
  const { checks } = variant
  const [check] = checks
  const only = checks.length === 1 && !OF_ALL.includes(check!) ? { only: check! } : {}
  const timeoutMs = checks.length === 0 ? PATIENCE_MS : STALLED_MS
  const alone =
    variant.endless || checks.some((one) => [...OF_PROCESSES, ...MEASURED].includes(one))
  return withFiles(variant, async (file, folder) => {
    const thorough = checks.some((one) => MEASURED.includes(one))
    if (alone) {
      return testPlugin(file, { seed, thorough, timeoutMs, ...only })
    }
    const job = { plugin: file, directory: folder, seed, timeoutMs, thorough, ...only }
    return runPluginJob(job, await findPlugin(file, folder), undefined)
  })
}

/** Calls `run` with the file of the plugin, and removes it afterwards. */
export async function withFiles<T>(
  variant: Variant,
  run: (file: string, folder: string) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'fault-'))
  try {
    const { source, cases } = filesOf(variant)
    const file = join(folder, 'acme.ts')
    await writeFile(file, source)
    if (Object.keys(cases).length > 0) await mkdir(join(folder, 'acme.cases'))
    for (const [name, text] of Object.entries(cases))
      await writeFile(join(folder, 'acme.cases', name), text)
    return await run(file, folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}
