import { CommandError, type Arguments } from './command.ts'

export interface Address {
  readonly port?: number
  readonly host?: string
}

/** @throws CommandError for an invalid port */
export function addressOf({ text: { port, host } }: Arguments): Address {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    throw new CommandError(`--port takes a number from 0 to 65535, not ${JSON.stringify(port)}.`, 2)
  }
  return { ...(port !== undefined && { port: Number(port) }), ...(host !== undefined && { host }) }
}
