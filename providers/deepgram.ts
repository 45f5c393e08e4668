/** Deepgram: speech and transcription. */
import * as v from 'valibot'
import { defineProvider, type UpstreamRequest, type UpstreamResponse } from '../src/plugin.ts'
import { httpFailure } from './deepgram/errors.ts'
import { encodingOf, voiceModel } from './deepgram/speech.ts'
import { listenQuery, toTranscription } from './deepgram/transcript.ts'
import { joinUrl, mergeHeaders, send } from './shared/http.ts'
import { apiKey, baseURL, headersOption, voicesOption } from './shared/options.ts'

const options = v.strictObject({
  apiKey,
  /** Without `/v1`. For another region of Deepgram, or a self-hosted server. */
  baseURL: v.optional(baseURL, 'https://api.deepgram.com'),
  headers: headersOption,
  /** Query parameters of Deepgram's `/v1/listen`, such as `smart_format` or `mip_opt_out`. */
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
  voices: voicesOption,
})

export default defineProvider({
  name: 'deepgram',
  options,
  setup({ apiKey, baseURL: base, headers, listen, voices }, host) {
    const api = joinUrl(base, 'v1')
    const sent = mergeHeaders({ authorization: `Token ${apiKey}` }, headers)
    const post = (request: UpstreamRequest): Promise<UpstreamResponse> =>
      send(host, request, httpFailure)
    return {
      async speech({ input, model, signal }) {
        const { response_format: format } = input
        const query = new URLSearchParams({
          model: voiceModel(model, input.voice, voices, host.fail),
          ...encodingOf(format),
        })
        const response = await post({
          url: `${api}/speak?${query}`,
          headers: { ...sent, 'content-type': 'application/json' },
          body: JSON.stringify({ text: input.input }),
          signal,
          stream: true,
        })
        return { bytes: response.body, ...(format === 'wav' && { pcmSampleRate: 24_000 }) }
      },

      async transcribe({ input, model, signal }) {
        const query = listenQuery(input, model, listen)
        const response = await post({
          url: `${api}/listen?${query}`,
          headers: { ...sent, 'content-type': input.file.mediaType },
          body: input.file.bytes,
          signal,
        })
        return toTranscription(await response.text(), input, host.fail)
      },
    }
  },
})
