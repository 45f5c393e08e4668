/** Speech and transcripts with the official client. */
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../_setup.ts'
import { secondsOf } from '../../src/endpoints/audio/length.ts'
import { wav } from '../endpoints/audio/_sounds.ts'
import { rejected } from './_setup.ts'

const SAID = 'Turn left at the mill. Then go on.'

let t: TestGateway
let client: OpenAI
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'audio-'))
  const ears = (
    options: object,
    capabilities: string[] = ['STREAMING', 'TIMESTAMPS', 'DIARIZATION'],
  ) => ({
    pricing: { second: '0.0001' },
    capabilities: capabilities as [],
    deployments: [{ provider: 'mock', model: 'ears', options: { reply: SAID, ...options } }],
  })
  t = await createTestGateway({
    providers: { mock: { use: 'mock' } },
    models: {
      'mock/voice': {
        pricing: { character: '0.000015' },
        deployments: [{ provider: 'mock', model: 'voice' }],
      },
      'mock/ears': ears({}),
      'mock/plain': ears({}, []),
      'mock/broken': ears({ error: { class: 'upstream_error', after: 2 } }),
    },
    routing: { cooldown: 0 },
  })
  client = new OpenAI({ baseURL: t.baseURL, apiKey: t.key.secret, maxRetries: 0 })
})
afterAll(async () => {
  await t.close()
  await rm(folder, { recursive: true })
})

describe('audio.speech', () => {
  it('streams into a file', async () => {
    const response = await client.audio.speech.create({
      model: 'mock/voice',
      voice: 'alloy',
      input: 'Twenty characters...',
      response_format: 'wav',
    })
    expect(response.headers.get('x-service-cost')).toBe('0.0003')
    const path = join(folder, 'speech.wav')
    await pipeline(Readable.fromWeb(response.body as never), createWriteStream(path))
    expect(secondsOf({ bytes: await readFile(path), mediaType: 'audio/wav' })).toBe(1)
  })

  it('raises the documented errors', async () => {
    const speech = { model: 'mock/voice', voice: 'alloy', input: 'Hello.' }
    const error = await rejected(client.audio.speech.create({ ...speech, response_format: 'flac' }))
    expect(error).toBeInstanceOf(OpenAI.BadRequestError)
    expect(error).toMatchObject({ code: 'unsupported_value', param: 'response_format' })
    const missing = await rejected(client.audio.speech.create({ ...speech, model: 'mock/vois' }))
    expect(missing).toBeInstanceOf(OpenAI.NotFoundError)
  })
})

describe('audio.transcriptions', () => {
  const SOUND = wav(1.5)
  const forms: readonly (readonly [string, () => Promise<any>])[] = [
    [
      'a stream of a file',
      async () => {
        const path = join(folder, 'heard.wav')
        await writeFile(path, SOUND)
        return createReadStream(path)
      },
    ],
    ['bytes', async () => toFile(SOUND, 'heard.wav')],
    ['bytes without a name', async () => toFile(new Uint8Array(SOUND))],
    ['a Response', async () => new Response(new Uint8Array(SOUND))],
    ['a File', async () => new File([new Uint8Array(SOUND)], 'heard.wav', { type: 'audio/wav' })],
  ]

  it.each(forms)('takes %s', async (_what, fileOf) => {
    const transcript: any = await client.audio.transcriptions.create({
      model: 'mock/ears',
      file: await fileOf(),
    })
    expect(transcript.text).toBe(SAID)
    expect(transcript.usage).toEqual({
      type: 'duration',
      seconds: 2,
      cost: 0.0002,
      cost_details: { second_cost: 0.0002 },
    })
  })

  it.each(forms.slice(0, 2))('writes every format, of %s', async (_what, fileOf) => {
    const create = async (response_format: string): Promise<any> =>
      client.audio.transcriptions.create({
        model: 'mock/ears',
        file: await fileOf(),
        response_format: response_format as 'json',
        ...(response_format === 'verbose_json' && {
          timestamp_granularities: ['word' as const, 'segment' as const],
        }),
      })
    expect((await create('json')).text).toBe(SAID)
    expect(await create('text')).toBe(`${SAID}\n`)
    expect(await create('srt')).toMatch(
      /^1\n00:00:00,000 --> 00:00:01,250\nTurn left at the mill\.\n/,
    )
    expect(await create('vtt')).toMatch(/^WEBVTT\n\n00:00:00\.000 --> 00:00:01\.250\nTurn left/)
    const verbose = await create('verbose_json')
    expect(verbose).toMatchObject({ language: 'english', duration: 2 })
    expect(verbose.words).toHaveLength(8)
    expect(verbose.segments[1]).toMatchObject({ id: 1, text: 'Then go on.', start: 1.25, end: 2 })
    const diarized = await create('diarized_json')
    expect(diarized.segments[0]).toMatchObject({ id: 'seg_001', speaker: 'A' })
  })

  it.each(['mock/ears', 'mock/plain'])('streams, whether %s can or not', async (model) => {
    const stream = await client.audio.transcriptions.create({
      model,
      file: await toFile(SOUND, 'heard.wav'),
      stream: true,
    })
    let said = ''
    let done: any
    for await (const event of stream) {
      if (event.type === 'transcript.text.delta') said += event.delta
      else done = event
    }
    expect(said).toBe(SAID)
    expect(done).toMatchObject({ text: SAID, usage: { type: 'duration', cost: 0.0002 } })
  })

  it('raises an error that comes in the middle of a stream', async () => {
    const stream = await client.audio.transcriptions.create({
      model: 'mock/broken',
      file: await toFile(SOUND, 'heard.wav'),
      stream: true,
    })
    const error = await rejected(
      (async () => {
        for await (const _event of stream);
      })(),
    )
    expect(error).toBeInstanceOf(OpenAI.APIError)
    expect(error.code).toBe('upstream_error')
  })

  it('raises the documented errors', async () => {
    const error = await rejected(
      client.audio.transcriptions.create({
        model: 'mock/plain',
        file: await toFile(SOUND, 'heard.wav'),
        response_format: 'srt',
      }),
    )
    expect(error).toBeInstanceOf(OpenAI.BadRequestError)
    expect(error).toMatchObject({ code: 'unsupported_value', param: 'response_format' })
  })
})
