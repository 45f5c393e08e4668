/** The cost of web search: model plus one search, exact, the same in the answer and in the ledger. */
import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { LedgerRow } from '../../src/state/ledger/ledger.ts'
import { parsePrice } from '../../src/money/prices.ts'
import { formatPico } from '../../src/money/money.ts'
import { RESULT_TOKENS } from '../../src/search/search.ts'
import { eventsOf } from '../_setup.ts'
import { answered, stalling, streamed } from '../sdk/_setup.ts'
import { json } from '../upstream.ts'
import { ASK, BRIDGE, exa, pages, setUp, type Grounded } from './_setup.ts'

let g: Grounded
beforeAll(async () => {
  g = await setUp()
})
afterAll(() => g[Symbol.asyncDispose]())
beforeEach(() => {
  g.web.answer(pages(BRIDGE))
  g.other.answer(exa(BRIDGE, 0.008))
  g.vendor.answer(answered({ content: 'It opened in 1932 [1].' }))
})

const PLAIN = { ...ASK, model: 'acme/swift-1' }
const EXACT = { ...ASK, plugins: [{ id: 'web', engine: 'exact' }] }

/** The last row of the ledger, once all calls have ended. */
async function lastRow(): Promise<LedgerRow> {
  await g.quiet()
  for await (const row of g.t.gateway.runtime.ledger.usage('acme')) return row
  throw new Error('expected a row in the ledger')
}

/** The version and the tier of its prices, in a line of the ledger. */
const PRICED = { prices: expect.stringMatching(/^[0-9a-f]{16}$/), tier: 0 }

describe('the cost', () => {
  it.each([false, true])('is that of the model and the search, streamed: %s', async (stream) => {
    if (stream) g.vendor.answer(streamed([{ content: 'It opened in 1932 [1].' }]))
    const before = await g.t.balance()
    const answer = await g.t.chat({ ...EXACT, stream })
    const text = stream ? answer.text.split('\n\n').at(-3)! : answer.text
    // 42 × 0.00000015 + 17 × 0.0000006 + 0.00700000007
    expect(text).toContain('"cost":0.00701650007,')
    const usage = stream ? eventsOf(answer.text).at(-2).usage : answer.json.usage
    expect(usage).toMatchObject({
      cost_details: {
        prompt_cost: 0.0000063,
        completion_cost: 0.0000102,
        web_search_cost: 0.00700000007,
      },
      server_tool_use_details: { web_search_requests: 1 },
    })
    if (!stream) expect(answer.headers['x-service-cost']).toBe('0.00701650007')
    expect(formatPico(before - (await g.t.balance()))).toBe('0.00701650007')
  })

  it('is in the ledger with the usage and the cost that the engine reports', async () => {
    await g.t.chat(EXACT)
    const row = await lastRow()
    expect(row.usage!.lines).toEqual([
      { source: 'search', ...PRICED, usage: { searches: 1, vendorCost: '0.008' } },
      { source: 'model', ...PRICED, usage: expect.objectContaining({ promptTokens: 42 }) },
    ])
    expect(g.t.logged).toContain(
      'search engine exact reports a cost of 0.008 USD per search, but is configured with 0.00700000007 USD: correct its price',
    )
  })

  it('is paid and told when the model fails', async () => {
    g.vendor.answer(json({ error: { message: 'no' } }, 400))
    const before = await g.t.balance()
    const answer = await g.t.chat(ASK)
    expect(answer.status).toBe(400)
    const { usage } = answer.json.error
    expect([usage.cost, usage.cost_details.web_search_cost]).toEqual([0.005, 0.005])
    expect(answer.headers['x-service-cost']).toBe('0.005')
    const row = await lastRow()
    expect(before - (await g.t.balance())).toBe(5_000_000_000n)
    expect(row.usage).toMatchObject({
      outcome: 'failed',
      lines: [{ source: 'search', usage: { searches: 1 } }],
    })
  })

  it('of a broken stream is that of its text and the search, once', async () => {
    g.vendor.answer({ ...stalling({ content: 'It opened in 1932' }), ending: 'cut' })
    const before = await g.t.balance()
    const { text } = await g.t.chat({ ...ASK, stream: true })
    const { error } = eventsOf(text).at(-2)
    expect(error.usage).toMatchObject({
      cost_details: { web_search_cost: 0.005 },
      server_tool_use_details: { web_search_requests: 1 },
    })
    await g.quiet()
    expect(Number(formatPico(before - (await g.t.balance())))).toBe(error.usage.cost)
  })

  it('is paid once by a client that leaves in the middle of a stream', async () => {
    g.vendor.answer(stalling({ content: 'It opened' }))
    const before = await g.t.balance()
    await leave({ ...ASK, stream: true }, 'It opened')
    const row = await lastRow()
    expect(row.usage).toMatchObject({ outcome: 'cancelled' })
    const sources = row.usage!.lines.map(({ source }) => source)
    expect(sources).toEqual(['search', 'model'])
    const charged = before - (await g.t.balance())
    expect(charged).toBeGreaterThan(5_000_000_000n)
    expect(charged).toBeLessThan(6_000_000_000n)
  })

  it('is paid by a client that leaves before the search has ended', async () => {
    g.web.answer({ ...pages([]), pieces: [], ending: 'hang' })
    const before = await g.t.balance()
    const asked = g.web.requests.length
    const left = leave(ASK)
    await expect.poll(() => g.web.requests.length).toBe(asked + 1)
    ;(await left).destroy()
    expect(await g.web.requests.at(-1)!.aborted).toBe(true)
    await g.quiet()
    expect(before - (await g.t.balance())).toBe(5_000_000_000n)
    expect(g.t.logged.at(-1)).not.toContain('search engine first failed')
  })
})

describe('the hold', () => {
  it('covers the search', async () => {
    const held: bigint[] = []
    const { ledger } = g.t.gateway.runtime
    const { hold } = ledger
    ledger.hold = (request) => {
      held.push(request.ceiling)
      return hold.call(ledger, request)
    }
    try {
      for (const body of [PLAIN, ASK, EXACT]) await g.t.chat(body)
    } finally {
      ledger.hold = hold
    }
    // The prompt counts twice: the body, and the results of the search.
    const promptOf = (body: object, added = 0) => {
      const tokens = Math.ceil(JSON.stringify(body).length / 4) + added
      return (2n * BigInt(tokens) * parsePrice('0.00000015')) / 1_000_000n
    }
    const [plain, grounded, exact] = held
    const answer = plain! - promptOf(PLAIN)
    expect(grounded! - answer - promptOf(ASK, RESULT_TOKENS)).toBe(5_000_000_000n)
    expect(exact! - answer - promptOf(EXACT, RESULT_TOKENS)).toBe(7_000_000_070n)
  })
})

describe('the free tier', () => {
  it('has no searches with a price', async () => {
    await g.t.newAccount('poor')
    const { secret } = await g.t.newKey({ account: 'poor' })
    const asked = g.web.requests.length
    const answer = await g.t.chat({ ...ASK, model: 'acme/free:online' }, { key: secret })
    expect([answer.status, answer.json.error.code]).toEqual([402, 'insufficient_credits'])
    expect(answer.json.error.message).toContain('0.005 USD')
    expect(g.web.requests.length).toBe(asked)
    const paying = await g.t.chat({ ...ASK, model: 'acme/free:online' })
    expect(paying.json.usage.cost_details).toMatchObject({ web_search_cost: 0.005 })
  })
})

/** Sends a request and leaves when a text has arrived; without a text the caller leaves. */
function leave(body: object, after?: string): Promise<{ destroy(): void }> {
  const { promise, resolve } = Promise.withResolvers<{ destroy(): void }>()
  const request = httpRequest(`${g.t.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${g.t.key.secret}`, 'content-type': 'application/json' },
    agent: false,
  })
  request.on('error', () => {})
  request.on('response', (response) => {
    let text = ''
    response.on('error', () => {})
    response.on('data', (piece) => {
      text += piece
      if (!after || !text.includes(after)) return
      response.destroy()
      resolve(request)
    })
  })
  request.end(JSON.stringify(body))
  if (!after) resolve(request)
  return promise
}
