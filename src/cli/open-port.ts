/** Opens the port, or reports why it cannot be used. */
import { createServer } from 'node:net'
import type { Config } from '../config/config.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { listen, type Server } from '../server/server.ts'
import type { Siblings } from '../server/siblings.ts'
import { CommandError } from './command.ts'

/** @throws CommandError with the reason why the address cannot be used */
export async function openPort(gateway: Gateway, siblings?: Siblings): Promise<Server> {
  try {
    return await listen(gateway, { ...(siblings && { siblings }) })
  } catch (error) {
    await probePort(gateway.runtime.config.server)
    throw error
  }
}

/**
 * Looks whether an address can be used, before anything is made for it: a first start shows the secret of its key once.
 * @throws CommandError with the reason why not
 */
export async function probePort({ port, host }: Config['server']): Promise<void> {
  const reason = port === 0 ? undefined : REASONS[(await refusalOf(host, port)) ?? '']
  if (reason) throw new CommandError(`Cannot listen on ${host}, port ${port}: ${reason}`)
}

/** The system's error code for an address that cannot be used; listhen does not report it. */
function refusalOf(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code))
    server.listen(port, host, () => server.close(() => resolve(undefined)))
  })
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE:
    'another process uses this port. Stop it, or choose another port with --port or server.port.',
  EACCES: 'this user is not allowed to. Choose a port above 1023 with --port or server.port.',
  EADDRNOTAVAIL:
    'this machine does not have the address. Choose another one with --host or server.host.',
  ENOTFOUND: 'the host does not exist. Choose another one with --host or server.host.',
}
