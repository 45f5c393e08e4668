/** Answers whose events arrive in one burst, and answers beyond their ceiling, through every kind of vendor that streams. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { DIALECTS } from '../../guard/_dialects.ts'
import { readStream } from '../../guard/_setup.ts'
import { startUpstream, type FakeResponse, type FakeUpstream } from '../../upstream.ts'

/** The number of answers of each vendor under each policy. `BURST_ANSWERS=200` is the long form. */
const ANSWERS = Number(process.env.BURST_ANSWERS ?? 1)
/** Vendors say six characters an event. */
const TEXT = Array.from({ length: 1600 }, (_, i) => `w${String(i).padStart(4, '0')} `).join('')

const POLICIES = [
  ['no policy', undefined],
  ['a policy that scans', { bannedPatterns: ['never said'] }],
  ['a policy that buffers', { bannedPatterns: ['never said'], guard: { stream: 'buffer' } }],
] as const

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const use = DIALECTS.map(({ use, options }) => ({ use, options: options(vendor.url) }))
  const models = DIALECTS.map(({ deployment: options = {} }, index) => ({
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING'],
    deployments: [{ provider: `vendor${index}`, model: 'swift', options }],
  }))
  t = await createTestGateway({
    providers: Object.fromEntries(use.map((one, index) => [`vendor${index}`, one])),
    models: Object.fromEntries(models.map((one, index) => [`acme/${index}`, one])) as never,
    guards: { use: [] },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

/** All that a vendor writes, at once. */
function atOnce({ pieces = [], ...more }: FakeResponse): FakeResponse {
  return { ...more, pieces: [Buffer.concat(Array.from(pieces, (one) => Buffer.from(one)))] }
}

it.each(
  DIALECTS.flatMap((dialect, index) =>
    POLICIES.map(([name, policy]) => [dialect.name, name, policy, index] as const),
  ),
)(
  'answers of 1,600 events in one burst are complete: %s, %s',
  async (_vendor, _name, policy, index) => {
    const { secret: key } = await t.newKey(policy && { policy: { version: 1, ...policy } as never })
    const dialect = DIALECTS[index]!
    let right = 0
    for (let i = 0; i < ANSWERS; i++) {
      vendor.answer(atOnce(dialect.stream({ text: TEXT })))
      const messages = [{ role: 'user', content: 'Hi' }]
      const body = { model: `acme/${index}`, max_tokens: 9000, messages, stream: true }
      const seen = readStream(await t.chat(body, { key }))
      if (seen.content === TEXT && seen.finish === 'stop' && !seen.error) right++
    }
    expect(right).toBe(ANSWERS)
  },
)

it.each(DIALECTS.map((dialect, index) => [dialect.name, dialect, index] as const))(
  'an answer beyond its ceiling is cut, ends once and is charged: %s',
  async (_vendor, dialect, index) => {
    const policy = { version: 1, maxOutputTokens: 5 } as const
    const { secret: key } = await t.newKey({ policy })
    const messages = [{ role: 'user', content: 'Hi' }]
    const text = TEXT.slice(0, 600)
    for (const stream of [true, false]) {
      vendor.answer(stream ? atOnce(dialect.stream({ text })) : dialect.whole({ text }))
      const answer = await t.chat({ model: `acme/${index}`, messages, stream }, { key })
      expect(answer.status).toBe(200)
      const ends = answer.text.matchAll(/"finish_reason":"(\w+)"/g)
      expect(Array.from(ends, ([, reason]) => reason)).toEqual(['length'])
      expect(answer.text).not.toContain(text.slice(-6))
      expect(Number(/"cost":([\d.e-]+)/.exec(answer.text)?.[1])).toBeGreaterThan(0)
    }
  },
)
