/** A client that does not read what it asked for. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { chunkOf, guarded, USAGE } from '../guard/_setup.ts'
import type { FakeResponse } from '../upstream.ts'

const MIB = 1024 * 1024
/** More than the sockets between vendor and client take. */
const EVENTS = 3000
const PIECE = 'x'.repeat(16 * 1024)
/** What two connections, and the gateway, have in hand at most. */
const MOST_IN_HAND = 40 * MIB

const eventOf = (chunk: object) => `data: ${JSON.stringify(chunk)}\n\n`
const textOf = (index: number) => `${index}:${PIECE}`

function* pieces(): Generator<string> {
  yield eventOf(chunkOf({ role: 'assistant', content: '' }))
  for (let i = 0; i < EVENTS; i++) yield eventOf(chunkOf({ content: textOf(i) }))
  yield eventOf(chunkOf({}, 'stop'))
  yield eventOf({ choices: [], usage: USAGE })
  yield 'data: [DONE]\n\n'
}

it('pauses the vendor, and gets everything once it reads', async () => {
  await using g = await guarded([])
  const headers = { 'content-type': 'text/event-stream' }
  g.vendor.answer({ headers, pieces: pieces() } satisfies FakeResponse)
  const messages = [{ role: 'user', content: 'Tell me everything.' }]
  const asking = httpRequest(`${g.t.baseURL}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${g.t.key.secret}`, 'content-type': 'application/json' },
  })
  asking.end(JSON.stringify({ model: 'acme/swift', stream: true, messages }))
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  response.pause()
  const taken = () => g.vendor.requests[0]!.takenBytes
  // The vendor is paused once it gets rid of nothing while the gateway serves another client.
  let before = -1
  await expect
    .poll(async () => {
      const last = before
      before = taken()
      for (let i = 0; i < 20; i++) await g.t.ask('GET', '/v1/models')
      return last === before && before === taken()
    })
    .toBe(true)
  expect(taken()).toBeGreaterThan(0)
  expect(taken()).toBeLessThan(MOST_IN_HAND)

  const wanted = createHash('sha256')
  for (let i = 0; i < EVENTS; i++) wanted.update(textOf(i))
  const got = createHash('sha256')
  let rest = ''
  let end = ''
  response.setEncoding('utf8')
  for await (const text of response) {
    const events = (rest + text).split('\n\n')
    rest = events.pop()!
    for (const event of events) {
      end = event
      if (event.startsWith('data: {')) {
        got.update(JSON.parse(event.slice('data: '.length)).choices[0]?.delta.content ?? '')
      }
    }
  }
  expect([rest, end]).toEqual(['', 'data: [DONE]'])
  expect(got.digest('hex')).toBe(wanted.digest('hex'))
  await expect.poll(() => g.t.gateway.running.size).toBe(0)
})
