/**
 * `npm run torture -- fuzz-vendor`: answers of every provider, damaged: bytes, events, their order, types, quantities,
 * statuses, headers, framing, cuts. Whatever a vendor says, the client gets an answer within the contract, never a 500, never
 * the vendor's key, and pays what the answer says; an untouched answer arrives, and produced text is not free.
 */
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { gzipSync } from 'node:zlib'
import type { UserConfig } from '../../src/config/config.ts'
import { parsePico } from '../../src/money/money.ts'
import { boundariesOf, cutAt, splitRandomly } from '../../src/testing/splits.ts'
import { dataUrl, pngOfPixels } from '../_documents.ts'
import { wav } from '../endpoints/audio/_sounds.ts'
import { Bench } from './_bench.ts'
import { examine } from './_contract.ts'
import { fuzz, type Fuzz } from './_fuzz.ts'
import { damage, damageBytes, toText } from './_json.ts'
import { pick, type Random } from './_random.ts'
import { readOptions, Run } from './_run.ts'
import { shrinkBytes } from './_shrink.ts'
import {
  VENDOR_KEY,
  VENDORS,
  vendorAnswers,
  type Operation,
  type VendorAnswer,
} from './_vendors.ts'
import { VendorServer, type Script } from './_vendor-server.ts'

/** How an answer is put on the wire. */
type Framing =
  | 'length'
  | 'chunked'
  | 'close'
  | 'short'
  | 'long'
  | 'cut'
  | 'reset'
  | 'hang'
  | 'noise'
  | 'early'

interface Case {
  readonly answer: VendorAnswer
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly framing: Framing
  /** Whether the body is damaged, or anything else. */
  readonly untouched: boolean
  readonly stream: boolean
  /** The seed of the splits. */
  readonly seed: number
}

const LANES = 12
/** No bill of these short answers comes near it. */
const MOST = parsePico('1000')
const options = readOptions({
  short: { count: 5_000, seconds: 25 },
  long: { count: 1_000_000, seconds: 7200 },
})
const run = new Run('fuzz-vendor', options)
const answers = await vendorAnswers()
process.stdout.write(
  `  ${answers.length} answers of ${new Set(answers.map(({ vendor }) => vendor)).size} vendors\n`,
)
const vendor = await VendorServer.start()

// --- damage ---

const STATUSES = [
  200, 201, 204, 301, 302, 400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 502, 503,
  504, 529, 599,
]
const TYPES = [
  'application/json',
  'text/event-stream',
  'text/html',
  'audio/mpeg',
  'application/octet-stream',
  '',
  'application/vnd.amazon.eventstream',
  'application/json; charset=utf-16',
]
const ABSURD = [-1, 0, 1.5, 1e7, 1e12, 2 ** 53, 1e308, '12', 'NaN', '', null, true, [], {}, [5]]
const QUANTITY = /token|count|seconds|duration|pages|usage|cost|searches|characters/i
const FRAMINGS: readonly Framing[] = ['close', 'short', 'long', 'cut', 'reset', 'noise', 'early']

function make(random: Random): Case {
  const answer = pick(random, answers)
  const seed = random(2 ** 30)
  const plain = { answer, status: answer.status, headers: answer.headers, body: answer.body, seed }
  const framing = random(2) === 0 ? 'length' : 'chunked'
  const kind = random(20)
  if (kind === 0) return { ...plain, framing, untouched: true, stream: answer.stream }
  let one: Case = { ...plain, framing, untouched: false, stream: answer.stream }
  for (let n = 1 + random(3); n > 0; n--) one = damaged(one, random)
  return one
}

function damaged(one: Case, random: Random): Case {
  const { body, headers } = one
  const kind = random(24)
  if (kind < 5) return { ...one, body: damageBytes(body, random) }
  if (kind < 15) return { ...one, body: damageParts(one, random) }
  if (kind < 17) return { ...one, status: pick(random, STATUSES) }
  if (kind === 17) return { ...one, headers: { ...headers, 'content-type': pick(random, TYPES) } }
  if (kind === 18) {
    const coding = pick(random, ['gzip', 'deflate', 'br', 'zstd', 'x'])
    const coded = random(2) === 0 && coding === 'gzip' ? gzipSync(body) : body
    return { ...one, body: coded, headers: { ...headers, 'content-encoding': coding } }
  }
  if (kind === 19) {
    const wait = pick(random, ['0', '-1', '1e9', 'soon', '3', '99999999999999999999', ''])
    return { ...one, status: 429, headers: { ...headers, 'retry-after': wait } }
  }
  if (kind === 20) return { ...one, stream: !one.stream }
  if (kind === 21) return { ...one, body: Buffer.alloc(0) }
  if (kind === 22 && random(100) === 0) return { ...one, framing: 'hang' }
  return { ...one, framing: pick(random, FRAMINGS) }
}

/** Damages the order of events, or what one of them says; a body without events is one. */
function damageParts({ answer, body }: Case, random: Random): Buffer {
  const type = answer.headers['content-type'] ?? ''
  const parts = cutAt(body, boundariesOf(body, type))
  const at = random(parts.length)
  if (parts.length > 1 && random(3) === 0) {
    switch (random(5)) {
      case 0:
        return Buffer.concat(parts.toSpliced(at, 1))
      case 1:
        return Buffer.concat(parts.toSpliced(at, 0, parts[at]!))
      case 2:
        return Buffer.concat(parts.toSpliced(at, 1).toSpliced(random(parts.length), 0, parts[at]!))
      case 3:
        return Buffer.concat(parts.slice(0, at))
      default:
        return Buffer.concat(
          parts.toSpliced(at, 0, ...Array.from({ length: 200 }, () => parts[at]!)),
        )
    }
  }
  const changed = type.includes('amazon')
    ? changeFrame(parts[at]!, random)
    : changeText(Buffer.from(parts[at]!).toString(), random)
  return Buffer.concat(parts.with(at, changed))
}

/** Changes the JSON of an event, or of a whole body; what is no JSON as bytes. */
function changeText(part: string, random: Random): Buffer {
  const start = part.search(/[{[]/)
  const end = Math.max(part.lastIndexOf('}'), part.lastIndexOf(']')) + 1
  try {
    const changed = changeValue(JSON.parse(part.slice(start, end)), random)
    return Buffer.from(part.slice(0, start) + toText(changed) + part.slice(end))
  } catch {
    return damageBytes(Buffer.from(part), random)
  }
}

const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString()),
  (text) => Buffer.from(text),
)

function changeFrame(frame: Uint8Array, random: Random): Uint8Array {
  try {
    const { headers, body } = codec.decode(frame)
    return codec.encode({ headers, body: changeText(Buffer.from(body).toString(), random) })
  } catch {
    return damageBytes(Buffer.from(frame), random)
  }
}

/** Half of the changes are to quantities, for which money is asked. */
function changeValue(value: unknown, random: Random): unknown {
  const places = quantitiesIn(value)
  if (places.length === 0 || random(2) === 0) return damage(value, random)
  const copy = structuredClone(value)
  const { path, name } = pick(random, places)
  const holder = path.reduce((one: any, step) => one[step], copy)
  const said = pick(random, ABSURD)
  holder[name] = said === 1e308 && random(2) === 0 ? Infinity : said
  return copy
}

function quantitiesIn(
  value: unknown,
  path: readonly string[] = [],
): { path: readonly string[]; name: string }[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, one]) => [
    ...(QUANTITY.test(name) ? [{ path, name }] : []),
    ...quantitiesIn(one, [...path, name]),
  ])
}

// --- the wire ---

function scriptOf({ status, headers, body, framing, seed }: Case): Script {
  const random: Random = (below) => seed % below
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const lengths: Partial<Record<Framing, string>> = {
    chunked: 'transfer-encoding: chunked',
    noise: 'transfer-encoding: chunked',
    close: 'connection: close',
    short: `content-length: ${body.length + 1 + random(100)}`,
    long: `content-length: ${Math.max(0, body.length - 1 - random(100))}`,
  }
  const framed = `${lengths[framing] ?? `content-length: ${body.length}`}\r\n`
  const head = Buffer.from(`HTTP/1.1 ${status} Said\r\n${fields.join('')}${framed}\r\n`)
  const pieces = splitRandomly(body, random, 8).filter((piece) => piece.length > 0)
  switch (framing) {
    case 'chunked': {
      const chunks = pieces.map((piece) =>
        Buffer.concat([
          Buffer.from(`${piece.length.toString(16)}\r\n`),
          piece,
          Buffer.from('\r\n'),
        ]),
      )
      return { pieces: [head, ...chunks, Buffer.from('0\r\n\r\n')], ending: 'next' }
    }
    case 'noise':
      return { pieces: [head, ...pieces], ending: 'close' }
    case 'cut':
      return {
        pieces: [Buffer.concat([head, body]).subarray(0, random(head.length + body.length))],
        ending: 'close',
      }
    case 'reset':
      return { pieces: [head, ...pieces.slice(0, -1)], ending: 'reset' }
    case 'hang':
      return { pieces: [head, ...pieces.slice(0, -1)], ending: 'hang' }
    case 'early': {
      const interim = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(random(40))
      return { pieces: [Buffer.from(interim), head, ...pieces], ending: 'next' }
    }
    case 'length':
      return { pieces: [head, ...pieces], ending: 'next' }
    default:
      return { pieces: [head, ...pieces], ending: 'close' }
  }
}

// --- the gateway ---

const PRICES: Readonly<Record<Operation, object>> = {
  chat: { prompt: '0.000001', completion: '0.000002000001' },
  images: { image: '0.04', prompt: '0.000005', completion: '0.00004' },
  edits: { image: '0.04', prompt: '0.000005', completion: '0.00004' },
  ocr: { page: '0.001' },
  speech: { character: '0.000015' },
  transcription: { second: '0.0001', prompt: '0.000001', completion: '0.000002' },
  embedding: { prompt: '0.00000002' },
  rerank: { prompt: '0.00000002', search_unit: '0.002' },
  moderation: { prompt: '0.0000001' },
}
const MODALITIES: Readonly<Record<Operation, string>> = {
  chat: 'chat',
  images: 'image',
  edits: 'image',
  ocr: 'ocr',
  speech: 'speech',
  transcription: 'transcription',
  embedding: 'embedding',
  rerank: 'rerank',
  moderation: 'moderation',
}
const CAPABILITIES: Readonly<Record<Operation, readonly string[]>> = {
  chat: ['STREAMING', 'TOOLS', 'VISION', 'STRUCTURED_OUTPUTS', 'REASONING', 'CHOICES', 'LOGPROBS'],
  images: ['STREAMING', 'REFERENCES'],
  edits: ['STREAMING', 'REFERENCES'],
  ocr: [],
  speech: [],
  transcription: ['STREAMING', 'TIMESTAMPS', 'DIARIZATION'],
  embedding: [],
  rerank: [],
  moderation: [],
}
const PATHS: Readonly<Record<Operation, string>> = {
  chat: '/v1/chat/completions',
  images: '/v1/images/generations',
  edits: '/v1/images/edits',
  ocr: '/v1/ocr',
  speech: '/v1/audio/speech',
  transcription: '/v1/audio/transcriptions',
  embedding: '/v1/embeddings',
  rerank: '/v1/rerank',
  moderation: '/v1/moderations',
}

function modelId({ name, vendor, operation, model, options }: VendorAnswer, lane: number): string {
  // Options belong to one answer.
  const own = options ? name.replace(/\W+/g, '-') : model.replace(/\W+/g, '-')
  return `${vendor}/${operation}-${own}-l${lane}`
}

function configuration(): UserConfig {
  const lanes = Array.from({ length: LANES }, (_, lane) => lane)
  // Answers that never end wait for these; untouched ones arrive at once.
  const settings = { timeout: 5, firstPartTimeout: 5, idleTimeout: 5 }
  const providers = lanes.flatMap((lane) =>
    Object.entries(VENDORS).map(([name, at]) => [
      `${name}-l${lane}`,
      { ...at(vendor.urlOf(lane)), ...settings },
    ]),
  )
  const models = answers.flatMap((answer) =>
    lanes.map((lane) => [
      modelId(answer, lane),
      {
        modality: MODALITIES[answer.operation],
        pricing: PRICES[answer.operation],
        capabilities: CAPABILITIES[answer.operation],
        deployments: [
          {
            provider: `${answer.vendor}-l${lane}`,
            model: answer.model,
            options: answer.options ?? {},
          },
        ],
      },
    ]),
  )
  return {
    providers: Object.fromEntries(providers),
    models: Object.fromEntries(models),
    routing: { cooldown: 0, attempts: 1 },
    log: { level: 'error' },
    fetch: { enabled: false },
  } as UserConfig
}

const PNG = dataUrl('image/png', pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)))
const SOUND = dataUrl('audio/wav', wav(0.05))

function requestOf({ answer, stream, seed }: Case, lane: number): Record<string, unknown> {
  const random: Random = (below) => (seed >> 4) % below
  const model = modelId(answer, lane)
  const streamed = stream ? { stream: true } : {}
  switch (answer.operation) {
    case 'chat': {
      const messages = [{ role: 'user', content: 'Say hello.' }]
      const usage = stream && random(2) === 0 ? { stream_options: { include_usage: true } } : {}
      return { model, messages, ...streamed, ...usage }
    }
    case 'images':
      return { model, prompt: 'A cat.', ...streamed }
    case 'edits':
      return { model, prompt: 'A cat.', images: [{ image_url: PNG }], ...streamed }
    case 'ocr':
      return { model, document: { type: 'image_url', image_url: PNG } }
    case 'speech': {
      const voice = answer.vendor === 'elevenlabs' ? 'anna' : 'thalia'
      const format = random(2) === 0 ? 'sse' : 'audio'
      return { model, input: 'Hello there.', voice, stream_format: format }
    }
    case 'embedding':
      return { model, input: 'Hello there.', encoding_format: pick(random, ['float', 'base64']) }
    case 'rerank':
      return { model, query: 'Hello', documents: ['Hello there.', 'Good day.'] }
    case 'moderation':
      return { model, input: 'Hello there.' }
    case 'transcription': {
      const response_format = pick(random, ['json', 'text', 'verbose_json'])
      return { model, file: SOUND, ...(stream ? streamed : { response_format }) }
    }
  }
}

async function play(one: Case, bench: Bench, number: number): Promise<string | undefined> {
  const { answer: recorded, untouched } = one
  const lane = bench.lanes[number]!
  vendor.answer(number, scriptOf(one))
  const path = PATHS[recorded.operation]
  const request = requestOf(one, number) as any
  const body = JSON.stringify(request)
  const head =
    `POST ${path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer ${lane.secret}\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`
  const answer = await lane.connection.exchange([head + body])
  const asked = {
    path,
    stream: request.stream === true || request.stream_format === 'sse',
    usageChunk: request.stream_options !== undefined,
    format: request.response_format ?? request.stream_format,
  }
  const { fault, cost, code } = examine(asked, answer)
  lane.spent += cost
  const { status } = answer
  run.count(`${recorded.operation} ${status} ${code ?? ''}`.trim())
  const about = `${recorded.name} (${path})`
  if (fault) return `${about}: ${status}: ${fault}`
  const text = answer.body.toString()
  if (status === 500 || code === 'internal_error') return `${about}: a fault of ours: ${text}`
  if (code && text.includes(VENDOR_KEY)) return `${about}: the key of the vendor is told`
  if (cost > MOST) return `${about}: a cost of ${cost}`
  if (untouched && recorded.good && (status !== 200 || code)) {
    return `${about}: an untouched answer is ${status}: ${text}`
  }
  return undefined
}

const suite: Fuzz<Case> = {
  lanes: LANES,
  perGateway: 50_000,
  open: () => Bench.open(configuration(), LANES, options.driver),
  make,
  play,
  async shrink(one, fails) {
    const body = await shrinkBytes(one.body, (shorter) =>
      fails({ ...one, body: shorter, untouched: false }),
    )
    return { ...one, body }
  },
  show: (one) => {
    const { answer, status, headers, body, framing, stream } = one
    const shown = { vendor: answer.name, stream, framing, status, headers }
    return `${JSON.stringify(shown)}\n${body.toString('latin1').slice(0, 4000)}`
  },
}

await run.end(() => fuzz(run, suite))
