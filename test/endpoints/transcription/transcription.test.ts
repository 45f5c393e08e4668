import { request as httpRequest } from 'node:http'
import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, eventsOf, type Answer as Got, type TestGateway } from '../../_setup.ts'
import { wav, webm } from '../audio/_sounds.ts'
import { formIn } from '../../providers/_audio.ts'
import { events, json, startUpstream, type FakeUpstream } from '../../upstream.ts'

const PATH = '/v1/audio/transcriptions'
const MIB = 1024 * 1024
const ajv = new Ajv2020({ strict: false })
const schemaOf = (name: string) =>
  ajv.compile(
    JSON.parse(readFileSync(new URL(`../../wire/schemas/${name}.json`, import.meta.url), 'utf8')),
  )
const FORMS = {
  json: schemaOf('transcription-json'),
  verbose_json: schemaOf('transcription-verbose-json'),
  diarized_json: schemaOf('transcription-diarized-json'),
} as const
const isEvent = schemaOf('transcription-stream-event')
const isError = schemaOf('error')

/** Prices that the files in `test/wire/examples` have too. */
const BY_TIME = { second: '0.0001' }
const BY_TOKEN = { audio: '0.000006', completion: '0.00001' }
const TOKENS = {
  type: 'tokens',
  input_tokens: 14,
  input_token_details: { text_tokens: 0, audio_tokens: 14 },
  output_tokens: 45,
  total_tokens: 59,
}
/** 2.6 seconds. */
const SOUND = wav(2.6)
const DATA_URL = `data:audio/wav;base64,${SOUND.toString('base64')}`

let vendor: FakeUpstream
let t: TestGateway

beforeAll(async () => {
  vendor = await startUpstream()
  const model = (pricing: object, capabilities: string[] = []) => ({
    modality: 'transcription' as const,
    pricing,
    capabilities: capabilities as [],
    deployments: [{ provider: 'vendor', model: 'stt' }],
  })
  t = await createTestGateway({
    server: { headTimeout: 0.5, keepAlive: 0.2 },
    providers: {
      mock: { use: 'mock' },
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } },
      hasty: {
        use: 'openai-compatible',
        options: { baseURL: `${vendor.url}/v1` },
        firstPartTimeout: 0.1,
      },
    },
    models: {
      'acme/timed': model(BY_TIME, ['TIMESTAMPS', 'DIARIZATION']),
      'acme/counted': model(BY_TOKEN, ['STREAMING', 'LOGPROBS', 'DIARIZATION']),
      'acme/plain': model(BY_TIME),
      'acme/slow': {
        ...model(BY_TIME),
        deployments: [{ provider: 'hasty', model: 'stt' }],
      },
      'mock/echo': {
        pricing: { prompt: '0', completion: '0' },
        deployments: [{ provider: 'mock', model: 'echo' }],
      },
    },
    routing: { cooldown: 0 },
  })
})
afterAll(async () => {
  await t.close()
  await vendor.close()
})

type Part = readonly [name: string, value: string | Blob, filename?: string]
const file = (bytes: Uint8Array<ArrayBuffer> = SOUND as never, type = 'audio/wav') =>
  ['file', new Blob([bytes], { type }), 'a.wav'] as const

async function hear(parts: readonly Part[], key = t.key.secret): Promise<Got> {
  const form = new FormData()
  for (const [name, value, filename] of parts) {
    if (typeof value === 'string') form.append(name, value)
    else form.append(name, value, filename)
  }
  const encoded = new Response(form)
  const body = Buffer.from(await encoded.arrayBuffer())
  return t.ask('POST', PATH, {
    key,
    body,
    headers: { 'content-type': encoded.headers.get('content-type')! },
  })
}

const timed = (...parts: Part[]) => hear([['model', 'acme/timed'], file(), ...parts])
const asked = () =>
  formIn(vendor.requests.at(-1)!.headers['content-type'], vendor.requests.at(-1)!.body)

async function taken(doing: () => Promise<unknown>): Promise<number> {
  const before = await t.balance()
  await doing()
  await expect.poll(() => t.gateway.running.size).toBe(0)
  return Number(before - (await t.balance())) / 1e12
}

const SEGMENTS = [
  { start: 0, end: 1.25, text: ' Turn left.' },
  { start: 1.25, end: 2.6, text: ' Then --> stop.\n\nNow.' },
]

describe('a transcript', () => {
  it('is JSON with what it cost by time', async () => {
    vendor.answer(json({ text: 'Turn left.', usage: { type: 'duration', seconds: 9 } }))
    const cost = await taken(async () => {
      const answer = await timed()
      expect(answer.headers['x-service-cost']).toBe('0.0009')
      expect(FORMS.json(answer.json)).toBe(true)
      expect(answer.json).toEqual({
        text: 'Turn left.',
        usage: {
          type: 'duration',
          seconds: 9,
          cost: 0.0009,
          cost_details: { second_cost: 0.0009 },
        },
      })
    })
    expect(cost).toBe(0.0009)
  })

  it('costs the length of the file in whole seconds where the vendor does not say', async () => {
    vendor.answer(json({ text: 'Turn left.' }))
    const { usage } = (await timed()).json
    expect(usage).toMatchObject({ seconds: 3, cost: 0.0003 })
  })

  it.each([1e12, 1e300])('costs no %d ms that its bytes cannot hold', async (duration) => {
    vendor.answer(json({ text: 'Turn left.' }))
    const cost = await taken(async () => {
      const { json: body } = await hear([
        ['model', 'acme/timed'],
        file(webm([0], { duration }) as never, 'audio/webm'),
      ])
      expect(body.usage).toMatchObject({ seconds: 1, cost: 0.0001 })
    })
    expect(cost).toBe(0.0001)
  })

  it('costs tokens where these have a price', async () => {
    vendor.answer(json({ text: 'Turn left.', usage: TOKENS }))
    const { json: body } = await hear([['model', 'acme/counted'], file()])
    expect(FORMS.json(body)).toBe(true)
    expect(body.usage).toEqual({
      ...TOKENS,
      cost: 0.000534,
      cost_details: { prompt_cost: 0.000084, completion_cost: 0.00045 },
    })
  })

  it('costs an estimate of tokens where the vendor does not count them', async () => {
    vendor.answer(json({ text: 'Turn left.' }))
    const { usage } = (await hear([['model', 'acme/counted'], file()])).json
    // Ten tokens for each of three seconds, and four characters a token.
    expect(usage).toMatchObject({ input_tokens: 30, output_tokens: 3, cost: 0.00021 })
  })

  it('may be text, with the cost in the header', async () => {
    vendor.answer(json({ text: 'Turn left.' }))
    const answer = await timed(['response_format', 'text'])
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8')
    expect([answer.text, answer.headers['x-service-cost']]).toEqual(['Turn left.\n', '0.0003'])
    expect(asked().response_format).toBe('json')
  })

  it.each([
    [
      'srt',
      '1\n00:00:00,000 --> 00:00:01,250\nTurn left.\n\n2\n00:00:01,250 --> 00:00:02,600\nThen -> stop.\nNow.\n\n',
    ],
    [
      'vtt',
      'WEBVTT\n\n00:00:00.000 --> 00:00:01.250\nTurn left.\n\n00:00:01.250 --> 00:00:02.600\nThen -> stop.\nNow.\n\n',
    ],
  ])('may be %s', async (format, text) => {
    vendor.answer(json({ text: 'Turn left.', duration: 2.6, segments: SEGMENTS }))
    const answer = await timed(['response_format', format])
    expect(answer.text).toBe(text)
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(asked()).toMatchObject({
      response_format: 'verbose_json',
      'timestamp_granularities[]': 'segment',
    })
  })

  it('may have cues full of blanks', async () => {
    const text = `a${' '.repeat(400_000)}b\r\r\nc`
    vendor.answer(json({ text, segments: [{ start: 0, end: 1, text }] }))
    const { text: cues } = await timed(['response_format', 'vtt'])
    expect(cues.replace(/ {9,}/, ' ')).toBe('WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na b\nc\n\n')
  })

  it('may have times, with all the members readers want', async () => {
    const words = [{ word: 'Turn', start: 0, end: 0.5 }]
    vendor.answer(
      json({ text: 'Turn left.', language: 'en', duration: 2.6, segments: SEGMENTS, words }),
    )
    const { json: body } = await timed(
      ['response_format', 'verbose_json'],
      ['timestamp_granularities[]', 'word'],
      ['timestamp_granularities[]', 'segment'],
    )
    expect(FORMS.verbose_json(body), JSON.stringify(FORMS.verbose_json.errors)).toBe(true)
    expect(body).toMatchObject({ task: 'transcribe', language: 'english', duration: 2.6, words })
    expect(body.segments[1]).toMatchObject({ id: 1, start: 1.25, tokens: [], no_speech_prob: 0 })
  })

  it('has the times that were asked for, and made of words if need be', async () => {
    const words = [
      { word: 'Turn', start: 0, end: 0.5 },
      { word: 'left.', start: 0.5, end: 1 },
    ]
    vendor.answer(json({ text: 'Turn left.', language: 'german', words }))
    const segments = await timed(['response_format', 'verbose_json'])
    expect(segments.json.words).toBeUndefined()
    expect(segments.json.segments).toMatchObject([{ start: 0, end: 1, text: 'Turn left.' }])
    const only = await timed(
      ['response_format', 'verbose_json'],
      ['timestamp_granularities', 'word'],
    )
    expect(only.json).toMatchObject({ language: 'german', words })
    expect(only.json.segments).toBeUndefined()
  })

  it('may tell speakers apart', async () => {
    const segments = [
      { start: 4, end: 5, text: 'Yes?', speaker: 1 },
      { start: 0, end: 4, text: 'Hello.', speaker: 'agent' },
    ]
    vendor.answer(json({ text: 'Hello. Yes?', duration: 5, segments }))
    const { json: body } = await timed(['response_format', 'diarized_json'])
    expect(FORMS.diarized_json(body), JSON.stringify(FORMS.diarized_json.errors)).toBe(true)
    expect(body.segments.map((one: any) => [one.id, one.text, one.speaker])).toEqual([
      ['seg_001', 'Hello.', 'agent'],
      ['seg_002', 'Yes?', 'B'],
    ])
    vendor.answer(json({ text: 'Hello. Yes?', duration: 5 }))
    expect((await timed(['response_format', 'diarized_json'])).status).toBe(502)
  })

  it('that is no text is an error', async () => {
    vendor.answer(json({ text: 5 }))
    const answer = await timed()
    expect(answer).toMatchObject({ status: 502, json: { error: { code: 'upstream_error' } } })
  })

  it.each<[object]>([
    [{ duration: 'long' }],
    [{ duration: -3 }],
    [{ language: 7 }],
    [{ segments: [{ start: 'x', end: 1, text: 'a' }] }],
    [{ segments: [null] }],
    [{ words: [{ word: 7, start: 0, end: 1 }] }],
  ])('does without %j', async (said) => {
    vendor.answer(json({ text: 'Turn left.', segments: SEGMENTS, ...said }))
    const { status, json: got } = await timed(['response_format', 'verbose_json'])
    expect(status).toBe(200)
    expect(FORMS.verbose_json(got), ajv.errorsText(FORMS.verbose_json.errors)).toBe(true)
  })

  it('of silence is nothing, and costs what silence costs', async () => {
    vendor.answer(json({ text: '', duration: 2.6, segments: [] }))
    expect((await timed()).json).toMatchObject({ text: '', usage: { cost: 0.0003 } })
    expect((await timed(['response_format', 'srt'])).text).toBe('')
    expect((await timed(['response_format', 'vtt'])).text).toBe('WEBVTT\n\n')
  })

  it('has subtitles with times, however absurd the vendor’s are', async () => {
    const segments = [{ start: 1e306, end: 1e308, text: 'Left.' }]
    vendor.answer(json({ text: 'Left.', segments }))
    const { text } = await timed(['response_format', 'srt'])
    expect(text).toContain('99:59:59,999 --> 99:59:59,999')
  })

  it('that fails is free', async () => {
    vendor.answer(
      json(
        { error: { message: 'Audio file is corrupt', code: 'invalid_audio', param: 'file' } },
        400,
      ),
    )
    const cost = await taken(async () => {
      const answer = await timed()
      expect([answer.status, answer.json.error.code]).toEqual([400, 'invalid_audio'])
    })
    expect(cost).toBe(0)
  })
})

describe('a transcript as it is heard', () => {
  const stream = (...parts: Part[]) =>
    hear([['model', 'acme/counted'], file(), ['stream', 'true'], ...parts])
  const delta = (text: string, more: object = {}) => ({
    type: 'transcript.text.delta',
    delta: text,
    ...more,
  })

  it('comes piece by piece, with the cost at last', async () => {
    const done = { type: 'transcript.text.done', text: 'Turn left.', usage: TOKENS }
    vendor.answer(events(delta('Turn'), delta(' left.'), done, '[DONE]'))
    const answer = await stream()
    expect(asked().stream).toBe('true')
    const got = eventsOf(answer.text)
    for (const event of got) expect(isEvent(event), JSON.stringify(event)).toBe(true)
    expect(got).toEqual([
      delta('Turn'),
      delta(' left.'),
      {
        ...done,
        usage: {
          ...TOKENS,
          cost: 0.000534,
          cost_details: { prompt_cost: 0.000084, completion_cost: 0.00045 },
        },
      },
    ])
    expect(answer.text).not.toContain('[DONE]')
  })

  it('comes in one piece of a model that cannot stream', async () => {
    vendor.answer(json({ text: 'Turn left.' }))
    const answer = await hear([['model', 'acme/plain'], file(), ['stream', '1']])
    expect(asked()).not.toHaveProperty('stream')
    const [first, last, ...rest] = eventsOf(answer.text)
    expect([first, rest]).toEqual([delta('Turn left.'), []])
    expect(last).toMatchObject({ text: 'Turn left.', usage: { type: 'duration', seconds: 3 } })
  })

  it('of a model that cannot stream takes as long as a whole one', async () => {
    // Longer than the beginning of a stream may take.
    vendor.answer({ ...json({ text: 'Turn left.' }), pauseMs: 1200 })
    const answer = await hear([['model', 'acme/slow'], file(), ['stream', 'true']])
    expect(answer.text).toMatch(/^(: keep-alive\n\n)+data: /)
    expect([answer.status, eventsOf(answer.text).at(-1)]).toMatchObject([
      200,
      { text: 'Turn left.' },
    ])
  })

  it('names speakers', async () => {
    const segments = [
      { start: 0, end: 4, text: 'Hello.', speaker: 0 },
      { start: 4, end: 5, text: 'Yes?', speaker: 1 },
    ]
    vendor.answer(json({ text: 'Hello. Yes?', duration: 5, segments }))
    const form = [['model', 'acme/timed'], file(), ['stream', 'true']] as const
    const answer = await hear([...form, ['response_format', 'diarized_json']])
    const got = eventsOf(answer.text)
    for (const event of got) expect(isEvent(event), JSON.stringify(event)).toBe(true)
    expect(got.slice(0, 4)).toEqual([
      delta('Hello.', { segment_id: 'seg_001' }),
      { type: 'transcript.text.segment', id: 'seg_001', ...segments[0], speaker: 'A' },
      delta('Yes?', { segment_id: 'seg_002' }),
      { type: 'transcript.text.segment', id: 'seg_002', ...segments[1], speaker: 'B' },
    ])
  })

  it('has log probabilities only where they were asked for', async () => {
    const logprobs = [{ token: 'Hi', logprob: -0.1, bytes: [72, 105] }]
    const done = { type: 'transcript.text.done', text: 'Hi', logprobs, usage: TOKENS }
    vendor.answer(events(delta('Hi', { logprobs }), done))
    expect((await stream()).text).not.toContain('logprobs')
    const got = eventsOf((await stream(['include[]', 'logprobs'])).text)
    expect(got.map((event) => event.logprobs)).toEqual([logprobs, logprobs])
  })

  it('says that it broke, and what was heard is paid', async () => {
    vendor.answer({ ...events(delta('Turn')), ending: 'cut' })
    let told = 0
    const cost = await taken(async () => {
      const { text } = await stream()
      expect(text).toContain('\n\nevent: error\ndata: {"type":"error","error":{')
      const event = JSON.parse(text.split('event: error\ndata: ')[1]!)
      expect(isEvent(event)).toBe(true)
      expect(event.error.code).toBe('upstream_error')
      told = event.error.usage.cost
    })
    expect(cost).toBe(told)
    expect(told).toBeGreaterThan(0)
  })

  it.each(['srt', 'vtt', 'verbose_json'])('cannot be %s', async (format) => {
    const { status, json: body } = await stream(['response_format', format])
    expect([status, body.error.code, body.error.param]).toEqual([
      400,
      'unsupported_value',
      'response_format',
    ])
  })
})

describe('a file to be heard', () => {
  it('is known by its bytes, whatever it is called, and before the model is', async () => {
    vendor.answer(json({ text: 'Hi.' }))
    const flac = Buffer.concat([Buffer.from('fLaC\0\0\0\x22', 'latin1'), Buffer.alloc(60)])
    const blob = new Blob([flac as never], { type: 'application/octet-stream' })
    const answer = await hear([
      ['file', blob, 'blob'],
      ['model', 'acme/timed'],
    ])
    expect(answer.status).toBe(200)
    expect(asked().file).toBe(`audio.flac audio/flac ${flac.length}`)
  })

  it('may be a part without a name or a type', async () => {
    vendor.answer(json({ text: 'Hi.' }))
    const head = '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    const tail =
      '\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nacme/timed\r\n--b--\r\n'
    const body = Buffer.concat([Buffer.from(head), SOUND, Buffer.from(tail)])
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    expect((await t.ask('POST', PATH, { body, headers })).json.text).toBe('Hi.')
    expect(asked().file).toBe(`audio.wav audio/wav ${SOUND.length}`)
  })

  it.each([
    ['file', { file: DATA_URL }],
    ['audio', { audio: DATA_URL }],
    ['audio_url', { audio_url: DATA_URL }],
    ['file_url', { file_url: DATA_URL, file: null }],
    ['input_audio', { input_audio: { data: SOUND.toString('base64url'), format: 'wav' } }],
  ])('may be in JSON, as %s', async (_name, body) => {
    vendor.answer(json({ text: 'Hi.' }))
    const answer = await t.ask('POST', PATH, { body: { model: 'acme/timed', ...body } })
    expect(answer.json.text).toBe('Hi.')
    expect(asked().file).toBe(`audio.wav audio/wav ${SOUND.length}`)
  })

  it.each([
    [{}, 'missing_required_parameter', 'file'],
    [{ file: 'https://example.com/a.wav' }, 'invalid_base64', 'file'],
    [{ file: 'data:audio/wav;base64,***' }, 'invalid_base64', 'file'],
    [{ file: 7 }, 'invalid_type', 'file'],
    [{ input_audio: { data: 'AAAA' } }, 'missing_required_parameter', 'input_audio.format'],
    [{ input_audio: { data: '%', format: 'wav' } }, 'invalid_base64', 'input_audio.data'],
    [
      {
        file: `data:image/png;base64,${Buffer.from('\x89PNG\r\n\x1a\n', 'latin1').toString('base64')}`,
      },
      'invalid_audio',
      'file',
    ],
    [{ file: 'data:text/plain;base64,SGVsbG8=' }, 'invalid_audio', 'file'],
    // Types become heads of requests to vendors.
    [{ file: 'data:audio/\u03a9;base64,SGVsbG8=' }, 'invalid_audio', 'file'],
    [{ input_audio: { data: 'AAAA', format: 'x\r\ny: z' } }, 'invalid_audio', 'input_audio.data'],
  ])('is refused in JSON: %j', async (body, code, param) => {
    const answer = await t.ask('POST', PATH, { body: { model: 'acme/timed', ...body } })
    expect([answer.status, answer.json.error.code, answer.json.error.param]).toEqual([
      400,
      code,
      param,
    ])
  })

  it('is refused when it is none, empty, or more than one', async () => {
    const model = ['model', 'acme/timed'] as const
    for (const [parts, code] of [
      [[model], 'missing_required_parameter'],
      [[model, file(new Uint8Array(0) as never)], 'invalid_audio'],
      [[model, file(new TextEncoder().encode('%PDF-1.7 hello') as never)], 'invalid_audio'],
      [[model, file(), file()], 'invalid_value'],
    ] as const) {
      const answer = await hear(parts)
      expect([answer.status, answer.json.error.code, answer.json.error.param]).toEqual([
        400,
        code,
        'file',
      ])
    }
  })

  it('may have 25 MiB, and not a byte more', async () => {
    vendor.answer(json({ text: 'Hi.' }))
    const largest = Buffer.alloc(25 * MIB)
    SOUND.copy(largest)
    const model = ['model', 'acme/timed'] as const
    expect((await hear([model, file(largest as never)])).status).toBe(200)
    const url = `data:audio/wav;base64,${Buffer.concat([largest, Buffer.alloc(1)]).toString('base64')}`
    const inJson = await t.ask('POST', PATH, {
      body: { model: 'acme/timed', file: url, stream: 7 },
    })
    expect([inJson.status, inJson.json.error.code, inJson.json.error.param]).toEqual([
      413,
      'file_too_large',
      'file',
    ])
  })

  it('is refused while it is sent, as soon as it is too large', async () => {
    const answered = await new Promise<{ status: number; body: string; sent: number }>(
      (resolve, reject) => {
        let sent = 0
        const request = httpRequest(
          t.url + PATH,
          {
            method: 'POST',
            headers: {
              authorization: `Bearer ${t.key.secret}`,
              'content-type': 'multipart/form-data; boundary=b',
            },
          },
          (response) => {
            let body = ''
            response.on('data', (piece: Buffer) => (body += piece.toString()))
            response.once('end', () => {
              stopped = true
              request.destroy()
              resolve({ status: response.statusCode!, body, sent })
            })
          },
        )
        let stopped = false
        request.on('error', (error) => (stopped ? undefined : reject(error)))
        request.write(
          '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
        )
        const piece = Buffer.alloc(MIB)
        // Would go on for a gigabyte.
        const more = () => {
          if (stopped || sent > 1024 * MIB) return
          sent += piece.length
          request.write(piece, more)
        }
        more()
      },
    )
    expect(answered.status).toBe(413)
    expect(JSON.parse(answered.body).error).toMatchObject({ code: 'file_too_large', param: 'file' })
    expect(answered.sent).toBeLessThan(128 * MIB)
  })
})

describe('a request for a transcript', () => {
  it.each([
    [['model', ''], 'empty_string', 'model'],
    [['language', 'english please'], 'invalid_value', 'language'],
    [['response_format', 'xml'], 'invalid_value', 'response_format'],
    [['temperature', '1.5'], 'decimal_above_max_value', 'temperature'],
    [['temperature', 'hot'], 'invalid_type', 'temperature'],
    [['include[]', 'everything'], 'invalid_value', 'include[0]'],
    [['timestamp_granularities[]', 'letter'], 'invalid_value', 'timestamp_granularities[0]'],
    [['chunking_strategy', 'never'], 'invalid_value', 'chunking_strategy'],
    [['chunking_strategy[type]', 'client_vad'], 'invalid_value', 'chunking_strategy.type'],
    [
      ['known_speaker_references[]', 'https://x.example'],
      'invalid_base64',
      'known_speaker_references[0]',
    ],
    [['stream', 'maybe'], 'invalid_type', 'stream'],
    [['policy', 'null'], 'invalid_policy', 'policy'],
    [['policy', '{'], 'invalid_policy', 'policy'],
  ] as const)('is refused: %j', async (part, code, param) => {
    const parts: Part[] = part[0] === 'model' ? [part] : [['model', 'acme/timed'], part]
    const { status, json: body } = await hear([...parts, file()])
    expect([status, body.error.code, body.error.param]).toEqual([400, code, param])
    expect(isError(body)).toBe(true)
  })

  it.each([
    ['acme/plain', 'response_format', 'srt', 'unsupported_value', 'response_format'],
    ['acme/plain', 'response_format', 'verbose_json', 'unsupported_value', 'response_format'],
    ['acme/plain', 'response_format', 'diarized_json', 'unsupported_value', 'response_format'],
    ['acme/plain', 'include[]', 'logprobs', 'unsupported_parameter', 'include'],
    ['mock/echo', 'prompt', 'x', 'wrong_endpoint', 'model'],
  ])('is refused where %s cannot honour %s=%s', async (model, name, value, code, param) => {
    const { status, json: body } = await hear([['model', model], [name, value], file()])
    expect([status, body.error.code, body.error.param]).toEqual([400, code, param])
  })

  it.each([
    ['without a key', { key: null }, 401, 'invalid_api_key'],
    [
      'without a boundary',
      { headers: { 'content-type': 'multipart/form-data' } },
      400,
      'invalid_multipart',
    ],
    [
      'that is no form',
      { headers: { 'content-type': 'multipart/form-data; boundary=b' } },
      400,
      'invalid_multipart',
    ],
    [
      'of another type',
      { headers: { 'content-type': 'text/plain' } },
      415,
      'unsupported_content_type',
    ],
    ['that is no JSON', { body: '{' }, 400, 'invalid_json'],
    [
      'for a model that is not there',
      { body: { model: 'acme/time', file: DATA_URL } },
      404,
      'model_not_found',
    ],
    [
      'whose body is larger than any file',
      { body: Buffer.alloc(36 * MIB + 1) },
      413,
      'request_too_large',
    ],
  ])('is refused %s', async (_why, options, status, code) => {
    const answer = await t.ask('POST', PATH, { body: { model: 'acme/timed' }, ...options })
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
  })

  it('may say everything in a form that there is in JSON', async () => {
    vendor.answer(json({ text: 'Hi.' }))
    await hear([
      ['model', 'acme/counted:online'],
      ['chunking_strategy[type]', 'server_vad'],
      ['chunking_strategy[threshold]', '0.5'],
      ['keywords[]', 'Sluicegate'],
      ['known_speaker_names[]', 'agent'],
      ['known_speaker_references[]', DATA_URL],
      ['language', 'en'],
      ['temperature', 'null'],
      ['response_format', 'null'],
      ['timestamp_granularities[]', 'segment'],
      ['policy', '{"version":1}'],
      file(),
    ])
    expect(asked()).toEqual({
      model: 'stt',
      response_format: 'json',
      'chunking_strategy[type]': 'server_vad',
      'chunking_strategy[threshold]': '0.5',
      'keywords[]': 'Sluicegate',
      'known_speaker_names[]': 'agent',
      'known_speaker_references[]': DATA_URL,
      language: 'en',
      file: `audio.wav audio/wav ${SOUND.length}`,
    })
  })
})

describe('a transcript under guard', () => {
  const keyWith = async (guard: object) =>
    (await t.newKey({ policy: { version: 1, bannedPatterns: ['secret'], guard } as never })).secret

  it('is not made with words that are forbidden', async () => {
    const key = await keyWith({ mode: 'block', onBlock: 'error' })
    const before = vendor.requests.length
    for (const part of [
      ['prompt', 'the secret'],
      ['keywords[]', 'secret'],
    ] as const) {
      const { status, json: body } = await hear([['model', 'acme/timed'], part, file()], key)
      expect([status, body.error.code]).toEqual([400, 'policy_violation'])
    }
    expect(vendor.requests.length).toBe(before)
  })

  it('is not shown with words that are forbidden, and was paid for', async () => {
    const key = await keyWith({ mode: 'block' })
    vendor.answer(json({ text: 'A secret.', words: [{ word: 'A', start: 0, end: 1 }] }))
    const cost = await taken(async () => {
      for (const format of ['json', 'text', 'verbose_json']) {
        const answer = await hear(
          [['model', 'acme/timed'], file(), ['response_format', format]],
          key,
        )
        expect([answer.status, answer.json.error.code]).toEqual([400, 'policy_violation'])
        expect(answer.json.error.usage).toMatchObject({
          type: 'duration',
          seconds: 3,
          cost: 0.0003,
        })
        expect(answer.headers['x-service-cost']).toBe('0.0003')
        expect(answer.text).not.toContain('A secret')
      }
    })
    expect(cost).toBe(0.0009)
  })

  it('is not shown with a language that is no language', async () => {
    const key = await keyWith({ mode: 'block' })
    vendor.answer(json({ text: 'Left.', language: 'a secret', duration: 3 }))
    const format = ['response_format', 'verbose_json'] as const
    const answer = await hear([['model', 'acme/timed'], file(), format], key)
    expect([answer.status, answer.json.error.code]).toEqual([400, 'policy_violation'])
  })

  it('ends where they begin when it is streamed', async () => {
    const key = await keyWith({ mode: 'block' })
    const says = (delta: string) => ({ type: 'transcript.text.delta', delta })
    vendor.answer(
      events(says('This is a '), says('sec'), says('ret.'), {
        type: 'transcript.text.done',
        text: 'This is a secret.',
        usage: TOKENS,
      }),
    )
    const answer = await hear([['model', 'acme/counted'], file(), ['stream', 'true']], key)
    expect(answer.text).not.toContain('sec')
    expect(answer.text).toContain('policy_violation')
  })

  it('says that no guard has checked the sound', async () => {
    const key = await keyWith({ mode: 'block' })
    vendor.answer(json({ text: 'Hello.' }))
    const answer = await hear([['model', 'acme/timed'], file()], key)
    expect(answer.json.guard).toMatchObject({ outcome: 'passed', unscanned: ['audio'] })
    expect(answer.headers['x-service-guard']).toMatch(/^outcome=passed/)
  })
})
