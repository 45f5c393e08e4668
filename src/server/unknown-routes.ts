/** Requests for routes that do not exist: the answer names those that do, and the operator learns of them within bounds. */
import type { IncomingMessage } from 'node:http'
import { NotFound } from '../errors/errors.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { hintFor } from '../gateway/routes.ts'
import { networkOf } from '../observe/address.ts'
import { logEvent } from '../observe/events.ts'
import { LineLimit } from '../observe/line-limit.ts'

const MAX_SHOWN = 100
/** What all lines have in common: paths are the choice of clients, so each is no subject of its own. */
const SUBJECT = 'unknown routes'

/** Counts and logs such requests. One for each server. */
export class UnknownRoutes {
  readonly #gateway: Gateway
  readonly #lines: LineLimit

  constructor(gateway: Gateway) {
    this.#gateway = gateway
    this.#lines = new LineLimit((count) => {
      gateway.runtime.log.info(`${count} more requests for unknown routes in a minute`)
    })
  }

  /** The answer to one. The query of its URL is not shown. */
  refuse({ method = 'GET', url = '/', socket }: IncomingMessage): NotFound {
    const { metrics, log, config } = this.#gateway.runtime
    const path = url.split('?', 1)[0]!
    const route = `${method} ${shownOf(path)}`
    metrics.unknownRoute()
    if (this.#lines.admits(SUBJECT, performance.now())) {
      const isShown = config.log.address === 'truncated'
      const address = isShown ? networkOf(socket.remoteAddress) : undefined
      const members = { method, path: shownOf(path), status: 404, address }
      logEvent(log, 'info', { event: 'route.unknown', message: `no route ${route}`, members })
    }
    return new NotFound('unknown_url', `No route ${route}. ${hintFor(method, path)}`)
  }
}

/** A path without what could be a key, in visible characters. */
function shownOf(path: string): string {
  const visible = path.replaceAll(/[^\x21-\x7e]/g, '?').replaceAll(/sk-[\w-]+/g, 'sk-…')
  return visible.length > MAX_SHOWN ? `${visible.slice(0, MAX_SHOWN)}…` : visible
}
