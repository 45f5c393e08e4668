/**
 * `npm run torture -- fuzz-json`: random requests for every route with a body: valid ones from a grammar, damaged ones, deep
 * and wide ones, compressed ones, forms where a route takes them. Each is answered within the contract, a valid one with 200; what `JSON.parse` takes is
 * never refused as `invalid_json`, and what it does not take always is; nothing is a fault of the gateway's own.
 */
import { gunzipSync, inflateSync, brotliDecompressSync, zstdDecompressSync } from 'node:zlib'
import { ROUTES } from '../../src/gateway/routes.ts'
import { fakeProvider, paymentsOf } from '../payments/_provider.ts'
import { CODINGS } from '../server/_hostile-bodies.ts'
import { Bench } from './_bench.ts'
import { GRAMMAR, MOCK_CONFIG } from './_bodies.ts'
import type { RawAnswer } from './_connection.ts'
import { examine } from './_contract.ts'
import { damageForm, formBytes, formOf } from './_forms.ts'
import { fuzz, type Fuzz } from './_fuzz.ts'
import { anyJson, damage, damageBytes, toText } from './_json.ts'
import { pick, type Random } from './_random.ts'
import { readOptions, Run } from './_run.ts'
import { shrinkBytes, shrinkJson } from './_shrink.ts'

interface Case {
  readonly path: string
  /** Decoded. */
  readonly body: Buffer
  readonly coding: string
  /** Damages the coded body. */
  readonly damage?: (coded: Buffer) => Buffer
  /** Whether the body comes from the grammar and is untouched. */
  readonly valid: boolean
  /** The content type of a form. */
  readonly contentType?: string
}

const options = readOptions({
  short: { count: 20_000, seconds: 20 },
  long: { count: 1_000_000, seconds: 7200 },
})
const run = new Run('fuzz-json', options)

/** Routes that take forms too. */
const FORMS = new Set(['/v1/images/edits', '/v1/audio/transcriptions'])
const paths = ROUTES.filter(({ method }) => method === 'POST').map(({ path }) => path)
for (const path of paths) {
  if (!GRAMMAR[path]) process.stdout.write(`SKIPPED: no grammar of valid requests for ${path}\n`)
}

/** Most requests are for chat, whose form has the most members. */
function pathOf(random: Random): string {
  return random(2) === 0 ? '/v1/chat/completions' : pick(random, paths)
}

function make(random: Random): Case {
  const path = pathOf(random)
  if (FORMS.has(path) && random(2) === 0) return makeForm(path, random)
  let value = GRAMMAR[path]?.(random) ?? anyJson(random)
  const kind = random(20)
  let valid = kind < 6 && GRAMMAR[path] !== undefined
  if (kind >= 6) for (let n = 1 + random(3); n > 0; n--) value = damage(value, random)
  let body: Buffer = Buffer.from(
    kind === 19 && random(20) === 0 ? hostile(random, value) : toText(value),
  )
  if (kind === 18) body = spaced(body, random)
  if (kind === 17 || kind === 16) body = damageBytes(body, random)
  if (valid && random(50) === 0) body = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), body])
  const coding = random(5) === 0 ? pick(random, Object.keys(CODINGS)) : 'identity'
  const corrupt = coding !== 'identity' && random(3) === 0
  valid &&= !corrupt
  // The damage is the same each time the case is played.
  const seed = random(2 ** 30)
  const damaging = (coded: Buffer) => damageBytes(coded, (below) => seed % below)
  return { path, body, coding, valid, ...(corrupt && { damage: damaging }) }
}

function makeForm(path: string, random: Random): Case {
  const value = GRAMMAR[path]!(random)
  const kind = random(10)
  const valid = kind < 3
  let form = formOf(kind === 3 || kind === 4 ? damage(value, random) : value, random)
  if (kind > 4) for (let n = 1 + random(2); n > 0; n--) form = damageForm(form, random)
  const bytes = formBytes(form)
  const body = kind > 7 ? damageBytes(bytes, random) : bytes
  const coding = random(10) === 0 ? pick(random, Object.keys(CODINGS)) : 'identity'
  return { path, body, coding, valid, contentType: form.contentType }
}

/** Deep, wide, long: bodies that are mostly structure. */
function hostile(random: Random, value: unknown): string {
  const times = pick(random, [100, 127, 128, 129, 1000, 20_000])
  const inner = pick(random, [
    `${'['.repeat(times)}${']'.repeat(times)}`,
    `${'{"a":'.repeat(times)}1${'}'.repeat(times)}`,
    `[${'0,'.repeat(times)}0]`,
    `{${'"":[],'.repeat(times)}"b":{}}`,
    '1'.repeat(times),
    `"${'\\"'.repeat(times)}"`,
    `${' '.repeat(times)}1`,
    `{"${'k'.repeat(times * 5)}":1}`,
    `"${'\\u00e9'.repeat(times)}"`,
  ])
  const text = toText(value)
  return text.startsWith('{') && text !== '{}' ? `{"x":${inner},${text.slice(1)}` : inner
}

/** The same JSON with white space around its structure. */
function spaced(body: Buffer, random: Random): Buffer {
  const blank = pick(random, [' ', '\n', '\t', '\r\n', '  '])
  const parts = body.toString().split(/("(?:[^"\\]|\\.)*")/)
  const spread = (part: string) => part.replace(/[[\]{},:]/g, (one) => `${blank}${one}${blank}`)
  return Buffer.from(parts.map((part, i) => (i % 2 === 0 ? spread(part) : part)).join(''))
}

const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  identity: (bytes) => bytes,
  gzip: (bytes) => gunzipSync(bytes),
  deflate: (bytes) => inflateSync(bytes),
  br: (bytes) => brotliDecompressSync(bytes),
  zstd: (bytes) => zstdDecompressSync(bytes),
}

async function play(one: Case, bench: Bench, number: number): Promise<string | undefined> {
  const lane = bench.lanes[number]!
  const coded = CODINGS[one.coding]!(one.body)
  const sent = one.damage?.(coded) ?? coded
  const head =
    `POST ${one.path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer ${lane.secret}\r\n` +
    `content-type: ${one.contentType ?? 'application/json'}\r\ncontent-length: ${sent.length}\r\n` +
    (one.coding === 'identity' ? '' : `content-encoding: ${one.coding}\r\n`)
  const answer = await lane.connection.exchange([Buffer.concat([Buffer.from(`${head}\r\n`), sent])])
  const isForm = one.contentType !== undefined
  const text = decoded(one.coding, sent)
    ?.toString()
    .replace(/^\ufeff/, '')
  const parsed = text === undefined || isForm ? undefined : parse(text)
  const asked = isForm ? takenFor(one.path, answer) : askedOf(one.path, parsed)
  const { fault, cost, code } = examine(asked, answer)
  lane.spent += cost
  const { status } = answer
  run.count(`${isForm ? 'form ' : ''}${status} ${code ?? ''}`.trim())
  if (fault) return `${one.path} ${status}: ${fault}`
  if (status >= 500) return `${one.path}: ${status} ${code}: ${answer.body}`
  // An account has so many open orders an hour.
  const isOneMore = one.path === '/v1/key/checkout' && code === 'rate_limited'
  if (one.valid && status !== 200 && !isOneMore)
    return `${one.path}: a valid request is ${status}: ${answer.body}`
  if (one.valid && code && !isOneMore) return `${one.path}: a valid request ends with ${code}`
  if (isForm) return undefined
  if (text === undefined) return status >= 400 ? undefined : 'corrupt, and taken'
  const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
  // What follows the end of a compressed body is refused, and ignored by the decoders here.
  if (isObject && !one.damage && code === 'invalid_json' && !maybeExcessive(text))
    return 'valid JSON is invalid_json'
  if (!isObject && status < 400) return 'invalid JSON is taken'
  if (!isObject && code !== 'invalid_json' && code !== 'request_too_large')
    return `invalid JSON is ${code}`
  return undefined
}

/** Whether a text might exceed one of the limits of structure: then it may be refused. */
function maybeExcessive(text: string): boolean {
  return (
    (text.match(/[[{]/g)?.length ?? 0) > 128 || /[\w.+-]{1024}/.test(text) || text.length > 65_536
  )
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function decoded(coding: string, bytes: Buffer): Buffer | undefined {
  try {
    return DECODERS[coding]!(bytes)
  } catch {
    return undefined
  }
}

function askedOf(path: string, body: any) {
  const format = body?.stream_format ?? body?.response_format
  return {
    path,
    stream: body?.stream === true || body?.stream_format === 'sse',
    usageChunk: body?.stream_options?.include_usage === true,
    format: typeof format === 'string' ? format : undefined,
  }
}

/** What a form that may be damaged was taken for: only the answer says. */
function takenFor(path: string, { headers, body }: RawAnswer) {
  const type = headers.get('content-type') ?? ''
  const isVerbose = type === 'application/json' && 'task' in JSON.parse(body.toString())
  const format = type.startsWith('text/plain') ? 'text' : isVerbose ? 'verbose_json' : 'json'
  return { path, stream: type.startsWith('text/event-stream'), format }
}

const suite: Fuzz<Case> = {
  lanes: 16,
  perGateway: 100_000,
  open: () => Bench.open({ ...MOCK_CONFIG, ...paymentsOf(fakeProvider()) }, 16, options.driver),
  make,
  play,
  async shrink(one, fails) {
    const value = one.damage || one.contentType ? undefined : parse(one.body.toString())
    let shorter = one
    if (value !== undefined) {
      const smallest = await shrinkJson(value, (v) =>
        fails({ ...one, body: Buffer.from(JSON.stringify(v)) }),
      )
      const body = Buffer.from(JSON.stringify(smallest))
      if (body.length < one.body.length) shorter = { ...one, body }
    }
    const body = await shrinkBytes(shorter.body, (b) =>
      fails({ ...shorter, body: b, valid: false }),
    )
    return { ...shorter, body }
  },
  show: ({ path, body, coding, contentType = 'application/json' }) =>
    `POST ${path} (${contentType}, ${coding}) ${body.toString().slice(0, 4000)}`,
}

await run.end(() => fuzz(run, suite))
