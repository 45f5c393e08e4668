import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, hello } from '../_setup.ts'
import { events, json, startUpstream } from '../upstream.ts'

const ANSWER = events({ text: 'Hello ' }, { text: 'you' }, { tokens: { in: 11, out: 3 } })
const ASKED = { ...hello, model: 'mine/small' }

describe('the provider of CONTRIBUTING.md', () => {
  it('is loaded by its path and answers', async () => {
    await using upstream = await startUpstream(ANSWER)
    await using gateway = await serving(upstream.url)

    const { status, json: answer } = await gateway.chat(ASKED)

    expect(status).toBe(200)
    expect(answer.choices[0].message.content).toBe('Hello you')
    expect(answer.usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 3, cost: 0.000017 })
    const [{ headers, json: sent }] = upstream.requests as any
    expect(headers.authorization).toBe('Bearer vendor-key')
    expect(sent).toEqual({ model: 'small-1', turns: hello.messages })
  })

  it('streams to a client that wants a stream', async () => {
    await using upstream = await startUpstream(ANSWER)
    await using gateway = await serving(upstream.url)

    const sent = eventsOf((await gateway.chat({ ...ASKED, stream: true })).text)

    const words = sent.slice(0, -1).map(({ choices }) => choices[0].delta.content ?? '')
    expect(words.join('')).toBe('Hello you')
    expect(sent.at(-2).usage.cost).toBe(0.000017)
    expect(sent.at(-1)).toBe('[DONE]')
  })

  it.each([
    [400, 400, 'upstream_rejected'],
    [401, 502, 'upstream_error'],
    [429, 503, 'provider_overloaded'],
    [500, 502, 'upstream_error'],
  ])('says what a %i of the vendor means: %i %s', async (theirs, ours, code) => {
    await using upstream = await startUpstream(json({}, theirs))
    await using gateway = await serving(upstream.url)

    const { status, json: answer } = await gateway.chat(ASKED)

    expect(status).toBe(ours)
    expect(answer.error.code).toBe(code)
    expect(await gateway.balance()).toBe(100_000_000_000_000n)
  })

  it('is shown as it is', async () => {
    const [page, code] = await Promise.all(
      ['../../CONTRIBUTING.md', 'my-provider.ts'].map((path) =>
        readFile(new URL(path, import.meta.url), 'utf8'),
      ),
    )

    expect(page).toContain(`\`\`\`ts\n${code}\`\`\``)
  })
})

function serving(url: string) {
  return createTestGateway({
    providers: {
      mine: { use: './examples/my-provider.ts', options: { url, apiKey: 'vendor-key' } },
    },
    models: {
      'mine/small': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        deployments: [{ provider: 'mine', model: 'small-1' }],
      },
    },
  })
}
