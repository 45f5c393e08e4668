/** The official client in front of every vendor. */
import OpenAI from 'openai'
import { describeRecordings, describeVendors, QUESTION, SCHEMA, type Library } from './_vendors.ts'

const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}

function connect(baseURL: string, apiKey: string): Library {
  const { completions } = new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat
  const messages = [{ role: 'user' as const, content: QUESTION }]
  return {
    name: 'openai',
    showsThoughts: true,
    // Its runner sends nothing back that OpenAI does not have.
    returnsThoughts: () => false,

    async ask({ model, stream, reasoning, tools = [] }) {
      const request = {
        model,
        messages,
        ...(reasoning && { reasoning_effort: 'high' as const }),
        ...(tools.length > 0 && {
          tools: tools.map((name) => ({ type: 'function' as const, function: { name } })),
        }),
      }
      let streamed = ''
      const { choices, usage } = stream
        ? await completions
            .stream({ ...request, stream_options: { include_usage: true } })
            // The answer that it puts together keeps the last piece of them.
            .on('chunk', (chunk: any) => (streamed += chunk.choices[0]?.delta.reasoning ?? ''))
            .finalChatCompletion()
        : await completions.create(request)
      const { content, reasoning: whole = '', tool_calls } = choices[0]!.message as any
      return {
        text: content ?? '',
        calls: (tool_calls ?? []).map((call: any) => ({
          name: call.function.name,
          input: JSON.parse(call.function.arguments),
        })),
        thoughts: stream ? streamed : whole,
        promptTokens: usage!.prompt_tokens,
        cachedTokens: usage!.prompt_tokens_details!.cached_tokens,
        completionTokens: usage!.completion_tokens,
        reasoningTokens: usage!.completion_tokens_details!.reasoning_tokens,
      }
    },

    async work({ model, stream }, weather) {
      const tool = {
        type: 'function' as const,
        function: {
          name: 'get_weather',
          description: 'Tells the weather.',
          parameters: PARAMETERS,
          parse: JSON.parse,
          function: ({ city }: { city: string }) => weather(city),
        },
      }
      const request = { model, messages, reasoning_effort: 'high' as const, tools: [tool] }
      const runner = stream
        ? completions.runTools({
            ...request,
            stream: true,
            stream_options: { include_usage: true },
          })
        : completions.runTools(request)
      const text = (await runner.finalContent()) ?? ''
      const { prompt_tokens, completion_tokens } = await runner.totalUsage()
      return { text, promptTokens: prompt_tokens, completionTokens: completion_tokens }
    },

    async parse({ model, stream }) {
      const request = {
        model,
        messages,
        response_format: {
          type: 'json_schema' as const,
          json_schema: { name: 'weather', strict: true, schema: SCHEMA },
        },
      }
      const { choices } = stream
        ? await completions.stream(request).finalChatCompletion()
        : await completions.parse(request)
      return choices[0]!.message.parsed ?? JSON.parse(choices[0]!.message.content!)
    },
  }
}

describeVendors(connect)
describeRecordings(connect)
