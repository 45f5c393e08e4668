/** What supervisors and balancers ask. Answered before any routing, so that a fault behind the front door cannot hide it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { commonHeaders } from './node-http.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Reason, Siblings } from './siblings.ts'
import { requestId } from '../state/ids.ts'

/** Reasons for a 503, by path. */
const PROBES: Readonly<Record<string, (gateway: Gateway, siblings?: Siblings) => Reason[]>> = {
  // A new start mends no store and no vendor, so this one only shows that the event loop turns.
  '/livez': () => [],
  // A server that listens has its configuration and its state.
  '/startupz': () => [],
  '/readyz': noneReady,
  '/health': noneReady,
}

/** What the address alone is: coding assistants ask for it before their first request. */
const SERVICE = { object: 'service', name: 'sluicegate', api: '/v1', openapi: '/openapi.json' }

/** Answers a probe, or who is there. @returns false for a request that asks neither */
export function answerProbe(
  gateway: Gateway,
  { method, url = '', headers }: IncomingMessage,
  response: ServerResponse,
  siblings?: Siblings,
): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  const path = url.split('?', 1)[0]!
  if (path === '/') {
    // Only a browser asks for a page; clients that look for the API get what it is.
    if (
      method === 'GET' &&
      gateway.runtime.config.admin.console &&
      headers.accept?.includes('text/html')
    ) {
      response.writeHead(302, { location: '/console', 'cache-control': 'no-store' })
      response.end()
      return true
    }
    write(response, method, 200, SERVICE)
    return true
  }
  if (!Object.hasOwn(PROBES, path)) return false
  const reasons = PROBES[path]!(gateway, siblings)
  const ok = reasons.length === 0
  write(response, method, ok ? 200 : 503, { status: ok ? 'ok' : 'unavailable', reasons })
  return true
}

function write(response: ServerResponse, method: string, status: number, answer: object): void {
  const body = JSON.stringify(answer)
  response.writeHead(status, [
    ...commonHeaders(requestId()),
    'content-type',
    'application/json',
    'content-length',
    String(Buffer.byteLength(body)),
    'cache-control',
    'no-store',
  ])
  response.end(method === 'HEAD' ? undefined : body)
}

/** A balancer cannot choose among processes of one address: what keeps one of them from work is a reason for all. */
function noneReady(gateway: Gateway, siblings?: Siblings): Reason[] {
  const own = notReady(gateway)
  return siblings ? [...new Set([...own, ...siblings.reasons])] : own
}

/**
 * Why this process cannot take new work. Vendors do not count: their outage hits every replica alike, and clients need the
 * answer that names it.
 */
export function notReady({ runtime, bodies, stopping, faulty }: Gateway): Reason[] {
  const { ok, outbox, outboxFault } = runtime.ledger.health()
  return [
    ...(stopping ? (['draining'] as const) : []),
    ...(ok || outboxFault ? [] : (['ledger'] as const)),
    ...(outboxFault || (!ok && outbox > 0) ? (['outbox'] as const) : []),
    ...(bodies.exhausted ? (['memory'] as const) : []),
    ...(faulty ? (['fault'] as const) : []),
  ]
}
