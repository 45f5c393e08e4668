/** How many promises a call makes: each is a turn of the queue, and a link of what holds memory. */
import { once } from 'node:events'
import { Agent, createServer, request as httpRequest, type ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { forkGateway, type ForkedGateway } from '../_forked.ts'

const CALLS = 15
const EVENTS = 100
/** Most promises of a charged call whose answer is JSON, and of a hundred events of a stream. */
const MOST_OF_CALL = 20
const MOST_OF_EVENTS = 10

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
const message = { role: 'assistant', content: 'Fine, thank you.' }
const whole = {
  id: 'c',
  created: 1,
  choices: [{ index: 0, message, finish_reason: 'stop' }],
  usage,
}
const eventOf = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', created: 1, choices: [{ index: 0, delta, finish_reason }] })}\n\n`

/** Streams that the gateway has asked for. */
const asked: ServerResponse[] = []
const vendor = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text: string) => (body += text))
  request.on('end', () => {
    if (JSON.parse(body).stream) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      asked.push(response)
    } else {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole))
    }
  })
})
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
let gateway: ForkedGateway
let folder: string

beforeAll(async () => {
  await once(vendor.listen(0, '127.0.0.1'), 'listening')
  const { port } = vendor.address() as AddressInfo
  folder = await mkdtemp(join(tmpdir(), 'gateway-'))
  gateway = await forkGateway({
    state: { driver: 'file', path: folder },
    providers: {
      acme: {
        use: 'openai-compatible',
        options: { baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'k' },
      },
    },
    models: {
      'acme/swift': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        deployments: [{ provider: 'acme', model: 'swift' }],
      },
    },
  })
})
afterAll(async () => {
  agent.destroy()
  await gateway[Symbol.asyncDispose]()
  vendor.closeAllConnections()
  vendor.close()
  await rm(folder, { recursive: true, force: true })
})

async function ask(stream: boolean): Promise<IncomingMessage> {
  const asking = httpRequest(`${gateway.baseURL}/chat/completions`, {
    method: 'POST',
    agent,
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
  })
  const messages = [{ role: 'user', content: 'How are you?' }]
  asking.end(JSON.stringify({ model: 'acme/swift', stream, messages }))
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  return response.setEncoding('utf8')
}

/** What the call itself makes: other work of the process, such as its timers, adds to some counts and takes from none. */
const own = (counts: readonly number[]) => Math.min(...counts)

it(`are few in a call that is charged and answered whole`, async () => {
  const counts: number[] = []
  for (let i = 0; i < CALLS; i++) {
    await gateway.promises()
    const response = await ask(false)
    let text = ''
    for await (const piece of response) text += piece
    expect(response.statusCode, text).toBe(200)
    expect(JSON.parse(text).usage.cost).toBeGreaterThan(0)
    counts.push(await gateway.promises())
  }
  expect(own(counts), `promises of each call: ${counts}`).toBeLessThanOrEqual(MOST_OF_CALL)
})

it('do not grow with the events of a stream', async () => {
  const answering = ask(true)
  await expect.poll(() => asked.length).toBe(1)
  const [out] = asked
  out!.write(eventOf({ role: 'assistant', content: '' }))
  const response = await answering
  let text = ''
  response.on('data', (piece: string) => (text += piece))
  const counts: number[] = []
  for (let round = 0; round < 5; round++) {
    await gateway.promises()
    for (let i = 0; i < EVENTS; i++) {
      const word = `word ${round}.${i};`
      out!.write(eventOf({ content: word }))
      // Each event comes alone.
      while (!text.includes(word)) await once(response, 'data')
    }
    counts.push(await gateway.promises())
  }
  out!.end(
    `${eventOf({}, 'stop')}data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`,
  )
  await once(response, 'end')
  expect(text).toMatch(/\[DONE\]\n\n$/)
  expect(own(counts), `promises of each round: ${counts}`).toBeLessThanOrEqual(MOST_OF_EVENTS)
})
