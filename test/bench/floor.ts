/**
 * The floor: the duties of a charged chat call in one hand-written file, over the same libraries as the gateway. A key by its
 * hash, rate, concurrency and spend cap, checks of the body, a hold, the vendor, the answer in its normal form, an exact price,
 * a settlement that is on disk before the last byte, a row of the request log, a line of the access log, counters. No guards, no
 * fail-over, no plugins, no other dialect. What the gateway costs above it is the price of its structure and of what it can do.
 */
import { hash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createParser } from 'eventsource-parser'
import { Pool, type Dispatcher } from 'undici'
import gateway from './gateway.config.ts'

const PATH = '/v1/chat/completions'
const MAX_BODY_BYTES = 32_000_000
/** Bodies above this are looked through for their depth before they are parsed. */
const DEEP_BYTES = 65_536
const MAX_DEPTH = 64
const DEFAULT_LIMIT = 16_384
const ROLES = new Set(['system', 'developer', 'user', 'assistant', 'tool', 'function'])
const REASONS = new Set(['length', 'content_filter', 'tool_calls'])
const EXPOSED =
  'X-Service-Request-Id, X-Service-Cost, X-Service-Guard, X-Service-Guard-Escalate, X-Service-Policy-Ignored, X-Service-Ignored, x-request-id, request-id, openai-processing-ms, Retry-After, retry-after-ms, x-should-retry, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests'
const CORS = ['access-control-allow-origin', '*', 'access-control-expose-headers', EXPOSED]
const NO_CACHE = ['cache-control', 'no-cache, no-transform', 'x-accel-buffering', 'no']
const EVENT_STREAM = ['content-type', 'text/event-stream; charset=utf-8', ...NO_CACHE]
const JSON_TYPE = ['content-type', 'application/json', 'cache-control', 'no-store']
const LOG_COLUMNS =
  'id method endpoint account key model deployment status code limited_by outcome stream ms_admit ms_first ms_total prompt_tokens cached_tokens completion_tokens reasoning_tokens cost cost_details rate_limit rate_left agent attempts gateway origin ms_settled'
const LEDGER = `
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 2000;
CREATE TABLE account (id TEXT NOT NULL PRIMARY KEY, balance INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spend (
  account TEXT NOT NULL, key TEXT NOT NULL, window TEXT NOT NULL, amount INTEGER NOT NULL,
  PRIMARY KEY (account, key, window)
) STRICT, WITHOUT ROWID;
CREATE INDEX spend_window ON spend (window);
CREATE TABLE usage (
  seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, request TEXT NOT NULL, account TEXT NOT NULL, key TEXT,
  cost INTEGER NOT NULL, day TEXT, at INTEGER NOT NULL, body TEXT, UNIQUE (request, kind, account)
) STRICT;
CREATE INDEX usage_account ON usage (account);
CREATE INDEX usage_day ON usage (day) WHERE kind = 'usage';
CREATE TABLE summed (
  hour INTEGER NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
  calls INTEGER NOT NULL, cost INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL,
  PRIMARY KEY (hour, account, key, model)
) STRICT, WITHOUT ROWID;`

/** What the thread with the databases is sent: settlements, whose number it answers when they are on disk, or rows of the log. */
interface Batch {
  readonly kind: 'settle' | 'log'
  /** Lines of cells, both joined: one text crosses between threads for less than an array. */
  readonly text: string
}

/** Sums of the settlements of one batch that fall together. */
interface Sum {
  readonly names: readonly [account: string, key: string, day: string, model: string]
  readonly hour: number
  calls: number
  cost: bigint
  prompt: number
  completion: number
}

function keepBooks(folder: string): void {
  const ledger = new DatabaseSync(`${folder}/ledger.db`)
  ledger.exec(LEDGER)
  const columns = LOG_COLUMNS.split(' ')
  const log = new DatabaseSync(`${folder}/log.db`)
  log.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE call (${columns.map((name, i) => (i > 0 ? `${name} ANY` : `${name} TEXT NOT NULL PRIMARY KEY`)).join(', ')}) STRICT, WITHOUT ROWID`)
  const insertCall = log.prepare(
    `INSERT OR IGNORE INTO call VALUES (${columns.map(() => '?').join(', ')})`,
  )
  const settle = settlement(ledger)
  parentPort!.on('message', ({ kind, text }: Batch) => {
    const lines = text.split('\n').map((line) => line.split('\t'))
    if (kind === 'settle') return parentPort!.postMessage(settle(lines))
    log.exec('BEGIN')
    for (const cells of lines) insertCall.run(...cells)
    log.exec('COMMIT')
  })
  parentPort!.postMessage('open')
}

function settlement(ledger: DatabaseSync): (lines: readonly string[][]) => number {
  const insert = ledger.prepare(
    `INSERT INTO usage (kind, request, account, key, cost, day, at, body)
    VALUES ('usage', ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request, kind, account) DO NOTHING`,
  )
  const pay = ledger.prepare(
    'INSERT INTO account VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET balance = balance + excluded.balance',
  )
  const spend = ledger.prepare(
    `INSERT INTO spend VALUES (?1, ?2, 'lifetime', ?5), (?1, ?2, ?3, ?5), (?1, ?2, ?4, ?5),
    (?1, '@account', 'lifetime', ?5), (?1, '@account', ?3, ?5), (?1, '@account', ?4, ?5)
    ON CONFLICT (account, key, window) DO UPDATE SET amount = amount + excluded.amount`,
  )
  const add = ledger.prepare(
    `INSERT INTO summed VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT DO UPDATE SET calls = calls + ?5, cost = cost + ?6, prompt = prompt + ?7, completion = completion + ?8`,
  )
  return (lines) => {
    const sums = new Map<string, Sum>()
    ledger.exec('BEGIN IMMEDIATE')
    for (const cells of lines) {
      const [request, account, key, cost, day, at, model, prompt, completion, body] = cells
      if (insert.run(request, account, key, BigInt(cost), day, Number(at), body).changes === 0)
        continue
      const name = `${account}\t${key}\t${day}\t${model}`
      let sum = sums.get(name)
      if (!sum) {
        const hour = Math.floor(Number(at) / 3_600_000)
        const names = [account, key, day, model] as const
        sum = { names, hour, calls: 0, cost: 0n, prompt: 0, completion: 0 }
        sums.set(name, sum)
      }
      sum.calls++
      sum.cost += BigInt(cost)
      sum.prompt += Number(prompt)
      sum.completion += Number(completion)
    }
    for (const { names, hour, calls, cost, prompt, completion } of sums.values()) {
      const [account, key, day, model] = names
      pay.run(account, -cost)
      spend.run(account, key, day, day.slice(0, 6), cost)
      add.run(hour, account, key, model, calls, cost, prompt, completion)
    }
    ledger.exec('COMMIT')
    return lines.length
  }
}

interface Account {
  readonly id: string
  balance: bigint
  held: bigint
  ceilings: bigint
}

interface Key {
  readonly id: string
  readonly account: Account
  readonly requestsPerMinute: number
  readonly concurrency: number
  readonly capPico: bigint
  spentPico: bigint
  held: bigint
  running: number
  /** Admissions of each second of the last minute, a ring. */
  readonly counts: Uint32Array
  total: number
  second: number
  /** Tokens that answers had so far, for holds. */
  meanTokens: number
}

interface Model {
  readonly id: string
  readonly deployment: string
  readonly upstream: string
  /** Prices of a token in 1e-18 USD. */
  readonly prompt: bigint
  readonly completion: bigint
}

/** 1e-18 USD in a pico-dollar. */
const ATTO = 1_000_000n

function atto(price: string): bigint {
  return BigInt(Math.round(Number(price) * 1e12)) * ATTO
}

function pico(usd: string): bigint {
  return BigInt(usd) * 1_000_000_000_000n
}

function inUsd(amount: bigint): string {
  // Below a thousand dollars, and where it is not printed with an exponent, a number has every digit.
  if (amount >= ATTO && amount < 1_000_000_000_000_000n) return String(Number(amount) / 1e12)
  const digits = String(amount).padStart(13, '0')
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`.replace(/\.?0+$/, '')
}

function keysOf(secret: string): Map<string, Key> {
  const keys = new Map<string, Key>()
  for (const { id, credits, keys: own } of gateway.seed.accounts) {
    const account = { id, balance: pico(credits), held: 0n, ceilings: 0n }
    const { rpm_limit, concurrency_limit, spend_cap } = own[0]!
    keys.set(hash('sha256', secret, 'hex'), {
      id: own[0]!.id,
      account,
      requestsPerMinute: rpm_limit,
      concurrency: concurrency_limit,
      capPico: pico(spend_cap.usd),
      spentPico: 0n,
      held: 0n,
      running: 0,
      counts: new Uint32Array(61),
      total: 0,
      second: 0,
      meanTokens: 256,
    })
  }
  return keys
}

function modelsOf(): Map<string, Model> {
  const entries = Object.entries(gateway.models).map(([id, { pricing, deployments }]) => {
    const [{ provider, model }] = deployments
    const prices = { prompt: atto(pricing.prompt), completion: atto(pricing.completion) }
    return [id, { id, deployment: `${provider}/${model}`, upstream: model, ...prices }] as const
  })
  return new Map(entries)
}

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
let idTime = ''
let idMs = 0

function ulid(now: number): string {
  if (now !== idMs) {
    idMs = now
    idTime = ''
    for (let rest = now; idTime.length < 10; rest = Math.floor(rest / 32))
      idTime = CROCKFORD[rest % 32] + idTime
  }
  const random = randomUUID()
  return idTime + (random.slice(24) + random.slice(0, 4)).toUpperCase()
}

let day = ''
let dayEndsMs = 0

/** YYYYMMDD. */
function dayOf(now: number): string {
  if (now >= dayEndsMs) {
    day = new Date(now).toISOString().slice(0, 10).replaceAll('-', '')
    dayEndsMs = now - (now % 86_400_000) + 86_400_000
  }
  return day
}

/** Sends settlements to the thread with the databases, one batch at a time, and ends the calls of a batch that is on disk. */
class Settlements {
  readonly #thread: Worker
  #rows: string[] = []
  #calls: Call[] = []
  #sent: readonly Call[] | undefined
  #isScheduled = false

  constructor(thread: Worker) {
    this.#thread = thread
    thread.on('message', () => {
      const calls = this.#sent!
      this.#sent = undefined
      for (const call of calls) call.settled()
      if (!this.#isScheduled) this.#flush()
    })
  }

  add(row: string, call: Call): void {
    this.#rows.push(row)
    this.#calls.push(call)
    if (this.#isScheduled || this.#sent) return
    this.#isScheduled = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#isScheduled = false
    if (this.#sent || this.#rows.length === 0) return
    this.#thread.postMessage({ kind: 'settle', text: this.#rows.join('\n') } satisfies Batch)
    this.#sent = this.#calls
    this.#rows = []
    this.#calls = []
  }
}

/** Rows of the request log and lines of the access log, written every second. */
class Log {
  #rows: string[] = []
  #lines = ''

  constructor(thread: Worker) {
    setInterval(() => {
      if (this.#rows.length === 0) return
      thread.postMessage({ kind: 'log', text: this.#rows.join('\n') } satisfies Batch)
      process.stdout.write(this.#lines)
      this.#rows = []
      this.#lines = ''
    }, 1000).unref()
  }

  add(row: string, line: string): void {
    this.#rows.push(row)
    this.#lines += line
  }
}

const metrics = { requests: 0, tokens: 0, inFlight: 0, buckets: new Uint32Array(16) }

/** What all calls share. */
interface Shared {
  readonly pool: Pool
  readonly path: string
  readonly keys: ReadonlyMap<string, Key>
  readonly models: ReadonlyMap<string, Model>
  readonly settlements: Settlements
  readonly log: Log
}

/** The members of a chat request that the floor reads; everything in them is checked. */
interface ChatRequest {
  readonly model?: unknown
  readonly messages?: unknown
  readonly stream?: unknown
  readonly stream_options?: unknown
  readonly max_tokens?: number
  readonly max_completion_tokens?: number
}

interface Usage {
  readonly prompt_tokens?: number
  readonly completion_tokens?: number
  readonly prompt_tokens_details?: { readonly cached_tokens?: number }
  readonly completion_tokens_details?: { readonly reasoning_tokens?: number }
}

interface Choice {
  index?: number
  readonly delta?: { readonly content?: string }
  readonly message?: Record<string, unknown> & { content?: string | null }
  logprobs?: unknown
  finish_reason?: string | null
}

interface ChatAnswer {
  readonly error?: unknown
  readonly choices?: Choice[]
  readonly system_fingerprint?: string
  readonly usage?: Usage | null
}

class Call implements Dispatcher.DispatchHandler {
  readonly #shared: Shared
  readonly #response: ServerResponse
  readonly #at: number
  readonly #id: string
  readonly #key: Key
  readonly #began = performance.now()
  #model: Model | undefined
  #isStream = false
  #expected = 0n
  #ceiling = 0n
  #isReleased = false
  #admitMs = 0
  #controller: Dispatcher.DispatchController | undefined
  #upstreamStatus = 0
  #isJson = false
  #chunks: Buffer[] = []
  #feed: ((chunk: Buffer) => void) | undefined
  #firstMs: number | undefined
  /** Events that were read and not yet written. */
  #unsent = ''
  #hasBegun = false
  #hasEnded = false
  /** Text around the content of an event, and before the reason for the end. */
  #head = ''
  #tail = ''
  #last = ''
  #finish: string | undefined
  #answer: ChatAnswer | undefined
  #usage: Usage | null | undefined
  #characters = 0
  #prompt = 0
  #completion = 0
  #promptCost = 0n
  #cost = 0n
  #settledMs = 0
  #status = 0
  #outcome = 'completed'

  constructor(shared: Shared, response: ServerResponse, at: number, key: Key) {
    this.#shared = shared
    this.#response = response
    this.#at = at
    this.#id = `req_${ulid(at)}`
    this.#key = key
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#began)
  }

  /** Checks the body, holds what it may cost, and asks the vendor. */
  read(body: Buffer): void {
    if (body.length > DEEP_BYTES && isTooDeep(body)) return this.#refuse(400, 'invalid_json')
    let request: ChatRequest
    try {
      request = JSON.parse(body.toString('utf8'))
    } catch {
      return this.#refuse(400, 'invalid_json')
    }
    const fault = faultOf(request)
    if (fault !== undefined) return this.#refuse(400, fault)
    const model = this.#shared.models.get(request.model as string)
    if (!model) return this.#refuse(404, 'model_not_found')
    this.#model = model
    this.#isStream = request.stream === true
    const limit = request.max_completion_tokens ?? request.max_tokens
    const refusal = this.#hold(model, body.length, limit ?? DEFAULT_LIMIT)
    if (refusal) return this.#refuse(...refusal)
    this.#admitMs = this.#elapsedMs()
    this.#ask(request, model, limit)
  }

  #hold(model: Model, bytes: number, limit: number): [status: number, code: string] | undefined {
    const { account, capPico, spentPico, held, meanTokens } = this.#key
    const prompt = BigInt(Math.ceil(bytes / 4))
    const most = (2n * prompt * model.prompt + BigInt(limit) * model.completion) / ATTO
    const tokens = BigInt(Math.min(limit, meanTokens))
    const likely = (prompt * model.prompt + tokens * model.completion) / ATTO
    if (spentPico >= capPico) return [403, 'key_limit_exceeded']
    if (account.balance <= 0n) return [402, 'insufficient_credits']
    const isOver = likely > account.balance - account.held || likely > capPico - spentPico - held
    if (account.ceilings > 0n && isOver) return [429, 'too_many_concurrent']
    account.held += likely
    account.ceilings += most
    this.#key.held += likely
    this.#expected = likely
    this.#ceiling = most
    return undefined
  }

  #release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    metrics.inFlight--
    this.#key.running--
    this.#key.held -= this.#expected
    this.#key.account.held -= this.#expected
    this.#key.account.ceilings -= this.#ceiling
  }

  #ask(request: ChatRequest, model: Model, limit: number | undefined): void {
    const body = JSON.stringify({
      ...request,
      model: model.upstream,
      max_tokens: undefined,
      max_completion_tokens: limit,
      ...(this.#isStream && { stream_options: { include_usage: true } }),
    })
    const headers = { authorization: 'Bearer none', 'content-type': 'application/json' }
    const { pool, path } = this.#shared
    pool.dispatch(
      { path, method: 'POST', headers, body, headersTimeout: 600_000, bodyTimeout: 600_000 },
      this,
    )
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#outcome === 'cancelled') controller.abort(new Error('the client left'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#upstreamStatus = status
    this.#isJson = String(headers['content-type']).includes('json')
    if (this.#isJson || status !== 200) return
    const decoder = new TextDecoder()
    const parser = createParser({ onEvent: ({ data }) => this.#event(data) })
    this.#feed = (chunk) => parser.feed(decoder.decode(chunk, { stream: true }))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#feed) return void this.#chunks.push(chunk)
    this.#firstMs ??= this.#elapsedMs()
    this.#feed(chunk)
    if (this.#unsent === '') return
    const text = this.#unsent
    this.#unsent = ''
    if (this.#write(text)) return
    controller.pause()
    this.#response.socket?.once('drain', () => controller.resume())
  }

  #event(data: string): void {
    if (data === '[DONE]' || this.#hasEnded) return
    let event: ChatAnswer
    try {
      event = JSON.parse(data)
    } catch {
      return this.#broken()
    }
    if (event.error) return this.#broken()
    if (event.usage) this.#usage = event.usage
    for (const { delta, finish_reason } of event.choices ?? []) {
      if (this.#head === '') this.#prepare()
      if (delta?.content) {
        this.#characters += delta.content.length
        this.#unsent += this.#head + JSON.stringify(delta.content) + this.#tail
      }
      if (finish_reason) this.#finish ??= finish_reason
    }
  }

  #prepare(): void {
    const created = Math.floor(this.#at / 1000)
    const model = JSON.stringify(this.#model!.id)
    const common = `data: {"id":"${chatId()}","object":"chat.completion.chunk","created":${created},"model":${model},"choices":[{"index":0,"delta":`
    this.#head = `${common}{"content":`
    this.#tail = `},"logprobs":null,"finish_reason":null}]}\n\n`
    this.#last = `${common}{},"logprobs":null,"finish_reason":`
    this.#unsent = `${common}{"role":"assistant","content":"","refusal":null${this.#tail}`
  }

  #write(text: string): boolean {
    const response = this.#response
    if (this.#hasBegun) {
      const bytes = Buffer.byteLength(text)
      const encoding = bytes === text.length ? 'latin1' : 'utf8'
      // One write for a chunk: the response would make three of it.
      return response.socket?.write(`${bytes.toString(16)}\r\n${text}\r\n`, encoding) ?? true
    }
    this.#hasBegun = true
    this.#writeHead(EVENT_STREAM)
    return response.write(text)
  }

  #writeHead(more: readonly string[]): void {
    const { requestsPerMinute, total } = this.#key
    this.#status = 200
    // Names and values in turn, which Node.js takes without a look at each.
    const head = [...CORS]
    head.push('x-service-request-id', this.#id, 'x-request-id', this.#id)
    head.push('openai-processing-ms', String(this.#elapsedMs()))
    head.push('x-ratelimit-limit-requests', String(requestsPerMinute))
    head.push('x-ratelimit-remaining-requests', String(requestsPerMinute - total))
    head.push('x-ratelimit-reset-requests', '1m0s', ...more)
    this.#response.writeHead(200, head)
  }

  onResponseEnd(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (this.#feed) return this.#finish || this.#usage ? this.#charge() : this.#broken()
    if (this.#upstreamStatus !== 200) return this.#broken()
    const [first] = this.#chunks
    const bytes = this.#chunks.length === 1 ? first! : Buffer.concat(this.#chunks)
    try {
      this.#answer = JSON.parse(bytes.toString('utf8')) as ChatAnswer
    } catch {
      return this.#broken()
    }
    const { choices, usage } = this.#answer
    if (!Array.isArray(choices) || choices.length === 0) return this.#broken()
    for (const [i, choice] of choices.entries()) {
      const { message, finish_reason } = choice
      if (typeof message !== 'object' || message === null) return this.#broken()
      choice.index ??= i
      choice.logprobs ??= null
      choice.finish_reason = REASONS.has(finish_reason!) ? finish_reason : 'stop'
      message.role = 'assistant'
      message.content ??= null
      message.refusal ??= null
      this.#characters += message.content?.length ?? 0
    }
    this.#usage = usage
    this.#charge()
  }

  onResponseError(): void {
    if (!this.#hasEnded) this.#broken()
  }

  /** The client closed its connection. */
  left(): void {
    if (this.#response.writableFinished || this.#hasEnded) return
    this.#hasEnded = true
    this.#outcome = 'cancelled'
    this.#controller?.abort(new Error('the client left'))
    if (this.#upstreamStatus === 200) return this.#charge()
    this.#release()
    this.#record()
  }

  #broken(): void {
    this.#hasEnded = true
    this.#outcome = 'failed'
    this.#controller?.abort(new Error('the answer is broken'))
    if (this.#hasBegun) this.#response.destroy()
    this.#refuse(502, 'upstream_error')
  }

  #refuse(status: number, code: string): void {
    this.#release()
    this.#status = status
    if (!this.#hasBegun) fail(this.#response, this.#id, status, code)
    this.#record()
  }

  #charge(): void {
    const model = this.#model!
    const key = this.#key
    const estimated = Math.ceil(this.#characters / 4)
    const prompt = tokens(this.#usage?.prompt_tokens, estimated)
    const completion = tokens(this.#usage?.completion_tokens, estimated)
    const forPrompt = BigInt(prompt) * model.prompt
    const cost = (forPrompt + BigInt(completion) * model.completion + ATTO - 1n) / ATTO
    this.#prompt = prompt
    this.#completion = completion
    this.#promptCost = forPrompt / ATTO
    this.#cost = cost
    this.#release()
    key.account.balance -= cost
    key.spentPico += cost
    key.meanTokens += Math.round((completion - key.meanTokens) / 16)
    const body = `{"at":${this.#at},"endpoint":"${PATH}","model":"${model.id}","deployment":"${model.deployment}","outcome":"${this.#outcome}","lines":[{"source":"model","usage":{"promptTokens":${prompt},"completionTokens":${completion}},"prices":"a1b2c3d4e5f6","tier":0}],"gateway":"gw_0"}`
    const row = `${this.#id}\t${key.account.id}\t${key.id}\t${cost}\t${dayOf(this.#at)}\t${this.#at}\t${model.id}\t${prompt}\t${completion}\t${body}`
    this.#shared.settlements.add(row, this)
  }

  /** The charge is on disk: the rest of the answer goes out. */
  settled(): void {
    this.#settledMs = this.#elapsedMs()
    const usage = this.#usageText()
    if (this.#answer) {
      const { choices, system_fingerprint: fingerprint } = this.#answer
      const print = fingerprint ? `"system_fingerprint":${JSON.stringify(fingerprint)},` : ''
      const body = `{"id":"${chatId()}","object":"chat.completion","created":${Math.floor(this.#at / 1000)},"model":${JSON.stringify(this.#model!.id)},${print}"choices":${JSON.stringify(choices)},${usage}}`
      const bytes = Buffer.byteLength(body)
      const cost = ['content-length', String(bytes), 'x-service-cost', inUsd(this.#cost)]
      this.#writeHead([...JSON_TYPE, ...cost])
      this.#response.end(body, bytes === body.length ? 'latin1' : 'utf8')
    } else {
      const end = `${this.#last}"${this.#finish ?? 'stop'}"}],${usage}}\n\ndata: [DONE]\n\n`
      if (!this.#hasBegun) this.#writeHead(EVENT_STREAM)
      this.#response.end(end)
    }
    this.#record()
  }

  #usageText(): string {
    const prompt = this.#prompt
    const completion = this.#completion
    const cached = this.#usage?.prompt_tokens_details?.cached_tokens ?? 0
    const reasoning = this.#usage?.completion_tokens_details?.reasoning_tokens ?? 0
    return `"usage":{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion},"prompt_tokens_details":{"cached_tokens":${cached},"cache_write_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":${reasoning},"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0},"cost":${inUsd(this.#cost)},"cost_details":{"upstream_inference_prompt_cost":${inUsd(this.#promptCost)},"upstream_inference_completions_cost":${inUsd(this.#cost - this.#promptCost)}}}`
  }

  #record(): void {
    const { id: keyId, account, requestsPerMinute, total } = this.#key
    const model = this.#model
    const ms = this.#elapsedMs()
    metrics.requests++
    metrics.tokens += this.#prompt + this.#completion
    metrics.buckets[Math.min(15, 32 - Math.clz32(ms))]!++
    const row = `${this.#id}\tPOST\t${PATH}\t${account.id}\t${keyId}\t${model?.id ?? ''}\t${model?.deployment ?? ''}\t${this.#status}\t\t\t${this.#outcome}\t${this.#isStream ? 1 : 0}\t${this.#admitMs}\t${this.#firstMs ?? ''}\t${ms}\t${this.#prompt}\t\t${this.#completion}\t\t${this.#cost}\t\t${requestsPerMinute}\t${requestsPerMinute - total}\tother\t${model?.deployment ?? ''} ${ms} ok\tgw_0\tapi\t${this.#settledMs}`
    const line = `${this.#at} ${this.#status} ${this.#outcome} ${ms} POST ${PATH} ${model?.id} by ${model?.deployment} ${this.#prompt}+${this.#completion} tokens $${this.#cost} ${account.id}/${keyId} ${this.#id}\n`
    this.#shared.log.add(row, line)
  }
}

function isTooDeep(body: Buffer): boolean {
  let depth = 0
  for (const byte of body) {
    if (byte === 0x7b || byte === 0x5b) depth++
    else if (byte === 0x7d || byte === 0x5d) depth--
    if (depth > MAX_DEPTH) return true
  }
  return false
}

/** Code of the error that a request gets, undefined for one that is right. */
function faultOf({ model, messages }: ChatRequest): string | undefined {
  if (typeof model !== 'string') return 'missing_field'
  if (!Array.isArray(messages) || messages.length === 0) return 'missing_field'
  for (const message of messages) {
    if (typeof message !== 'object' || message === null) return 'invalid_value'
    const { role, content } = message
    if (!ROLES.has(role)) return 'invalid_value'
    if (typeof content === 'string') continue
    if (!Array.isArray(content) && role !== 'assistant') return 'invalid_value'
    for (const part of content ?? []) if (part?.type !== 'text') return 'unsupported_parameter'
  }
  return undefined
}

function tokens(count: number | undefined, estimated: number): number {
  const isRight = Number.isSafeInteger(count) && count! >= 0 && count! < 10_000_000
  return isRight ? count! : estimated
}

function chatId(): string {
  return `chatcmpl-${randomUUID().replaceAll('-', '').slice(0, 24)}`
}

function fail(response: ServerResponse, id: string, status: number, code: string): void {
  const error = { message: code, type: 'invalid_request_error', code, param: null }
  const body = JSON.stringify({ error })
  const head = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-service-request-id': id,
  }
  response.writeHead(status, head).end(body)
}

function admit(key: Key, now: number): string | undefined {
  const second = Math.floor(now / 1000)
  for (let s = Math.max(key.second + 1, second - 60); s <= second; s++) {
    key.total -= key.counts[s % 61]!
    key.counts[s % 61] = 0
  }
  key.second = second
  if (key.total >= key.requestsPerMinute) return 'rate_limited'
  if (key.running >= key.concurrency) return 'too_many_concurrent'
  key.counts[second % 61]!++
  key.total++
  key.running++
  metrics.inFlight++
  return undefined
}

function handle(shared: Shared, request: IncomingMessage, response: ServerResponse): void {
  if (request.method !== 'POST' || request.url !== PATH) {
    return void response.writeHead(request.url === '/health' ? 200 : 404).end()
  }
  const at = Date.now()
  const { authorization } = request.headers
  const secret = authorization?.startsWith('Bearer ') ? authorization.slice(7) : ''
  const key = shared.keys.get(hash('sha256', secret, 'hex'))
  if (!key) return fail(response, `req_${ulid(at)}`, 401, 'invalid_api_key')
  const refusal = admit(key, at)
  if (refusal) return fail(response, `req_${ulid(at)}`, 429, refusal)
  const call = new Call(shared, response, at, key)
  const chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > MAX_BODY_BYTES) request.destroy()
    else chunks.push(chunk)
  })
  request.on('end', () => call.read(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)))
  response.on('close', () => call.left())
}

async function serve(): Promise<void> {
  const { BENCH_FOLDER: folder, BENCH_UPSTREAM: upstream, BENCH_KEY: secret } = process.env
  mkdirSync(folder!, { recursive: true })
  const thread = new Worker(new URL(import.meta.url), { workerData: folder })
  await once(thread, 'message')
  const shared: Shared = {
    pool: new Pool(upstream!, { connections: 4096, pipelining: 1 }),
    path: PATH,
    keys: keysOf(secret!),
    models: modelsOf(),
    settlements: new Settlements(thread),
    log: new Log(thread),
  }
  createServer((request, response) => handle(shared, request, response)).listen(
    Number(process.argv.at(-1)),
    '127.0.0.1',
  )
}

if (isMainThread) await serve()
else keepBooks(workerData as string)
