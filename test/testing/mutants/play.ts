/** Plugins that are right but for one fault, made of right ones by replacing a text; and which check has to find each. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findPlugin } from '../../../src/gateway/plugin-code.ts'
import { runPluginJob } from '../../../src/testing/plugin-job.ts'
import { testPlugin, type KitReport } from '../../../src/testing.ts'

/** Every operation of a right plugin comes to an end, however busy the machine is. */
const PATIENCE_MS = 60_000

/** A plugin without a fault, and its cases by file. */
export interface Original {
  readonly code: string
  readonly cases: Readonly<Record<string, string>>
}

/** A fault, and the checks of which one has to find it. */
export interface Mutant {
  readonly name: string
  readonly checks: readonly string[]
  /** Texts of the original and what stands in their place. */
  readonly changes: readonly (readonly [from: string, to: string])[]
  /** Only a process of its own shows it. */
  readonly inProcess?: true
}

/** A family of mutants. */
export interface Family {
  readonly original: Original
  readonly mutants: readonly Mutant[]
}

/** Writes `mutant(name, checks, from, to, …)`. */
export function mutant(name: string, checks: string, ...texts: readonly string[]): Mutant {
  const changes = Array.from(
    { length: texts.length / 2 },
    (_, i) => [texts[2 * i]!, texts[2 * i + 1]!] as const,
  )
  return { name, checks: checks.split(' | '), changes }
}

/** The same, for a fault that only a process of its own shows. */
export function alone(...args: Parameters<typeof mutant>): Mutant {
  return { ...mutant(...args), inProcess: true }
}

/** The code with the fault. @throws Error for a text that the original does not have */
export function codeOf({ code }: Original, { name, changes }: Mutant): string {
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`${name}: there is no ${JSON.stringify(from)}`)
    return text.replaceAll(from, () => to)
  }, code)
}

/** The report of the kit about a mutant, or about the original. */
export async function play(
  original: Original,
  one?: Mutant,
  timeoutMs = PATIENCE_MS,
): Promise<KitReport> {
  const folder = await mkdtemp(join(tmpdir(), 'mutant-'))
  try {
    const files = { 'acme.ts': one ? codeOf(original, one) : original.code }
    for (const [name, text] of Object.entries(original.cases)) {
      Object.assign(files, { [`acme.cases/${name}`]: text })
    }
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), text)
    }
    const file = join(folder, 'acme.ts')
    const seed = 1
    if (one?.inProcess) return await testPlugin(file, { seed })
    const job = { plugin: file, directory: folder, seed, timeoutMs, thorough: false }
    return await runPluginJob(job, await findPlugin(file, folder), undefined)
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** What the kit says of a mutant, and whether it is what it should say. */
export async function judge(
  { original }: Family,
  one: Mutant,
  timeoutMs = PATIENCE_MS,
): Promise<{ readonly caught: boolean; readonly failed: readonly string[] }> {
  const failed = await play(original, one, timeoutMs).then(
    (report) => report.failed.map(({ name, notes }) => `${name}: ${notes[0]}`),
    // The kit may also refuse a plugin that cannot be set up.
    (error: Error) => [`set up: ${error.message}`],
  )
  const caught = failed.some((line) => one.checks.some((check) => line.startsWith(`${check}:`)))
  return { caught, failed }
}
