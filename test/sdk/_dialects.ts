/** Client libraries that speak Anthropic's Messages API or OpenAI's Responses API. */
import Anthropic from '@anthropic-ai/sdk'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenResponses } from '@ai-sdk/open-responses'
import { ChatAnthropic } from '@langchain/anthropic'
import {
  HumanMessage,
  ToolMessage,
  type AIMessageChunk,
  type BaseMessage,
} from '@langchain/core/messages'
import { concat } from '@langchain/core/utils/stream'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { QUESTION, SCHEMA, type Heard, type How } from './_vendors.ts'

/** Which API a library speaks. */
export type Form = 'messages' | 'responses'

/** A library in front of another form of chat. Nothing is tried twice. */
export interface FormLibrary {
  readonly name: string
  readonly form: Form
  /** Whether signed thoughts go back with the results of tools. */
  readonly returnsThoughts: boolean
  /** Asks {@link QUESTION}. @param how `tools` are names of functions that the model may call; they are not run */
  ask(how: How & { readonly tools: readonly string[] }): Promise<Heard>
  /** Runs the tool `get_weather` of `weather` until the model has no more calls. */
  work(how: How, weather: (city: string) => string): Promise<string>
  /** Whether it reads objects from streams. */
  readonly parsesStreams: boolean
  /** Asks for an object after {@link SCHEMA}. */
  parse(how: How): Promise<unknown>
}

const NAME = 'get_weather'
const ANY = { type: 'object', properties: {} } as const
const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
} as const

/** All of them. @param address the address of the gateway, without `/v1` */
export function formLibraries(address: string, apiKey: string): readonly FormLibrary[] {
  const baseURL = `${address}/v1`
  const openai = createOpenAI({ baseURL, apiKey })
  const url = `${baseURL}/responses`
  return [
    anthropicClient(address, apiKey),
    aiLibrary('@ai-sdk/anthropic', 'messages', createAnthropic({ baseURL, apiKey })),
    langchain(
      '@langchain/anthropic',
      'messages',
      (model) =>
        new ChatAnthropic({
          model,
          apiKey,
          anthropicApiUrl: address,
          maxRetries: 0,
          maxTokens: 4000,
          thinking: { type: 'enabled', budget_tokens: 2000 },
        }),
    ),
    openaiClient(baseURL, apiKey),
    // The client refers to items in a store, unless it is told not to.
    aiLibrary('@ai-sdk/openai', 'responses', openai, { openai: { store: false } }),
    aiLibrary(
      '@ai-sdk/open-responses',
      'responses',
      createOpenResponses({ name: 'gateway', url, apiKey }),
    ),
    langchain(
      '@langchain/openai with the Responses API',
      'responses',
      (model) =>
        new ChatOpenAI({
          model,
          apiKey,
          maxRetries: 0,
          useResponsesApi: true,
          zdrEnabled: true,
          reasoning: { effort: 'high' },
          configuration: { baseURL },
        }),
    ),
  ]
}

function anthropicClient(baseURL: string, apiKey: string): FormLibrary {
  const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 })
  const turn = ({ model, stream }: How, messages: any[], tools: any[]) => {
    const request = {
      model,
      messages,
      tools,
      max_tokens: 4000,
      thinking: { type: 'enabled' as const, budget_tokens: 2000 },
    }
    return stream ? client.messages.stream(request).finalMessage() : client.messages.create(request)
  }
  const textOf = ({ content }: Anthropic.Message) =>
    content.map((block) => (block.type === 'text' ? block.text : '')).join('')
  const callsOf = ({ content }: Anthropic.Message) =>
    content.filter((block) => block.type === 'tool_use')
  const question = { role: 'user', content: QUESTION }
  return {
    name: '@anthropic-ai/sdk',
    form: 'messages',
    returnsThoughts: true,
    parsesStreams: true,
    async ask({ tools, ...how }) {
      const offered = tools.map((name) => ({ name, input_schema: ANY }))
      const answer = await turn(how, [question], offered)
      const { usage } = answer
      const { cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage
      return {
        text: textOf(answer),
        calls: callsOf(answer).map(({ name, input }) => ({ name, input })),
        promptTokens: usage.input_tokens + (read ?? 0) + (written ?? 0),
        completionTokens: usage.output_tokens,
      }
    },
    async work(how, weather) {
      const messages: any[] = [question]
      for (;;) {
        const answer = await turn(how, messages, [{ name: NAME, input_schema: PARAMETERS }])
        const calls = callsOf(answer)
        if (calls.length === 0) return textOf(answer)
        const results = calls.map(({ id, input }: any) => {
          return { type: 'tool_result', tool_use_id: id, content: weather(input.city) }
        })
        messages.push({ role: 'assistant', content: answer.content })
        messages.push({ role: 'user', content: results })
      }
    },
    async parse({ model, stream }) {
      const format = { type: 'json_schema' as const, schema: SCHEMA as any }
      const messages = [{ role: 'user' as const, content: QUESTION }]
      const request = { model, messages, max_tokens: 4000, output_config: { format } }
      const answer = stream
        ? await client.messages.stream(request).finalMessage()
        : await client.messages.create(request)
      return JSON.parse(textOf(answer))
    },
  }
}

function openaiClient(baseURL: string, apiKey: string): FormLibrary {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
  const turn = ({ model, stream }: How, input: any[], tools: any[]) => {
    const request = {
      model,
      input,
      tools,
      store: false,
      include: ['reasoning.encrypted_content' as const],
      reasoning: { effort: 'high' as const },
    }
    return stream
      ? client.responses.stream(request).finalResponse()
      : client.responses.create(request)
  }
  const offer = (name: string, parameters: object) => {
    return { type: 'function', name, parameters, strict: false }
  }
  const callsOf = ({ output }: any): any[] =>
    output.filter(({ type }: any) => type === 'function_call')
  const question = { role: 'user', content: QUESTION }
  return {
    name: 'openai with the Responses API',
    form: 'responses',
    returnsThoughts: true,
    parsesStreams: true,
    async ask({ tools, ...how }) {
      const offered = tools.map((name) => offer(name, ANY))
      const answer = await turn(how, [question], offered)
      return {
        text: answer.output_text,
        calls: callsOf(answer).map(({ name, arguments: input }) => {
          return { name, input: JSON.parse(input) }
        }),
        promptTokens: answer.usage!.input_tokens,
        completionTokens: answer.usage!.output_tokens,
      }
    },
    async work(how, weather) {
      const input: any[] = [question]
      for (;;) {
        const answer = await turn(how, input, [offer(NAME, PARAMETERS)])
        const calls = callsOf(answer)
        if (calls.length === 0) return answer.output_text
        input.push(
          ...answer.output.map(({ parsed_arguments: _parsed, ...item }: any) => item),
          ...calls.map(({ call_id, arguments: given }) => {
            const { city } = JSON.parse(given)
            return { type: 'function_call_output', call_id, output: weather(city) }
          }),
        )
      }
    },
    async parse({ model, stream }) {
      const schema = { name: 'weather', schema: SCHEMA as any, strict: true }
      const format = { type: 'json_schema' as const, ...schema }
      const request = { model, input: QUESTION, store: false, text: { format } }
      const answer = stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.parse(request)
      return answer.output_parsed
    },
  }
}

/** The AI SDK with one of its providers. */
function aiLibrary(
  name: string,
  form: Form,
  provider: (model: string) => any,
  providerOptions: any = {},
): FormLibrary {
  const request = (model: string) => ({
    model: provider(model),
    prompt: QUESTION,
    maxRetries: 0,
    maxOutputTokens: 4000,
    providerOptions,
  })
  return {
    name,
    form,
    returnsThoughts: name === '@ai-sdk/anthropic',
    parsesStreams: true,
    async ask({ model, stream, tools }) {
      const asked = {
        ...request(model),
        tools: Object.fromEntries(
          tools.map((one) => [one, tool({ inputSchema: jsonSchema({ type: 'object' }) })]),
        ),
      }
      const answer = stream ? streamText({ ...asked, onError }) : await generateText(asked)
      const { inputTokens, outputTokens } = await answer.totalUsage
      return {
        text: await answer.text,
        calls: (await answer.toolCalls).map(({ toolName, input }) => ({ name: toolName, input })),
        promptTokens: inputTokens,
        completionTokens: outputTokens,
      }
    },
    async work({ model, stream }, weather) {
      const asked = {
        ...request(model),
        stopWhen: stepCountIs(5),
        tools: {
          [NAME]: tool({
            description: 'Tells the weather.',
            inputSchema: jsonSchema<{ city: string }>(PARAMETERS as any),
            execute: ({ city }) => weather(city),
          }),
        },
      }
      const answer = stream ? streamText({ ...asked, onError }) : await generateText(asked)
      return answer.text
    },
    async parse({ model, stream }) {
      const asked = { ...request(model), output: Output.object({ schema: jsonSchema(SCHEMA) }) }
      const answer = stream ? streamText({ ...asked, onError }) : await generateText(asked)
      return await answer.output
    },
  }
}

/** LangChain with one of its models. */
function langchain(
  name: string,
  form: Form,
  modelOf: (model: string) => ChatAnthropic | ChatOpenAI,
): FormLibrary {
  async function turn({ model, stream }: How, messages: BaseMessage[], tools: readonly object[]) {
    const bound = tools.length > 0 ? modelOf(model).bindTools(tools as any) : modelOf(model)
    if (!stream) return bound.invoke(messages)
    let answer: AIMessageChunk | undefined
    for await (const chunk of await bound.stream(messages)) {
      answer = answer ? concat(answer, chunk) : chunk
    }
    return answer!
  }
  return {
    name,
    form,
    // The other API gives them to clients that ask for encrypted ones.
    returnsThoughts: form === 'messages',
    // Its parser takes streams of text only, and these forms have blocks.
    parsesStreams: false,
    async ask({ tools, ...how }) {
      const offered = tools.map((one) => ({ name: one, description: 'A tool.', schema: ANY }))
      const answer = await turn(how, [new HumanMessage(QUESTION)], offered)
      const { text, tool_calls: calls = [], usage_metadata: usage } = answer
      return {
        text,
        calls: calls.map(({ name: called, args }) => ({ name: called, input: args })),
        promptTokens: usage!.input_tokens,
        completionTokens: usage!.output_tokens,
      }
    },
    async work(how, weather) {
      const definition = { name: NAME, description: 'Tells the weather.', schema: PARAMETERS }
      const messages: BaseMessage[] = [new HumanMessage(QUESTION)]
      for (;;) {
        const answer = await turn(how, messages, [definition])
        const { tool_calls: calls = [] } = answer
        if (calls.length === 0) return answer.text
        messages.push(answer)
        for (const { id, args } of calls) {
          messages.push(new ToolMessage({ tool_call_id: id!, content: weather(args.city) }))
        }
      }
    },
    async parse({ model }) {
      const how = { name: 'weather', method: 'jsonSchema' } as const
      return (modelOf(model) as ChatOpenAI).withStructuredOutput(SCHEMA, how).invoke(QUESTION)
    },
  }
}

/** What goes wrong in a stream is thrown where its outcome is awaited. */
function onError(): void {}
