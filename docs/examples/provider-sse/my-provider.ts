/** For a made-up vendor, which streams `{ "text": … }` events and ends with one that counts tokens. */
import * as v from 'valibot'
import { defineProvider, type ChatChunk, type Step } from 'sluicegate'

export default defineProvider({
  name: 'my-provider',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  ignores: ['presence_penalty', 'frequency_penalty', 'response_format', 'reasoning', 'tools', 'n'],
  setup({ url, apiKey }, host) {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    return {
      async chat({ input, model, signal }) {
        const { messages, temperature, top_p, stop, seed, max_completion_tokens: limit } = input
        const body = host.json({ model, turns: messages, temperature, top_p, stop, seed, limit })
        const response = await host.request({ url, headers, body, signal, stream: true })
        if (response.status !== 200) throw await host.failure(response)
        return host.sse(response.body).through(chunks)
      },
    }
  },
})

const chunks: Step<any, ChatChunk> = {
  push({ text, tokens }, emit) {
    if (text) emit({ choices: [{ index: 0, delta: { content: text } }] })
    if (!tokens) return
    const usage = { prompt_tokens: tokens.in, completion_tokens: tokens.out }
    emit({ choices: [{ index: 0, finish_reason: 'stop' }], usage })
  },
}
