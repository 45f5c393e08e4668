import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import deepgram from '../../providers/deepgram.ts'
import { mp3 } from '../endpoints/audio/_sounds.ts'
import { describeRecorded, whole } from '../fixtures.ts'
import { json, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'
import { failureOf, setUp, type Setup } from './_audio.ts'

let vendor: FakeUpstream
let plugin: Setup

beforeAll(async () => {
  vendor = await startUpstream()
  plugin = await setUp(deepgram, {
    apiKey: 'secret',
    baseURL: vendor.url,
    voices: { anna: 'aura-2-julius-de' },
  })
})
afterAll(async () => {
  await plugin[Symbol.asyncDispose]()
  await vendor.close()
})

const last = () => vendor.requests.at(-1)!
const query = () => Object.fromEntries(new URL(last().path, 'http://x').searchParams)
const sound = (bytes: Buffer, type = 'audio/mpeg'): FakeResponse => ({
  headers: { 'content-type': type },
  pieces: [bytes],
})

const listened = (alternative: object, more: object = {}) =>
  json({
    metadata: { duration: 3.7, channels: 1 },
    results: { channels: [{ alternatives: [alternative], detected_language: 'en' }], ...more },
  })

describe('deepgram speech', () => {
  it('asks for the voice as part of the model, with the key as a token', async () => {
    vendor.answer(sound(mp3(3)))
    expect((await plugin.speak({ voice: 'thalia' }, { model: 'aura-2' })).equals(mp3(3))).toBe(true)
    expect(last().headers.authorization).toBe('Token secret')
    expect(last().json).toEqual({ text: 'Hi.' })
    expect(query()).toEqual({ model: 'aura-2-thalia-en', encoding: 'mp3' })
  })

  it.each([
    ['alloy', 'aura-2-thalia-en'],
    ['celeste-es', 'aura-2-celeste-es'],
    ['aura-2-zeus-en', 'aura-2-zeus-en'],
    ['anna', 'aura-2-julius-de'],
    [{ id: 'Thalia' }, 'aura-2-thalia-en'],
  ])('knows the voice %j', async (voice, model) => {
    vendor.answer(sound(mp3(1)))
    await plugin.speak({ voice }, { model: 'aura-2' })
    expect(query().model).toBe(model)
  })

  it('refuses an invalid voice', async () => {
    const failure = await failureOf(plugin.speak({ voice: 'a&b' }, { model: 'aura-2' }))
    expect(failure).toMatchObject({ status: 400, code: 'invalid_value', param: 'voice' })
  })

  it('makes wav and pcm from samples at 24 kHz', async () => {
    vendor.answer(sound(Buffer.alloc(48_000), 'audio/l16'))
    const wav = await plugin.speak({ response_format: 'wav' }, { model: 'aura-2' })
    expect(query()).toMatchObject({
      encoding: 'linear16',
      container: 'none',
      sample_rate: '24000',
    })
    expect([wav.toString('latin1', 0, 4), wav.readUInt32LE(40)]).toEqual(['RIFF', 48_000])
    expect(await plugin.speak({ response_format: 'pcm' }, { model: 'aura-2' })).toHaveLength(48_000)
  })
})

describe('deepgram transcripts', () => {
  it('sends the file as it is, and reads text, language and length', async () => {
    vendor.answer(listened({ transcript: 'Hello there.' }))
    const { done } = await plugin.hear({}, { model: 'nova-3' })
    expect(last().headers['content-type']).toBe('audio/wav')
    expect(last().body.toString('latin1', 0, 4)).toBe('RIFF')
    expect(query()).toEqual({ smart_format: 'true', model: 'nova-3', detect_language: 'true' })
    expect(done).toMatchObject({ text: 'Hello there.', language: 'en', duration: 3.7 })
    expect(done.usage).toEqual({ seconds: 3.7 })
  })

  it('requests speakers, key terms and the language', async () => {
    vendor.answer(
      listened(
        { transcript: 'Hi. Yes?' },
        {
          utterances: [
            { start: 0, end: 1, transcript: 'Hi.', speaker: 0 },
            { start: 1, end: 2, transcript: 'Yes?', speaker: 1 },
          ],
        },
      ),
    )
    const { done } = await plugin.hear(
      { response_format: 'diarized_json', language: 'en', keywords: ['Sluicegate'] },
      { model: 'nova-3' },
    )
    expect(query()).toEqual({
      smart_format: 'true',
      model: 'nova-3',
      language: 'en',
      utterances: 'true',
      diarize: 'true',
      keyterm: 'Sluicegate',
    })
    expect(done.segments!.map(({ speaker }) => speaker)).toEqual([0, 1])
  })

  it('has the language that the client asked for, where the vendor did not detect one', async () => {
    const channels = [{ alternatives: [{ transcript: 'Hallo.' }] }]
    vendor.answer(json({ metadata: { duration: 1 }, results: { channels } }))
    expect((await plugin.hear({ language: 'de' })).done.language).toBe('de')
  })

  it('reads silence as a transcript without words', async () => {
    vendor.answer(listened({ transcript: '', words: [] }))
    expect((await plugin.hear()).done.text).toBe('')
  })

  it('charges every channel', async () => {
    const channel = (transcript: string) => ({ alternatives: [{ transcript }] })
    vendor.answer(
      json({
        metadata: { duration: 10 },
        results: { channels: [channel('Hi.'), channel('Yes?')] },
      }),
    )
    const { done } = await plugin.hear()
    expect([done.text, done.usage]).toEqual(['Hi.\nYes?', { seconds: 20 }])
  })

  it('refuses a callback, which would send answers elsewhere', async () => {
    const options = { apiKey: 'k', listen: { callback: 'https://elsewhere.example' } }
    await expect(setUp(deepgram, options)).rejects.toThrow('callback')
  })

  it.each([
    [402, { err_code: 'ASR_PAYMENT_REQUIRED' }, 'upstream_balance', null],
    [403, { err_code: 'INSUFFICIENT_PERMISSIONS' }, 'upstream_auth', null],
    [404, {}, 'not_found', null],
    [413, {}, 'payload_too_large', null],
    [429, { err_code: 'TOO_MANY_REQUESTS' }, 'upstream_rate', null],
    [503, 'not JSON', 'overloaded', null],
    [500, {}, 'upstream_error', null],
    [500, { err_code: { toString: null }, err_msg: {} }, 'upstream_error', null],
    [400, { err_msg: 'Maximum of 2000 characters exceeded' }, 'bad_request', 'input'],
  ])('maps %i %j to its failure', async (status, body, failure, param) => {
    vendor.answer(json(body, status))
    expect(await failureOf(plugin.hear())).toMatchObject({ failure, param })
  })
})

it('has one status for a file that cannot be decoded, whatever the vendor has', async () => {
  vendor.answer(json({ err_code: 'X', err_msg: 'unsupported data' }, 413))
  expect(await failureOf(plugin.hear())).toMatchObject({ status: 400, code: 'invalid_audio' })
})

describeRecorded('deepgram as recorded', ['deepgram'], /./, (recordings) => {
  const named = (name: string) => recordings.find((one) => one.name === `deepgram/${name}`)!

  it('reads the transcript', async () => {
    vendor.answer(whole(named('listen-file')))
    const { done } = await plugin.hear({ response_format: 'verbose_json' })
    const text = 'Ruby is a programming language designed for developer happiness.'
    expect(done.text).toBe(text)
    expect(done.duration).toBeCloseTo(3.7, 3)
    expect(done.segments).toEqual([{ start: 0.16, end: 3.52, text }])
    expect(done.words!.at(-1)).toEqual({ word: 'happiness.', start: 2.96, end: 3.52 })
  })

  it('reads a transcript without utterances', async () => {
    vendor.answer(whole(named('listen-full')))
    const { done } = await plugin.hear({ response_format: 'diarized_json' })
    expect(done).toMatchObject({ language: 'en', duration: 36.744 })
    expect(done.segments!.length).toBeGreaterThan(2)
    expect(done.segments!.map(({ text }) => text).join(' ')).toBe(done.text)
    expect(new Set(done.segments!.map(({ speaker }) => speaker))).toEqual(new Set([0]))
  })

  it('returns the sound byte for byte', async () => {
    const recording = named('speak')
    vendor.answer(whole(recording))
    const bytes = await plugin.speak({ input: recording.request.body.text }, { model: 'aura-2' })
    expect(bytes.equals(recording.body)).toBe(true)
    expect(last().json).toEqual(recording.request.body)
    expect(query()).toEqual({ model: 'aura-2-thalia-en', encoding: 'mp3' })
  })

  it.each([
    ['error-400-corrupt', 'bad_request', 'invalid_audio', 'file'],
    ['error-401', 'upstream_auth', 'upstream_error', null],
  ])('maps the error %s', async (name, failure, code, param) => {
    vendor.answer(whole(named(name)))
    expect(await failureOf(plugin.hear())).toMatchObject({ failure, code, param })
  })
})
