import { readFile } from 'node:fs/promises'
import { describe, expect, it, vi } from 'vitest'
import { main } from '../../src/cli/main.ts'
import { folder } from '../../test/_folder.ts'
import { createTestGateway, eventsOf, hello } from '../../test/_setup.ts'
import { events, json, startUpstream } from '../../test/upstream.ts'

const ANSWER = events({ text: 'Hello ' }, { text: 'you' }, { tokens: { in: 11, out: 3 } })
const ASKED = { ...hello, model: 'mine/small' }

describe('the provider of docs/plugins/provider.md', () => {
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
    [429, 429, 'upstream_rate_limited'],
    [500, 502, 'upstream_error'],
  ])('says what a %i of the vendor means: %i %s', async (theirs, ours, code) => {
    await using upstream = await startUpstream(json({}, theirs))
    await using gateway = await serving(upstream.url)

    const { status, json: answer } = await gateway.chat(ASKED)

    expect(status).toBe(ours)
    expect(answer.error.code).toBe(code)
    expect(await gateway.balance()).toBe(100_000_000_000_000n)
  })
})

describe('sluicegate plugin test', () => {
  const at = (file: string) => new URL(file, import.meta.url).pathname
  const example = [at('provider-sse/my-provider.ts')]

  it('prints what the page says', async () => {
    const { code, out, err } = await run(...example, '--seed', '1', '--only', 'answer')
    expect([code, err]).toEqual([0, ''])
    const [shown] = (await blocksOf('console')).filter((block) => block.includes('CHECK'))
    const [, report] = /^\$ [^\n]*\n([^]*)$/.exec(shown!)!
    expect(`${report}\n`).toBe(out)
  })

  it('fails with what is wrong, and as JSON too', async () => {
    const file = await folder({
      'hello.json': JSON.stringify({
        request: { messages: [{ role: 'user', content: 'Hello?' }] },
        expect: { text: 'Bye' },
      }),
      'hello.http': 'HTTP/1.1 200 OK\n\ndata: {"text":"Hello"}\n\ndata: {"tokens":{}}\n\n',
    })
    const { code, out, err } = await run(
      at('provider-sse/my-provider.ts'),
      '--cases',
      file,
      '--json',
    )
    expect(code).toBe(1)
    expect(JSON.parse(err).error.message).toMatch(
      /^\d+ of \d+ checks failed; --seed \d+ repeats them\.$/,
    )
    const { ok, checks } = JSON.parse(out)
    expect(ok).toBe(false)
    expect(checks).toContainEqual({
      name: 'answer',
      on: 'hello',
      result: 'failed',
      notes: ['text: expected "Bye", found "Hello"'],
      hint: expect.stringContaining('docs/plugins/testing.md#answer'),
    })
  })

  it.each<[args: string[], code: number, message: RegExp]>([
    [['./nowhere.ts'], 1, /plugin +there is no file .*nowhere\.ts/],
    [
      [at('provider-sse/my-provider.ts'), '--options', 'none.json'],
      2,
      /cannot be read from none\.json; expected/,
    ],
    [
      [at('provider-sse/my-provider.ts'), '--options', '{"apiKey": "s3cr'],
      2,
      /^(?!.*s3cr).*not a JSON object/,
    ],
    [
      [at('provider-sse/my-provider.ts'), '--options', '{"apiKey": "s3cret", "colour": "blue"}'],
      1,
      /options\.colour +unknown key[^]*Set options with --options/,
    ],
    [
      [at('provider-sse/my-provider.ts'), '--cases', 'none'],
      1,
      /none is not valid:\n.*the folder does not exist/,
    ],
    [[at('provider-sse/my-provider.ts'), '--seed', 'x'], 2, /--seed takes a whole number, not "x"/],
  ])('%j is an error that says what would be right', async (args, status, message) => {
    const { code, out, err } = await run(...args)
    expect(err).toMatch(message)
    expect([code, out]).toEqual([status, ''])
  })
})

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** The command, in this process. */
async function run(...args: readonly string[]): Promise<Ended> {
  const [out, err] = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, 'write').mockReturnValue(true),
  )
  try {
    const code = await main(['plugin', 'test', ...args])
    const said = (spy: typeof out) => spy!.mock.calls.map(([text]) => String(text)).join('')
    return { code, out: said(out), err: said(err) }
  } finally {
    vi.restoreAllMocks()
  }
}

function read(file: string): Promise<string> {
  return readFile(new URL(file, import.meta.url), 'utf8')
}

/** Blocks of code on the page, by the language they name. */
async function blocksOf(language: string): Promise<string[]> {
  const page = await read('../plugins/provider.md')
  const blocks = page.matchAll(/^```(\w*)\n([^]*?)\n?^```$/gm)
  return [...blocks].filter(([, named]) => named === language).map(([, , text]) => text!.trimEnd())
}

function serving(url: string) {
  return createTestGateway({
    providers: {
      mine: {
        use: '../docs/examples/provider-sse/my-provider.ts',
        options: { url, apiKey: 'vendor-key' },
      },
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
