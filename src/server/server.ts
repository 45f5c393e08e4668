/** The front door: one Node server, which serves until it is told to close. */
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { createHandler } from './handler.ts'
import { bind, limitConnections } from './listener.ts'
import type { Siblings } from './siblings.ts'
import { openFront } from './front.ts'
import { shuttingDown } from './refusals.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { warmUp } from '../patterns/patterns.ts'

/** A listening gateway. */
export interface Server {
  /** Without a trailing slash. */
  readonly url: string
  /**
   * Ends in steps. The gateway is not ready any more, and serves new requests for the delay, because balancers learn late.
   * Then it accepts none, waits for running calls up to the grace, and aborts the rest, which charges them.
   */
  close(limits?: CloseLimits): Promise<void>
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
}

/** Longer than in the usual reverse proxies, so that they close idle connections and not the gateway. */
const KEEP_ALIVE_MS = 75_000
/** Requests of connections that were made before the listener closed are served for this long, where there is a delay. */
const LATE_MS = 1_000
/** Time after the grace in which aborted calls send their last bytes, and are settled. */
const FAREWELL_MS = 7_000

/** By then a start is over, and its first requests are answered: they do not wait until patterns are warm. */
const AFTER_START_MS = 2000

/** Starts to serve. @throws Error when the address cannot be opened; listhen does not say why */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Server> {
  const settings = gateway.runtime.config.server
  const host = options.host ?? settings.host
  const port = options.port ?? settings.port
  let refusing = false
  const { siblings } = options
  const handler = createHandler(gateway, () => refusing, siblings)
  const server = await bind(handler, host, port, siblings !== undefined)
  openFront(server, handler, gateway.runtime.log)
  server.keepAliveTimeout = KEEP_ALIVE_MS
  limitConnections(server, gateway)
  const warming = globalThis.setTimeout(warmUp, AFTER_START_MS).unref()
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async close({ delaySeconds, graceSeconds, hurry } = {}) {
      const { shutdownDelay, shutdownGrace } = gateway.runtime.config.server
      gateway.stop()
      clearTimeout(warming)
      const delayMs = (delaySeconds ?? shutdownDelay) * 1000
      await pause(delayMs, hurry)
      const closed = new Promise((resolve) => server.close(resolve))
      // A balancer that knew of no end has connected just before: it gets no second chance for a POST.
      await pause(Math.min(delayMs, LATE_MS), hurry)
      refusing = true
      server.closeIdleConnections()
      if (!(await drained(gateway, (graceSeconds ?? shutdownGrace) * 1000, hurry))) {
        for (const call of gateway.running) {
          call.abort(shuttingDown())
        }
        await drained(gateway, FAREWELL_MS)
      }
      server.closeIdleConnections()
      server.closeAllConnections()
      await closed
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

/** Waits, unless `hurry` is aborted. */
async function pause(ms: number, hurry?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, hurry && { signal: hurry }).catch(() => {})
}
