/** Sends events through a sink as the gateway does: samples of every kind, and those of cases. */
import { deepFrozen } from '../lifetime/scope.ts'
import { endedCall } from '../observe/record.ts'
import type { EndedCall, FailureClass, GatewayEvent } from '../plugin.ts'
import type { RecordedResponse } from './transcripts.ts'

export interface SinkCase {
  readonly name: string
  /** Members that an event leaves out are those of a sample of its name. */
  readonly events: readonly EventOfCase[]
  /** The answer of the receiver; 200 by default. */
  readonly answer?: RecordedResponse
  readonly expect: ExpectedSending
}

interface EventOfCase {
  readonly event: GatewayEvent['event']
  readonly id?: string
  readonly at?: string
  readonly data?: Readonly<Record<string, unknown>>
}

interface ExpectedSending {
  /** Members of the body of the first request, or the whole of a body that is a list. */
  readonly sent?: Readonly<Record<string, unknown>> | readonly unknown[]
  /** Number of requests; at least one by default. */
  readonly requests?: number
  /** Class of the failure with which the batch ends. */
  readonly failure?: FailureClass
  /** Wait in ms that the failure has to report. */
  readonly retry_after_ms?: number
}

const AT = '2026-05-04T12:00:00.000Z'

const CALL: EndedCall = endedCall({
  id: 'req_01HZX0000000000000000SAMPL',
  at: AT,
  method: 'POST',
  endpoint: '/v1/chat/completions',
  account_id: 'acme',
  key_id: 'key_sample',
  model: 'vendor/small',
  deployment: 'vendor/small-1',
  status: 200,
  outcome: 'completed',
  stream: true,
  times: { admit_ms: 1, first_ms: 120, settled_ms: 799, total_ms: 800 },
  usage: { prompt_tokens: 11, completion_tokens: 3 },
  estimated: false,
  cost_usd: '0.000017',
  cost_details: { prompt: '0.000011', completion: '0.000006' },
  vendor_cost_usd: '0.000014',
  rate: { limit: 60, left: 59 },
  gateway: 'gw-sample',
  agent: 'openai-node',
  request: { max_tokens: 100, temperature: 0.5 },
  response: { id: 'chatcmpl-sample', model: 'small-1', finish_reasons: ['stop'] },
})

const BOOKED = {
  account_id: 'acme',
  account_name: 'Acme Ltd',
  seq: 7,
  kind: 'top-up',
  amount_usd: '25',
  balance_usd: '27.5',
  reference: 'invoice 17',
  note: null,
  expires_at: null,
  request_id: null,
  cash: null,
}

const SAMPLES: { readonly [Name in GatewayEvent['event']]: object } = {
  'call.ended': CALL,
  'guard.blocked': {
    ...CALL,
    outcome: 'refused',
    guard: { outcome: 'blocked', rules: ['deny:code'], policy: '0123456789abcdef' },
  },
  'guard.escalation': {
    ...CALL,
    request_id: CALL.id,
    account_id: 'acme',
    key_id: 'key_sample',
    endpoint: CALL.endpoint,
    model: CALL.model,
    mode: 'block',
    outcome: 'blocked',
    rules: ['deny:code'],
  },
  alert: {
    id: 'deployment.down:vendor/small-1',
    kind: 'deployment.down',
    object: 'vendor/small-1',
    state: 'raised',
    message: 'calls avoid vendor/small-1',
  },
  'credit.booked': BOOKED,
  'credit.adjusted': { ...BOOKED, kind: 'adjust', amount_usd: '-2.5', note: 'charged twice' },
  'topup.wanted': {
    account_id: 'acme',
    balance_usd: '1.5',
    below_usd: '5',
    amount_usd: '25',
    reference: 'auto:acme:7',
  },
}

export const EVENT_NAMES = Object.keys(SAMPLES) as readonly GatewayEvent['event'][]

let count = 0

/** An event of this name, with an id of its own. @param members replace those of the sample */
export function sampleEvent(
  event: GatewayEvent['event'],
  { id = `evt_sample${count++}`, at = AT, data = {} }: Omit<EventOfCase, 'event'> = {},
): GatewayEvent {
  const members = { ...SAMPLES[event], ...data }
  return deepFrozen({
    id,
    event,
    at,
    gateway: 'gw-sample',
    data: members,
  }) as unknown as GatewayEvent
}

/** An event with a word of its own in each text that may differ between events. */
export function markedEvent(event: GatewayEvent['event'], word: string): GatewayEvent {
  const { id, data } = sampleEvent(event)
  const marked = Object.entries(data).flatMap(([name, value]) =>
    MARKED.has(name) && typeof value === 'string' ? [[name, `${value} ${word}`]] : [],
  )
  return sampleEvent(event, { id: `${id}${word}`, data: Object.fromEntries(marked) })
}

/** Members whose texts are different in each event. */
const MARKED: ReadonlySet<string> = new Set(['id', 'request_id', 'message', 'model', 'object'])
