/** The listening socket: how it is opened, and how many connections it takes. */
import { listen as listhen } from 'listhen'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server as NodeServer } from 'node:http'
import type { Gateway } from '../gateway/gateway.ts'
import { LineLimit } from '../observe/line-limit.ts'

/** Descriptors that are not for clients. */
const OWN_DESCRIPTORS = 256
const MIN_CONNECTIONS = 32

/** Leaves descriptors for vendors, the state and files: a process without any can neither answer nor write. */
export function limitConnections(server: NodeServer, { runtime: { log } }: Gateway): void {
  const lines = new LineLimit(() => {}, 1)
  const warn = (message: string) => {
    if (lines.admits(message, performance.now())) log.warn(message)
  }
  // It goes on accepting: a connection that could not be accepted is one that was not made.
  server.on('error', (error) => warn(`a connection could not be accepted: ${error.message}`))
  const descriptors = openFilesLimit()
  if (descriptors === undefined) return
  server.maxConnections = Math.max(descriptors - OWN_DESCRIPTORS, MIN_CONNECTIONS)
  const { maxConnections } = server
  server.on('drop', () => {
    warn(
      `connections above ${maxConnections} are closed: raise the limit of open files (ulimit -n)`,
    )
  })
}

/** How many files and sockets this process may open; undefined where the system does not say. */
function openFilesLimit(): number | undefined {
  try {
    const soft = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined
  }
}

/**
 * Opens the port with listhen. Without it for any free port, which it cannot take, and for a port that other processes have
 * too: to see whether the port is free, listhen opens it, would take connections then, and lose them.
 */
export function bind(
  handler: RequestListener,
  hostname: string,
  port: number,
  isShared: boolean,
): Promise<NodeServer> {
  return port === 0 || isShared
    ? bindPlainly(handler, hostname, port)
    : bindWithListhen(handler, hostname, port)
}

async function bindPlainly(
  handler: RequestListener,
  hostname: string,
  port: number,
): Promise<NodeServer> {
  const server = createServer(handler)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, hostname, resolve)
  })
  return server
}

async function bindWithListhen(
  handler: RequestListener,
  hostname: string,
  port: number,
): Promise<NodeServer> {
  const open = ['0.0.0.0', '::', ''].includes(hostname)
  const listener = await listhen(handler, {
    hostname,
    port,
    public: open,
    // Without these three, listhen ends running streams on SIGTERM and takes another port when this one is busy.
    autoClose: false,
    isProd: true,
    showURL: false,
  })
  const server = listener.server as NodeServer
  // listhen adds a listener that counts requests for its own way of closing, which is not used.
  const listeners = server.listeners('request') as RequestListener[]
  if (listeners.includes(handler)) {
    for (const one of listeners) if (one !== handler) server.off('request', one)
  }
  return server
}
