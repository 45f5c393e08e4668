/** What a client pays for that leaves a stream, wherever it leaves. */
import { request as httpRequest } from 'node:http'
import { expect, it } from 'vitest'
import { chunkOf, guarded, USAGE } from '../../guard/_setup.ts'
import { events, type FakeResponse } from '../../upstream.ts'

const TEXT = 'Hello there, my friends. How are you'
const [begun, said, stop] = [
  chunkOf({ role: 'assistant', content: '' }),
  chunkOf({ content: TEXT }),
  chunkOf({}, 'stop'),
]
const SILENT: FakeResponse = { pieces: [], ending: 'silent' }
const stall = (...chunks: object[]): FakeResponse => ({ ...events(...chunks), ending: 'hang' })

/**
 * The places at which a client leaves, and the cost of each in 10⁻⁶ USD: the prompt is 5 tokens by estimate, the text
 * 9, and a token of output costs two.
 */
const POINTS: [string, FakeResponse, bigint][] = [
  ['before the head', SILENT, 5n],
  ['after the head', stall(begun), 5n],
  ['after text', stall(begun, said), 23n],
  ['after the finish', stall(begun, said, stop), 23n],
  ['after the usage', stall(begun, said, stop, { choices: [], usage: USAGE }), 80n],
  ['after running totals', stall({ ...said, usage: { ...USAGE, completion_tokens: 1 } }), 58n],
  ['after running totals, the last', stall({ ...said, usage: USAGE }), 80n],
]

it.each(POINTS)(
  'a client that leaves %s pays what is known by then, once',
  async (_, answer, micro) => {
    await using g = await guarded([])
    const { ledger } = g.t.gateway.runtime
    const before = await g.t.balance()
    g.vendor.answer(answer)
    const messages = [{ role: 'user', content: 'Tell me something.' }]
    const leaving = httpRequest(`${g.t.baseURL}/chat/completions`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${g.t.key.secret}`, 'content-type': 'application/json' },
    })
    const gone = new Promise((resolve) => leaving.once('close', resolve))
    leaving
      .on('response', (response) => response.on('error', () => {}).resume())
      .on('error', () => {})
    leaving.end(JSON.stringify({ model: 'acme/swift', stream: true, messages }))
    const sent = Buffer.concat([...answer.pieces].map((piece) => Buffer.from(piece))).length
    await expect.poll(() => g.vendor.requests[0]?.takenBytes).toBe(sent)
    // The gateway has read it when it has had time for another call.
    expect((await g.t.ask('GET', '/v1/models')).status).toBe(200)
    leaving.destroy()
    await gone
    await expect.poll(async () => (await ledger.key('acme', g.t.key.id)).inFlight).toBe(0)
    expect(await g.vendor.requests[0]!.aborted).toBe(true)
    const { balance, available } = await ledger.account('acme')
    expect([before - balance, available]).toEqual([micro * 1_000_000n, balance])
    expect(await ledger.verify('acme')).toEqual([])
  },
)
