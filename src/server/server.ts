/** The front door: one Node server, which serves until it is told to close. */
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server as NodeServer } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { contextOf } from '../config/network.ts'
import { createHandler } from './handler.ts'
import type { Siblings } from './siblings.ts'
import { openFront, shuttingDown } from './front.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { warmUp } from '../patterns/patterns.ts'
import { LineLimit } from '../observe/access-log.ts'

export interface Server {
  /** Address without a trailing slash. */
  readonly url: string
  /**
   * Ends in steps. The gateway is not ready any more, and serves new requests for the delay, because balancers learn late. Then
   * it accepts none, waits for running calls up to the grace, and aborts the rest, which charges them.
   */
  close(limits?: CloseLimits): Promise<Closed>
}

/** Calls that ended by themselves while a server was closed, and those that were cut off. */
export interface Closed {
  readonly ended: number
  readonly cut: number
}

/** Times of {@link Server.close}; by default those of the configuration. */
interface CloseLimits {
  readonly delaySeconds?: number
  readonly graceSeconds?: number
  /** Ends both waits when it is aborted. */
  readonly hurry?: AbortSignal
}

interface ListenOptions {
  /** Default `server.port` of the configuration; 0 takes any free port. */
  readonly port?: number
  readonly host?: string
  /** The other processes of this address. */
  readonly siblings?: Siblings
  /** Whether patterns are warmed after the start; a process with many gateways needs it of none. */
  readonly warm?: boolean
}

/** A time longer than in the usual reverse proxies, so that they close idle connections and not the gateway. */
const KEEP_ALIVE_MS = 75_000
/** How long requests on earlier connections are served after the listener has closed, where there is a delay. */
const LATE_MS = 1_000
/** Time after the grace in which aborted calls send their last bytes, and are settled. */
const FAREWELL_MS = 7_000

/** Time after which a start is over and its first requests are answered: they do not wait for the warming of patterns. */
const AFTER_START_MS = 2000

/** Starts to serve. @throws Error when the address cannot be opened; listhen does not report the reason */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Server> {
  const settings = gateway.runtime.config.server
  const host = options.host ?? settings.host
  const port = options.port ?? settings.port
  let refusing = false
  const { siblings } = options
  const handler = createHandler(gateway, () => refusing, siblings)
  const tls = certificateOf(gateway)
  const server = await bind(handler, {
    hostname: host,
    port,
    tls,
    isShared: siblings !== undefined,
  })
  const unwatch = gateway.whenReplaced(() => {
    const next = certificateOf(gateway)
    if (tls && next) (server as TlsServer).setSecureContext(next)
  })
  openFront(server, handler, gateway.runtime.log)
  server.keepAliveTimeout = KEEP_ALIVE_MS
  limitConnections(server, gateway)
  const warming =
    options.warm === false ? undefined : globalThis.setTimeout(warmUp, AFTER_START_MS).unref()
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async close({ delaySeconds, graceSeconds, hurry } = {}) {
      const { shutdownDelay, shutdownGrace } = gateway.runtime.config.server
      const { running } = gateway
      const before = running.total - running.size
      gateway.stop()
      unwatch()
      clearTimeout(warming)
      const delayMs = (delaySeconds ?? shutdownDelay) * 1000
      await pause(delayMs, hurry)
      const closed = new Promise((resolve) => server.close(resolve))
      // A balancer that did not know of the end has connected just before: it gets no second chance for a POST.
      await pause(Math.min(delayMs, LATE_MS), hurry)
      refusing = true
      let cut = 0
      server.closeIdleConnections()
      if (!(await drained(gateway, (graceSeconds ?? shutdownGrace) * 1000, hurry))) {
        for (const call of running) {
          call.abort(shuttingDown())
          cut++
        }
        await drained(gateway, FAREWELL_MS)
      }
      server.closeIdleConnections()
      server.closeAllConnections()
      await closed
      return { ended: running.total - before - cut, cut }
    },
  }
}

/** Resolves true when no call is running, false after `withinMs` or when `hurry` is aborted. */
async function drained(gateway: Gateway, withinMs: number, hurry?: AbortSignal): Promise<boolean> {
  const end = performance.now() + withinMs
  while (gateway.running.size > 0) {
    if (performance.now() >= end || hurry?.aborted) return false
    await pause(25)
  }
  return true
}

async function pause(ms: number, hurry?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, hurry && { signal: hurry }).catch(() => {})
}

// The listening socket: how it is opened, and how many connections it takes.

/** File descriptors that are not for clients. */
const OWN_DESCRIPTORS = 256
const MIN_CONNECTIONS = 32

/** Leaves descriptors for vendors, the state and files: a process without any can neither answer nor write. */
function limitConnections(server: NodeServer, { runtime: { log } }: Gateway): void {
  const lines = new LineLimit(() => {}, 1)
  const warn = (message: string) => {
    if (lines.admits(message, performance.now())) log.warn(message)
  }
  // The server goes on accepting: a connection that could not be accepted does not exist.
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

/** Most files and sockets that this process may open; undefined where the system does not tell. */
function openFilesLimit(): number | undefined {
  try {
    const soft = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined
  }
}

interface Certificate {
  readonly cert: string
  readonly key: string
  readonly passphrase?: string
}

/** The certificate of the port, as its files were read last; undefined for plain HTTP. */
function certificateOf({ loaded: { config, network } }: Gateway): Certificate | undefined {
  const { tls } = config.server
  return tls && (contextOf({ ca: [], ...tls }, network) as Certificate)
}

interface Bound {
  readonly hostname: string
  readonly port: number
  readonly tls: Certificate | undefined
  /** Whether other processes have the port too. */
  readonly isShared: boolean
}

/**
 * Opens the port with listhen. Without it for any free port, which it cannot take, and for a port that other processes have
 * too: to see whether the port is free, listhen opens it, would take connections then, and lose them.
 */
function bind(handler: RequestListener, bound: Bound): Promise<NodeServer> {
  return bound.port === 0 || bound.isShared
    ? bindPlainly(handler, bound)
    : bindWithListhen(handler, bound)
}

async function bindPlainly(
  handler: RequestListener,
  { hostname, port, tls }: Bound,
): Promise<NodeServer> {
  const server = tls ? createTlsServer(tls, handler) : createServer(handler)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, hostname, resolve)
  })
  return server as NodeServer
}

async function bindWithListhen(
  handler: RequestListener,
  { hostname, port, tls }: Bound,
): Promise<NodeServer> {
  const open = ['0.0.0.0', '::', ''].includes(hostname)
  // Imported on demand: it loads a library of cryptography, which workers do not need.
  const { listen: listhen } = await import('listhen')
  const listener = await listhen(handler, {
    hostname,
    port,
    public: open,
    // Without these three, listhen ends running streams on SIGTERM and takes another port when this one is busy.
    autoClose: false,
    isProd: true,
    showURL: false,
    ...(tls && { https: { ...tls, cert: fromPem(tls.cert), key: fromPem(tls.key) } }),
  })
  const server = listener.server as NodeServer
  // listhen adds a listener that counts requests for its own way of closing, which is not used.
  const listeners = server.listeners('request') as RequestListener[]
  if (listeners.includes(handler)) {
    for (const one of listeners) if (one !== handler) server.off('request', one)
  }
  return server
}

/** The text from the first certificate or key on: listhen takes a text with words before it for a path. */
function fromPem(text: string): string {
  return text.slice(text.indexOf('-----BEGIN'))
}
