/**
 * Posts events as lines of text to a chat, in the form that Slack, Mattermost, Rocket.Chat, Google Chat and Discord (with
 * `/slack` at the end of its address) read.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import { defineSink, type GatewayEvent, type OptionField } from '../../src/plugin.ts'
import { eventsOption } from './webhook.ts'

const ADDRESS = 'an address that begins with https:// or http://'
const address = v.pipe(v.string(ADDRESS), v.url(ADDRESS), v.regex(/^https?:/i, ADDRESS))

const options = v.strictObject({
  /** A secret: with it anyone can post. */
  url: address,
  events: eventsOption(['alert']),
  /** Address of the console, such as `https://gate.acme.com/console`, for links. */
  console: v.optional(address),
})

/** Least time between two posts: chats refuse more. */
const PAUSE_MS = 1000

const fields: readonly OptionField[] = [
  {
    name: 'url',
    label: 'Address of the incoming webhook',
    help: 'It is a secret: with it anyone can post.',
    kind: 'secret',
    required: true,
  },
  { name: 'events', label: 'Events', kind: 'list', example: 'alert, call.ended' },
  { name: 'console', label: 'Address of the console', kind: 'address' },
]

export default defineSink({
  name: 'slack',
  options,
  fields,
  setup({ url, events, console: base }, host) {
    host.mask([url])
    let postedAt = -Infinity
    return {
      takes: events,
      batch: 20,
      async send(batch, signal) {
        const waitMs = postedAt + PAUSE_MS - performance.now()
        if (waitMs > 0) await sleep(waitMs, undefined, { signal })
        postedAt = performance.now()
        const text = batch.map((one) => lineOf(one, base?.replace(/\/+$/, ''))).join('\n')
        await host.http(url, { method: 'POST', body: { text }, signal, responseType: 'text' })
      },
    }
  },
})

function lineOf({ event, data, gateway }: GatewayEvent, base: string | undefined): string {
  if (event === 'alert') {
    const { kind, state, message } = data
    const link = base === undefined ? '' : ` ${base}/settings/alerts`
    return `${kind} ${state === 'raised' ? 'is raised' : 'has ended'} (${gateway}): ${plain(message)}${link}`
  }
  if (event === 'topup.wanted') {
    const { account_id, balance_usd, below_usd } = data
    return `${event} account ${account_id} has ${balance_usd} USD, less than ${below_usd} USD`
  }
  if (event === 'credit.booked' || event === 'credit.adjusted') {
    const { account_id, kind, amount_usd, balance_usd, reference } = data
    return `${event} ${kind} of ${amount_usd} USD, account ${account_id} has ${balance_usd} USD: ${plain(reference)}`
  }
  const { id, model, key_id, account_id, guard } = data
  const rules = guard?.rules.join(', ') || data.outcome
  const link = base === undefined ? '' : ` ${base}/requests?open=${id}`
  return `${event} ${model} of ${account_id}/${key_id}: ${plain(String(rules))}${link}`
}

/** A text without the signs by which chats mention people and make links. */
function plain(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
