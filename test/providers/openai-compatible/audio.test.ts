import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import azure from '../../../providers/azure.ts'
import compatible from '../../../providers/openai-compatible.ts'
import openai from '../../../providers/openai.ts'
import { mp3 } from '../../endpoints/audio/_sounds.ts'
import { byEvents, describeRecorded, whole } from '../../fixtures.ts'
import { cutAt, events, json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { failureOf, formIn, setUp, type Setup } from '../_audio.ts'

let vendor: FakeUpstream
let official: Setup
let any: Setup
let xai: Setup

beforeAll(async () => {
  vendor = await startUpstream()
  const baseURL = `${vendor.url}/v1`
  official = await setUp(openai, { apiKey: 'secret', baseURL })
  any = await setUp(compatible, { baseURL })
  xai = await setUp(compatible, { baseURL, quirks: 'xai' })
})
afterAll(async () => {
  for (const plugin of [official, any, xai]) await plugin[Symbol.asyncDispose]()
  await vendor.close()
})

const last = () => vendor.requests.at(-1)!
const form = () => formIn(last().headers['content-type'], last().body)
const sound = (bytes: Uint8Array, type = 'audio/mpeg') => ({
  headers: { 'content-type': type },
  pieces: [bytes],
})

describe('speech in OpenAI’s form', () => {
  it('sends the members that the vendor knows, and returns the bytes', async () => {
    vendor.answer(sound(mp3(3)))
    const input = { voice: { id: 'voice_1' }, instructions: 'Softly.', speed: 2, lang_code: 'a' }
    expect((await official.speak(input, { model: 'tts-1' })).equals(mp3(3))).toBe(true)
    expect(last()).toMatchObject({ path: '/v1/audio/speech', method: 'POST' })
    expect(last().headers).toMatchObject({ authorization: 'Bearer secret', accept: '*/*' })
    expect(last().json).toEqual({
      model: 'tts-1',
      input: 'Hi.',
      voice: { id: 'voice_1' },
      response_format: 'mp3',
      instructions: 'Softly.',
      speed: 2,
    })
  })

  it('sends all members to servers, except those that the deployment omits', async () => {
    vendor.answer(sound(mp3(1)))
    await any.speak({ lang_code: 'a', speed: 2 }, { options: { omit: ['speed'] } })
    expect(last().json).toMatchObject({ lang_code: 'a' })
    expect(last().json).not.toHaveProperty('speed')
  })

  it('goes to the deployment at azure', async () => {
    const resource = await setUp(azure, {
      apiKey: 'secret',
      baseURL: vendor.url,
      surface: 'deployments',
    })
    vendor.answer(sound(mp3(1)))
    await resource.speak({}, { model: 'my tts' })
    expect(last().path).toBe('/openai/deployments/my%20tts/audio/speech?api-version=2024-10-21')
    expect(last().headers['api-key']).toBe('secret')
    await resource[Symbol.asyncDispose]()
  })

  it('uses xAI’s form', async () => {
    vendor.answer(sound(mp3(1)))
    await xai.speak({ voice: 'eve' })
    expect(last().path).toBe('/v1/tts')
    expect(last().json).toEqual({
      text: 'Hi.',
      voice_id: 'eve',
      language: 'auto',
      output_format: { codec: 'mp3', sample_rate: 24_000 },
    })
    expect(await failureOf(xai.speak({ response_format: 'aac' }))).toMatchObject({
      code: 'unsupported_value',
      param: 'response_format',
    })
  })

  it.each([
    [
      'another format than was asked for',
      sound(Buffer.from('RIFF1234WAVEfmt ')),
      'bad_request',
      'unsupported_value',
    ],
    ['nothing', sound(Buffer.alloc(0)), 'upstream_error', 'upstream_error'],
    [
      'words',
      { headers: { 'content-type': 'text/html' }, pieces: ['<html>'] },
      'upstream_error',
      'upstream_error',
    ],
    [
      'an error that looks well',
      json({ error: { message: 'Overloaded', code: 'slow_down' } }),
      'overloaded',
      'provider_overloaded',
    ],
    [
      'an error',
      json({ error: { message: 'No such key', code: 'invalid_api_key' } }, 401),
      'upstream_auth',
      'upstream_error',
    ],
  ] as const)('takes %s for a failure', async (_what, answer, failure, code) => {
    vendor.answer(answer)
    expect(await failureOf(any.speak())).toMatchObject({ failure, code })
  })

  it('rejects invalid flac', async () => {
    vendor.answer(sound(Buffer.alloc(100)))
    const failure = await failureOf(any.speak({ response_format: 'flac' }))
    expect(failure.failure).toBe('upstream_error')
  })
})

describe('transcription in OpenAI’s form', () => {
  it('sends a form as the official client does', async () => {
    vendor.answer(json({ text: 'Hello.', usage: { type: 'duration', seconds: 2 } }))
    const { done } = await official.hear(
      {
        response_format: 'verbose_json',
        timestamp_granularities: ['word', 'segment'],
        chunking_strategy: { type: 'server_vad', threshold: 0.5 },
        prompt: 'Ümläute',
        temperature: 0,
        diarize: true,
      },
      { model: 'whisper-1' },
    )
    const sent = form()
    expect(Object.keys(sent).at(-1)).toBe('file')
    expect({ ...sent, prompt: Buffer.from(sent.prompt!, 'latin1').toString() }).toEqual({
      model: 'whisper-1',
      response_format: 'verbose_json',
      'timestamp_granularities[]': 'segment',
      'chunking_strategy[type]': 'server_vad',
      'chunking_strategy[threshold]': '0.5',
      prompt: 'Ümläute',
      temperature: '0',
      file: 'audio.wav audio/wav 64044',
    })
    expect(done.usage).toEqual({ seconds: 2 })
  })

  it.each([
    [
      { prompt_tokens: 9, completion_tokens: 2 },
      { promptTokens: 9, audioInputTokens: 0, completionTokens: 2 },
    ],
    [
      { seconds: 0, input_tokens: 9 },
      { promptTokens: 9, audioInputTokens: 0 },
    ],
    [{ prompt_audio_seconds: 3 }, { seconds: 3 }],
  ])('reads usage of %j', async (usage, expected) => {
    vendor.answer(json({ text: 'Hello.', usage }))
    expect((await any.hear()).done.usage).toEqual(expected)
  })

  it('reads plain text from a server without JSON', async () => {
    vendor.answer({ headers: { 'content-type': 'text/plain' }, pieces: [' Hello there.\n'] })
    expect((await any.hear()).done.text).toBe('Hello there.')
  })

  it('reads a stream that looks like a chat', async () => {
    const chunk = (content: string) => ({ choices: [{ delta: { content } }] })
    vendor.answer(events(chunk('Hel'), chunk('lo.'), { choices: [], usage: null }, '[DONE]'))
    const { done, deltas } = await any.hear({ stream: true })
    expect([deltas, done.text]).toEqual([['Hel', 'lo.'], 'Hello.'])
  })

  it('reads silence in a stream that looks like a chat', async () => {
    const nothing = { choices: [{ delta: { content: '' }, finish_reason: 'stop' }] }
    vendor.answer(events(nothing, '[DONE]'))
    const { done, deltas } = await any.hear({ stream: true })
    expect([deltas, done.text]).toEqual([[], ''])
  })

  it('reads log probabilities, segments and languages of a stream', async () => {
    const logprobs = [{ token: 'Hi', logprob: -0.1, bytes: [72, 105] }]
    vendor.answer(
      events(
        { type: 'transcript.text.delta', delta: 'Hi', logprobs, segment_id: 's1' },
        { type: 'transcript.text.segment', id: 's1', start: 0, end: 1, text: 'Hi', speaker: 'A' },
        { type: 'transcript.text.done', text: 'Hi', logprobs, languages: [{ code: 'en' }] },
        '[DONE]',
      ),
    )
    const { done } = await official.hear({ stream: true })
    expect(done).toMatchObject({ text: 'Hi', language: 'en', logprobs })
  })

  it('treats a stream without an end as broken', async () => {
    vendor.answer(events({ type: 'transcript.text.delta', delta: 'Hi' }))
    expect(await failureOf(any.hear({ stream: true }))).toMatchObject({ failure: 'upstream_error' })
  })

  it('reports an error inside a stream', async () => {
    const error = { message: 'The server is overloaded.', code: 'overloaded_error' }
    vendor.answer(events({ type: 'transcript.text.delta', delta: 'Hi' }, { type: 'error', error }))
    expect(await failureOf(any.hear({ stream: true }))).toMatchObject({ failure: 'overloaded' })
  })

  it('uses xAI’s form', async () => {
    const words = [{ text: 'Hi.', start: 0, end: 1, speaker: 1 }]
    vendor.answer(json({ text: 'Hi.', duration: 2, words }))
    const { done } = await xai.hear({
      language: 'en',
      response_format: 'diarized_json',
      keywords: ['a', 'b'],
    })
    expect(last().path).toBe('/v1/stt')
    expect(form()).toEqual({
      language: 'en',
      format: 'true',
      keyterm: 'b',
      diarize: 'true',
      file: 'audio.wav audio/wav 64044',
    })
    expect(
      last()
        .body.toString()
        .match(/name="keyterm"/g),
    ).toHaveLength(2)
    expect(done.segments).toEqual([{ start: 0, end: 1, text: 'Hi.', speaker: 1 }])
  })
})

const RECORDED = ['openai', 'groq', 'mistral', 'xai']
describeRecorded('recorded audio', RECORDED, /audio|stt/, (recordings) => {
  const named = (name: string) => recordings.find((one) => one.name === name)!
  const RUBY = 'Ruby is a programming language designed for developer happiness.'

  it.each([
    ['openai/transcription-whisper-json', { seconds: 4 }],
    [
      'openai/transcription-stream',
      { promptTokens: 37, audioInputTokens: 37, completionTokens: 12 },
    ],
    [
      'mistral/transcription',
      { seconds: 3, promptTokens: 3, audioInputTokens: 3, completionTokens: 11 },
    ],
    ['xai/transcription', undefined],
  ])('reads the transcript of %s', async (name, usage) => {
    const recording = named(name)
    const text = recording.body.toString()
    const middle = Math.floor(text.length / 3)
    for (const answer of [
      whole(recording),
      byEvents(recording),
      { ...whole(recording), pieces: cutAt(recording.body, [1, middle, middle + 1, 2 * middle]) },
    ]) {
      vendor.answer(answer)
      const { done, deltas } = await (name.startsWith('xai') ? xai : any).hear({
        stream: recording.stream,
      })
      expect(done.text).toBe(RUBY)
      expect(done.usage).toEqual(usage)
      expect(deltas.join('')).toBe(recording.stream ? RUBY : '')
    }
  })

  it('reads the times of words', async () => {
    vendor.answer(whole(named('openai/transcription-verbose-json')))
    const { done } = await official.hear({ response_format: 'verbose_json' })
    expect(done).toMatchObject({ language: 'english', usage: { seconds: 37 } })
    expect(done.words![4]).toEqual({ word: 'robotic', start: 1.5, end: 2.0199999809265137 })
    vendor.answer(whole(named('xai/transcription')))
    const other = await xai.hear({ response_format: 'verbose_json' })
    expect(other.done.segments).toEqual([{ start: 0.121, end: 3.539, text: RUBY }])
    vendor.answer(whole(named('mistral/transcription-segments')))
    const third = await any.hear({ response_format: 'diarized_json' })
    expect(third.done.segments![1]).toMatchObject({ start: 9.1, end: 17.3, speaker: 'speaker_1' })
  })

  it('returns the sound byte for byte', async () => {
    for (const name of ['openai/speech-mp3', 'mistral/speech']) {
      const recording = named(name)
      vendor.answer(whole(recording))
      const bytes = await any.speak({ input: recording.request.body.input })
      const sent =
        name === 'mistral/speech'
          ? Buffer.from(JSON.parse(recording.body.toString()).audio_data, 'base64')
          : recording.body
      expect(bytes.equals(sent)).toBe(true)
    }
  })

  it('reads a transcript of text only', async () => {
    vendor.answer(whole(named('groq/transcription')))
    expect((await any.hear()).done.text).toBe('Hello from the Versal AISDK.')
  })
})
