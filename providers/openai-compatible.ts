/**
 * Every vendor and server that speaks OpenAI's chat completions, more or less. What sets them apart is a table:
 * `openai-compatible/quirks.ts`.
 */
import * as v from 'valibot'
import { defineProvider, type Host } from '../src/plugin.ts'
import {
  notAnAnswer,
  readChunks,
  readCompletion,
  type Dialect,
} from './openai-compatible/dialect.ts'
import { httpFailure } from './openai-compatible/errors.ts'
import { quirksOf, ROW_NAMES } from './openai-compatible/quirks.ts'
import { toBody } from './openai-compatible/request.ts'

const options = v.strictObject({
  /** Up to and without `/chat/completions`. */
  baseURL: v.pipe(v.string(), v.url()),
  /** Sent as bearer token; without it, or empty, nothing is sent. */
  apiKey: v.optional(v.string()),
  /** Sent with every request; wins over the headers sent otherwise. */
  headers: v.optional(v.record(v.string(), v.string()), {}),
  /** The row of the quirk table. Without one the vendor is taken to do as OpenAI does. */
  quirks: v.optional(v.picklist(ROW_NAMES)),
})

const deploymentOptions = v.strictObject({
  /** The model thinks inside its answer: it writes both tags, or the chat template has written the first. */
  reasoning: v.optional(v.picklist(['tags', 'prefilled-tags'])),
  /** Whether reasoning of earlier turns goes back to the model; by default as the row says. */
  replayReasoning: v.optional(v.boolean()),
  /** Members of the request, in the vendor's own names, that this model refuses. */
  omit: v.optional(v.array(v.string())),
})

const MAX_ERROR_BYTES = 1024 * 1024

export default defineProvider({
  name: 'openai-compatible',
  options,
  deploymentOptions,
  setup({ baseURL, apiKey, headers, quirks: row }, host) {
    const quirks = quirksOf(row)
    const url = `${baseURL.replace(/\/+$/, '')}/chat/completions`
    const sent: Record<string, string> = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    }
    if (apiKey) sent.authorization = `Bearer ${apiKey}`
    for (const [name, value] of Object.entries(headers)) sent[name.toLowerCase()] = value

    return {
      async chat({ input, model, options, signal }) {
        const deployment = options as v.InferOutput<typeof deploymentOptions>
        const stream = input.stream === true
        const response = await host.request({
          url,
          headers: sent,
          body: JSON.stringify(toBody(input, model, quirks, deployment)),
          signal,
          stream,
        })
        const { status } = response
        if (status < 200 || status > 299) {
          throw httpFailure(host.fail, status, response.headers, await errorText(response, signal))
        }
        const dialect: Dialect = { quirks, tags: deployment.reasoning, fail: host.fail }
        // The vendor may answer in the other form than was asked for.
        const type = response.headers['content-type'] ?? ''
        if (type.includes('event-stream') || (stream && !/json|html/.test(type))) {
          return host.sse(response.body).through(readChunks(dialect))
        }
        return readCompletion(parse(await response.text(), host), dialect)
      },
    }
  },
})

type Response = Awaited<ReturnType<Host['request']>>

/** What the vendor says about its refusal; the status counts even when that cannot be read. */
async function errorText(response: Response, signal: AbortSignal): Promise<string> {
  try {
    return await response.text(MAX_ERROR_BYTES)
  } catch {
    signal.throwIfAborted()
    return ''
  }
}

function parse(text: string, host: Host): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Without the cause: it quotes the body.
    throw notAnAnswer(host.fail)
  }
}
