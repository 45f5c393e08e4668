/** Requests in all forms of chat, whole and streamed, to vendors that fail, of clients that leave: what clients are told is what the ledger has. */
import { request as httpRequest } from 'node:http'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { events, json, sse, startUpstream, type FakeResponse } from '../upstream.ts'
import { randomOf } from './_random.ts'

/** What has happened. */
export interface Mixed {
  readonly asked: number
  /** Answers by form and end: `told` a cost, `failed` without one, `left` by their client. */
  readonly outcomes: Readonly<Record<string, number>>
  /** What does not agree; empty if all does. */
  readonly faults: readonly string[]
}

const PRICING = { prompt: '0.000003', completion: '0.000015' }
const TURN = [{ role: 'user', content: 'Tell me of Oslo.' }]

/** The forms, and what a request of each is. */
const FORMS: Readonly<Record<string, (model: string) => object>> = {
  '/v1/chat/completions': (model) => ({ model, messages: TURN }),
  '/v1/messages': (model) => ({ model, messages: TURN, max_tokens: 500 }),
  '/v1/responses': (model) => ({ model, input: 'Tell me of Oslo.' }),
  '/v1/completions': (model) => ({ model, prompt: 'Oslo is', max_tokens: 500 }),
}

/** Asks so many times. @param seed of everything random */
export async function askMixed(count: number, seed: number): Promise<Mixed> {
  const below = randomOf(seed, 0)
  const random = () => below(1_000_000) / 1_000_000
  const pick = <T>(items: readonly T[]): T => items[below(items.length)]!
  await using vendor = await startUpstream()
  vendor.answer(({ path, json: body }) => answerOf(path, body, pick, random))
  const at = (provider: string, model: string, capabilities: readonly string[]) => ({
    pricing: PRICING,
    capabilities: [...capabilities] as any,
    deployments: [
      {
        provider,
        model,
        options: provider === 'plain' ? { completions: true } : {},
      },
    ],
  })
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const config: UserConfig = {
    providers: {
      plain: { use: 'openai-compatible', options },
      claude: { use: 'anthropic', options },
      gpt: { use: 'openai', options },
    },
    models: {
      'v/plain': at('plain', 'plain', ['STREAMING', 'COMPLETIONS']),
      'v/claude': at('claude', 'claude-sonnet-5', ['STREAMING']),
      'v/gpt': at('gpt', 'gpt-5.4', ['STREAMING']),
    },
    defaults: { limits: { rpm: 1_000_000, concurrency: 1000 } },
    routing: { cooldown: 0, attempts: 1 },
  }
  await using t = await createTestGateway(config)
  const keys = [
    t.key.secret,
    (await t.newKey({ policy: { version: 1, bannedPatterns: ['heron'] } })).secret,
  ]
  const before = await t.balance()
  const told = new Map<string, bigint>()
  const outcomes: Record<string, number> = {}
  const faults: string[] = []
  const ask = async () => {
    const path = pick(Object.keys(FORMS))
    const model = path === '/v1/completions' ? 'v/plain' : pick(['v/plain', 'v/claude', 'v/gpt'])
    const stream = random() < 0.6
    const body = { ...FORMS[path]!(model), stream }
    // After a random share of what comes.
    const leaveAfter = random() < 0.2 ? Math.floor(random() * 12) : undefined
    const { id, text, left } = await exchange(t, path, pick(keys), body, leaveAfter)
    const cost = left ? undefined : costIn(text)
    const end = left ? 'left' : cost === undefined ? 'failed' : 'told'
    const name = `${path.slice('/v1/'.length)} ${end}`
    outcomes[name] = (outcomes[name] ?? 0) + 1
    if (id !== undefined && !left) told.set(id, cost ?? 0n)
  }
  for (let asked = 0; asked < count; asked += 20) {
    await Promise.all(Array.from({ length: Math.min(20, count - asked) }, ask))
  }
  while (t.gateway.running.size > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  let charged = 0n
  for await (const { request, cost } of t.gateway.runtime.ledger.usage('acme')) {
    // The credits of the account are an entry without a call.
    if (!String(request).startsWith('req_')) continue
    charged += cost
    const expected = told.get(String(request))
    if (expected !== undefined && expected !== cost) {
      faults.push(`${request} was told ${expected} and charged ${cost}`)
    }
    told.delete(String(request))
  }
  for (const [id, cost] of told)
    if (cost > 0n) faults.push(`${id} was told ${cost} and not charged`)
  const moved = before - (await t.balance())
  if (moved !== charged) faults.push(`the balance has moved by ${moved}, entries say ${charged}`)
  if ((await t.gateway.runtime.ledger.verify()).length > 0) faults.push('sums differ from entries')
  return { asked: count, outcomes, faults }
}

/** The last cost of an answer in pico-dollars; undefined if it names none. */
function costIn(text: string): bigint | undefined {
  const found = [...text.matchAll(/"cost":(\d+(?:\.\d+)?)[,}]/g)].at(-1)?.[1]
  if (found === undefined) return undefined
  const [whole = '0', fraction = ''] = found.split('.')
  return BigInt(whole + fraction.padEnd(12, '0'))
}

interface Exchange {
  readonly id: string | undefined
  readonly text: string
  readonly left: boolean
}

/** @param leaveAfter the client leaves after so many pieces */
function exchange(
  { url }: TestGateway,
  path: string,
  key: string,
  body: object,
  leaveAfter: number | undefined,
): Promise<Exchange> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const request = httpRequest(url + path, { method: 'POST', headers, agent: false })
    let id: string | undefined
    let text = ''
    let pieces = 0
    const leave = () => {
      request.destroy()
      resolve({ id, text, left: true })
    }
    request.on('error', () => resolve({ id, text, left: true }))
    request.once('response', (response) => {
      id = response.headers['x-request-id'] as string
      if (leaveAfter === 0) return leave()
      response.on('data', (piece: Buffer) => {
        text += piece.toString()
        if (++pieces === leaveAfter) leave()
      })
      response.once('error', () => resolve({ id, text, left: true }))
      response.once('end', () => resolve({ id, text, left: false }))
    })
    request.end(JSON.stringify(body))
  })
}

const WORDS = ['Oslo ', 'is ', 'cold, ', 'and ', 'a ', 'grey ', 'heron ', 'stands ', 'there.']

/** What a vendor says: a whole answer or a stream of random length, or a failure of some kind. */
function answerOf(
  path: string,
  { stream }: { readonly stream?: boolean },
  pick: <T>(items: readonly T[]) => T,
  random: () => number,
): FakeResponse {
  if (random() < 0.1) {
    return json({ error: { message: 'no', type: 'api_error' } }, pick([400, 429, 500, 529]))
  }
  const words = WORDS.slice(0, 1 + Math.floor(random() * WORDS.length))
  const input = 5 + Math.floor(random() * 50)
  const output = words.length + Math.floor(random() * 20)
  const answer = path.endsWith('/messages')
    ? claude(words, input, output, stream === true)
    : path.endsWith('/responses')
      ? gpt(words, input, output, stream === true)
      : plain(words, input, output, stream === true, path.endsWith('/chat/completions'))
  if (!stream) return answer
  const whole = [...answer.pieces].join('')
  // Each event comes on its own.
  if (random() > 0.15) return { ...answer, pieces: whole.split(/(?<=\n\n)/), pauseMs: 1 }
  // Broken off somewhere.
  const ending = pick(['cut', 'reset', 'end'] as const)
  return { ...answer, pieces: [whole.slice(0, Math.floor(random() * whole.length))], ending }
}

function plain(
  words: readonly string[],
  prompt_tokens: number,
  completion_tokens: number,
  stream: boolean,
  chat: boolean,
): FakeResponse {
  const usage = { prompt_tokens, completion_tokens }
  const said = (text: string) => (chat ? { delta: { content: text } } : { text })
  if (!stream) {
    const text = words.join('')
    const choice = chat ? { message: { role: 'assistant', content: text } } : { text }
    return json({ choices: [{ index: 0, ...choice, finish_reason: 'stop' }], usage })
  }
  return events(
    ...words.map((word) => ({ choices: [{ index: 0, ...said(word), finish_reason: null }] })),
    { choices: [{ index: 0, ...said(''), finish_reason: 'stop' }] },
    { choices: [], usage },
    '[DONE]',
  )
}

const named = (all: readonly { readonly type: string }[]) =>
  sse(all.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))

function claude(
  words: readonly string[],
  input_tokens: number,
  output_tokens: number,
  stream: boolean,
): FakeResponse {
  const usage = { input_tokens, output_tokens }
  const base = { id: 'm', type: 'message', role: 'assistant', model: 'x' }
  const text = { type: 'text', text: words.join('') }
  if (!stream) return json({ ...base, content: [text], stop_reason: 'end_turn', usage })
  return named([
    {
      type: 'message_start',
      message: { ...base, content: [], usage: { input_tokens, output_tokens: 1 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...words.map((word) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: word },
    })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens } },
    { type: 'message_stop' },
  ] as any)
}

function gpt(
  words: readonly string[],
  input_tokens: number,
  output_tokens: number,
  stream: boolean,
): FakeResponse {
  const content = [{ type: 'output_text', text: words.join(''), annotations: [] }]
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content }
  const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
  const resource = { id: 'resp_1', object: 'response', status: 'completed', output: [item], usage }
  if (!stream) return json(resource)
  const empty = { ...resource, status: 'in_progress', output: [], usage: null }
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 }
  return named([
    { type: 'response.created', response: empty },
    { type: 'response.in_progress', response: empty },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...item, status: 'in_progress', content: [] },
    },
    {
      type: 'response.content_part.added',
      ...place,
      part: { type: 'output_text', text: '', annotations: [] },
    },
    ...words.map((delta) => ({ type: 'response.output_text.delta', ...place, delta })),
    { type: 'response.output_text.done', ...place, text: words.join('') },
    { type: 'response.content_part.done', ...place, part: content[0] },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: resource },
  ] as any)
}
