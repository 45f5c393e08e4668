/** What went wrong with a request: by the status of its answer, or by the error of its connection. */
import { UpstreamFailure, type FailedConnection, connectionText } from '../errors/errors.ts'
import type { FailureClass } from '../plugin.ts'
import { ProxyUnreachable, refusedByProxy, type Proxy } from './egress.ts'

/** The class of a failure by the status of the answer. */
export const CLASSES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  402: 'upstream_balance',
  403: 'upstream_auth',
  404: 'not_found',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'bad_request',
  429: 'upstream_rate',
  503: 'overloaded',
  529: 'overloaded',
}

/** Milliseconds of `retry-after-ms`, or of `retry-after` in seconds or as a date (RFC 9110, section 10.2.3). */
export function waitIn(headers: Readonly<Record<string, string>>): number | undefined {
  const exact = Number(headers['retry-after-ms'])
  if (exact > 0) return Math.ceil(exact)
  const text = headers['retry-after'] ?? ''
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return ms > 0 ? Math.ceil(ms) : undefined
}

type SystemError = Error & { readonly code?: unknown }

/**
 * The failure that an error of a connection stands for. One of the proxy is no fault of the deployment, and is reported to it.
 * @param url the URL of the request; absent after the head of the answer
 */
export function toFailure(
  error: SystemError,
  url: string | undefined,
  proxy?: Proxy,
): UpstreamFailure {
  const connection = connectionOf(error, url, proxy)
  const details = connection && { connection }
  const cause = connection ? explained(error, connection) : error
  if (proxy && (error instanceof ProxyUnreachable || connection?.code.startsWith('PROXY_'))) {
    proxy.failed(cause.message)
    return unreached('upstream_error', UNREACHED, { cause, ...details })
  }
  switch (error.code) {
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return new UpstreamFailure('timeout', 'The model provider did not answer in time.', { cause })
    case 'EMFILE':
    case 'ENFILE':
      return unreached('overloaded', 'The gateway has no connection left for the model.', { cause })
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return new UpstreamFailure('upstream_error', UNREACHED, { cause, ...details })
    default: {
      const message = 'The model provider closed the connection early.'
      return new UpstreamFailure('upstream_error', message, { cause, ...details })
    }
  }
}

/** The error with a message for the operator. */
function explained(cause: SystemError, connection: FailedConnection): Error {
  return Object.assign(new Error(connectionText(connection), { cause }), { code: connection.code })
}

const UNREACHED = 'The model provider could not be reached.'

function unreached(
  failure: FailureClass,
  message: string,
  options: { cause: unknown; connection?: FailedConnection },
): UpstreamFailure {
  return new UpstreamFailure(failure, message, { ...options, unasked: true })
}

/** @returns undefined for an error without a code */
function connectionOf(
  cause: SystemError,
  url: string | undefined,
  proxy: Proxy | undefined,
): FailedConnection | undefined {
  const target = url === undefined ? null : URL.parse(url)
  const status = refusedByProxy(cause)
  const code = status === undefined ? cause.code : `PROXY_${status}`
  if (target === null || typeof code !== 'string' || !/^[A-Z][A-Z\d_]{2,60}$/.test(code)) {
    return undefined
  }
  const via = proxy && { via: proxy.name }
  if (cause instanceof ProxyUnreachable && proxy) {
    const at = proxy.name.lastIndexOf(':')
    return { code, host: proxy.name.slice(0, at), port: Number(proxy.name.slice(at + 1)), ...via }
  }
  const port = Number(target.port) || (target.protocol === 'http:' ? 80 : 443)
  const secure = target.protocol === 'https:'
  return { code, host: target.hostname, port, ...via, ...(secure && { secure }) }
}
