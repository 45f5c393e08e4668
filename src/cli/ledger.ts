/**
 * `ledger export`, `ledger import` and `ledger new`. They open the state directly. A folder that a gateway uses cannot be opened; gateways
 * on Redis can keep running, because an entry with the same id is booked once.
 */
import { open, rm } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { LoadedConfig } from '../config/config.ts'
import { closeState, openState, type OpenState } from '../gateway/open-state.ts'
import { CannotOpen } from '../state/sqlite/file.ts'
import { beginLedger } from '../state/sqlite/folder.ts'
import { exportLines, importLines, LineError } from './archive/archive.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { commandLog, forCommand, needLedger, opening } from './folder.ts'
import { toJson } from './output.ts'

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

async function* linesOf(file: string): AsyncGenerator<string> {
  const source = await open(file)
  yield* source.readLines()
}

/** An error of a file as a message for the user; other errors unchanged. */
function explained(file: string, error: unknown): unknown {
  if (error instanceof LineError) return new CommandError(`${file}, ${error.message}.`)
  if (error instanceof RangeError) return new CommandError(`${error.message}.`)
  const { syscall, message } = error as NodeJS.ErrnoException
  return syscall === undefined ? error : new CommandError(`${file} cannot be used: ${message}.`)
}

function print(args: Arguments, value: object, forPeople: string): void {
  process.stdout.write(args.on.has('json') ? toJson(value) : forPeople)
}
