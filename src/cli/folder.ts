/** The state of a data folder, for commands that open it themselves while no gateway runs on it. */
import { createConsola, type ConsolaInstance } from 'consola'
import { randomBytes } from 'node:crypto'
import type { LoadedConfig } from '../config/config.ts'
import { ConfigError } from '../errors/errors.ts'
import { createGateway } from '../gateway/gateway.ts'
import { listen } from '../server/server.ts'
import { hasLedger } from '../state/sqlite/folder.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'

/** A gateway that this process runs for one command, on a port of this machine. */
interface OwnGateway {
  readonly url: string
  readonly token: string
  close(): Promise<void>
}

/**
 * The configuration for a command that opens the state itself. Nothing is folded and nothing copied: a command may
 * have to see all rows, and copies are the gateway's.
 * @throws CommandError for a state that no other process can open
 */
export function forCommand({ config, ...loaded }: LoadedConfig): LoadedConfig {
  if (config.state.driver === 'memory') {
    throw new CommandError(
      'state.driver is "memory": such a ledger exists only inside a running gateway.',
    )
  }
  const state = { ...config.state }
  // The type of what `redis` has by default.
  delete (state as { retention?: number }).retention
  if ('copies' in state) delete state.copies
  return { ...loaded, config: { ...config, state } }
}

/** The log of such a command: errors only, because standard output has its result. */
export function commandLog(): ConsolaInstance {
  return createConsola({ level: 1, stdout: process.stderr })
}

/** @throws CommandError with the reasons where a state cannot be used */
export async function opening<Opened>(open: Promise<Opened>): Promise<Opened> {
  return open.catch((error: unknown) => {
    if (!(error instanceof ConfigError)) throw error
    const reasons = error.issues.map(({ message }) => message)
    throw new CommandError(`Cannot open the state: ${reasons.join(' ')}`)
  })
}

/** @throws CommandError where a folder has no ledger: a wrong name would begin one */
export function needLedger({ state }: LoadedConfig['config']): void {
  if (state.driver !== 'file' || hasLedger(state.path)) return
  throw new CommandError(`There is no ledger in ${state.path}: name its folder with --data.`)
}

/**
 * Runs a gateway on the folder of `--data`.
 * @param begins whether a ledger is begun where the folder has none
 * @throws ConfigError, or CommandError if the folder cannot be opened
 */
export async function openFolder(args: Arguments, begins: boolean): Promise<OwnGateway> {
  const { config, ...loaded } = forCommand((await configurationOf(args)).loaded)
  if (!begins) needLedger(config)
  const token = randomBytes(24).toString('base64url')
  const own = { ...loaded, config: { ...config, admin: { ...config.admin, enabled: true, token } } }
  const gateway = await opening(createGateway(own, { log: commandLog() }))
  try {
    const server = await listen(gateway, { host: '127.0.0.1', port: 0 })
    const close = async () => {
      await server.close({ delaySeconds: 0, graceSeconds: 0 })
      await gateway.close()
    }
    return { url: server.url, token, close }
  } catch (error) {
    await gateway.close()
    throw error
  }
}
