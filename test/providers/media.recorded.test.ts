/** Recorded images, documents, sounds and transcripts: the same wherever the network splits them. */
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import deepgram from '../../providers/deepgram.ts'
import elevenlabs from '../../providers/elevenlabs.ts'
import mistral from '../../providers/mistral.ts'
import openaiCompatible from '../../providers/openai-compatible.ts'
import openai from '../../providers/openai.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import type { ProviderPlugin, Provider, SpeechInput } from '../../src/plugin.ts'
import { byEvents, describeRecorded, whole, type Recording } from '../fixtures.ts'
import { cutAt, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'
import { FILE } from './_audio.ts'
import { setUp, silent, type Setup } from './_chat.ts'
import { runs } from '../_runs.ts'
import { expectSame } from '../_same.ts'

/** Each recording is split this many times, at up to {@link MAX_SPLITS} places. */
const RUNS = runs(16)
const MAX_SPLITS = 8

const PLUGINS: Readonly<Record<string, readonly [ProviderPlugin<any, any>, object]>> = {
  deepgram: [deepgram, { apiKey: 'k' }],
  elevenlabs: [elevenlabs, { apiKey: 'k' }],
  groq: [openaiCompatible, { quirks: 'groq' }],
  mistral: [mistral, { apiKey: 'k' }],
  openai: [openai, { apiKey: 'k' }],
  openrouter: [openaiCompatible, { quirks: 'openrouter' }],
  xai: [openaiCompatible, { quirks: 'xai' }],
}
/** Mistral's own plugin has no audio; its recordings are read as those of an unknown vendor. */
const UNKNOWN = 'unknown'
const MEDIA = /images|ocr|audio|stt|listen|speak|speech/

describeRecorded('recorded media', Object.keys(PLUGINS), MEDIA, (recordings) => {
  let upstream: FakeUpstream
  const setups = new Map<string, Setup>()

  beforeAll(async () => {
    upstream = await startUpstream()
    const baseURL = upstream.url
    const download = async () => ({ bytes: Buffer.from('\x89PNG', 'latin1'), contentType: '' })
    for (const [vendor, [plugin, options]] of Object.entries(PLUGINS)) {
      setups.set(vendor, await setUp(plugin, { baseURL, ...options }, download))
    }
    setups.set(UNKNOWN, await setUp(openaiCompatible, { baseURL }))
  })

  afterAll(async () => {
    for (const setup of setups.values()) await setup[Symbol.asyncDispose]()
    await upstream.close()
  })

  async function outcome(recording: Recording, answer: FakeResponse): Promise<unknown> {
    const { vendor, path } = recording
    const isAudio = vendor === 'mistral' && path.includes('audio')
    const { provider } = setups.get(isAudio ? UNKNOWN : vendor)!
    upstream.answer(answer)
    try {
      return await ask(provider, recording)
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      return { status: error.status, code: error.code, message: error.message }
    }
  }

  it.each(recordings)('$name is the same wherever it is cut', async (recording) => {
    const expected = await outcome(recording, whole(recording))
    expect(isRefusal(expected)).toBe(recording.status !== 200)
    expect(await outcome(recording, byEvents(recording))).toEqual(expected)
    const position = fc.noBias(fc.integer({ min: 1, max: recording.body.length - 1 }))
    const cuts = fc.uniqueArray(position, { minLength: 1, maxLength: MAX_SPLITS, size: 'max' })
    await fc.assert(
      fc.asyncProperty(cuts, async (positions) => {
        const answer = { ...whole(recording), pieces: cutAt(recording.body, positions) }
        expectSame(await outcome(recording, answer), expected)
      }),
      { numRuns: RUNS },
    )
  })
})

function isRefusal(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'status' in value
}

/** What a provider makes of an answer, with all its events or bytes. */
async function ask(provider: Provider, { path, stream, request }: Recording): Promise<unknown> {
  const call = <In>(input: In) => ({
    input,
    model: path.includes('speak') ? 'aura-2-thalia-en' : String(request?.body?.model ?? 'm'),
    options: {},
    requestId: 'req_test',
    signal: new AbortController().signal,
    log: silent,
  })
  if (path.includes('ocr')) {
    const document = { kind: 'document', url: 'https://a.example/a.pdf' } as const
    return provider.ocr!(call({ document }))
  }
  if (path.includes('edits')) {
    const images = [{ bytes: new Uint8Array([1]), mediaType: 'image/png' }]
    return all(await provider.editImage!(call({ prompt: 'A cat.', images })))
  }
  if (path.includes('images')) return all(await provider.generateImage!(call({ prompt: 'A cat.' })))
  if (/audio\/speech|speak|text-to-speech/.test(path)) {
    const voice = 'alloy'
    const input: SpeechInput = { input: 'Hi.', voice, response_format: 'mp3' }
    const { bytes } = await provider.speech!(call(input))
    return Buffer.concat(await all(bytes))
  }
  const input = { file: FILE, response_format: 'verbose_json', stream } as const
  return all(await provider.transcribe!(call(input)))
}

/** The parts of a sequence; anything else as it is. */
async function all<T>(answer: AsyncIterable<T>): Promise<T[]>
async function all(answer: unknown): Promise<unknown>
async function all(answer: any): Promise<unknown> {
  if (!(Symbol.asyncIterator in answer)) return answer
  const parts: unknown[] = []
  for await (const part of answer) parts.push(part)
  return parts
}
