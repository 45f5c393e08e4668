/** What users do with each package: a question, a stream, a loop with a tool, and what an error says. */
import assert from 'node:assert/strict'
import type { Place } from './kit.ts'

export interface Kit extends Place {
  load(name: string): Promise<any>
}

interface Case {
  readonly name: string
  run(kit: Kit): Promise<void>
}

const MODELS = ['m/chat', 'm/claude', 'm/responses']
const WARM = /It is warm\./
const RESULT = 'nice and warm'
const schema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const named = (what: string, make: (model: string) => Case['run']): Case[] =>
  MODELS.map((model) => ({ name: `${what} ${model}`, run: make(model) }))

// OpenAI's and Anthropic's own.

const question = [{ role: 'user', content: 'Weather in Paris?' }]
const openaiTools = [{ type: 'function', function: { name: 'look', parameters: schema } }]

const openaiClients = ['openai-4', 'openai-5'].flatMap((name) => {
  const clientOf = async ({ load, baseURL, key }: Kit) => {
    const { OpenAI } = await load(name)
    return new OpenAI({ baseURL, apiKey: key })
  }
  return [
    ...named(`${name} chat`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const answer = await client.chat.completions.create({ model, messages: question })
      assert.match(answer.choices[0].message.content, WARM)
      assert.ok(answer.usage.cost > 0)
    }),
    ...named(`${name} chat stream`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const options = { include_usage: true }
      const body = { model, messages: question, stream: true, stream_options: options }
      let text = ''
      let cost = 0
      for await (const chunk of await client.chat.completions.create(body)) {
        text += chunk.choices[0]?.delta.content ?? ''
        cost = chunk.usage?.cost ?? cost
      }
      assert.match(text, WARM)
      assert.ok(cost > 0)
    }),
    ...named(`${name} chat loop`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const messages: any[] = [...question]
      const first = await client.chat.completions.create({ model, messages, tools: openaiTools })
      const [{ message, finish_reason }] = first.choices
      assert.equal(finish_reason, 'tool_calls')
      messages.push(message, {
        role: 'tool',
        tool_call_id: message.tool_calls[0].id,
        content: RESULT,
      })
      const last = await client.chat.completions.create({ model, messages, tools: openaiTools })
      assert.match(last.choices[0].message.content, WARM)
    }),
    ...named(`${name} responses`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const answer = await client.responses.create({ model, input: 'Weather in Paris?' })
      assert.match(answer.output_text, WARM)
    }),
    ...named(`${name} responses loop`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const tools = [{ type: 'function', name: 'look', parameters: schema, strict: true }]
      const input: any[] = [...question]
      const stream = await client.responses.create({ model, input, tools, stream: true })
      let response: any
      for await (const event of stream) response = event.response ?? response
      const call = response.output.find(({ type }: any) => type === 'function_call')
      assert.deepEqual(JSON.parse(call.arguments), { city: 'Paris' })
      const output = { type: 'function_call_output', call_id: call.call_id, output: RESULT }
      input.push(...response.output, output)
      const last = await client.responses.create({ model, input, tools })
      assert.match(last.output_text, WARM)
    }),
    ...named(`${name} full context`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const messages = [{ role: 'user', content: 'too-long' }]
      await assert.rejects(client.chat.completions.create({ model, messages }), (error: any) => {
        assert.equal(error.code, 'context_length_exceeded')
        return /maximum context length is 9000 tokens/.test(error.message)
      })
    }),
  ]
})

const anthropicClients = ['anthropic-0.30', 'anthropic-0.60'].flatMap((name) => {
  const clientOf = async ({ load, url, key }: Kit) => {
    const { Anthropic } = await load(name)
    return new Anthropic({ baseURL: url, apiKey: key })
  }
  const tools = [{ name: 'look', input_schema: schema }]
  return [
    ...named(`${name} messages`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const answer = await client.messages.create({ model, max_tokens: 100, messages: question })
      assert.match(answer.content[0].text, WARM)
      assert.ok(answer.usage.cost > 0)
    }),
    ...named(`${name} loop`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const messages: any[] = [...question]
      const body = { model, max_tokens: 100, messages, tools }
      const first = await client.messages.stream(body).finalMessage()
      assert.equal(first.stop_reason, 'tool_use')
      const call = first.content.find(({ type }: any) => type === 'tool_use')
      assert.deepEqual(call.input, { city: 'Paris' })
      messages.push({ role: 'assistant', content: first.content })
      const result = { type: 'tool_result', tool_use_id: call.id, content: RESULT }
      messages.push({ role: 'user', content: [result] })
      const last = await client.messages.create(body)
      assert.match(last.content.at(-1).text, WARM)
    }),
    ...named(`${name} full context`, (model) => async (kit) => {
      const client = await clientOf(kit)
      const messages = [{ role: 'user', content: 'too-long' }]
      const asked = client.messages.create({ model, max_tokens: 100, messages })
      await assert.rejects(asked, /prompt is too long: 12345 tokens > 9000 maximum/)
    }),
  ]
})

// The AI SDK.

/** Loops with a tool, whole and as a stream, for the provider that `modelOf` makes. */
function aiCases(
  core: string,
  what: string,
  modelOf: (kit: Kit, model: string) => Promise<unknown>,
): Case[] {
  const isOld = core === 'ai-4'
  const settingsOf = async (kit: Kit, model: string) => {
    const ai = await kit.load(core)
    const input = ai.jsonSchema(schema)
    const look = {
      description: 'Looks.',
      ...(isOld ? { parameters: input } : { inputSchema: input }),
      execute: async () => RESULT,
    }
    const steps = isOld ? { maxSteps: 3 } : { stopWhen: (ai.stepCountIs ?? ai.isStepCount)(3) }
    const asked = { model: await modelOf(kit, model), prompt: 'Weather in Paris?', maxRetries: 0 }
    return { ai, settings: { ...asked, tools: { look }, ...steps } }
  }
  return [
    ...named(`${what} loop`, (model) => async (kit) => {
      const { ai, settings } = await settingsOf(kit, model)
      const { text, steps } = await ai.generateText(settings)
      assert.match(text, WARM)
      assert.equal(steps.length, 2)
    }),
    ...named(`${what} loop stream`, (model) => async (kit) => {
      const { ai, settings } = await settingsOf(kit, model)
      const failed: unknown[] = []
      const onError = ({ error }: any) => failed.push(error)
      const result = ai.streamText({ ...settings, onError })
      let text = ''
      for await (const part of result.textStream) text += part
      assert.deepEqual(failed, [])
      assert.match(text, WARM)
    }),
  ]
}

const openaiOf = (name: string, kind?: string) => async (kit: Kit, model: string) => {
  const { createOpenAI } = await kit.load(name)
  const provider = createOpenAI({ baseURL: kit.baseURL, apiKey: kit.key })
  return kind ? provider[kind](model) : provider(model)
}
const anthropicOf = (name: string) => async (kit: Kit, model: string) => {
  const { createAnthropic } = await kit.load(name)
  return createAnthropic({ baseURL: kit.baseURL, apiKey: kit.key })(model)
}

const compatibleOf = (name: string) => async (kit: Kit, model: string) => {
  const { createOpenAICompatible } = await kit.load(name)
  return createOpenAICompatible({ name: 'gateway', baseURL: kit.baseURL, apiKey: kit.key })(model)
}
const openrouterOf = (name: string) => async (kit: Kit, model: string) => {
  const { createOpenRouter } = await kit.load(name)
  return createOpenRouter({ baseURL: kit.baseURL, apiKey: kit.key })(model)
}

const aiSdk = [
  ...aiCases('ai-4', 'ai-4 openai', openaiOf('ai-4-openai')),
  ...aiCases('ai-4', 'ai-4 openai responses', openaiOf('ai-4-openai', 'responses')),
  ...aiCases('ai-4', 'ai-4 anthropic', anthropicOf('ai-4-anthropic')),
  ...aiCases('ai-5', 'ai-5 openai', openaiOf('ai-5-openai')),
  ...aiCases('ai-5', 'ai-5 openai chat', openaiOf('ai-5-openai', 'chat')),
  ...aiCases('ai-5', 'ai-5 anthropic', anthropicOf('ai-5-anthropic')),
  ...aiCases('ai-5', 'ai-5 compatible', compatibleOf('ai-5-compatible')),
  ...aiCases('ai-5', 'ai-5 openrouter', openrouterOf('ai-5-openrouter')),
  ...aiCases('ai-7', 'ai-7 openai', openaiOf('ai-7-openai')),
  ...aiCases('ai-7', 'ai-7 openai chat', openaiOf('ai-7-openai', 'chat')),
  ...aiCases('ai-7', 'ai-7 anthropic', anthropicOf('ai-7-anthropic')),
  ...aiCases('ai-7', 'ai-7 compatible', compatibleOf('ai-7-compatible')),
  ...aiCases('ai-7', 'ai-7 openrouter', openrouterOf('ai-7-openrouter')),
  ...aiCases('ai-7', 'ai-7 open-responses', async (kit, model) => {
    const { createOpenResponses } = await kit.load('ai-7-open-responses')
    const url = `${kit.baseURL}/responses`
    return createOpenResponses({ name: 'gateway', url, apiKey: kit.key })(model)
  }),
]

// Others.

/** The cost of every answer of a chat. */
const TURN_USD = 0.0003486

const openrouter: Case[] = [
  ...named('@openrouter/sdk chat', (model) => async ({ load, baseURL, key }) => {
    const { OpenRouter } = await load('@openrouter/sdk')
    const client = new OpenRouter({ apiKey: key, serverURL: baseURL })
    const chatRequest = { model, messages: question, stream: false }
    const answer = await client.chat.send({ chatRequest })
    assert.match(answer.choices[0].message.content, WARM)
    assert.equal(answer.usage.cost, TURN_USD)
  }),
  ...named('@openrouter/sdk chat stream', (model) => async ({ load, baseURL, key }) => {
    const { OpenRouter } = await load('@openrouter/sdk')
    const client = new OpenRouter({ apiKey: key, serverURL: baseURL })
    const chatRequest = { model, messages: question, tools: openaiTools, stream: true }
    const names: string[] = []
    for await (const { choices } of await client.chat.send({ chatRequest })) {
      for (const call of choices[0]?.delta.toolCalls ?? []) names.push(call.function?.name ?? '')
    }
    assert.equal(names.join(''), 'look')
  }),
  {
    name: '@openrouter/sdk embeddings',
    async run({ load, baseURL, key }) {
      const { OpenRouter } = await load('@openrouter/sdk')
      const client = new OpenRouter({ apiKey: key, serverURL: baseURL })
      const requestBody = { model: 'm/embeds', input: ['Paris', 'Rome'] }
      const { data, usage } = await client.embeddings.generate({ requestBody })
      assert.deepEqual(data[1].embedding, [0.25, -0.5])
      assert.equal(usage.cost, 0.000042)
    },
  },
  {
    name: '@openrouter/sdk rerank',
    async run({ load, baseURL, key }) {
      const { OpenRouter } = await load('@openrouter/sdk')
      const client = new OpenRouter({ apiKey: key, serverURL: baseURL })
      const requestBody = { model: 'm/ranks', query: 'warm', documents: ['Paris', 'Rome'] }
      const { results, usage } = await client.rerank.rerank({ requestBody })
      assert.equal(results.length, 2)
      assert.equal(usage.cost, 0.000042)
    },
  },
  {
    name: '@openrouter/sdk credits',
    async run({ load, baseURL, key }) {
      const { OpenRouter } = await load('@openrouter/sdk')
      const client = new OpenRouter({ apiKey: key, serverURL: baseURL })
      const { data } = await client.credits.getCredits()
      assert.equal(data.totalCredits, 10)
    },
  },
  ...named('@openrouter/sdk responses', (model) => async ({ load, baseURL, key }) => {
    const { OpenRouter } = await load('@openrouter/sdk')
    const client = new OpenRouter({ apiKey: key, serverURL: baseURL })
    const responsesRequest = { model, input: 'Weather in Paris?', stream: false }
    const answer = await client.beta.responses.send({ responsesRequest })
    assert.equal(answer.usage.cost, TURN_USD)
    assert.match(JSON.stringify(answer.output), WARM)
  }),
]

const agents = [true, false].flatMap((useResponses) =>
  named(`@openai/agents ${useResponses ? 'responses' : 'chat'}`, (model) => async (kit) => {
    const { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } =
      await kit.load('@openai/agents')
    const { z } = await kit.load('zod')
    setTracingDisabled(true)
    const parameters = z.object({ city: z.string() })
    const look = tool({ name: 'look', description: 'Looks.', parameters, execute: () => RESULT })
    const agent = new Agent({ name: 'A', instructions: 'Be brief.', model, tools: [look] })
    const { baseURL, key: apiKey } = kit
    const modelProvider = new OpenAIProvider({ apiKey, baseURL, useResponses })
    const result = await new Runner({ modelProvider }).run(agent, 'Weather in Paris?')
    assert.match(result.finalOutput, WARM)
  }),
)

const APIS = { 'openai-completions': true, 'openai-responses': true, 'anthropic-messages': false }
const pi = Object.entries(APIS).flatMap(([api, hasVersion]) =>
  named(`pi-ai ${api}`, (id) => async ({ load, key, url, baseURL }) => {
    const { complete, isContextOverflow } = await load('@mariozechner/pi-ai')
    const model = {
      id,
      name: id,
      api,
      provider: 'gateway',
      baseUrl: hasVersion ? baseURL : url,
      reasoning: false,
      input: ['text'],
      cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 0 },
      contextWindow: 9000,
      maxTokens: 1000,
    }
    const ask = (content: string) => {
      const messages = [{ role: 'user', content, timestamp: Date.now() }]
      return complete(model, { messages }, { apiKey: key })
    }
    const answer = await ask('Weather in Paris?')
    assert.match(answer.content.at(-1).text, WARM)
    assert.equal(isContextOverflow(answer, 9000), false)
    const full = await ask('too-long')
    assert.equal(isContextOverflow(full, 9000), true, full.errorMessage)
  }),
)

const cohere: Case = {
  name: 'cohere-ai rerank',
  async run({ load, key, url }) {
    const { CohereClientV2 } = await load('cohere-ai')
    const client = new CohereClientV2({ token: key, environment: url })
    const documents = ['Paris', 'Rome']
    const { results } = await client.rerank({ model: 'm/ranks', query: 'warm', documents })
    assert.equal(results.length, 2)
  },
}

export const cases: readonly Case[] = [
  ...openaiClients,
  ...anthropicClients,
  ...aiSdk,
  ...openrouter,
  ...agents,
  ...pi,
  cohere,
]
