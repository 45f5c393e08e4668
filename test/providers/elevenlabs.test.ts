import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import elevenlabs from '../../providers/elevenlabs.ts'
import { mp3 } from '../endpoints/audio/_sounds.ts'
import { describeRecorded, whole } from '../fixtures.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import { failureOf, formIn, setUp, type Setup } from './_audio.ts'

const GEORGE = 'JBFqnCBsd6RMkjVDRZzb'

let vendor: FakeUpstream
let plugin: Setup

beforeAll(async () => {
  vendor = await startUpstream()
  plugin = await setUp(elevenlabs, {
    apiKey: 'secret',
    baseURL: `${vendor.url}/`,
    voices: { george: GEORGE },
  })
})
afterAll(async () => {
  await plugin[Symbol.asyncDispose]()
  await vendor.close()
})

const last = () => vendor.requests.at(-1)!
const sound = (bytes: Buffer) => ({ headers: { 'content-type': 'audio/mpeg' }, pieces: [bytes] })

describe('elevenlabs speech', () => {
  it('requests the voice in the URL, and streams', async () => {
    vendor.answer(sound(mp3(2)))
    const bytes = await plugin.speak({ voice: 'george', speed: 4 }, { model: 'eleven_v3' })
    expect(bytes.equals(mp3(2))).toBe(true)
    expect(last().path).toBe(`/v1/text-to-speech/${GEORGE}/stream?output_format=mp3_44100_128`)
    expect(last().headers['xi-api-key']).toBe('secret')
    expect(last().json).toEqual({
      text: 'Hi.',
      model_id: 'eleven_v3',
      voice_settings: { speed: 1.2 },
    })
  })

  it('sends language and seed where supported, and no instructions', async () => {
    vendor.answer(sound(mp3(1)))
    const input = { instructions: 'Whisper.', language: 'de', seed: 7 }
    await plugin.speak(input, { model: 'eleven_flash_v2_5' })
    expect(last().json).toEqual({
      text: 'Hi.',
      model_id: 'eleven_flash_v2_5',
      language_code: 'de',
      seed: 7,
    })
  })

  it.each([
    ['opus', 'opus_48000_64', Buffer.from(`OggS${' '.repeat(20)}`)],
    ['pcm', 'pcm_24000', Buffer.alloc(480)],
  ] as const)('has %s', async (format, name, answer) => {
    vendor.answer(sound(answer))
    expect((await plugin.speak({ response_format: format })).equals(answer)).toBe(true)
    expect(last().path).toContain(`output_format=${name}`)
  })

  it('makes wav from samples', async () => {
    vendor.answer(sound(Buffer.alloc(480)))
    const wav = await plugin.speak({ response_format: 'wav' })
    expect([wav.readUInt32LE(24), wav.readUInt32LE(40)]).toEqual([24_000, 480])
  })

  it.each([
    [{ response_format: 'aac' as const }, 'unsupported_value', 'response_format'],
    [{ response_format: 'flac' as const }, 'unsupported_value', 'response_format'],
    [{ voice: 'nobody' }, 'invalid_value', 'voice'],
    [{ voice: '../../v1/voices/12345' }, 'invalid_value', 'voice'],
  ])('refuses %j without a request', async (input, code, param) => {
    const before = vendor.requests.length
    expect(await failureOf(plugin.speak(input))).toMatchObject({ status: 400, code, param })
    expect(vendor.requests.length).toBe(before)
  })
})

describe('elevenlabs transcripts', () => {
  const word = (text: string, start: number, speaker_id = 'speaker_0') => ({
    text,
    start,
    end: start + 0.4,
    type: 'word',
    speaker_id,
  })

  it('sends a form with the file last, and measures its length', async () => {
    vendor.answer(json({ language_code: 'eng', text: 'Hello.', words: [] }))
    const { done } = await plugin.hear({ language: 'en', temperature: 0 }, { model: 'scribe_v2' })
    const form = formIn(last().headers['content-type'], last().body)
    expect(form).toEqual({
      model_id: 'scribe_v2',
      timestamps_granularity: 'none',
      tag_audio_events: 'false',
      language_code: 'en',
      temperature: '0',
      file: 'audio.wav audio/wav 64044',
    })
    expect(last().headers['content-length']).toBe(String(last().body.length))
    expect(done).toMatchObject({ text: 'Hello.', language: 'en', duration: 2 })
  })

  it('tells speakers apart', async () => {
    const words = [word('Hi.', 0), { text: ' ', type: 'spacing' }, word('Yes?', 5.1, 'speaker_1')]
    vendor.answer(json({ language_code: 'deu', text: 'Hi. Yes?', words }))
    const { done } = await plugin.hear({ response_format: 'diarized_json' })
    expect(formIn(last().headers['content-type'], last().body)).toMatchObject({ diarize: 'true' })
    expect(done.language).toBe('de')
    expect(done.segments).toEqual([
      { start: 0, end: 0.4, text: 'Hi.', speaker: 0 },
      { start: 5.1, end: 5.5, text: 'Yes?', speaker: 1 },
    ])
    // The file is two seconds long by its header, but has words after that.
    expect(done.duration).toBe(5.5)
  })

  it.each([
    [400, { detail: { status: 'voice_not_found' } }, 'bad_request', 'invalid_value'],
    [
      400,
      { detail: { status: 'max_character_limit_exceeded' } },
      'bad_request',
      'string_above_max_length',
    ],
    [400, { detail: { status: 'invalid_audio' } }, 'bad_request', 'invalid_audio'],
    [403, { detail: { status: 'only_for_creator+' } }, 'upstream_auth', 'upstream_error'],
    [429, { detail: { status: 'system_busy' } }, 'overloaded', 'provider_overloaded'],
    [404, { detail: 'Not Found' }, 'bad_request', 'upstream_rejected'],
    [500, 'oh', 'upstream_error', 'upstream_error'],
  ])('maps %i %j to its failure', async (status, body, failure, code) => {
    vendor.answer(json(body, status))
    expect(await failureOf(plugin.hear())).toMatchObject({ failure, code })
  })
})

describeRecorded('elevenlabs as recorded', ['elevenlabs'], /./, (recordings) => {
  const named = (name: string) => recordings.find((one) => one.name === `elevenlabs/${name}`)!

  it('reads the transcript', async () => {
    vendor.answer(whole(named('speech-to-text')))
    const { done } = await plugin.hear({ response_format: 'verbose_json' })
    const text = 'Hello from the Vercel AI SDK.'
    expect(done).toMatchObject({ text, language: 'en' })
    expect(done.segments).toEqual([{ start: 0.199, end: 2.479, text }])
    expect(done.words).toHaveLength(6)
    expect(done.duration).toBe(2.479)
  })

  it('returns the sound byte for byte', async () => {
    const recording = named('text-to-speech')
    vendor.answer(whole(recording))
    const { text, model_id, voice_settings } = recording.request.body
    const input = { input: text, voice: 'ballad', speed: voice_settings.speed }
    const bytes = await plugin.speak(input, { model: model_id })
    expect(bytes.equals(recording.body)).toBe(true)
    expect(last().json).toEqual(recording.request.body)
  })

  it.each([
    ['error-401', 'upstream_auth'],
    ['error-401-quota', 'upstream_balance'],
    ['error-422', 'bad_request'],
    ['error-429', 'upstream_rate'],
  ])('maps the error %s', async (name, failure) => {
    vendor.answer(whole(named(name)))
    expect(await failureOf(plugin.speak())).toMatchObject({ failure })
  })
})
