/** What users of client libraries see of web search: sources with their places, and what they cost. */
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ASK, BRIDGE, pages, setUp, type Grounded } from '../search/_setup.ts'
import { answered, billed, streamed } from './_setup.ts'

let g: Grounded
let client: OpenAI
beforeAll(async () => {
  g = await setUp()
  client = new OpenAI({ baseURL: g.t.baseURL, apiKey: g.t.key.secret, maxRetries: 0 })
})
afterAll(() => g[Symbol.asyncDispose]())
beforeEach(() => g.web.answer(pages(BRIDGE)))

const [FIRST, SECOND] = BRIDGE
const CONTENT = `Zoë\u0301 says 👩‍🚀: opened in 1932 [example.org](${FIRST!.url}), of steel [2].`
const PIECES = [...CONTENT].map((content) => ({ content }))
/** What `CONTENT` cites, and where from. */
const CITED = [
  [`[example.org](${FIRST!.url})`, FIRST!.url, FIRST!.title, FIRST!.text],
  ['[2]', SECOND!.url, SECOND!.title, SECOND!.text],
]
const COST = 0.0050165

/** The sources that a reader cuts out of the text by their offsets, which are in code points. */
function citedIn({ content, annotations = [] }: OpenAI.ChatCompletionMessage) {
  return annotations.map(({ url_citation: { url, title, start_index, end_index, ...more } }) => {
    const excerpt = (more as { content?: string }).content
    return [[...content!].slice(start_index, end_index).join(''), url, title, excerpt]
  })
}

describe('the official client', () => {
  it('reads the sources of an answer, and its cost', async () => {
    g.vendor.answer(answered({ content: CONTENT }))
    const completion = await client.chat.completions.create(ASK)
    expect(citedIn(completion.choices[0]!.message)).toEqual(CITED)
    expect(billed(completion.usage)).toMatchObject({
      cost: COST,
      cost_details: { web_search_cost: 0.005 },
      server_tool_use_details: { web_search_requests: 1 },
    })
  })

  it.each([true, false])('reads them in a stream, usage asked for: %s', async (include_usage) => {
    g.vendor.answer(streamed(PIECES))
    const stream = await client.chat.completions.create({
      ...ASK,
      stream: true,
      stream_options: { include_usage },
    })
    let content = ''
    const annotations: OpenAI.ChatCompletionMessage.Annotation[] = []
    let usage: OpenAI.CompletionUsage | null | undefined
    for await (const { choices, usage: last } of stream) {
      const delta = choices[0]?.delta as Partial<OpenAI.ChatCompletionMessage> | undefined
      content += delta?.content ?? ''
      annotations.push(...(delta?.annotations ?? []))
      usage = last ?? usage
    }
    expect(citedIn({ content, annotations, role: 'assistant', refusal: null })).toEqual(CITED)
    expect(billed(usage).cost).toBe(COST)
  })

  it('reads them through its stream helper', async () => {
    g.vendor.answer(streamed(PIECES))
    const completion = await client.chat.completions
      .stream({ ...ASK, stream_options: { include_usage: true } })
      .finalChatCompletion()
    expect(citedIn(completion.choices[0]!.message)).toEqual(CITED)
    expect(billed(completion.usage).cost).toBe(COST)
  })

  it('takes the plugin as a member that it does not know', async () => {
    g.vendor.answer(answered({ content: 'Hi' }))
    const plugins = [{ id: 'web', max_results: 1, search_prompt: 'Found:' }]
    const body: object = { plugins }
    const completion = await client.chat.completions.create({
      model: 'acme/swift-1',
      messages: ASK.messages,
      ...body,
    })
    expect(completion.choices[0]!.message.annotations).toHaveLength(1)
    expect(g.told()).toMatch(/^Found:/)
  })
})

describe('the AI SDK, as for OpenRouter', () => {
  const model = (options: object = {}) =>
    createOpenRouter({
      baseURL: g.t.baseURL,
      apiKey: g.t.key.secret,
      compatibility: 'strict',
    }).chat('acme/swift-1', options)
  const prompt = ASK.messages[0]!.content
  const SOURCES = [
    { sourceType: 'url', url: FIRST!.url, title: FIRST!.title },
    { sourceType: 'url', url: SECOND!.url, title: SECOND!.title },
  ]
  const web = { plugins: [{ id: 'web' as const, max_results: 2 }] }

  it('reads sources of an answer', async () => {
    g.vendor.answer(answered({ content: CONTENT }))
    const { text, sources } = await generateText({ model: model(web), prompt, maxRetries: 0 })
    expect(text).toBe(CONTENT)
    expect(sources).toMatchObject(SOURCES)
  })

  it('reads sources of a stream', async () => {
    g.vendor.answer(streamed(PIECES))
    const result = streamText({ model: model(web), prompt, maxRetries: 0 })
    expect(await result.text).toBe(CONTENT)
    expect(await result.sources).toMatchObject(SOURCES)
    expect(await result.finishReason).toBe('stop')
    expect(JSON.stringify(await result.providerMetadata)).toContain(`"cost":${COST}`)
  })

  it('gets on without any', async () => {
    g.web.answer(pages([]))
    g.vendor.answer(streamed(PIECES))
    const result = streamText({ model: model(web), prompt, maxRetries: 0 })
    expect(await result.text).toBe(CONTENT)
    expect(await result.sources).toEqual([])
  })
})
