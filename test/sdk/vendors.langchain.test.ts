/** LangChain in front of every vendor. */
import {
  HumanMessage,
  ToolMessage,
  type AIMessageChunk,
  type BaseMessage,
} from '@langchain/core/messages'
import { concat } from '@langchain/core/utils/stream'
import { ChatOpenAI } from '@langchain/openai'
import {
  describeRecordings,
  describeVendors,
  QUESTION,
  SCHEMA,
  type How,
  type Library,
} from './_vendors.ts'

const WEATHER = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'Tells the weather.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

function connect(baseURL: string, apiKey: string): Library {
  const chat = (model: string, reasoning = false) =>
    new ChatOpenAI({
      model,
      apiKey,
      maxRetries: 0,
      configuration: { baseURL },
      ...(reasoning && { modelKwargs: { reasoning_effort: 'high' } }),
    })

  /** One turn. */
  async function turn(
    { model, stream }: How,
    messages: BaseMessage[],
    reasoning: boolean,
    tools: { type: 'function'; function: { name: string; parameters: object } }[] = [],
  ): Promise<AIMessageChunk> {
    const asked = chat(model, reasoning)
    const bound = tools.length > 0 ? asked.bindTools(tools) : asked
    if (!stream) return bound.invoke(messages)
    let whole: AIMessageChunk | undefined
    for await (const chunk of await bound.stream(messages)) {
      whole = whole ? concat(whole, chunk) : chunk
    }
    return whole!
  }

  return {
    name: '@langchain/openai',
    // It reads another name of theirs only.
    showsThoughts: false,
    returnsThoughts: () => false,

    async ask({ reasoning, tools = [], ...how }) {
      const functions = tools.map((name) => ({
        type: 'function' as const,
        function: { name, parameters: { type: 'object', properties: {} } },
      }))
      const messages = [new HumanMessage(QUESTION)]
      const answer = await turn(how, messages, reasoning, functions)
      const { text, tool_calls: calls = [], usage_metadata: usage } = answer
      return {
        text,
        calls: calls.map(({ name, args }) => ({ name, input: args })),
        promptTokens: usage!.input_tokens,
        cachedTokens: usage!.input_token_details!.cache_read,
        completionTokens: usage!.output_tokens,
        reasoningTokens: usage!.output_token_details!.reasoning,
      }
    },

    async work(how, weather) {
      const messages: BaseMessage[] = [new HumanMessage(QUESTION)]
      const used = { promptTokens: 0, completionTokens: 0 }
      for (;;) {
        const answer = await turn(how, messages, true, [WEATHER])
        used.promptTokens += answer.usage_metadata!.input_tokens
        used.completionTokens += answer.usage_metadata!.output_tokens
        const { text, tool_calls: calls = [] } = answer
        if (calls.length === 0) return { text, ...used }
        messages.push(answer)
        for (const { id, args } of calls) {
          messages.push(new ToolMessage({ tool_call_id: id!, content: weather(args.city) }))
        }
      }
    },

    async parse({ model, stream }) {
      const parser = chat(model).withStructuredOutput(SCHEMA, {
        name: 'weather',
        method: 'jsonSchema',
        strict: true,
      })
      if (!stream) return parser.invoke(QUESTION)
      let last: unknown
      for await (const object of await parser.stream(QUESTION)) last = object
      return last
    },
  }
}

describeVendors(connect)
describeRecordings(connect)
