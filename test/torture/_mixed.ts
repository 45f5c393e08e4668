/**
 * Requests to all endpoints of texts, whole and streamed, to vendors that fail, of clients that leave and of clients that are
 * refused: what clients are told is what the ledger has.
 */
import { request as httpRequest } from 'node:http'
import type { UserConfig } from '../../src/config/config.ts'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { startUpstream } from '../upstream.ts'
import { answerOf } from './_mixed-vendor.ts'
import { randomOf } from './_random.ts'

/** What has happened. */
export interface Mixed {
  readonly asked: number
  /** Answers by form and end: `told` a cost, `failed` without one, `left` by their client. */
  readonly outcomes: Readonly<Record<string, number>>
  /** Pico-dollars: what clients were told, what those cost that left, and by how much the balance has moved. */
  readonly money: Readonly<Record<'told' | 'left' | 'moved', bigint>>
  /** What does not agree; empty if all does. */
  readonly faults: readonly string[]
}

const PRICING = { prompt: '0.000003', completion: '0.000015' }
const TURN = [{ role: 'user', content: 'Tell me of Oslo.' }]

interface Form {
  readonly models: readonly string[]
  readonly body: object
  /** It has streams. */
  readonly streams?: true
}

const CHATS = ['v/plain', 'v/claude', 'v/gpt']

/** The forms, and what a request of each is. */
const FORMS: Readonly<Record<string, Form>> = {
  'chat/completions': { models: CHATS, body: { messages: TURN }, streams: true },
  messages: { models: CHATS, body: { messages: TURN, max_tokens: 500 }, streams: true },
  responses: { models: CHATS, body: { input: 'Tell me of Oslo.' }, streams: true },
  completions: {
    models: ['v/plain'],
    body: { prompt: 'Oslo is', max_tokens: 500 },
    streams: true,
  },
  embeddings: { models: ['v/embed'], body: { input: ['Oslo', 'Rome'] } },
  moderations: { models: ['v/moderate', 'guard'], body: { input: ['Oslo', 'Rome'] } },
  rerank: {
    models: ['v/rerank', 'v/units'],
    body: { query: 'Oslo', documents: ['a', 'b', 'c'] },
  },
}

/** Asks so many times. @param seed the seed of everything random */
export async function askMixed(count: number, seed: number): Promise<Mixed> {
  const below = randomOf(seed, 0)
  const random = () => below(1_000_000) / 1_000_000
  const pick = <T>(items: readonly T[]): T => items[below(items.length)]!
  await using vendor = await startUpstream()
  vendor.answer(({ path, json: body }) => answerOf(path, body, pick, random))
  const at = (provider: string, model: string, more: object = {}) => ({
    pricing: PRICING,
    capabilities: ['STREAMING' as const],
    deployments: [{ provider, model }],
    ...more,
  })
  const small = (modality: 'embedding' | 'moderation' | 'rerank', price: object, options = {}) => ({
    modality,
    pricing: price,
    deployments: [{ provider: 'plain', model: modality, options }],
  })
  const options = { baseURL: `${vendor.url}/v1`, apiKey: 'k' }
  const config: UserConfig = {
    providers: {
      plain: { use: 'openai-compatible', options },
      claude: { use: 'anthropic', options },
      gpt: { use: 'openai', options },
    },
    models: {
      'v/plain': at('plain', 'plain', {
        capabilities: ['STREAMING', 'COMPLETIONS'],
        deployments: [{ provider: 'plain', model: 'plain', options: { completions: true } }],
      }),
      'v/claude': at('claude', 'claude-sonnet-5'),
      'v/gpt': at('gpt', 'gpt-5.4'),
      'v/embed': small('embedding', { prompt: '0.00000002' }),
      'v/moderate': small('moderation', { prompt: '0.000000000001' }),
      'v/rerank': small('rerank', { prompt: '0.00000005' }, { rerank: 'jina' }),
      'v/units': small('rerank', { search_unit: '0.002' }, { rerank: 'cohere' }),
    },
    guards: { use: [{ use: 'pii' }] },
    defaults: { limits: { rpm: 1_000_000, concurrency: 1000 } },
    routing: { cooldown: 0, attempts: 1 },
  }
  await using t = await createTestGateway(config)
  await t.newAccount('poor')
  const keys = [
    ...Array.from({ length: 4 }, () => t.key.secret),
    (await t.newKey({ policy: { version: 1, bannedPatterns: ['heron'] } })).secret,
    (await t.newKey({ policy: { version: 1, bannedPatterns: ['Oslo'] } })).secret,
    (await t.newKey({ account: 'poor' })).secret,
  ]
  const before = await t.balance()
  const told = new Map<string, bigint>()
  const outcomes: Record<string, number> = {}
  const faults: string[] = []
  const paths = Object.keys(FORMS)
  const ask = async (number: number) => {
    const path = paths[number % paths.length]!
    const { models, body: members, streams } = FORMS[path]!
    const body = { model: pick(models), ...members, ...(streams && { stream: random() < 0.6 }) }
    // After a random share of what comes.
    const leaveAfter = random() < 0.25 ? Math.floor(random() * 12) : undefined
    const { id, text, left } = await exchange(t, `/v1/${path}`, pick(keys), body, leaveAfter)
    const cost = left ? undefined : costIn(text)
    const end = left ? 'left' : cost === undefined ? 'failed' : 'told'
    const name = `${path} ${end}`
    outcomes[name] = (outcomes[name] ?? 0) + 1
    if (id !== undefined && !left) told.set(id, cost ?? 0n)
  }
  for (let asked = 0; asked < count; asked += 20) {
    const some = Array.from({ length: Math.min(20, count - asked) }, (_, index) => asked + index)
    await Promise.all(some.map(ask))
  }
  while (t.gateway.running.size > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  const money = { told: 0n, left: 0n, moved: before - (await t.balance()) }
  const charged = new Set<string>()
  for await (const { request, cost } of t.gateway.runtime.ledger.usage('acme')) {
    // The credits of the account are an entry without a call.
    const id = String(request)
    if (!id.startsWith('req_')) continue
    if (charged.has(id)) faults.push(`${id} was charged twice`)
    charged.add(id)
    const expected = told.get(id)
    if (expected === undefined) money.left += cost
    else {
      money.told += expected
      if (expected !== cost) faults.push(`${id} was told ${expected} and charged ${cost}`)
    }
  }
  for (const [id, cost] of told)
    if (cost > 0n && !charged.has(id)) faults.push(`${id} was told ${cost} and not charged`)
  const { moved } = money
  if (moved !== money.told + money.left) {
    faults.push(`the balance has moved by ${moved}, clients were told ${money.told}`)
  }
  if ((await t.gateway.runtime.ledger.verify()).length > 0) faults.push('sums differ from entries')
  return { asked: count, outcomes, money, faults }
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
