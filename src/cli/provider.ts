/** `provider test`: runs the conformance kit for authors of providers. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isObject } from '../errors/checks.ts'
import { ConfigError } from '../errors/errors.ts'
import {
  readTranscripts,
  testProvider,
  type Check,
  type Report,
  type RequestForm,
  type TestOptions,
} from '../testing.ts'
import { CommandError, type Arguments } from './command.ts'
import { table, toJson } from './output.ts'

/** Tests one provider. @throws CommandError if a check has failed or a file cannot be read; ConfigError */
export async function testOne({ positionals, text, on }: Arguments): Promise<void> {
  const [provider = ''] = positionals
  const { transcripts: folder, 'base-url-option': addressOption } = text
  const options = text.options === undefined ? undefined : await readOptions(text.options)
  const seed = text.seed === undefined ? undefined : readSeed(text.seed)
  const transcripts = folder === undefined ? undefined : await readTranscripts(resolve(folder))
  const requests = text.requests === undefined ? undefined : await readForm(text.requests)
  const report = await run({
    provider: isFile(provider) ? resolve(provider) : provider,
    directory: process.cwd(),
    ...(options && { options }),
    ...(addressOption !== undefined && { addressOption }),
    ...(transcripts && { transcripts }),
    ...(requests && { requests }),
    ...(seed !== undefined && { seed }),
  })
  process.stdout.write(on.has('json') ? toJson(report) : inWords(report))
  const failed = report.checks.filter(({ result }) => result === 'failed').length
  if (failed > 0) {
    const checks = `${failed} of ${report.checks.length} checks failed`
    throw new CommandError(`${checks}; --seed ${report.seed} repeats them.`)
  }
}

async function run(options: TestOptions): Promise<Report> {
  try {
    return await testProvider(options)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    if (!error.issues.some(({ path }) => path.startsWith('options'))) throw error
    throw new CommandError(
      `${error.message}\nSet options with --options, and name the option with the address with --base-url-option.`,
    )
  }
}

/** Whether the name is a path without `./`, and not a package. */
function isFile(provider: string): boolean {
  return /\.[cm]?[jt]s$/.test(provider) && existsSync(provider)
}

function inWords({ provider, seed, transcripts, checks }: Report): string {
  const count = transcripts.length === 1 ? '1 transcript' : `${transcripts.length} transcripts`
  const with_ = transcripts.length === 0 ? 'no transcripts' : count
  const run = checks.filter(({ result }) => result !== 'skipped')
  const rows = run.map(({ name, on, result, notes }) => [
    name,
    on,
    result === 'failed' ? 'FAILED' : result,
    notes[0] ?? '',
  ])
  const more = run.flatMap(({ name, on, notes }) =>
    notes.slice(1).map((note) => `${[name, on].filter(Boolean).join(', ')}: ${note}\n`),
  )
  const passed = run.filter(({ result }) => result === 'ok').length
  const omitted = checks.length - run.length
  const sums = `${passed} ok, ${run.length - passed} failed, ${omitted} skipped.\n`
  return [
    `${provider}, ${with_}, seed ${seed}\n\n`,
    table(['CHECK', 'ON', 'RESULT', ''], rows).replaceAll(/ +-$/gm, ''),
    ...(more.length > 0 ? ['\n', ...more] : []),
    ...skips(checks),
    `\n${sums}`,
  ].join('')
}

/** The checks that were skipped, by reason. */
function skips(checks: readonly Check[]): string[] {
  const reasons = new Map<string, Set<string>>()
  for (const { name, result, notes } of checks) {
    if (result !== 'skipped') continue
    const [why = ''] = notes
    reasons.set(why, (reasons.get(why) ?? new Set()).add(name))
  }
  return [...reasons].map(([why, names]) => `\nNot checked: ${[...names].join(', ')}\n  ${why}\n`)
}

/** The default export of a module. */
async function readForm(file: string): Promise<RequestForm> {
  const module = (await import(pathToFileURL(resolve(file)).href).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CommandError(`--requests cannot be loaded from ${file}: ${reason}`, 2)
  })) as { default?: Partial<RequestForm> }
  const form = module.default
  if (typeof form?.schema?.['~standard']?.validate === 'function') return form as RequestForm
  const expected = 'a default export with "schema", a Standard Schema of request bodies'
  throw new CommandError(`--requests: expected ${file} to have ${expected}.`, 2)
}

async function readOptions(given: string): Promise<Record<string, unknown>> {
  const inline = given.trimStart().startsWith('{')
  const json = inline ? given : await readFile(given, 'utf8').catch(unreadable(given))
  try {
    const options: unknown = JSON.parse(json)
    if (isObject(options)) return options
  } catch {
    // Reported below without the text, which may contain a key.
  }
  const where = inline ? 'The value of --options' : given
  throw new CommandError(`${where} is not a JSON object such as {"apiKey": "…"}.`, 2)
}

function unreadable(file: string): () => never {
  return () => {
    const hint = 'expected a file, or JSON such as \'{"apiKey": "…"}\''
    throw new CommandError(`--options cannot be read from ${file}; ${hint}.`, 2)
  }
}

function readSeed(given: string): number {
  const seed = Number(given)
  if (/^\d{1,10}$/.test(given) && Number.isSafeInteger(seed)) return seed
  throw new CommandError(`--seed takes a whole number, not "${given}".`, 2)
}
