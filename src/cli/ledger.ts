/**
 * `ledger export`, `import`, `compact`, `new`, `unsent` and `send`. They open the state directly. A folder that a gateway uses cannot be opened; gateways
 * on Redis can keep running, because an entry with the same id is booked once.
 */
import { open, rm } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { existsSync, statfsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadedConfig } from '../config/config.ts'
import { closeState, openState, type OpenState } from '../gateway/open-state.ts'
import { DAY_MS } from '../state/ledger/windows.ts'
import { bookableRow } from '../state/ledger/unconfirmed.ts'
import { foldInto } from '../state/ledger/maintenance.ts'
import { CannotOpen } from '../state/sqlite/file.ts'
import { beginLedger, LEDGER_FILE } from '../state/sqlite/folder.ts'
import { exportLines, importLines, LineError } from './archive/archive.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { commandLog, forCommand, needLedger, opening } from './folder.ts'
import { print as shown } from './output.ts'
import { confirm, needYes } from './terminal.ts'

/** Exports to standard output or into a new file. @throws ConfigError, or CommandError if a file cannot be used */
export async function exportLedger(args: Arguments): Promise<void> {
  const { loaded } = await configurationOf(args)
  needLedger(loaded.config)
  const { out, format = '2' } = args.text
  if (format !== '1' && format !== '2') {
    throw new CommandError(`--format ${format}: expected 1 or 2.`)
  }
  const version = format === '1' ? 1 : 2
  const lines = await withState(loaded, (state) =>
    out ? writeFile(state, out, version) : writeOut(state, version),
  )
  if (!out) return
  print(args, { file: out, lines }, `Wrote ${lines} lines to ${out}.\n`)
}

/** Imports an export and verifies the ledger. @throws ConfigError, CommandError */
export async function importLedger(args: Arguments): Promise<void> {
  const [file = ''] = args.positionals
  const { loaded } = await configurationOf(args)
  await withState(loaded, async (state) => {
    // The number of its rows tells an older ledger, so rows of another origin would end the doubt. An empty one takes the place of what was lost.
    const { doubt } = await state.ledger.state()
    if (doubt && doubt.kind !== 'emptied') {
      throw new CommandError(`${state.ledger.health().doubt}, and import after it.`)
    }
    const { lines, added } = await importLines(state, () => linesOf(file)).catch((error) => {
      throw explained(file, error)
    })
    const wrong = await state.ledger.verify()
    const ok = wrong.length === 0
    const sums = ok ? 'Every sum equals its rows.' : 'The ledger does not add up.'
    print(args, { file, lines, added, ok }, `Read ${lines} lines, ${added} were new. ${sums}\n`)
    if (!ok)
      throw new CommandError('The ledger does not add up: "ledger verify" shows the differences.')
  })
}

/** Begins a new ledger in the data folder. @throws ConfigError, CommandError if the folder cannot be used */
export async function newLedger(args: Arguments): Promise<void> {
  const { state } = (await configurationOf(args)).loaded.config
  if (state.driver !== 'file') {
    throw new CommandError(
      `state.driver is "${state.driver}": only "file" has a ledger in a folder.`,
    )
  }
  try {
    const { identity, kept } = beginLedger(state.path, args.text.discard)
    const former = kept === undefined ? '' : ` The former one is ${kept}.`
    const { path } = state
    print(args, { path, identity, kept }, `${path} has the new ledger ${identity}.${former}\n`)
  } catch (error) {
    throw error instanceof CannotOpen ? new CommandError(error.message) : error
  }
}

/** Folds old rows, and gives the room of what is gone back to the disk. @throws ConfigError, CommandError */
export async function compactLedger(args: Arguments): Promise<void> {
  const { loaded } = await configurationOf(args)
  needLedger(loaded.config)
  const { state } = loaded.config
  const before = boundOf(args.text.before, state)
  if (before) {
    needYes(args, 'ledger compact')
    const day = before.toJSON().slice(0, 10)
    await confirm(args, `Rows older than ${day} become daily totals for good. Fold them?`)
  }
  if (state.driver === 'file') needRoom(state.path)
  await withState(loaded, async ({ ledger, archive }) => {
    const { bytes: bytesBefore } = await ledger.state()
    const rows = before ? await foldInto(archive, ledger, before) : 0
    await ledger.compact()
    const { bytes } = await ledger.state()
    const sizes = `${toMebibytes(bytesBefore)} before, ${toMebibytes(bytes)} now`
    print(args, { rows, bytesBefore, bytes }, `Folded ${rows} rows. The ledger takes ${sizes}.\n`)
  })
}

/** The bound of `--before`, or of the retention; undefined where there is neither. @throws CommandError for another text than a day */
function boundOf(
  text: string | undefined,
  state: LoadedConfig['config']['state'],
): Date | undefined {
  if (text === undefined) {
    const days = 'retention' in state ? state.retention : undefined
    return days === undefined ? undefined : new Date(Date.now() - days * DAY_MS)
  }
  const at = Date.parse(text)
  if (/^\d{4}-\d\d-\d\d$/.test(text) && new Date(at).toJSON()?.startsWith(text)) return new Date(at)
  throw new CommandError(`--before ${text}: expected a day such as 2026-11-28.`)
}

/** SQLite writes the file anew beside it. @throws CommandError where there is no room for it */
function needRoom(path: string): void {
  const { size } = statSync(join(path, LEDGER_FILE))
  const { bavail, bsize } = statfsSync(path)
  if (bavail * bsize >= size) return
  throw new CommandError(
    `Compacting needs ${toMebibytes(size)} of free room in ${path}, and there are ${toMebibytes(bavail * bsize)}: ` +
      'free some, or move the folder to a larger disk.',
  )
}

function toMebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`
}

/**
 * Prints settlements that gateways which have ended have left in the outbox, as a file for `ledger import`. @throws ConfigError,
 * CommandError if the folder cannot be read
 */
export async function unsentSettlements(args: Arguments): Promise<void> {
  const { outbox } = needOutbox((await configurationOf(args)).loaded)
  const { OutboxFile } = await import('../state/redis/outbox.ts')
  let rows: string[]
  try {
    rows = OutboxFile.left(outbox).map(bookableRow)
  } catch (error) {
    throw new CommandError(`${outbox} cannot be read: ${(error as Error).message}.`)
  }
  const header = JSON.stringify({ kind: 'export', version: 2, at: Date.now() })
  const lines = [header, ...rows, JSON.stringify({ kind: 'end', lines: rows.length + 2 })]
  print(
    args,
    rows.map((row) => JSON.parse(row)),
    `${lines.join('\n')}\n`,
  )
}

/** Delivers the outbox of gateways that have ended. @throws ConfigError, CommandError where some of it could not be delivered */
export async function sendOutbox(args: Arguments): Promise<void> {
  const { loaded } = await configurationOf(args)
  const { outbox } = needOutbox(loaded)
  await withState(loaded, async ({ ledger }) => {
    const before = ledger.health().outbox
    const until = performance.now() + SEND_MS
    while (ledger.health().outbox > 0 && performance.now() < until) await sleep(POLL_MS)
    const { outbox: left, doubt } = ledger.health()
    const quarantined = ledger.quarantined().length
    const sent = before - left
    print(args, { sent, left, quarantined }, `Sent ${sent} settlements, ${left} are left.\n`)
    if (left > 0) {
      throw new CommandError(doubt ?? `Redis does not take them: they are still in ${outbox}.`)
    }
    if (quarantined > 0) {
      const many = `${quarantined} are too old to be sent safely`
      throw new CommandError(`${many}: see "ledger outbox" of a gateway on this folder.`)
    }
  })
}

/** How long Redis may take for an outbox. */
const SEND_MS = 60_000
const POLL_MS = 50

/** @throws CommandError for a state without an outbox */
function needOutbox({ config: { state } }: LoadedConfig): { readonly outbox: string } {
  if (state.driver === 'redis') return state
  throw new CommandError(`state.driver is "${state.driver}": only "redis" has an outbox.`)
}

/** @throws CommandError if the state cannot be opened */
async function withState<Result>(
  loaded: LoadedConfig,
  use: (state: OpenState) => Promise<Result>,
): Promise<Result> {
  const opened = await opening(openState(forCommand(loaded), commandLog()))
  try {
    return await use(opened)
  } finally {
    await closeState(opened)
  }
}

/** Writes a file that only its owner can read. An incomplete file is removed. */
async function writeFile(state: OpenState, file: string, version: 1 | 2): Promise<number> {
  const target = await open(file, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST')
      throw new CommandError(`${file} exists already: choose another name.`)
    throw explained(file, error)
  })
  try {
    return await write(state, target.createWriteStream({ flush: true }), version)
  } catch (error) {
    await rm(file, { force: true })
    throw explained(file, error)
  }
}

async function writeOut(state: OpenState, version: 1 | 2): Promise<number> {
  return write(state, process.stdout, version).catch((error: NodeJS.ErrnoException) => {
    // The reader has closed the pipe, as `head` does.
    if (error.code === 'EPIPE') return 0
    throw error
  })
}

async function write(state: OpenState, target: Writable, version: 1 | 2): Promise<number> {
  let count = 0
  const counted = async function* () {
    for await (const line of exportLines(state, version)) {
      count++
      yield line
    }
  }
  await pipeline(counted, target, { end: target !== process.stdout })
  return count
}

/** The lines of an export; of a log, each settlement that is not booked, as a part of an export. */
async function* linesOf(file: string): AsyncGenerator<string> {
  const source = await open(file)
  let first: string | undefined
  let isPart = false
  for await (const line of source.readLines()) {
    first ??= line
    const row = isExport(first) ? line : rowOfLog(line)
    if (row === undefined) continue
    if (!isExport(first) && !isPart) yield '{"kind":"rescue","version":1}'
    isPart = true
    yield row
  }
  // A log without such a line is refused as what it is: no export.
  if (!isPart && first !== undefined) yield first
}

function isExport(first: string): boolean {
  return first.startsWith('{"kind":')
}

/** The row at the end of a line of the log, which is text or JSON. */
function rowOfLog(line: string): string | undefined {
  if (!line.includes('settlement not booked (')) return undefined
  let texts: readonly unknown[] = [line]
  try {
    texts = Object.values(JSON.parse(line) as object)
  } catch {
    // It is text.
  }
  const rows = texts.map(
    (text) => /settlement not booked \(.*?\): (\{.*\})$/.exec(String(text))?.[1],
  )
  return rows.find((row) => row !== undefined)
}

/** An error of a file as a message for the user; other errors unchanged. */
function explained(file: string, error: unknown): unknown {
  if (error instanceof LineError) return new CommandError(`${file}, ${error.message}.`)
  if (error instanceof RangeError) return new CommandError(`${error.message}.`)
  const { syscall, message, code } = error as NodeJS.ErrnoException
  const folder = dirname(file)
  const missing = existsSync(folder) ? `file ${JSON.stringify(file)}` : `folder ${folder}`
  if (code === 'ENOENT') return new CommandError(`There is no ${missing}.`)
  return syscall === undefined ? error : new CommandError(`${file} cannot be used: ${message}.`)
}

function print(args: Arguments, value: object, forPeople: string): void {
  shown(args, value, () => forPeople)
}
