/**
 * `npm run torture -- fuzz-http`: raw requests with damaged heads, framing, targets and encodings, in pieces that are split
 * anywhere. None is a fault of the gateway's own, none is left without an end, and a request whose framing is ambiguous is
 * refused, with nothing after it read as another request.
 */
import { connect } from 'node:net'
import { splitRandomly } from '../../src/testing/splits.ts'
import { Bench, type Lane } from './_bench.ts'
import { MOCK_CONFIG } from './_bodies.ts'
import { patience } from '../_patience.ts'
import { answersIn, type RawAnswer } from './_connection.ts'
import { fuzz, type Fuzz } from './_fuzz.ts'
import { damageBytes } from './_json.ts'
import { pick, type Random } from './_random.ts'
import { readOptions, Run } from './_run.ts'
import { shrinkBytes } from './_shrink.ts'

interface Case {
  /** The bytes of the request, with {@link KEY} in place of the key. */
  readonly bytes: Buffer
  readonly seed: number
}

const options = readOptions({
  short: { count: 5_000, seconds: 15 },
  long: { count: 2_000_000, seconds: 7200 },
})
const run = new Run('fuzz-http', options)
const KEY = 'sk-of-the-lane'
/** No request here takes long. */
const PATIENCE_MS = 60_000 * patience()
/** The silence, in ms, after which a connection ends: while its first answer is awaited, and after it. */
const [PAUSE_MS, SHORT_PAUSE_MS] = [400, 10]
const LANES = 48
const CHAT = '/v1/chat/completions'

const METHODS = [
  'GET',
  'POST',
  'HEAD',
  'OPTIONS',
  'PUT',
  'DELETE',
  'TRACE',
  'CONNECT',
  'PATCH',
  'get',
  'QUERY',
  'P ST',
  '',
]
const TARGETS = [
  '/',
  '*',
  '//',
  '/v1',
  '/v1/models',
  '/v1/key',
  '/v1/credits',
  CHAT,
  '/v1/v1/models',
  '/livez',
  '/readyz',
  '/metrics',
  '/admin',
  '/admin/accounts',
  '/admin/../v1/key',
  '/v1/%6dodels',
  '/v1/models%00',
  '/v1/models/a%2Fb',
  '/v1/./models',
  '/v1/models?a=b',
  'http://h/v1/models',
  'h:443',
  '/v1/models#x',
  '\\v1',
  '/__proto__',
  '/constructor',
  `/${'a'.repeat(9000)}`,
  `/${'%2e'.repeat(50)}`,
  '/ü',
  '/v1/chat/completions/',
]
const FIELDS = [
  'Host: h',
  'Host: a, b',
  'Host:',
  'host: h\r\nhost: i',
  `authorization: Bearer ${KEY}`,
  'authorization: Basic x',
  `x-api-key: ${KEY}`,
  'content-type: application/json',
  'content-type: text/plain',
  'content-type: multipart/form-data',
  'content-type: multipart/form-data; boundary=x',
  'content-encoding: gzip',
  'content-encoding: gzip, br',
  'connection: close',
  'connection: upgrade\r\nupgrade: websocket',
  'expect: 100-continue',
  'expect: tea',
  'transfer-encoding: chunked',
  'transfer-encoding: gzip, chunked',
  'transfer-encoding: xchunked',
  'transfer-encoding : chunked',
  'content-length: 0',
  'content-length: 5',
  'content-length: -1',
  'content-length: 1e3',
  'content-length: 99999999999999999999',
  'content-length: +5',
  ' folded: x',
  'no colon',
  ': none',
  'x: \u0000',
  'x: ü',
  `x: ${'y'.repeat(20_000)}`,
  'x\n: y',
  '__proto__: x',
  'x-service-tag: a b',
  'accept: */*',
  'access-control-request-headers: x\u0001',
  'x-session-id: s',
  'keep-alive: timeout=0',
  'trailer: x',
]
const SMUGGLED = `GET /v1/key HTTP/1.1\r\nhost: h\r\nauthorization: Bearer ${KEY}\r\n\r\n`

function make(random: Random): Case {
  const body = JSON.stringify({ model: 'm/chat', messages: [{ role: 'user', content: 'Hi.' }] })
  const method = random(3) === 0 ? pick(random, METHODS) : 'POST'
  const target = random(3) === 0 ? pick(random, TARGETS) : CHAT
  const version =
    random(20) === 0
      ? pick(random, ['HTTP/1.0', 'HTTP/2.0', 'HTTP/1.1 ', '', 'HTTP/9'])
      : 'HTTP/1.1'
  const fields = ['host: h', `authorization: Bearer ${KEY}`, 'content-type: application/json']
  const chunked = random(3) === 0
  fields.push(chunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`)
  for (let n = random(5) - 2; n > 0; n--)
    fields.splice(random(fields.length + 1), 0, pick(random, FIELDS))
  if (random(8) === 0) fields.splice(random(fields.length), 1)
  if (random(60) === 0) fields.push(...Array.from({ length: 150 }, (_, i) => `x-${i}: y`))
  const sent = chunked
    ? `${body.length.toString(16)}${pick(random, ['', ';x=y', ' '])}\r\n${body}\r\n0\r\n\r\n`
    : body
  const after = random(4) === 0 ? SMUGGLED : ''
  const end = random(40) === 0 ? '\n' : '\r\n'
  const text = `${method} ${target} ${version}${end}${fields.join(end)}${end}${end}${sent}${after}`
  let bytes: Buffer = Buffer.from(text)
  if (random(2) === 0) for (let n = 1 + random(2); n > 0; n--) bytes = damageBytes(bytes, random)
  return { bytes, seed: random(2 ** 30) }
}

/**
 * Sends the pieces, reads one answer, and then says that no more comes. A request that the gateway takes for incomplete has
 * no answer: after a pause it is ended as well.
 */
function converse(
  url: string,
  pieces: readonly Uint8Array[],
  isComplete: (said: Buffer) => boolean,
): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    let received: Buffer = Buffer.alloc(0)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.setNoDelay(true)
    const end = () => void socket.end()
    const patience = setTimeout(() => {
      resolve(undefined)
      socket.destroy()
    }, PATIENCE_MS)
    let pause = setTimeout(end, PAUSE_MS)
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes])
      clearTimeout(pause)
      // What follows may have an answer too.
      pause = setTimeout(end, isComplete(received) ? SHORT_PAUSE_MS : PAUSE_MS)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(patience)
      clearTimeout(pause)
      resolve(received)
    })
    const left = [...pieces]
    const write = () => {
      const piece = left.shift()
      if (!piece || socket.destroyed) return
      socket.write(piece)
      setImmediate(write)
    }
    write()
  })
}

function piecesOf({ bytes, seed }: Case, { secret }: Lane): Uint8Array[] {
  const whole = Buffer.from(bytes.toString('latin1').replaceAll(KEY, secret), 'latin1')
  return seed % 3 === 0 ? splitRandomly(whole, (below) => seed % below, 12) : [whole]
}

async function play(one: Case, bench: Bench, number: number): Promise<string | undefined> {
  const lane = bench.lanes[number]!
  // What an incomplete request costs is not told.
  lane.hasLeft = true
  const isHead = one.bytes.subarray(0, 5).toString('latin1') === 'HEAD '
  const isComplete = (so: Buffer) => tryAnswers(so, isHead).some(({ whole }) => whole)
  const said = await converse(bench.gateway.url, piecesOf(one, lane), isComplete)
  if (!said) return `no end within ${PATIENCE_MS / 1000} s`
  const head = one.bytes.toString('latin1').split('\r\n\r\n', 1)[0]!
  const answers = answersIn(said, isHead)
  run.count(answers.map(({ status }) => status).join(', ') || 'nothing')
  return faultOf(answers) ?? (isAmbiguous(head) ? smuggling(answers) : undefined)
}

function tryAnswers(said: Buffer, isHead: boolean): RawAnswer[] {
  try {
    return answersIn(said, isHead)
  } catch {
    return []
  }
}

function faultOf(answers: readonly RawAnswer[]): string | undefined {
  for (const { status, headers, body } of answers) {
    if (status >= 500) return `${status}: ${body}`
    // What Node refuses by itself has no id.
    if (headers.has('x-request-id') || [400, 408, 417, 431].includes(status)) continue
    return `${status} without a request id`
  }
  return answers.length > 2 ? `${answers.length} answers` : undefined
}

/** Two lengths, or a length and chunks. */
function isAmbiguous(head: string): boolean {
  const lengths = new Set(
    [...head.matchAll(/\r\ncontent-length: *([^\r]*)/gi)].map(([, one]) => one),
  )
  return (
    lengths.size > 1 || (lengths.size > 0 && /\r\ntransfer-encoding: *chunked(\r|$)/i.test(head))
  )
}

function smuggling(answers: readonly RawAnswer[]): string | undefined {
  const [first, ...more] = answers
  if (more.length > 0) return `a request of ambiguous length has ${answers.length} answers`
  return first && first.status < 400
    ? `a request of ambiguous length is ${first.status}`
    : undefined
}

const suite: Fuzz<Case> = {
  lanes: LANES,
  perGateway: 100_000,
  open: () => Bench.open(MOCK_CONFIG, LANES, options.driver),
  make,
  play,
  async shrink(one, fails) {
    return { ...one, bytes: await shrinkBytes(one.bytes, (bytes) => fails({ ...one, bytes })) }
  },
  show: ({ bytes }) => JSON.stringify(bytes.toString('latin1').slice(0, 4000)),
}

await run.end(() => fuzz(run, suite))
