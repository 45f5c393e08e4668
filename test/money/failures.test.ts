/** What a call costs that fails, in every class of failure: what it has bought, and what its client is told. */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parsePico } from '../../src/money/money.ts'
import type { FailureClass } from '../../src/plugin.ts'
import type { LedgerRow } from '../../src/state/ledger/ledger.ts'
import { createTestGateway, type Answer, type TestGateway } from '../_setup.ts'
import { against, honest, vendorOf } from '../plugins/judge/_judge.ts'
import { BRIDGE, pages } from '../search/_setup.ts'
import { PRICING } from '../sdk/_setup.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { runs } from '../_runs.ts'

const CLASSES: readonly FailureClass[] = [
  'bad_request',
  'context_length',
  'content_blocked',
  'payload_too_large',
  'not_found',
  'upstream_auth',
  'upstream_balance',
  'upstream_rate',
  'overloaded',
  'upstream_error',
  'timeout',
]
const SEARCH_PRICE = '0.005'

const model = (deployment: object) => ({
  pricing: PRICING,
  capabilities: ['STREAMING' as const],
  deployments: [{ provider: 'mock', model: 'echo', ...deployment }],
})
/** A model for each class, which fails at once, and one that fails after two pieces. */
const MODELS = Object.fromEntries(
  CLASSES.flatMap((name) =>
    [0, 2].map((after) => [
      `acme/${name}-${after}`,
      model({ options: { reply: 'One two three four.', error: { class: name, after } } }),
    ]),
  ),
)

const turn = (content: string) => [{ role: 'user', content }]
const DIALECTS = {
  'chat/completions': (text: string) => ({ messages: turn(text) }),
  messages: (text: string) => ({ messages: turn(text), max_tokens: 500 }),
  responses: (text: string) => ({ input: text }),
} as const

let t: TestGateway
let vendors: FakeUpstream[]
let judged: string
beforeAll(async () => {
  vendors = [await startUpstream(), await startUpstream()]
  const [web, judge] = vendors as [FakeUpstream, FakeUpstream]
  web.answer(pages(BRIDGE))
  const honestly = vendorOf((asked) => honest(asked, against('forbidden')))
  judge.answer((request) =>
    // A status of 500 or more would open the guard's circuit, and calls after it would not ask the judge.
    JSON.stringify(request.json).includes('broken judge') ? json({}, 400) : honestly(request),
  )
  t = await createTestGateway({
    providers: {
      mock: { use: 'mock' },
      judges: { use: 'openai-compatible', options: { baseURL: `${judge.url}/v1`, apiKey: 'k' } },
    },
    models: { ...MODELS, 'acme/judge': model({ provider: 'judges', model: 'judge' }) },
    guards: { use: [{ use: 'judge', options: { model: 'acme/judge' } }] },
    search: {
      default: 'first',
      engines: {
        first: {
          use: 'parallel',
          options: { baseURL: web.url, apiKey: 'k' },
          price: SEARCH_PRICE,
        },
      },
    },
    routing: { cooldown: 0, attempts: 1 },
    defaults: { limits: { rpm: 1_000_000 } },
  })
  judged = (await t.newKey({ policy: { version: 1, deny: ['code'] } })).secret
})
afterAll(async () => {
  await t.close()
  await Promise.all(vendors.map((one) => one.close()))
})

/** The row of a call; its client has its answer, so it is booked. */
async function rowOf({ headers }: Answer): Promise<LedgerRow | undefined> {
  for await (const row of t.gateway.runtime.ledger.usage('acme')) {
    if (row.request === headers['x-request-id']) return row
  }
  return undefined
}

/** The cost that an answer names last, and the sum of its parts. */
function toldIn({ text }: Answer): readonly [cost: bigint, parts: bigint] {
  const [, cost] = [...text.matchAll(/"cost":(\d+(?:\.\d+)?)[,}]/g)].at(-1) ?? []
  const [, parts] = [...text.matchAll(/"cost_details":(\{[^}]*\})/g)].at(-1) ?? []
  const amounts = [...(parts ?? '').matchAll(/"(?!upstream_)\w+":(\d+(?:\.\d+)?)/g)].map(
    ([, one]) => parsePico(one!),
  )
  return [parsePico(cost ?? '0'), amounts.reduce((sum, one) => sum + one, 0n)]
}

it('costs what it has bought, and says so', async () => {
  // Verdicts of equal texts are remembered.
  let asked = 0
  const scene = fc.record({
    failure: fc.constantFrom(...CLASSES),
    after: fc.constantFrom(0, 2),
    stream: fc.boolean(),
    path: fc.constantFrom(...(Object.keys(DIALECTS) as (keyof typeof DIALECTS)[])),
    searches: fc.boolean(),
    judge: fc.constantFrom('none', 'passes', 'blocks', 'is broken'),
  })
  const law = fc.asyncProperty(scene, async ({ failure, after, stream, path, searches, judge }) => {
    const words = { none: '', passes: '', blocks: ' forbidden', 'is broken': ' broken judge' }[
      judge
    ]
    const id = `acme/${failure}-${after}${searches ? ':online' : ''}`
    const body = {
      model: id,
      stream,
      ...DIALECTS[path](`When did bridge ${++asked} open?${words}`),
    }
    const before = await t.balance()
    const answer = await t.ask('POST', `/v1/${path}`, {
      body,
      ...(judge !== 'none' && { key: judged }),
    })
    const row = await rowOf(answer)
    const [told, parts] = toldIn(answer)
    expect(parts).toBe(told)
    expect(row?.cost ?? 0n).toBe(told)
    expect(before - (await t.balance())).toBe(told)
    if (!stream) expect(parsePico(String(answer.headers['x-service-cost'] ?? 0))).toBe(told)
    const sources = row?.usage!.lines.map(({ source }) => source) ?? []
    // Vendors do not bill an answer of which nothing has come.
    const mayBeModel = stream && after > 0 && (judge === 'none' || judge === 'passes')
    if (!mayBeModel) expect(sources).not.toContain('model')
    if (judge === 'none') {
      expect(sources).toEqual([...(searches ? ['search'] : []), ...(mayBeModel ? ['model'] : [])])
    }
    if (judge === 'passes' || judge === 'blocks') expect(sources).toContain('guard')
    const searched = sources.filter((one) => one === 'search').length
    if (searched > 0) expect(told).toBeGreaterThanOrEqual(parsePico(SEARCH_PRICE))
  })
  await fc.assert(law, { numRuns: runs(35) })
  expect(await t.gateway.runtime.ledger.verify()).toEqual([])
})
