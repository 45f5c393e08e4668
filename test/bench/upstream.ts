/**
 * The vendor of the bench: answers at once and always the same, from buffers built beforehand. Plain sockets, because a
 * `node:http` server costs as much as the gateway may, and would be the limit. Any request text says what it wants:
 * `answer=json-4k;` a completion of exactly so many KB, `answer=sse-fast-200;` 200 text events with a send each,
 * `answer=sse-coalesced-200;` the same in one send, `answer=sse-paced-60-50;` 60 events, one every 50 ms for all streams
 * together, `answer=sse-paced-60-50-300;` the same once 300 streams have begun, `answer=sse-spread-60-1000;` 60 events, one every
 * second, each stream at its own moment.
 */
import { createServer, type Socket } from 'node:net'

/** What every text event says. */
export const TOKEN = ' token'

const ENVELOPE = { id: 'chatcmpl-bench', created: 1_790_000_000, model: 'model' }
const CHUNK = { ...ENVELOPE, object: 'chat.completion.chunk', system_fingerprint: 'fp_bench' }
const USAGE = {
  prompt_tokens: 500,
  completion_tokens: 1000,
  total_tokens: 1500,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
}

/** How many text events an answer such as `sse-fast-200` has; 0 for a completion. */
export function textEvents(answer: string): number {
  return answer.startsWith('sse-') ? Number(answer.split('-')[2]) : 0
}

/** What an answer says. */
export function textOf(answer: string): string {
  const frameBytes = JSON.stringify(completion('')).length
  const events = textEvents(answer)
  return events > 0 ? TOKEN.repeat(events) : words(parseInt(answer.slice(5)) * 1024 - frameBytes)
}

function words(length: number): string {
  return TOKEN.repeat(Math.ceil(length / TOKEN.length)).slice(0, length)
}

function completion(content: string): object {
  const message = { role: 'assistant', content, refusal: null, annotations: [] }
  const choices = [{ index: 0, message, logprobs: null, finish_reason: 'stop' }]
  return { ...ENVELOPE, object: 'chat.completion', choices, usage: USAGE }
}

/** Moments between two events of a stream, at which other streams have theirs. */
const PHASES = 50

/** Sends one kind of answer, from buffers built when it was first asked for. */
type Sender = (socket: Socket) => void
const senders = new Map<string, Sender>()

function senderOf(answer: string): Sender {
  const known = senders.get(answer)
  if (known) return known
  const sender =
    textEvents(answer) > 0 ? eventStream(answer) : whole(JSON.stringify(completion(textOf(answer))))
  senders.set(answer, sender)
  return sender
}

function whole(body: string): Sender {
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`
  const bytes = Buffer.from(`${head}\r\n\r\n${body}`)
  return (socket) => void socket.write(bytes)
}

function eventStream(answer: string): Sender {
  const [, pace, , everyMs, together = 1] = answer.split('-')
  const count = textEvents(answer)
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked'
  const role = delta({ role: 'assistant', content: '', refusal: null })
  const usage = event(JSON.stringify({ ...CHUNK, choices: [], usage: USAGE }))
  const text = delta({ content: TOKEN })
  const first = Buffer.from(`${head}\r\n\r\n${role}${text}`)
  const last = Buffer.from(`${delta({}, 'stop')}${usage}${event('[DONE]')}0\r\n\r\n`)
  const sends = [first, ...Array<Buffer>(count - 1).fill(Buffer.from(text)), last]
  if (pace === 'paced') return paced(sends, Number(everyMs), 1, Number(together))
  if (pace === 'spread') return paced(sends, Number(everyMs), PHASES, 1)
  const all = pace === 'coalesced' ? [Buffer.concat(sends)] : sends
  return (socket) => all.forEach((bytes) => socket.write(bytes))
}

/** The first send is made at once. One timer for all streams: a thousand cost no more than their bytes. */
function paced(
  [first, ...rest]: Buffer[],
  everyMs: number,
  phases: number,
  together: number,
): Sender {
  const waiting: Socket[] = []
  const byPhase = Array.from({ length: phases }, () => new Map<Socket, number>())
  let phase = 0
  setInterval(() => {
    phase = (phase + 1) % phases
    const sent = byPhase[phase]!
    for (const [socket, count] of sent) {
      socket.write(rest[count]!)
      if (count + 1 < rest.length && !socket.destroyed) sent.set(socket, count + 1)
      else sent.delete(socket)
    }
  }, everyMs / phases)
  return (socket) => {
    socket.write(first!)
    waiting.push(socket)
    if (waiting.length < together) return
    // Their turn was just now.
    for (const each of waiting.splice(0)) byPhase[phase]!.set(each, 0)
  }
}

function delta(delta: object, finish_reason: string | null = null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason }]
  return event(JSON.stringify({ ...CHUNK, choices, usage: null }))
}

/** One event, in an HTTP chunk of its own. */
function event(payload: string): string {
  const text = `data: ${payload}\n\n`
  return `${text.length.toString(16)}\r\n${text}\r\n`
}

function serve(socket: Socket): void {
  let bytes: Buffer = Buffer.alloc(0)
  socket.setNoDelay()
  socket.on('error', () => socket.destroy())
  socket.on('data', (received: Buffer) => {
    bytes = bytes.length > 0 ? Buffer.concat([bytes, received]) : received
    const end = bytes.indexOf('\r\n\r\n')
    if (end < 0) return
    const length = /\r\ncontent-length: (\d+)/i.exec(bytes.toString('latin1', 0, end))?.[1]
    if (!length) return void socket.end('HTTP/1.1 411 Length Required\r\n\r\n')
    if (bytes.length < end + 4 + Number(length)) return
    const asked = bytes.indexOf('answer=', end) + 'answer='.length
    senderOf(bytes.toString('latin1', asked, bytes.indexOf(';', asked)))(socket)
    // No client here sends a request before the last one is answered, so nothing follows it.
    bytes = Buffer.alloc(0)
  })
}

if (import.meta.main) createServer(serve).listen(Number(process.argv.at(-1)), '127.0.0.1')
