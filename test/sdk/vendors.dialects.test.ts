/** Libraries that speak Anthropic's Messages API and OpenAI's Responses API, in front of vendors of several kinds. */
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
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { describeTurns, QUESTION, type TurnLibrary } from './_vendors.ts'

const ANTHROPIC = '@langchain/anthropic'
const NAME = 'get_weather'
const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
} as const

/** LangChain with one of its models. */
function langchain(
  name: string,
  modelOf: (model: string) => ChatAnthropic | ChatOpenAI,
): TurnLibrary {
  return {
    name,
    // The other API gives them to clients that ask for encrypted ones.
    returnsThoughts: () => name === ANTHROPIC,
    async work({ model, stream }, weather) {
      const definition = { name: NAME, description: 'Tells the weather.', schema: PARAMETERS }
      const bound = modelOf(model).bindTools([definition as any])
      const messages: BaseMessage[] = [new HumanMessage(QUESTION)]
      for (;;) {
        let answer: AIMessageChunk | undefined
        if (stream) {
          for await (const chunk of await bound.stream(messages)) {
            answer = answer ? concat(answer, chunk) : chunk
          }
        } else answer = await bound.invoke(messages)
        const calls = answer!.tool_calls ?? []
        if (calls.length === 0) return answer!.text
        messages.push(answer!)
        for (const { id, args } of calls) {
          messages.push(new ToolMessage({ tool_call_id: id!, content: weather(args.city) }))
        }
      }
    },
  }
}

describeTurns((address, apiKey) => [
  langchain(
    ANTHROPIC,
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
  langchain(
    '@langchain/openai with the Responses API',
    (model) =>
      new ChatOpenAI({
        model,
        apiKey,
        maxRetries: 0,
        useResponsesApi: true,
        zdrEnabled: true,
        reasoning: { effort: 'high' },
        configuration: { baseURL: `${address}/v1` },
      }),
  ),
  {
    name: '@ai-sdk/open-responses',
    returnsThoughts: () => false,
    async work({ model, stream }, weather) {
      const provider = createOpenResponses({
        name: 'gateway',
        url: `${address}/v1/responses`,
        apiKey,
      })
      const request = {
        model: provider(model),
        prompt: QUESTION,
        maxRetries: 0,
        stopWhen: stepCountIs(5),
        tools: {
          [NAME]: tool({
            description: 'Tells the weather.',
            inputSchema: jsonSchema<{ city: string }>(PARAMETERS as any),
            execute: ({ city }) => weather(city),
          }),
        },
      }
      const answer = stream ? streamText(request) : await generateText(request)
      return answer.text
    },
  },
])
