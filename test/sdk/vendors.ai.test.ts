/** The AI SDK in front of every vendor, with its provider for vendors with OpenAI's API, and with OpenRouter's. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import {
  generateText,
  jsonSchema,
  Output,
  stepCountIs,
  streamText,
  tool,
  type LanguageModelUsage,
} from 'ai'
import { vi } from 'vitest'
import {
  describeRecordings,
  describeVendors,
  QUESTION,
  SCHEMA,
  type Heard,
  type Library,
} from './_vendors.ts'

/** The model of a request, and what else the request says; with reasoning of high effort, or without a word of it. */
type Prepare = (
  model: string,
  reasoning: boolean,
) => Pick<Parameters<typeof generateText>[0], 'model' | 'providerOptions'>

/** The AI SDK, with the models of any of its providers. */
function library(said: Pick<Library, 'name' | 'returnsThoughts'>, prepare: Prepare): Library {
  return {
    ...said,
    showsThoughts: true,

    async ask({ model, stream, reasoning, tools = [] }) {
      const request = {
        ...prepare(model, reasoning),
        prompt: QUESTION,
        maxRetries: 0,
        tools: Object.fromEntries(
          tools.map((name) => [name, tool({ inputSchema: jsonSchema({ type: 'object' }) })]),
        ),
      }
      const answer = stream ? streamText({ ...request, onError }) : await generateText(request)
      return {
        text: await answer.text,
        calls: (await answer.toolCalls).map(({ toolName, input }) => ({ name: toolName, input })),
        thoughts: (await answer.reasoningText) ?? '',
        ...heard(await answer.totalUsage),
      }
    },

    async work({ model, stream }, weather) {
      const request = {
        ...prepare(model, true),
        prompt: QUESTION,
        maxRetries: 0,
        stopWhen: stepCountIs(5),
        tools: {
          get_weather: tool({
            description: 'Tells the weather.',
            inputSchema: jsonSchema<{ city: string }>({
              type: 'object',
              properties: { city: { type: 'string' } },
              required: ['city'],
              additionalProperties: false,
            }),
            execute: ({ city }) => weather(city),
          }),
        },
      }
      const answer = stream ? streamText({ ...request, onError }) : await generateText(request)
      return { text: await answer.text, ...heard(await answer.totalUsage) }
    },

    async parse({ model, stream }) {
      const request = {
        ...prepare(model, false),
        prompt: QUESTION,
        maxRetries: 0,
        output: Output.object({ schema: jsonSchema(SCHEMA) }),
      }
      const answer = stream ? streamText({ ...request, onError }) : await generateText(request)
      return await answer.output
    },
  }
}

function withOpenAICompatible(baseURL: string, apiKey: string): Library {
  const provider = createOpenAICompatible({
    name: 'gateway',
    baseURL,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })
  return library(
    // As text, without what signs them.
    { name: '@ai-sdk/openai-compatible', returnsThoughts: () => false },
    (model, reasoning) => ({
      model: provider(model),
      ...(reasoning && { providerOptions: { gateway: { reasoningEffort: 'high' } } }),
    }),
  )
}

function withOpenRouter(baseURL: string, apiKey: string): Library {
  const provider = createOpenRouter({ baseURL, apiKey, compatibility: 'strict' })
  return library(
    { name: '@openrouter/ai-sdk-provider', returnsThoughts: () => true },
    (model, reasoning) => ({
      model: provider(model, reasoning ? { reasoning: { effort: 'high' } } : {}),
    }),
  )
}

// OpenRouter's provider tells when it drops thoughts that are not signed.
vi.spyOn(console, 'warn').mockImplementation(() => {})

for (const connect of [withOpenAICompatible, withOpenRouter]) {
  describeVendors(connect)
  describeRecordings(connect)
}

function heard(usage: LanguageModelUsage): Omit<Heard, 'text' | 'thoughts'> {
  return {
    promptTokens: usage.inputTokens,
    cachedTokens: usage.inputTokenDetails.cacheReadTokens,
    completionTokens: usage.outputTokens,
    reasoningTokens: usage.outputTokenDetails.reasoningTokens,
  }
}

/** What goes wrong in a stream is thrown where its outcome is awaited. */
function onError(): void {}
