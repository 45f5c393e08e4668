/** Speech of Gemini models: a request for an answer in sound, which comes whole, as samples. */
import type { Host, Provider, ProviderRequest, Speech, SpeechInput } from '../../src/plugin.ts'
import { asSequence, notAnAnswer, voiceName } from '../shared/http.ts'
import { readJson, type Client } from './client.ts'
import { blocked, inbandFailure } from './errors.ts'
import { safetyOf } from './request.ts'

/** OpenAI's voices, and similar ones of Google. */
const VOICES: Readonly<Record<string, string>> = {
  alloy: 'Kore',
  ash: 'Charon',
  ballad: 'Orus',
  cedar: 'Alnilam',
  coral: 'Aoede',
  echo: 'Puck',
  fable: 'Fenrir',
  marin: 'Sulafat',
  nova: 'Leda',
  onyx: 'Algenib',
  sage: 'Vindemiatrix',
  shimmer: 'Zephyr',
  verse: 'Iapetus',
}

/** What the vendor's samples have where it does not say it. */
const SAMPLE_RATE = 24_000

/**
 * The speech method of the provider.
 * @param voices the operator's names of voices
 * @param safety see the plugin's options
 */
export function createSpeech(
  client: Client,
  host: Host,
  voices: Readonly<Record<string, string>>,
  safety: string | undefined,
): Required<Pick<Provider, 'speech'>> {
  return {
    async speech({ input, model, signal }: ProviderRequest<SpeechInput>): Promise<Speech> {
      const body = { ...toBody(input, voices, host.fail), ...safetyOf(safety) }
      const response = await client.post(model, 'generateContent', body, { signal })
      return toSpeech(await readJson(response, host), host.fail)
    },
  }
}

function toBody(
  { input, voice, response_format: format }: SpeechInput,
  voices: Readonly<Record<string, string>>,
  fail: Host['fail'],
): object {
  if (format !== 'wav' && format !== 'pcm') {
    const message = `The model cannot make sound in the format ${format}. Ask for wav or pcm.`
    throw fail('bad_request', message, { code: 'unsupported_value', param: 'response_format' })
  }
  const name = voiceName(voice)
  const voiceConfig = { prebuiltVoiceConfig: { voiceName: voices[name] ?? VOICES[name] ?? name } }
  return {
    contents: [{ role: 'user', parts: [{ text: input }] }],
    generationConfig: { responseModalities: ['AUDIO'], speechConfig: { voiceConfig } },
  }
}

function toSpeech(payload: any, fail: Host['fail']): Speech {
  const failure = inbandFailure(fail, payload)
  if (failure) throw failure
  const [candidate] = Array.isArray(payload?.candidates) ? payload.candidates : []
  const parts: readonly any[] = candidate?.content?.parts ?? []
  const sounds = parts.map((part) => part?.inlineData).filter((sound) => isSamples(sound))
  if (sounds.length === 0) {
    const stopped = payload?.promptFeedback?.blockReason ?? BLOCKED.has(candidate?.finishReason)
    throw stopped ? blocked(fail) : notAnAnswer(fail)
  }
  const rate = Number(/rate=(\d+)/.exec(sounds[0].mimeType)?.[1] ?? SAMPLE_RATE)
  const bytes = asSequence(sounds.map(({ data }) => Buffer.from(data, 'base64')))
  return { bytes, pcmSampleRate: rate }
}

function isSamples(sound: any): boolean {
  return typeof sound?.data === 'string' && /^audio\/(l16|pcm)\b/i.test(String(sound.mimeType))
}

/** Reasons of an answer without sound that a filter stopped. */
const BLOCKED: ReadonlySet<unknown> = new Set([
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MODEL_ARMOR',
])
