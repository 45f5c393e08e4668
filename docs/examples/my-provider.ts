/** For a made-up vendor, which streams `{ "text": … }` events and ends with one that counts tokens. */
import * as v from 'valibot'
import { defineProvider, type ChatChunk, type FailureClass, type Step } from '../../src/plugin.ts'

const FAILURES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  429: 'upstream_rate',
}

export default defineProvider({
  name: 'my-provider',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  setup({ url, apiKey }, host) {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    return {
      async chat({ input, model, signal }) {
        const body = host.json({ model, turns: input.messages, seed: input.seed })
        const response = await host.request({ url, headers, body, signal, stream: true })
        if (response.status === 200) return host.sse(response.body).through(chunks)
        const failure = FAILURES[response.status] ?? 'upstream_error'
        const retryAfterMs = Number(response.headers['retry-after']) * 1000 || undefined
        throw host.fail(failure, 'The model provider refused the request.', { retryAfterMs })
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
