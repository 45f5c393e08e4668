/**
 * For a made-up vendor with reasoning, tools and images, which streams events such as `{ "text" }`, `{ "thought" }`,
 * `{ "call": 0, "id", "name" }`, `{ "call": 0, "arguments" }`, `{ "end", "tokens" }` and `{ "error": { "kind" } }`.
 */
import * as v from 'valibot'
import { defineProvider, type ChatChunk, type ChatDelta, type Host, type Step } from 'sluicegate'

/** What the vendor says, and what it means. */
const FAILURES = {
  busy: 'overloaded',
  forbidden: 'content_blocked',
  long: 'context_length',
} as const
const REASONS: Readonly<Record<string, string>> = { full: 'length', filtered: 'content_filter' }

export default defineProvider({
  name: 'my-provider',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  ignores: ['presence_penalty', 'frequency_penalty', 'n'],
  setup({ url, apiKey }, host) {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    return {
      async chat({ input, model, signal }) {
        const {
          messages,
          tools,
          tool_choice,
          parallel_tool_calls,
          temperature,
          top_p,
          stop,
          seed,
        } = input
        const body = host.json({
          model,
          turns: messages,
          tools,
          use: tool_choice,
          parallel: parallel_tool_calls,
          think: input.reasoning?.effort,
          format: input.response_format,
          limit: input.max_completion_tokens,
          settings: { temperature, top_p, stop, seed },
        })
        const response = await host.request({ url, headers, body, signal, stream: true })
        if (response.status !== 200) throw await host.failure(response, { classify: classOf })
        // A step with memory serves one answer.
        return host.sse(response.body).through(chunks(host))
      },
    }
  },
})

function chunks(host: Host): Step<any, ChatChunk> {
  const called = new Set<number>()
  return {
    push({ thought, text, call, id, name, arguments: piece, end, tokens, error }, emit) {
      const give = (delta: ChatDelta) => emit({ choices: [{ index: 0, delta }] })
      // Right at every place: what was emitted before goes out first.
      if (error) throw host.fail(classOf({ error }) ?? 'upstream_error')
      if (thought) give({ reasoning: thought })
      if (text) give({ content: text })
      if (name) {
        called.add(call)
        give({ tool_calls: [{ index: call, id, type: 'function', function: { name } }] })
      }
      if (piece) {
        if (!called.has(call)) throw host.fail('upstream_error')
        give({ tool_calls: [{ index: call, function: { arguments: piece } }] })
      }
      if (!end) return
      const finish_reason = REASONS[end] ?? (called.size > 0 ? 'tool_calls' : 'stop')
      emit({ choices: [{ index: 0, finish_reason }], usage: usageOf(tokens ?? {}) })
    },
  }
}

function classOf(body: any) {
  return FAILURES[body?.error?.kind as keyof typeof FAILURES]
}

/** Cached tokens are inside those of the prompt, reasoning inside those of the completion. */
function usageOf(tokens: any) {
  return {
    prompt_tokens: tokens.in,
    completion_tokens: tokens.out,
    prompt_tokens_details: { cached_tokens: tokens.cached ?? 0 },
    completion_tokens_details: { reasoning_tokens: tokens.thought ?? 0 },
  }
}
