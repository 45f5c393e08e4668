/** Deepgram: speech and transcripts. */
import * as v from 'valibot'
import { defineProvider, type Host, type UpstreamResponse } from '../src/plugin.ts'
import { failureOf } from './deepgram/errors.ts'
import { encodingOf, voiceModel } from './deepgram/speech.ts'
import { listenQuery, toTranscription } from './deepgram/transcript.ts'

const options = v.strictObject({
  apiKey: v.pipe(v.string(), v.nonEmpty('expected an API key, found an empty text')),
  /** Up to and without `/v1`: for a region of Deepgram's, or a server of one's own. */
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.deepgram.com'),
  /** Sent with every request; wins over the headers sent otherwise. */
  headers: v.optional(v.record(v.string(), v.string()), {}),
  /** Deepgram's own parameters of transcripts, such as `smart_format` or `mip_opt_out`. */
  listen: v.optional(
    v.pipe(
      v.record(v.string(), v.string()),
      v.check(
        (own) => !('callback' in own),
        'expected no callback: it would make answers go elsewhere',
      ),
    ),
    { smart_format: 'true' },
  ),
  /** Names of voices that clients use, and Deepgram's. */
  voices: v.optional(v.record(v.string(), v.string()), {}),
})

export default defineProvider({
  name: 'deepgram',
  options,
  setup({ apiKey, baseURL, headers, listen, voices }, host) {
    const base = `${baseURL.replace(/\/+$/, '')}/v1`
    const sent: Record<string, string> = { authorization: `Token ${apiKey}` }
    for (const [name, value] of Object.entries(headers)) sent[name.toLowerCase()] = value
    return {
      async speech({ input, model, signal }) {
        const { response_format: format } = input
        const query = new URLSearchParams({
          model: voiceModel(model, input.voice, voices, host.fail),
          ...encodingOf(format),
        })
        const response = await ask(host, {
          url: `${base}/speak?${query}`,
          headers: { ...sent, 'content-type': 'application/json' },
          body: JSON.stringify({ text: input.input }),
          signal,
          stream: true,
        })
        return { bytes: response.body, ...(format === 'wav' && { pcmSampleRate: 24_000 }) }
      },

      async transcribe({ input, model, signal }) {
        const query = listenQuery(input, model, listen)
        const response = await ask(host, {
          url: `${base}/listen?${query}`,
          headers: { ...sent, 'content-type': input.file.mediaType },
          body: input.file.bytes,
          signal,
        })
        return toTranscription(await response.text(), input, host.fail)
      },
    }
  },
})

async function ask(host: Host, request: Parameters<Host['request']>[0]): Promise<UpstreamResponse> {
  const response = await host.request(request)
  if (response.status >= 200 && response.status <= 299) return response
  throw await failureOf(response, host.fail, request.signal)
}
