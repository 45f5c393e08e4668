/**
 * Posts each event as JSON to an address of the operator, signed with HMAC-SHA-256. The receiver knows an event that it has had
 * before by its id.
 */
import { createHmac } from 'node:crypto'
import * as v from 'valibot'
import { defineSink, type GatewayEvent, type OptionField } from '../../src/plugin.ts'

// Options that sinks have in common.

const EVENTS = [
  'call.ended',
  'guard.blocked',
  'guard.escalation',
  'alert',
  'credit.booked',
  'credit.adjusted',
  'topup.wanted',
] as const

/** Which events a sink takes. @param usual where the operator does not say */
export function eventsOption(usual: (typeof EVENTS)[number][]) {
  const events = v.pipe(v.array(v.picklist(EVENTS)), v.minLength(1, 'at least one event'))
  return v.optional(events, usual)
}

/** Posts under way at a time. */
const AT_ONCE = 8
const ADDRESS = 'an address that begins with https:// or http://'
const SECRET = 'a text of at least 16 characters'
const secret = v.pipe(v.string(SECRET), v.minLength(16, SECRET))

const options = v.strictObject({
  url: v.pipe(v.string(ADDRESS), v.url(ADDRESS), v.regex(/^https?:/i, ADDRESS)),
  /** Events are not signed where it is absent. */
  secret: v.optional(secret),
  /** Signs as well, while the receiver learns the new secret. */
  previousSecret: v.optional(secret),
  headers: v.optional(v.record(v.string(), v.string()), {}),
  events: eventsOption(['alert', 'guard.blocked', 'guard.escalation']),
})

const fields: readonly OptionField[] = [
  { name: 'url', label: 'Address', kind: 'address', required: true },
  { name: 'secret', label: 'Secret of the signature', kind: 'secret' },
  { name: 'previousSecret', label: 'Former secret', kind: 'secret' },
  { name: 'events', label: 'Events', kind: 'list', example: 'alert, call.ended' },
]

export default defineSink({
  name: 'webhook',
  options,
  fields,
  setup({ url, secret, previousSecret, headers, events }, host) {
    const secrets = [secret ?? [], previousSecret ?? []].flat()
    /** Events that have arrived, of a batch that is sent again. */
    const delivered = new WeakSet<GatewayEvent>()
    /** Events that the receiver will never take, and why. */
    const refused = new WeakMap<GatewayEvent, object>()
    const isDone = (one: GatewayEvent) => delivered.has(one) || refused.has(one)
    const post = async (one: GatewayEvent, signal: AbortSignal) => {
      const { id, event, at, gateway, data } = one
      const body = JSON.stringify({ id, event, at, gateway, data })
      await host.http(url, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/json',
          'x-sluicegate-event': event,
          'x-sluicegate-id': id,
          ...(secrets.length > 0 && { 'x-sluicegate-signature': signatureOf(body, secrets) }),
        },
        body,
        signal,
        responseType: 'text',
      })
      delivered.add(one)
    }
    return {
      takes: events,
      batch: 64,
      async send(batch, signal) {
        const open = batch.filter((one) => !isDone(one))
        for (let at = 0; at < open.length; at += AT_ONCE) {
          const posts = open.slice(at, at + AT_ONCE).map(async (one) => {
            await post(one, signal).catch((error: object) => {
              if (!isRefusal(error)) throw error
              refused.set(one, error)
            })
          })
          const failed = (await Promise.allSettled(posts)).find(
            ({ status }) => status === 'rejected',
          )
          if (failed) throw (failed as PromiseRejectedResult).reason
        }
        const refusals = batch.flatMap((one) => refused.get(one) ?? [])
        if (refusals.length === batch.length) throw refusals[0]
        return { refused: refusals.length }
      },
    }
  },
})

/** Whether the receiver will never take the event. */
function isRefusal(error: unknown): boolean {
  const { failure } = error as { failure?: unknown }
  return failure === 'bad_request' || failure === 'payload_too_large'
}

/** `t=<seconds since epoch>,v1=<hex>`, and another `v1` for a second secret. */
function signatureOf(body: string, secrets: readonly string[]): string {
  const time = Math.floor(Date.now() / 1000)
  const sign = (key: string) => createHmac('sha256', key).update(`${time}.${body}`).digest('hex')
  return [`t=${time}`, ...secrets.map((key) => `v1=${sign(key)}`)].join(',')
}
