/** `plugin test`: runs the kit for authors of plugins. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import * as v from 'valibot'
import { basename, dirname, join, resolve } from 'node:path'
import { OVERRIDE, readEnvironment, resolveEnvironment } from '../../config/environment.ts'
import { isObject } from '../../errors/checks.ts'
import { ConfigError, type ConfigIssue } from '../../errors/errors.ts'
import { LIMIT_MS } from '../../testing/plugin.ts'
import { testPlugin, type Check, type KitReport, type PluginTestOptions } from '../../testing.ts'
import { CommandError, type Arguments } from '../command.ts'
import { toJson } from '../output.ts'

/** Tests one plugin; with `--watch` again whenever it changes. @throws CommandError if a check has failed or a file cannot be read; ConfigError */
export async function testOne(args: Arguments): Promise<void> {
  if (!args.on.has('watch')) return testOnce(args)
  const file = fileOrName(args.positionals[0] ?? '')
  if (!file.startsWith('/')) throw new CommandError(`There is no file ${file} to watch.`, 2)
  const { watchPlugin } = await import('./watch.ts')
  const watch = await watchPlugin(file, casesOf(file, args.text.cases))
  for (;;) {
    await testOnce(args).catch((error: Error) => process.stdout.write(`${error.message}\n`))
    const changed = (await watch.next()).map((path) => basename(path))
    process.stdout.write(`\n${changed.join(', ')}:\n\n`)
  }
}

async function testOnce({ positionals, text, on }: Arguments): Promise<void> {
  const plugin = fileOrName(positionals[0] ?? '')
  const folder = text.cases ?? text.transcripts
  const addressOption = text.address ?? text['base-url-option']
  const options = text.options === undefined ? undefined : await readOptions(text.options)
  const seed = text.seed === undefined ? undefined : readSeed(text.seed)
  const isJson = on.has('json')
  const report = await run(plugin, {
    ...(options && { options }),
    ...(addressOption !== undefined && { addressOption }),
    ...(folder !== undefined && { cases: resolve(folder) }),
    ...(text.requests !== undefined && { requests: resolve(text.requests) }),
    ...(text.only !== undefined && { only: text.only }),
    ...(seed !== undefined && { seed }),
    ...(!isJson && { onStart: printStart, onCheck: printCheck }),
  })
  process.stdout.write(isJson ? toJson(report) : inWords(report))
  const { failed, checks } = report
  if (failed.length > 0) {
    const sum = `${failed.length} of ${checks.length} checks failed`
    throw new CommandError(`${sum}; --seed ${report.seed} repeats them.`)
  }
}

/** A path that begins with a slash for an existing file, else the name. */
export function fileOrName(plugin: string): string {
  const isFile = /^\.{0,2}\//.test(plugin) || (/\.[cm]?[jt]s$/.test(plugin) && existsSync(plugin))
  return isFile ? resolve(plugin) : plugin
}

/** The folder with the cases of a plugin: the named one, or that beside its file. */
export function casesOf(file: string, named: string | undefined): string {
  if (named !== undefined) return resolve(named)
  return join(dirname(file), `${basename(file).replace(/\.[cm]?[jt]s$/, '')}.cases`)
}

/**
 * Options for asking a real vendor: values of the environment and of `.env` replace `${NAME}`.
 * @param live whether it is asked
 * @throws CommandError for a variable that is not set
 */
export async function liveOptions(
  path: string | undefined,
  live: boolean,
  folder: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (path === undefined) return undefined
  const options = await readOptions(path)
  if (!live) return options
  const environment = await readEnvironment(process.env, [process.cwd(), folder])
  const own = Object.entries(environment).filter(([name]) => !name.startsWith(OVERRIDE))
  const { value, issues } = resolveEnvironment(options, v.any(), Object.fromEntries(own))
  const [issue] = issues
  if (issue) throw new CommandError(`--options, ${issue.path}: ${issue.message}.`, 2)
  return value as Record<string, unknown>
}

async function run(plugin: string, options: PluginTestOptions): Promise<KitReport> {
  try {
    return await testPlugin(plugin, options)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const [{ path, message }] = error.issues as [ConfigIssue]
    if (path === 'requests' || path === 'only') {
      throw new CommandError(`--${path}: ${message}.`, 2)
    }
    if (!path.startsWith('options')) throw error
    throw new CommandError(
      `${error.message}\nSet options with --options, and name the option with the address with --address.`,
    )
  }
}

function printStart({ kind, name, seed }: Pick<KitReport, 'kind' | 'name' | 'seed'>): void {
  const limit = `ends after ${LIMIT_MS / 60_000} minutes at most`
  process.stdout.write(`${kind} ${name}, seed ${seed}, ${limit}\n\n`)
  process.stdout.write(row('CHECK', 'ON', 'RESULT'))
}

/** A check is printed as it ends. Skipped ones are summed up at the end. */
function printCheck({ name, on, result, notes: [note = ''] }: Check): void {
  if (result === 'skipped') return
  process.stdout.write(row(name, on ?? '-', result === 'failed' ? 'FAILED' : result, note))
}

function row(check: string, on: string, result: string, note = ''): string {
  return `${[check.padEnd(15), on.padEnd(20), result.padEnd(6), note].join('  ').trimEnd()}\n`
}

/** What follows the checks that were printed. */
function inWords({ cases, checks, failed }: KitReport): string {
  const count = cases.length === 1 ? '1 case' : `${cases.length} cases`
  const run = checks.filter(({ result }) => result !== 'skipped')
  const more = run.flatMap(({ name: check, on, notes }) =>
    notes.slice(1).map((note) => `${[check, on].filter(Boolean).join(', ')}: ${note}\n`),
  )
  const passed = run.filter(({ result }) => result === 'ok').length
  const omitted = checks.length - run.length
  const sums = `${passed} ok, ${run.length - passed} failed, ${omitted} skipped; ${count}.\n`
  return [
    ...(more.length > 0 ? ['\n', ...more] : []),
    ...hints(failed),
    ...skips(checks),
    `\n${sums}`,
  ].join('')
}

function hints(failed: readonly Check[]): string[] {
  const byName = new Map(failed.map(({ name, hint }) => [name, hint]))
  return [...byName].map(([name, hint]) => `\n${name}: ${hint}\n`)
}

/** The checks that were skipped with their cases, by reason. */
function skips(checks: readonly Check[]): string[] {
  const omitted = checks.filter(({ result }) => result === 'skipped')
  const reasons = Map.groupBy(omitted, ({ notes: [why = ''] }) => why)
  return [...reasons].map(([why, those]) => {
    const names = [...Map.groupBy(those, ({ name }) => name)].map(([name, each]) => {
      const on = each.flatMap(({ on }) => on ?? []).join(', ')
      return on ? `${name} (${on})` : name
    })
    return `\nNot checked: ${names.join(', ')}\n  ${why}\n`
  })
}

/** Options from a file or as JSON. @throws CommandError */
export async function readOptions(source: string): Promise<Record<string, unknown>> {
  const inline = source.trimStart().startsWith('{')
  const json = inline ? source : await readFile(source, 'utf8').catch(unreadable(source))
  try {
    const options: unknown = JSON.parse(json)
    if (isObject(options)) return options
  } catch {
    // Reported below without the text, which may contain a key.
  }
  const where = inline ? 'The value of --options' : source
  throw new CommandError(`${where} is not a JSON object such as {"apiKey": "…"}.`, 2)
}

function unreadable(file: string): () => never {
  return () => {
    const hint = 'expected a file, or JSON such as \'{"apiKey": "…"}\''
    throw new CommandError(`--options cannot be read from ${file}; ${hint}.`, 2)
  }
}

function readSeed(text: string): number {
  const seed = Number(text)
  if (/^\d{1,10}$/.test(text) && Number.isSafeInteger(seed)) return seed
  throw new CommandError(`--seed takes a whole number, not "${text}".`, 2)
}
