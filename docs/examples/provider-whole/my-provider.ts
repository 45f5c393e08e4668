/** For a made-up vendor, which answers `{ "text": …, "tokens": { "in", "out" } }` in one piece. */
import * as v from 'valibot'
import { defineProvider } from 'sluicegate'

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
        const response = await host.request({ url, headers, body, signal })
        const { text, tokens } = await host.readJson(response)
        if (typeof text !== 'string') throw host.fail('upstream_error')
        const message = { role: 'assistant', content: text }
        const usage = { prompt_tokens: tokens?.in, completion_tokens: tokens?.out }
        return { choices: [{ message, finish_reason: 'stop' }], usage }
      },
    }
  },
})
