/** ElevenLabs: speech and transcription. */
import * as v from 'valibot'
import { defineProvider, type UpstreamRequest, type UpstreamResponse } from '../src/plugin.ts'
import { httpFailure } from './elevenlabs/errors.ts'
import { formatOf, speechBody, voiceId } from './elevenlabs/speech.ts'
import { toFields, toTranscription } from './elevenlabs/transcript.ts'
import { joinUrl, mergeHeaders, send } from './shared/http.ts'
import { apiKey, baseURL, headersOption, voicesOption } from './shared/options.ts'

const options = v.strictObject({
  apiKey,
  /** Without `/v1`. For another region of ElevenLabs. */
  baseURL: v.optional(baseURL, 'https://api.elevenlabs.io'),
  headers: headersOption,
  voices: voicesOption,
})

export default defineProvider({
  name: 'elevenlabs',
  options,
  setup({ apiKey, baseURL: base, headers, voices }, host) {
    const api = joinUrl(base, 'v1')
    const sent = mergeHeaders({ 'xi-api-key': apiKey }, headers)
    const post = (request: UpstreamRequest): Promise<UpstreamResponse> =>
      send(host, request, httpFailure)
    return {
      async speech({ input, model, signal }) {
        const voice = voiceId(input.voice, voices, host.fail)
        const { format, pcmSampleRate } = formatOf(input.response_format, host.fail)
        const response = await post({
          url: `${api}/text-to-speech/${voice}/stream?output_format=${format}`,
          headers: { ...sent, 'content-type': 'application/json' },
          body: JSON.stringify(speechBody(input, model)),
          signal,
          stream: true,
        })
        return { bytes: response.body, ...(pcmSampleRate !== undefined && { pcmSampleRate }) }
      },

      async transcribe({ input, model, signal }) {
        const { contentType, body } = host.form(toFields(input, model))
        const response = await post({
          url: `${api}/speech-to-text`,
          headers: { ...sent, 'content-type': contentType },
          body,
          signal,
        })
        return toTranscription(await response.text(), input, host.fail)
      },
    }
  },
})
