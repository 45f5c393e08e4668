import { expect, it } from 'vitest'
import openaiCompatible from '../../../providers/openai-compatible.ts'
import { describeRecorded, whole } from '../../fixtures.ts'
import { startUpstream } from '../../upstream.ts'
import { setUp } from '../_chat.ts'

describeRecorded('openrouter as a vendor', ['openrouter'], /chat\/completions$/, (recordings) => {
  const found = (name: string) => recordings.find((one) => one.name === `openrouter/${name}`)!

  async function replay(name: string) {
    await using upstream = await startUpstream(whole(found(name)))
    const options = { baseURL: `${upstream.url}/api/v1`, apiKey: 'k', quirks: 'openrouter' }
    await using setup = await setUp(openaiCompatible, options)
    const { model, ...input } = found(name).request.body
    const outcome = await setup.outcome(input, { model })
    return { ...outcome, asked: upstream.requests[0]!.json }
  }

  it('receives earlier reasoning unchanged, in the recorded form of a request', async () => {
    const { body } = found('chat-reasoning-details-replay').request
    const { asked, completion } = await replay('chat-reasoning-details-replay')
    expect(asked.messages).toEqual(body.messages)
    const [detail] = asked.messages[1].reasoning_details
    expect(detail.signature).toMatch(/^EvsCCkgIEBABGAIqQNe/)
    expect(completion.choices[0]!.message.content).toMatch(
      /^The current weather in Berlin is \*\*15°C/,
    )
  })

  it('receives its own members for caching and search', async () => {
    for (const name of ['chat-stream-cache-write', 'chat-stream-web-search-annotations']) {
      const { body } = found(name).request
      const { asked } = await replay(name)
      const { stream_options, ...rest } = asked
      expect(stream_options).toEqual({ include_usage: true })
      expect(rest).toEqual({ ...body, stream_options: undefined })
    }
  })

  it('returns a signature for reasoning before a call', async () => {
    const { completion, usage } = await replay('chat-stream-reasoning-tools')
    const { message, finish_reason } = completion.choices[0]!
    expect(message.reasoning_details).toEqual([
      {
        type: 'reasoning.text',
        text: message.reasoning,
        signature: expect.stringMatching(/^[\w+/]{100,}=*$/),
        id: null,
        format: 'anthropic-claude-v1',
        index: 0,
      },
    ])
    expect(message.tool_calls[0].function).toEqual({
      name: 'reasoning_weather',
      arguments: '{"city": "Berlin"}',
    })
    expect(finish_reason).toBe('tool_calls')
    expect(usage).toMatchObject({ prompt_tokens: 626, vendor_cost: '0.001156' })
  })

  it('may send arguments of null', async () => {
    const { completion } = await replay('chat-stream-tool-null-arguments')
    expect(completion.choices[0]!.message.tool_calls).toEqual([
      { id: '0', type: 'function', function: { name: 'llm_version', arguments: '{}' } },
    ])
  })

  it('cites and counts what it searched', async () => {
    const { completion, usage } = await replay('chat-web-search-annotations')
    expect(completion.choices[0]!.message.annotations[0].url_citation).toMatchObject({
      url: 'https://github.com/pydantic/pydantic-ai',
      title: 'AI Agent Framework, the Pydantic way',
    })
    expect(usage).toMatchObject({ searches: 1, vendor_cost: expect.stringMatching(/^0\.\d+$/) })
  })
})
