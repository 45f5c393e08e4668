import { CommandError, type Arguments } from './command.ts'

/** What is listened on, as the options say it. @throws CommandError for an invalid port */
export function addressOf({ text: { port, host } }: Arguments): { port?: number; host?: string } {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535)) {
    throw new CommandError(`--port takes a number from 0 to 65535, not ${JSON.stringify(port)}.`, 2)
  }
  return { ...(port !== undefined && { port: Number(port) }), ...(host !== undefined && { host }) }
}
