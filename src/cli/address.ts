/** The address of the command line. */
import { CommandError, type Arguments } from './command.ts'

/** An address that replaces that of the configuration. */
export interface Address {
  readonly port?: number
  readonly host?: string
}

/** The address of the command line. @throws CommandError for a port that is none */
export function addressOf({ text: { port, host } }: Arguments): Address {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    throw new CommandError(`--port takes a number from 0 to 65535, not ${JSON.stringify(port)}.`, 2)
  }
  return { ...(port !== undefined && { port: Number(port) }), ...(host !== undefined && { host }) }
}
