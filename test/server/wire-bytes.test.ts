/** Answers as bytes on a socket: what HTTP libraries of clients have to be able to read. */
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

const TEXT = 'plain naïve 漢字 🙂 end'

let t: TestGateway
beforeAll(async () => {
  const [deployment] = MOCK_CONFIG.models['mock/echo'].deployments
  t = await createTestGateway({
    ...MOCK_CONFIG,
    models: {
      ...MOCK_CONFIG.models,
      'mock/slow': {
        ...MOCK_CONFIG.models['mock/echo'],
        deployments: [{ ...deployment!, options: { paceMs: 2 } }],
      },
    },
  })
})
afterAll(() => t.close())

describe('a stream on the wire', () => {
  it('is in chunks of the length they say, whatever the characters', async () => {
    const [head, body] = parted(await received(asking({ stream: true })))
    expect(head).toMatch(/^HTTP\/1\.1 200 .*\r\ntransfer-encoding: chunked/is)
    const chunks = chunksIn(body)
    expect(chunks.at(-1)).toHaveLength(0)
    // They came one by one, so they went out one by one.
    expect(chunks.length).toBeGreaterThan(5)
    expect(said(Buffer.concat(chunks).toString())).toBe(TEXT)
  })

  it('has no chunks for a client of HTTP/1.0, and ends with the connection', async () => {
    const [head, body] = parted(await received(asking({ stream: true, version: '1.0' })))
    expect(head).not.toMatch(/transfer-encoding/i)
    expect(said(body.toString())).toBe(TEXT)
  })
})

describe('requests sent before the first one is answered', () => {
  it('are answered one after the other, streams and whole answers alike', async () => {
    const forms = [true, false, true, true, false]
    const requests = forms.map((stream, i) =>
      asking({ stream, more: i + 1 < forms.length, text: `${TEXT} ${i}` }),
    )
    let rest = await received(requests.join(''))
    for (const [i, stream] of forms.entries()) {
      const [head, body] = parted(rest)
      expect(head).toMatch(/^HTTP\/1\.1 200 /)
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? lengthOfChunks(body))
      const whole = body.subarray(0, length)
      const text = stream
        ? said(Buffer.concat(chunksIn(whole)).toString())
        : JSON.parse(whole.toString()).choices[0].message.content
      expect(text).toBe(`${TEXT} ${i}`)
      rest = body.subarray(length)
    }
    expect(rest).toHaveLength(0)
  })
})

interface Asked {
  readonly stream: boolean
  readonly version?: string
  /** Another request follows on this connection. */
  readonly more?: boolean
  readonly text?: string
}

function asking({ stream, version = '1.1', more = false, text = TEXT }: Asked): string {
  const messages = [{ role: 'user', content: text }]
  const body = JSON.stringify({ model: 'mock/slow', stream, messages })
  return (
    `POST /v1/chat/completions HTTP/${version}\r\nhost: x\r\nauthorization: Bearer ${t.key.secret}\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
    `connection: ${more ? 'keep-alive' : 'close'}\r\n\r\n${body}`
  )
}

/** All that comes until the connection ends. */
function received(request: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(t.url).port), '127.0.0.1', () => socket.write(request))
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.once('end', () => resolve(Buffer.concat(chunks)))
    socket.once('error', reject)
  })
}

function parted(bytes: Buffer): [head: string, body: Buffer] {
  const end = bytes.indexOf('\r\n\r\n')
  return [bytes.toString('latin1', 0, end), bytes.subarray(end + 4)]
}

/** The chunks of a body, with the empty one at the end. @throws Error where a chunk is not as long as it says */
function chunksIn(body: Buffer): Buffer[] {
  const chunks: Buffer[] = []
  for (let at = 0; at < body.length;) {
    const line = body.indexOf('\r\n', at)
    const size = Number.parseInt(body.toString('latin1', at, line), 16)
    const end = line + 2 + size
    if (body.toString('latin1', end, end + 2) !== '\r\n') throw new Error(`no chunk ends at ${end}`)
    chunks.push(body.subarray(line + 2, end))
    at = end + 2
    if (size === 0) break
  }
  return chunks
}

function lengthOfChunks(body: Buffer): number {
  return body.indexOf('\r\n0\r\n\r\n') + '\r\n0\r\n\r\n'.length
}

function said(stream: string): string {
  return eventsOf(stream)
    .map((event) => event.choices?.[0]?.delta?.content ?? '')
    .join('')
}
