import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import google from '../../../providers/google.ts'
import { describeRecorded, whole } from '../../fixtures.ts'
import { cutAt, json, startUpstream, type FakeUpstream } from '../../upstream.ts'
import { failureOf, setUp, type Setup } from '../_audio.ts'
import { runs } from '../../_runs.ts'

const MODEL = { model: 'gemini-2.5-flash-preview-tts' }

let vendor: FakeUpstream
let plugin: Setup

beforeAll(async () => {
  vendor = await startUpstream()
  plugin = await setUp(google, {
    apiKey: 'k',
    baseURL: vendor.url,
    voices: { narrator: 'Umbriel' },
  })
})

afterAll(async () => {
  await plugin[Symbol.asyncDispose]()
  await vendor.close()
})

const samples = (bytes: Buffer, mimeType = 'audio/L16;codec=pcm;rate=24000') => ({
  inlineData: { mimeType, data: bytes.toString('base64') },
})
const answer = (parts: object[], more: object = {}) =>
  json({ candidates: [{ content: { parts }, finishReason: 'STOP', ...more }] })

describe('google speech', () => {
  it('requests sound in a voice of Google, and nothing else', async () => {
    vendor.answer(answer([samples(Buffer.alloc(480))]))
    const bytes = await plugin.speak({ response_format: 'pcm', speed: 2 }, MODEL)
    expect(bytes).toHaveLength(480)
    const { path, json: body } = vendor.requests.at(-1)!
    expect(path).toBe('/models/gemini-2.5-flash-preview-tts:generateContent')
    expect(body).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Hi.' }] }],
      generationConfig: {
        responseModalities: ['AUDIO'],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
      },
    })
  })

  it.each([
    ['narrator', 'Umbriel'],
    ['Zephyr', 'Zephyr'],
  ])('knows the voice %s as %s', async (voice, name) => {
    vendor.answer(answer([samples(Buffer.alloc(2))]))
    await plugin.speak({ voice, response_format: 'wav' }, MODEL)
    const { generationConfig } = vendor.requests.at(-1)!.json
    expect(generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig.voiceName).toBe(name)
  })

  it('makes wav at the rate that the vendor names', async () => {
    vendor.answer(
      answer([samples(Buffer.alloc(100), 'audio/L16;rate=16000'), samples(Buffer.alloc(60))]),
    )
    const wav = await plugin.speak({ response_format: 'wav' }, MODEL)
    expect([wav.readUInt32LE(24), wav.readUInt32LE(40)]).toEqual([16_000, 160])
  })

  it.each(['mp3', 'opus', 'aac', 'flac'] as const)('refuses %s', async (response_format) => {
    const before = vendor.requests.length
    const failure = await failureOf(plugin.speak({ response_format }, MODEL))
    expect(failure).toMatchObject({
      status: 400,
      code: 'unsupported_value',
      param: 'response_format',
    })
    expect(vendor.requests).toHaveLength(before)
  })

  it.each([
    [answer([{ text: 'No.' }]), 'upstream_error'],
    [answer([], { finishReason: 'SAFETY' }), 'content_blocked'],
    [json({ promptFeedback: { blockReason: 'SAFETY' } }), 'content_blocked'],
    [json({ error: { code: 503, status: 'UNAVAILABLE', message: 'later' } }), 'overloaded'],
    [json({ error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, 429), 'upstream_rate'],
  ])('fails without sound: %#', async (given, failure) => {
    vendor.answer(given)
    const speaking = plugin.speak({ response_format: 'pcm' }, MODEL)
    expect(await failureOf(speaking)).toMatchObject({ failure })
  })
})

describeRecorded('recorded speech', ['google'], /generateContent/, (recordings) => {
  const recording = recordings.find(({ name }) => name === 'google/speech-tts')
  it.skipIf(!recording)('is the samples of the answer, wherever it is cut', async () => {
    vendor.answer(whole(recording!))
    const bytes = await plugin.speak({ response_format: 'pcm' }, MODEL)
    const { candidates } = JSON.parse(recording!.body.toString())
    const { data } = candidates[0].content.parts[0].inlineData
    expect(bytes.equals(Buffer.from(data, 'base64'))).toBe(true)
    const { length } = recording!.body
    const position = fc.noBias(fc.integer({ min: 1, max: length - 1 }))
    const cuts = fc.uniqueArray(position, { minLength: 1, maxLength: 8, size: 'max' })
    await fc.assert(
      fc.asyncProperty(cuts, async (positions) => {
        vendor.answer({ ...whole(recording!), pieces: cutAt(recording!.body, positions) })
        const again = await plugin.speak({ response_format: 'pcm' }, MODEL)
        expect(again.equals(bytes)).toBe(true)
      }),
      { numRuns: runs(17) },
    )
  })
})
