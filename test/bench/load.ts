/**
 * The clients of the bench, in a process of their own: told one job at a time over the channel to the parent, they answer
 * with figures. Every answer is checked, in the timed part too, and the first wrong one ends the job with an error.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { Pool, type Dispatcher } from 'undici'
import type { Figures } from './judge.ts'
import { textEvents, textOf, TOKEN } from './upstream.ts'

/** Who is measured. */
export interface Target {
  /** Origin, without a slash at the end. */
  readonly url: string
  /** Whose CPU time and memory are read. */
  readonly pid: number
  readonly key: string
  /** Its answers have to state their cost and a request id. */
  readonly gateway: boolean
}

/**
 * `check` reads one answer of every kind to the last byte. Of the others, `lanes` are connections with one request each at
 * a time: `closed` asks again as soon as the answer is there, `open` every `everyMs` whether or not it is, `streams`
 * asks once and holds all streams open together, until they end or for `ms`.
 */
export interface Job {
  readonly kind: 'check' | 'closed' | 'open' | 'streams'
  /** A word `upstream.ts` knows. */
  readonly answer: string
  readonly lanes: number
  readonly requestBytes: number
  /** Not counted: compilers need tens of thousands of requests to do their best. */
  readonly warmRequests: number
  readonly ms: number
  readonly everyMs: number
  /** Streams that are still open at the end are cut. */
  readonly isCut?: boolean
}

const PATH = '/v1/chat/completions'
const TEXT = Buffer.from('"content":"')
const QUOTE = 0x22
const WORD_BYTES = TOKEN.trim().length
/** What the vendor's usage costs at the prices of `gateway.config.ts`, USD. */
const COST = 0.0045
const DONE = Buffer.from('data: [DONE]\n\n')
const ANSWERS = 'json-1k json-4k json-64k sse-fast-50 sse-coalesced-50 sse-paced-5-9'.split(' ')
/** Streams opened at a time: more would overflow the queue of waiting connections. */
const BATCH = 100
const PATIENCE_MS = 20_000
/** Slow machines do not wait for all the requests they should warm up with. */
const WARM_MS = 15_000

let target: Target
let headers: string[]
let pool: Pool
/** Bytes of a correct completion, by kind, system and key: found by `check`, expected ever after. */
const lengths = new Map<string, number>()
const lengthId = (answer: string) => `${answer} ${target.url} ${target.key}`
/**
 * The first wrong answer of the job under way. Each job has its own, because streams that the one before left open end
 * in errors.
 */
let wrong = Promise.withResolvers<never>()

/** The first wrong answer makes every figure worthless. Does not throw, because undici would catch it. */
function refuse(answer: string, what: string): void {
  wrong.reject(new Error(`${answer}: ${what}`))
}

/** Reads and checks one answer. `onText` is told how many text events came together, 0 for the head. */
function reader(
  answer: string,
  done: () => void,
  onText: (count: number) => void = () => {},
): Dispatcher.DispatchHandler {
  const events = textEvents(answer)
  let [bytes, count] = [0, 0]
  let rest: Buffer | undefined
  const last: Buffer[] = []
  return {
    onRequestStart() {},
    onResponseStart(_controller, status, { 'x-service-request-id': id }) {
      if (status !== 200) refuse(answer, `status ${status} instead of 200`)
      if (target.gateway && !id?.includes('req_')) refuse(answer, 'no X-Service-Request-Id')
      onText(0)
    },
    onResponseData(_controller, chunk) {
      bytes += chunk.length
      if (count < events) {
        const text = rest ? Buffer.concat([rest, chunk]) : chunk
        const end = text.lastIndexOf('\n') + 1
        rest = end < text.length ? text.subarray(end) : undefined
        const before = count
        for (let at = text.indexOf(TEXT); at >= 0 && at < end; at = text.indexOf(TEXT, at)) {
          const from = at + TEXT.length
          at = text.indexOf(QUOTE, from)
          // Guards hold words back and let them go with the blank behind in place of the one before.
          if (at - from >= WORD_BYTES) count++
        }
        if (count > before) onText(count - before)
      }
      if (count >= events) last.push(chunk)
    },
    onResponseEnd() {
      const end = last.length > 1 ? Buffer.concat(last) : (last[0] ?? DONE)
      const whole = lengths.get(lengthId(answer)) ?? bytes
      if (count !== events) refuse(answer, `${count} text events instead of ${events}`)
      if (bytes !== whole) refuse(answer, `${bytes} bytes instead of ${whole}`)
      if (target.gateway && end.lastIndexOf('"cost":') < 0) refuse(answer, 'no usage.cost')
      if (events > 0 && !end.subarray(-DONE.length).equals(DONE)) refuse(answer, 'no [DONE]')
      done()
    },
    onResponseError: (_controller, error) => refuse(answer, error.message),
  }
}

/** Waits for a free connection when all are taken. */
function send(body: Buffer, handler: Dispatcher.DispatchHandler): void {
  pool.dispatch({ path: PATH, method: 'POST', headers, body }, handler)
}

/** A chat request of that many bytes, in messages of at most 1 KB. */
function requestBody({ answer, requestBytes }: Job): Buffer {
  const messages = [{ role: 'system', content: `answer=${answer}; ` }]
  const stream = textEvents(answer) > 0
  const request = { model: 'bench/model', stream, max_tokens: 2000, messages }
  const frame = ',{"role":"user","content":""}'.length
  for (;;) {
    const missing = requestBytes - JSON.stringify(request).length - frame
    if (missing <= 0) return Buffer.from(JSON.stringify(request))
    messages.push({ role: 'user', content: 'word '.repeat(205).slice(0, missing) })
  }
}

async function check(job: Job): Promise<Figures> {
  for (const answer of ANSWERS) {
    const body = requestBody({ ...job, answer })
    const response = await pool.request({ path: PATH, method: 'POST', headers, body })
    const text = await response.body.text()
    const payloads = text.startsWith('{') ? [text] : (text.match(/(?<=^data: )\{.*$/gm) ?? [])
    const parts = payloads.map((payload) => JSON.parse(payload))
    const texts = parts.map(
      ({ choices: [one] = [] }) => (one?.message ?? one?.delta)?.content ?? '',
    )
    const billed = !target.gateway || parts.at(-1)?.usage?.cost === COST
    const right = texts.join('') === textOf(answer) && billed
    if (!right) throw new Error(`${answer}: wrong text or cost, status ${response.statusCode}`)
    if (textEvents(answer) === 0) lengths.set(lengthId(answer), Buffer.byteLength(text))
  }
  await sleep(job.ms)
  return { idleMb: memoryKb(target.pid) / 1024 }
}

async function closed(job: Job): Promise<Figures> {
  const body = requestBody(job)
  let [requests, events, running, stopping] = [0, 0, job.lanes, false]
  const onText = (count: number) => void (events += count)
  const finished = () => {
    requests++
    if (stopping) running--
    else send(body, reader(job.answer, finished, onText))
  }
  for (let i = 0; i < job.lanes; i++) send(body, reader(job.answer, finished, onText))
  const look = () => [performance.now() / 1000, requests, events, cpuMicros(target.pid)] as const
  const warmUntil = performance.now() + WARM_MS
  await until(() => requests >= job.warmRequests || performance.now() > warmUntil)
  const from = look()
  await sleep(job.ms)
  const to = look()
  stopping = true
  await until(() => running === 0)
  return {
    perSecond: (to[1] - from[1]) / (to[0] - from[0]),
    eventsPerSecond: (to[2] - from[2]) / (to[0] - from[0]),
    cpuMicros: (to[3] - from[3]) / (to[1] - from[1]),
    eventMicros: (to[3] - from[3]) / (to[2] - from[2]),
  }
}

/** Latency counts from when a request was due, so that one which had to wait for slow ones before it shows it. */
async function open(job: Job): Promise<Figures> {
  const body = requestBody(job)
  const latencies: number[] = []
  const firsts: number[] = []
  const start = performance.now()
  let [requests, running] = [0, 0]
  for (let due = start; due < start + job.ms; due += job.everyMs) {
    // Timers are late by a ms or two: the rest is waited for awake, when as a rule nothing is under way.
    await sleep(Math.max(0, due - performance.now() - 2))
    while (performance.now() < due) await turn()
    const finished = () => {
      running--
      if (++requests > job.warmRequests) latencies.push(performance.now() - due)
    }
    running += job.lanes
    for (let i = 0; i < job.lanes; i++) {
      let isFirst = requests > job.warmRequests
      const onText = (count: number) => {
        if (count === 0 || !isFirst) return
        isFirst = false
        firsts.push(performance.now() - due)
      }
      send(body, reader(job.answer, finished, onText))
    }
  }
  await until(() => running === 0)
  return {
    p50Ms: quantile(latencies, 0.5),
    p90Ms: quantile(latencies, 0.9),
    p99Ms: quantile(latencies, 0.99),
    maxMs: latencies.at(-1) ?? NaN,
    firstP50Ms: quantile(firsts, 0.5),
    firstP95Ms: quantile(firsts, 0.95),
    firstP99Ms: quantile(firsts, 0.99),
  }
}

/** Figures are of the time when all streams are open. */
async function streams(job: Job): Promise<Figures> {
  const body = requestBody(job)
  const idleKb = memoryKb(target.pid)
  const gaps: number[] = []
  let [opened, ended, events, watching] = [0, 0, 0, false]
  for (let i = 1; i <= job.lanes; i++) {
    let lastAt = NaN
    const onText = (count: number) => {
      if (count === 0) return void opened++
      const now = performance.now()
      if (watching && lastAt > 0) gaps.push(now - lastAt)
      if (watching) events += count
      lastAt = now
    }
    send(
      body,
      reader(job.answer, () => ended++, onText),
    )
    if (i % BATCH === 0 || i === job.lanes) await until(() => opened === i)
  }
  if (ended > 0) throw new Error(`${job.answer}: over before ${job.lanes} streams were open`)
  watching = true
  const fromMicros = cpuMicros(target.pid)
  const untilMs = performance.now() + job.ms
  await until(() => ended > 0 || performance.now() > untilMs)
  watching = false
  const perEvent = (cpuMicros(target.pid) - fromMicros) / events
  const openKb = memoryKb(target.pid)
  const kbPerStream = (openKb - idleKb) / job.lanes
  const perGb = job.lanes + (2 ** 20 - openKb) / kbPerStream
  await until(() => job.isCut || ended === job.lanes)
  return { cpuMicros: perEvent, gapP99Ms: quantile(gaps, 0.99), kbPerStream, perGb }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(1)
}

/** Sorts them. */
function quantile(values: number[], share: number): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN
}

/** Resident memory of a process in KB. NaN where there is no /proc. */
function memoryKb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readProc(pid, 'status'))?.[1] ?? NaN)
}

/** User and system time of a process, all threads, µs. NaN where there is no /proc. */
function cpuMicros(pid: number): number {
  let nanos = 0
  // proc(5) has it in ticks of 10 ms in `stat`, which are too coarse.
  for (const thread of threads(pid))
    nanos += Number(readProc(pid, `task/${thread}/schedstat`).split(' ')[0])
  return nanos > 0 ? nanos / 1000 : NaN
}

function threads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}

const JOBS = { check, closed, open, streams }

if (import.meta.main) {
  process.on('disconnect', () => process.exit())
  process.on('message', async (message: { target: Target; job: Job }) => {
    target = message.target
    wrong = Promise.withResolvers<never>()
    headers = ['content-type', 'application/json', 'authorization', `Bearer ${target.key}`]
    const timeouts = { headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS }
    pool = new Pool(target.url, { connections: message.job.lanes, ...timeouts })
    try {
      const figures = await Promise.race([JOBS[message.job.kind](message.job), wrong.promise])
      await pool.destroy()
      process.send!({ figures })
    } catch (error) {
      process.send!({ error: (error as Error).message })
    }
  })
}
