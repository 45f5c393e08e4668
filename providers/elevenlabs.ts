/** ElevenLabs: speech and transcripts. */
import * as v from 'valibot'
import { defineProvider, type Host, type UpstreamResponse } from '../src/plugin.ts'
import { failureOf } from './elevenlabs/errors.ts'
import { formatOf, speechBody, voiceId } from './elevenlabs/speech.ts'
import { toFields, toTranscription } from './elevenlabs/transcript.ts'

const options = v.strictObject({
  apiKey: v.pipe(v.string(), v.nonEmpty('expected an API key, found an empty text')),
  /** Up to and without `/v1`: for a region of ElevenLabs'. */
  baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.elevenlabs.io'),
  /** Sent with every request; wins over the headers sent otherwise. */
  headers: v.optional(v.record(v.string(), v.string()), {}),
  /** Names of voices that clients use, and ids of ElevenLabs' voices. */
  voices: v.optional(v.record(v.string(), v.string()), {}),
})

export default defineProvider({
  name: 'elevenlabs',
  options,
  setup({ apiKey, baseURL, headers, voices }, host) {
    const base = `${baseURL.replace(/\/+$/, '')}/v1`
    const sent: Record<string, string> = { 'xi-api-key': apiKey }
    for (const [name, value] of Object.entries(headers)) sent[name.toLowerCase()] = value
    return {
      async speech({ input, model, signal }) {
        const voice = voiceId(input.voice, voices, host.fail)
        const { format, pcmSampleRate } = formatOf(input.response_format, host.fail)
        const response = await ask(host, {
          url: `${base}/text-to-speech/${voice}/stream?output_format=${format}`,
          headers: { ...sent, 'content-type': 'application/json' },
          body: JSON.stringify(speechBody(input, model)),
          signal,
          stream: true,
        })
        return { bytes: response.body, ...(pcmSampleRate !== undefined && { pcmSampleRate }) }
      },

      async transcribe({ input, model, signal }) {
        const { contentType, body } = host.form(toFields(input, model))
        const response = await ask(host, {
          url: `${base}/speech-to-text`,
          headers: { ...sent, 'content-type': contentType },
          body,
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
