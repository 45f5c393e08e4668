/**
 * Money end to end: thousands of requests of every kind over real sockets. In the end the costs that clients were sent add
 * up to the money taken from their accounts, to the last digit. Costs are read as text, without floats.
 */
import * as fc from 'fast-check'
import { Pool } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LedgerRow } from '../../../src/state/ledger/ledger.ts'
import type { Usage } from '../../../src/plugin.ts'
import { createTestGateway, type TestGateway, type TestKey } from '../../_setup.ts'
import {
  events,
  json,
  startUpstream,
  type FakeResponse,
  type FakeUpstream,
  type ReceivedRequest,
} from '../../upstream.ts'
import { SEED } from '../../_seed.ts'

/** `MONEY_REQUESTS` changes it; `npm run torture` sends 10,000. */
const REQUESTS = Number(process.env.MONEY_REQUESTS ?? 800)
const PARALLEL = 16

/** No cost is a round number, and those of `acme/fine` have to be rounded. */
const PRICING: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'acme/plain': { prompt: '0.0000001234567', completion: '0.000000987654321' },
  'acme/cached': {
    prompt: '0.00000125',
    input_cache_read: '0.0000000125',
    input_cache_write: '0.0000015625',
    completion: '0.00001',
  },
  'acme/fine': {
    prompt: '0.000000000123456789',
    completion: '0.000000007000000001',
    input_cache_read: '0.0000000000000625',
    request: '0.000000000000500001',
    audio: '0.00000000333333333',
    audio_output: '0.00000006666666667',
  },
  'acme/unit': {
    prompt: '0',
    completion: '0.0000003',
    request: '0.0001',
    web_search: '0.00500000007',
  },
  // Free on the free tier only.
  'acme/free': { prompt: '0.00000001', completion: '0.000000020000000001' },
}
const MODELS = Object.keys(PRICING)

const ACCOUNTS: Readonly<Record<string, string | undefined>> = {
  north: '10000',
  south: '8192.000000000001',
  poor: '0.004',
  free: undefined,
}
/** Account and limits of each key. */
const KEYS: readonly [string, object][] = [
  ['north', {}],
  ['north', {}],
  ['north', { spendCap: { usd: '0.01', scope: 'month' } }],
  ['north', { concurrency: 2 }],
  ['south', {}],
  ['south', { rpm: 60 }],
  ['poor', {}],
  ['poor', {}],
  ['free', {}],
]
const ROOMY = { rpm: 1_000_000, concurrency: 1000 }
/** Keys whose valid requests are all admitted. */
const UNLIMITED = new Set([0, 1, 4])

/** The course of a request, with its share of all requests. */
const COURSES = {
  /** Answered, with the vendor's usage. */
  answered: 34,
  /** Answered by a vendor that reports no usage. */
  uncounted: 8,
  /** Refused by the gateway: no such model, or a bad parameter. */
  refused: 5,
  /** The vendor fails before its first event. */
  failed: 8,
  /** The vendor fails after its first events. */
  broken: 15,
  /** The client disconnects before the first event. */
  leftEarly: 6,
  /** The client disconnects after the first events. */
  leftMidway: 10,
  /** The client disconnects while the answer ends; either may come first. */
  leftAtTheEnd: 4,
} as const
type Course = keyof typeof COURSES

interface Plan {
  readonly course: Course
  readonly key: number
  readonly model: string
  readonly stream: boolean
  readonly usageChunk: boolean
  readonly prompt: string
  readonly words: readonly string[]
  readonly counts: Counts
  /** Selects one of the ways to fail or to be refused. */
  readonly way: number
}

interface Counts {
  readonly prompt: number
  readonly cached: number
  readonly written: number
  readonly audioIn: number
  readonly completion: number
  readonly reasoning: number
  readonly audioOut: number
  readonly searches: number
}

/** The client's view of a finished request. */
interface Outcome {
  readonly n: number
  readonly plan: Plan
  /** The status of the answer; undefined when the client left before the head. */
  readonly status?: number
  readonly id?: string
  /** The whole body; undefined when the client left. */
  readonly text?: string
  /** `x-service-cost` */
  readonly header?: string
}

const counts: fc.Arbitrary<Counts> = fc
  .record({
    plain: fc.integer({ min: 1, max: 20_000 }),
    cached: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 50_000 })),
    written: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5000 })),
    audioIn: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 })),
    text: fc.integer({ min: 0, max: 3000 }),
    reasoning: fc.integer({ min: 0, max: 3000 }),
    audioOut: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 })),
    searches: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ plain, text, ...rest }) => ({
    ...rest,
    prompt: plain + rest.cached + rest.written + rest.audioIn,
    completion: text + rest.reasoning + rest.audioOut,
  }))

const plans: fc.Arbitrary<Plan> = fc.record({
  course: fc.oneof(
    ...Object.entries(COURSES).map(([course, weight]) => ({
      arbitrary: fc.constant(course as Course),
      weight,
    })),
  ),
  key: fc.nat({ max: KEYS.length - 1 }),
  model: fc.constantFrom(...MODELS),
  stream: fc.boolean(),
  usageChunk: fc.boolean(),
  prompt: fc.string({ unit: fc.constantFrom('a', ' ', 'ß', '字', '"'), maxLength: 300 }),
  words: fc.array(fc.constantFrom('one ', 'über ', '四', '\n', 'twenty-five '), {
    minLength: 1,
    maxLength: 12,
  }),
  counts,
  way: fc.nat({ max: 99 }),
})

let vendor: FakeUpstream
let t: TestGateway
let keys: TestKey[]
let pool: Pool
const program: Plan[] = fc.sample(plans, { seed: SEED, numRuns: REQUESTS })
const arrivals = program.map(() => Promise.withResolvers<void>())
const outcomes: Outcome[] = []

beforeAll(async () => {
  vendor = await startUpstream()
  vendor.answer(play)
  t = await createTestGateway({
    providers: { vendor: { use: 'openai-compatible', options: { baseURL: vendor.url } } },
    models: Object.fromEntries(
      MODELS.map((id) => [
        id,
        {
          pricing: PRICING[id]!,
          free_tier: id === 'acme/free',
          capabilities: ['STREAMING' as const],
          deployments: [{ provider: 'vendor', model: 'm' }],
        },
      ]),
    ),
    defaults: { limits: ROOMY, freeTier: { rpm: 1_000_000, perDay: 1_000_000, concurrency: 1000 } },
    routing: { cooldown: 0 },
  })
  for (const [id, usd] of Object.entries(ACCOUNTS)) await t.newAccount(id, usd)
  keys = []
  for (const [account, change] of KEYS) keys.push(await t.newKey({ account, ...change }))
  pool = new Pool(t.url, { connections: PARALLEL, pipelining: 1 })
  process.stderr.write(`money, end to end: seed ${SEED}\n`)
})
afterAll(async () => {
  await pool.destroy()
  await t.close()
  await vendor.close()
})

describe(`${REQUESTS} requests of every kind (seed ${SEED})`, () => {
  it('come to an end', { timeout: Math.max(120_000, REQUESTS * 20) }, async () => {
    let next = 0
    const work = async () => {
      while (next < program.length) outcomes.push(await send(next++))
    }
    await Promise.all(Array.from({ length: PARALLEL }, work))
    await expect.poll(() => t.gateway.running.size).toBe(0)
    expect(outcomes).toHaveLength(REQUESTS)
  })

  it('went as they were meant to', () => {
    for (const { plan, status, text } of outcomes) {
      if (!UNLIMITED.has(plan.key) || text === undefined) continue
      const { course, stream } = plan
      const failed = course === 'failed' || (course === 'broken' && !stream)
      const expected =
        course === 'refused' ? [400, 404] : failed ? [400, 413, 429, 502, 503] : [200]
      expect(expected, course).toContain(status)
      expect(text.includes('"error"'), course).toBe(status !== 200 || course === 'broken')
    }
    for (const [course, weight] of Object.entries(COURSES)) {
      const went = outcomes.filter(({ plan }) => plan.course === course)
      expect(went.length, course).toBeGreaterThan((REQUESTS * weight) / 180)
    }
    const statuses = new Set(outcomes.map(({ status }) => status))
    // Limits, caps and balances were reached on the way.
    for (const status of [200, 400, 402, 403, 404, 429, 502]) expect(statuses).toContain(status)
  })

  it('told costs in plain decimals whose parts add up to them, in body and head alike', () => {
    let parts = 0
    for (const { status, text, header, plan } of outcomes) {
      const told = text === undefined ? undefined : costIn(text)
      if (told === undefined) continue
      expect(sum(told.details)).toBe(told.cost)
      parts += told.details.length
      if (!plan.stream && status === 200) expect(pico(header!)).toBe(told.cost)
      else expect(header).toBeUndefined()
    }
    expect(parts).toBeGreaterThan(REQUESTS / 4)
  })

  it('cost what the vendor counted, or what was said, at the prices of the list', () => {
    const checked = { answered: 0, uncounted: 0, broken: 0 }
    for (const { n, plan, text, status } of outcomes) {
      const { course, key, model } = plan
      if (text === undefined || status !== 200) continue
      if (course !== 'answered' && course !== 'uncounted' && course !== 'broken') continue
      const paid = KEYS[key]![0] !== 'free'
      const expected = paid ? priceOf(model, isCounted(plan) ? counted(n) : estimated(n)) : 0n
      expect(costIn(text)!.cost, `#${n} ${JSON.stringify(plan)}`).toBe(expected)
      checked[course]++
    }
    for (const count of Object.values(checked)) expect(count).toBeGreaterThan(REQUESTS / 100)
  })

  it('cost nothing when the answer is an error status', () => {
    for (const { status, text } of outcomes) {
      if (text !== undefined && status !== 200) expect(costIn(text)).toBeUndefined()
    }
  })

  it('are in the ledger once each, at the cost that the client was told', async () => {
    const rows = new Map((await allRows()).map((row) => [row.request, row]))
    expect(rows.size).toBe((await allRows()).length)
    const unseen = new Map(rows)
    for (const { id, text, status } of outcomes) {
      if (id === undefined) continue
      unseen.delete(id)
      const row = rows.get(id)
      if (text === undefined) expect(row, 'a client that left has a row').toBeDefined()
      else if (status === 200) expect(row!.cost).toBe(costIn(text)!.cost)
      else expect(row?.cost ?? 0n).toBe(0n)
    }
    // These clients left before they had a request id; their requests had reached the vendor.
    const early = outcomes.filter(({ id }) => id === undefined)
    expect(unseen.size).toBe(early.length)
    for (const row of unseen.values()) expect(row.usage!.outcome).toBe('cancelled')
  })

  it('are charged by the quantities in their rows, also those whose client left', async () => {
    const paying = new Set(keys.filter((_, i) => KEYS[i]![0] !== 'free').map(({ id }) => id))
    const refused = new Set(
      outcomes
        .filter(({ text, status }) => text !== undefined && status !== 200)
        .map(({ id }) => id),
    )
    let left = 0
    for (const { request, cost, usage, key } of await allRows()) {
      const { outcome, model, lines } = usage!
      const full = sum(lines.map((line) => priceOf(model, line.usage)))
      const charged = paying.has(key!) && !refused.has(request)
      expect(cost, outcome).toBe(charged ? full : 0n)
      if (outcome === 'cancelled' && cost > 0n) left++
      // The operator's loss: nothing of it went out.
      if (refused.has(request)) expect(full, outcome).toBe(0n)
    }
    expect(left).toBeGreaterThan(REQUESTS / 50)
  })

  it('add up: what clients were told is what left the accounts, to the last digit', async () => {
    let all = 0n
    for (const [account, usd] of Object.entries(ACCOUNTS)) {
      const moved = pico(usd ?? '0') - (await t.balance(account))
      const rows = await rowsOf(account)
      const told = outcomes.filter(({ plan }) => KEYS[plan.key]![0] === account)
      expect(sum(rows.map((row) => row.cost))).toBe(moved)
      expect(toldBy(told) + leftBy(told, rows)).toBe(moved)
      all += moved
    }
    expect(await t.balance('poor')).toBeLessThanOrEqual(0n)
    expect(await t.balance('free')).toBe(0n)
    expect(all).toBeGreaterThan(0n)
  })

  it('add up for every key as well', async () => {
    for (const [i, { id, secret }] of keys.entries()) {
      const [account, change] = KEYS[i]!
      const rows = (await rowsOf(account)).filter((row) => row.key === id)
      const told = outcomes.filter(({ plan }) => plan.key === i)
      const { lifetime, inFlight } = await t.gateway.runtime.ledger.key(account, id)
      expect(lifetime).toBe(toldBy(told) + leftBy(told, rows))
      expect(inFlight).toBe(0)
      // The key has no request left for a query.
      if ('rpm' in change) continue
      const { text } = await t.ask('GET', '/v1/key', { key: secret })
      expect(pico(/"spend_usd":([^,}]+)/.exec(text)![1]!)).toBe(lifetime)
      const credits = await t.ask('GET', '/v1/credits', { key: secret })
      expect(pico(/"balance_usd":([^,}]+)/.exec(credits.text)![1]!)).toBe(await t.balance(account))
    }
  })

  it('leave nothing held, and books that verify', async () => {
    const { ledger } = t.gateway.runtime
    for (const account of Object.keys(ACCOUNTS)) {
      const { balance, available } = await ledger.account(account)
      expect(available).toBe(balance)
    }
    expect(await ledger.verify()).toEqual([])
    // The log holds failures and recoveries of upstreams, what is odd about their usage, that this process was busy,
    // names that mean no model, and alerts.
    const news =
      / failed: (upstream_|bad_request|payload_too_large)|^vendor\/m is (well again$|in cooldown until )|vendor\/m reported |^all calls waited for |^alert (balance|cap|errors)\.| and is not served: /
    expect(t.logged.filter((line) => !news.test(line))).toEqual([])
  })
})

// --- the client ---

async function send(n: number): Promise<Outcome> {
  const plan = program[n]!
  const controller = new AbortController()
  const exchange = pool.request({
    path: '/v1/chat/completions',
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys[plan.key]!.secret}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(bodyOf(n)),
    signal: controller.signal,
  })
  exchange.catch(() => {})
  if (plan.course === 'leftEarly') {
    const arrived = arrivals[n]!.promise.then(() => undefined)
    // Requests of keys without money never reach the vendor.
    const refusal = await Promise.race([arrived, exchange])
    if (!refusal) {
      controller.abort()
      return { n, plan }
    }
  }
  const { statusCode: status, headers, body } = await exchange
  const id = String(headers['x-request-id'])
  const header = headers['x-service-cost']
  if (status === 200 && (plan.course === 'leftMidway' || plan.course === 'leftAtTheEnd')) {
    let text = ''
    for await (const chunk of body.setEncoding('utf8')) {
      text += chunk
      if (plan.course === 'leftAtTheEnd' || /"content":"[^"]/.test(text)) break
    }
    return { n, plan, status, id }
  }
  const text = await body.text()
  return { n, plan, status, id, text, ...(header === undefined ? {} : { header: String(header) }) }
}

/** Begins with the number of the plan, by which the fake vendor finds it. */
function promptOf(n: number): string {
  return `#${n} ${program[n]!.prompt}`
}

function bodyOf(n: number): object {
  const { course, model, stream, usageChunk, way } = program[n]!
  const messages = [{ role: 'user', content: promptOf(n) }]
  const body = {
    model,
    messages,
    // A client cannot leave in the middle of an answer that comes whole.
    stream: stream || course === 'leftMidway',
    ...(usageChunk ? { stream_options: { include_usage: true } } : {}),
  }
  if (course !== 'refused') return body
  return way % 2 ? { ...body, model: 'acme/nothing' } : { ...body, temperature: 99 }
}

// --- the vendor ---

function play(request: ReceivedRequest): FakeResponse {
  const { messages, stream } = request.json
  const n = Number(/^#(\d+) /.exec(messages[0].content)![1])
  const plan = program[n]!
  arrivals[n]!.resolve()
  const { course, words, way } = plan
  const text = words.join('')
  const usage = course === 'uncounted' || course === 'leftMidway' ? undefined : wireUsage(plan)
  switch (course) {
    case 'failed':
      return failure(way)
    case 'leftEarly':
      return { pieces: [], ending: 'hang' }
    case 'leftMidway':
      return { ...events(...words.map((word) => says(word))), ending: 'hang' }
    case 'broken':
      // A whole answer may arrive in several chunks.
      if (stream || way % 3) return breakage(plan)
      return { ...json({}), ending: 'cut', pieces: ['{"cho'] }
    default: {
      if (stream) {
        const counted = usage ? [{ choices: [], usage }] : []
        return events(...words.map((word) => says(word)), says('', 'stop'), ...counted, '[DONE]')
      }
      const choice = {
        index: 0,
        message: { role: 'assistant', content: text },
        finish_reason: 'stop',
      }
      return json({ choices: [choice], ...(usage ? { usage } : {}) })
    }
  }
}

function says(content: string, finish_reason: string | null = null): object {
  return { choices: [{ index: 0, delta: content ? { content } : {}, finish_reason }] }
}

function failure(way: number): FakeResponse {
  const error = { message: 'no', type: 'invalid_request_error' }
  const failures: readonly FakeResponse[] = [
    json({ error }, 400),
    json({ error }, 413),
    json({ error: { message: 'no' } }, 500),
    json({ error: { message: 'slow down' } }, 429),
    { headers: { 'content-type': 'application/json' }, pieces: ['garbage'] },
    { pieces: [], ending: 'reset' },
  ]
  return failures[way % failures.length]!
}

function breakage(plan: Plan): FakeResponse {
  const said = plan.words.map((word) => says(word))
  if (isCounted(plan)) {
    // Usage comes last.
    return events(...said, { error: { message: 'overloaded' }, usage: wireUsage(plan) })
  }
  const breakages: readonly FakeResponse[] = [
    events(...said),
    { ...events(...said), ending: 'cut' },
    events(...said, { error: { message: 'overloaded' } }),
    events(...said, '{"choices":[nonsense'),
  ]
  return breakages[plan.way % breakages.length]!
}

/** Whether the vendor reports usage, unless it is interrupted. */
function isCounted({ course, way }: Plan): boolean {
  return course === 'broken' ? way % 5 === 4 : course === 'answered'
}

function wireUsage({ counts }: Plan): object {
  return {
    prompt_tokens: counts.prompt,
    completion_tokens: counts.completion,
    total_tokens: counts.prompt + counts.completion,
    prompt_tokens_details: {
      cached_tokens: counts.cached,
      cache_write_tokens: counts.written,
      audio_tokens: counts.audioIn,
    },
    completion_tokens_details: {
      reasoning_tokens: counts.reasoning,
      audio_tokens: counts.audioOut,
    },
    server_tool_use_details: { web_search_requests: counts.searches },
  }
}

// --- the verification, which shares no arithmetic with the gateway ---

/** USD as text in units of 10^-digits. Throws for anything but a plain decimal of at most so many digits. */
function scaled(text: string, digits: number): bigint {
  const match = new RegExp(`^(-?)(\\d+)(?:\\.(\\d{1,${digits}}))?$`).exec(text)
  if (!match) throw new Error(`not a plain decimal of at most ${digits} digits: ${text}`)
  const [, sign, whole, fraction = ''] = match
  const value = BigInt(whole! + fraction.padEnd(digits, '0'))
  return sign ? -value : value
}

function pico(text: string): bigint {
  return scaled(text, 12)
}

function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((all, one) => all + one, 0n)
}

/** Cost and its parts, from a body or from the last event with usage. */
function costIn(text: string): { cost: bigint; details: bigint[] } | undefined {
  const told = [...text.matchAll(/"cost":([^,}]+),"cost_details":\{([^}]*)\}/g)]
  if (told.length === 0) return undefined
  expect(told).toHaveLength(1)
  const [, cost, details] = told[0]!
  // The sides of prompt and answer repeat parts, for clients of OpenRouter.
  const members = (details || '')
    .split(',')
    .filter((part) => part && !part.startsWith('"upstream_inference_'))
  const parts = members.map((part) => pico(part.split(':')[1]!))
  return { cost: pico(cost!), details: parts }
}

/** Exact products and an exact sum, rounded up once. */
function priceOf(model: string, usage: Usage): bigint {
  const pricing = PRICING[model]!
  const times = (quantity = 0, ...names: readonly string[]) => {
    const price = names.map((name) => pricing[name]).find((one) => one !== undefined) ?? '0'
    return BigInt(quantity) * scaled(price, 18)
  }
  const { promptTokens = 0, cachedTokens = 0, cacheWriteTokens = 0, audioInputTokens = 0 } = usage
  const { completionTokens = 0, audioOutputTokens = 0, searches = 0 } = usage
  const exact = sum([
    times(promptTokens - cachedTokens - cacheWriteTokens - audioInputTokens, 'prompt'),
    times(cachedTokens, 'input_cache_read', 'prompt'),
    times(cacheWriteTokens, 'input_cache_write', 'prompt'),
    times(audioInputTokens, 'audio', 'prompt'),
    times(completionTokens - audioOutputTokens, 'completion'),
    times(audioOutputTokens, 'audio_output', 'completion'),
    times(searches, 'web_search'),
    times(1, 'request'),
  ])
  const unit = 1_000_000n
  return exact / unit + (exact % unit ? 1n : 0n)
}

/** Usage as the vendor counts it, but for 0 tokens of an answer that has text. */
function counted(n: number): Usage {
  const { counts } = program[n]!
  return {
    promptTokens: counts.prompt,
    cachedTokens: counts.cached,
    cacheWriteTokens: counts.written,
    audioInputTokens: counts.audioIn,
    completionTokens: counts.completion || estimated(n).completionTokens,
    audioOutputTokens: counts.audioOut,
    searches: counts.searches,
  }
}

/** Usage that the gateway estimates, by the script of each character. */
function estimated(n: number): Usage {
  return {
    promptTokens: tokensIn(promptOf(n)),
    completionTokens: tokensIn(program[n]!.words.join('')),
  }
}

function tokensIn(text: string): number {
  return Math.ceil((3 * Buffer.byteLength(text) - text.length) / 8)
}

/** Sum of the costs that clients were sent. */
function toldBy(some: readonly Outcome[]): bigint {
  return sum(some.map(({ text }) => (text === undefined ? 0n : (costIn(text)?.cost ?? 0n))))
}

/** Sum of the charges to clients that had left. */
function leftBy(some: readonly Outcome[], rows: readonly LedgerRow[]): bigint {
  const heard = new Set(some.filter(({ text }) => text !== undefined).map(({ id }) => id))
  return sum(rows.filter((row) => !heard.has(row.request)).map((row) => row.cost))
}

/** Rows of calls; newest first. */
async function rowsOf(account: string): Promise<LedgerRow[]> {
  const rows: LedgerRow[] = []
  for await (const row of t.gateway.runtime.ledger.usage(account)) {
    if (row.kind === 'usage') rows.push(row)
  }
  return rows
}

async function allRows(): Promise<LedgerRow[]> {
  return (await Promise.all(Object.keys(ACCOUNTS).map(rowsOf))).flat()
}
