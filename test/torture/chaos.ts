/**
 * `npm run torture -- chaos`: a gateway under fifty mixed callers, and every moment something happens to it, to its disk, its
 * store, its clock, its vendor or its plugin. An operator starts it again. What clients read of costs is then held against
 * the ledger: none missing, none twice, none another amount; no answer breaks the contract; no process ends as it must not.
 * A run has rounds, each with a folder and a seed of its own. Drivers: `file` and `redis`.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { formatPico, parsePico, type Pico } from '../../src/money/money.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'
import { hindrance, mountAt, type Disk } from '../state/_tmpfs.ts'
import { events, startUpstream } from '../upstream.ts'
import { GRAMMAR } from './_bodies.ts'
import type { ChaosSetting } from './_chaos-config.ts'
import { ChaosGateway, type Ending } from './_chaos-gateway.ts'
import { Connection, NoAnswer, type RawAnswer } from './_connection.ts'
import { costIn, examine } from './_contract.ts'
import { damage, toText } from './_json.ts'
import { pick, randomOf, type Random } from './_random.ts'
import { ownFolder, readOptions, Run } from './_run.ts'
import { Machine } from './_shim.ts'

const CALLERS = 50
const KEYS = 10
/** Enough for a round, and above the 64 MiB that a ledger wants free. */
const DISK_MIB = 192
const SHORT_SEEDS = [1, 2, 3]
const options = readOptions(
  {
    short: { count: Infinity, seconds: 60 },
    long: { count: Infinity, seconds: 8 * 3600 },
  },
  'file',
)
const run = new Run('chaos', options)
const ROUND_SECONDS = options.short ? 20 : 60
const HOUR = 3600
const CLOCKS = [-24 * HOUR, -HOUR, 0, HOUR, 24 * HOUR]

/** Text of a request for the plugin that breaks. */
const BREAKS = ['throws', 'throws later', 'rejects later', 'throws in its stream']

type VendorMode = 'well' | 'refuses' | 'stalls' | 'resets'

/** A vendor whose streams take from a moment to a second, when it is well. */
class Vendor {
  mode: VendorMode = 'well'
  readonly #upstream: Awaited<ReturnType<typeof startUpstream>>
  #asked = 0

  static async start(): Promise<Vendor> {
    return new Vendor(await startUpstream())
  }

  private constructor(upstream: Awaited<ReturnType<typeof startUpstream>>) {
    this.#upstream = upstream
    upstream.answer(() => this.#answer())
  }

  get url(): string {
    return this.#upstream.url
  }

  close(): Promise<void> {
    return this.#upstream.close()
  }

  #answer() {
    const asked = this.#asked++
    ;(this.#upstream.requests as unknown[]).length = 0
    if (this.mode === 'refuses') {
      return asked % 2 === 0
        ? { status: 503, pieces: ['no'] }
        : { pieces: [], ending: 'refuse' as const }
    }
    if (this.mode === 'stalls' && asked % 2 === 0) return { pieces: [], ending: 'silent' as const }
    const deltas = Array.from({ length: 3 + (asked % 20) }, (_, i) => ({
      choices: [{ index: 0, delta: { content: `word ${i} ` } }],
    }))
    const usage = { prompt_tokens: 9, completion_tokens: deltas.length * 3 }
    const end = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }
    const { headers, pieces } = events(...deltas, end, '[DONE]')
    const all = String(pieces[Symbol.iterator]().next().value).split('\n\n').slice(0, -1)
    const broken = this.mode === 'well' ? all.length : 1 + (asked % all.length)
    const ending = { well: 'end', stalls: 'hang', resets: 'reset' }[this.mode] as 'end'
    const sent = all.slice(0, broken).map((one) => `${one}\n\n`)
    return { headers: headers!, pieces: sent, pauseMs: asked % 50, ending }
  }
}

// --- clients ---

/** What clients were told in a round. */
interface Told {
  /** The costs by request id. */
  readonly costs: Map<string, Pico>
  /** Ids of whole refusals that told no cost. */
  readonly free: Set<string>
}

/** What a round acts on. */
interface Round {
  readonly seed: number
  readonly gateway: ChaosGateway
  readonly vendor: Vendor
  readonly token: string
  readonly keys: readonly string[]
  readonly told: Told
  readonly machine: Machine | undefined
  readonly disk: Disk | undefined
  readonly redis: RedisServer | undefined
  readonly data: string
  /** The plugin is asked to break. */
  pluginBreaks: boolean
  isOver: boolean
}

interface Request {
  readonly path: string
  readonly body: any
}

function requestOf(round: Round, random: Random): Request {
  const kind = random(10)
  const chat = '/v1/chat/completions'
  const say = (content: string) => [{ role: 'user', content }]
  if (kind < 4) {
    return {
      path: chat,
      body: { model: 'm/vendor', messages: say('Say a few words.'), stream: true },
    }
  }
  if (kind === 4) {
    const content = round.pluginBreaks ? pick(random, BREAKS) : 'Say hello.'
    return { path: chat, body: { model: 'm/plugin', messages: say(content), stream: true } }
  }
  const path = pick(random, Object.keys(GRAMMAR))
  const body = GRAMMAR[path]!(random)
  return { path, body: kind === 5 ? damage(body, random) : body }
}

/** Asks one thing after another, wherever the gateway is. */
async function call(round: Round, number: number): Promise<void> {
  const { gateway, keys, told } = round
  let connection: Connection | undefined
  let at: string | undefined
  for (let i = 0; !round.isOver && run.faults.length === 0; i++) {
    const { url } = gateway
    if (!url) {
      await sleep(20)
      continue
    }
    if (url !== at) {
      connection?.close()
      connection = new Connection(url)
      at = url
    }
    const { steady } = gateway
    const isSteady = () => steady !== undefined && gateway.steady === steady
    const random = randomOf(round.seed, number * 1_000_000 + i)
    const request = requestOf(round, random)
    const leaves = random(5) === 0
    connection!.leavesAfter = leaves ? 1 + random(3000) : Infinity
    const answer = await ask(connection!, keys[number % KEYS]!, request).catch((error: unknown) => {
      if (!(error instanceof NoAnswer)) throw error
      if (!leaves && isSteady()) run.fault(`${request.path}: ${error.message}`)
      return undefined
    })
    run.done++
    if (!answer) {
      run.count(leaves ? 'left before the answer' : 'no answer')
      // A gateway that is away is not asked again at once.
      if (!leaves) await sleep(50)
      continue
    }
    hear(told, answer)
    const { fault, code } = examine(askedOf(request), answer)
    if (fault && (answer.whole || (!leaves && isSteady()))) {
      run.fault(`${request.path} ${answer.status}: ${fault}`)
    }
    if (code === 'internal_error')
      run.fault(`a fault of ours: ${answer.body}; the gateway said: ${gateway.said}`)
    run.count(answer.whole ? `${answer.status} ${code ?? ''}`.trim() : 'cut off')
    if (answer.status === 503) await sleep(50)
  }
  connection?.close()
}

async function ask(connection: Connection, secret: string, request: Request): Promise<RawAnswer> {
  const bytes = Buffer.from(toText(request.body))
  const head =
    `POST ${request.path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer ${secret}\r\n` +
    `content-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n`
  return connection.exchange([Buffer.concat([Buffer.from(head), bytes])])
}

function askedOf({ path, body }: Request) {
  const format = body?.stream_format ?? body?.response_format
  return {
    path,
    stream: body?.stream === true || body?.stream_format === 'sse',
    usageChunk: body?.stream_options?.include_usage === true,
    format: typeof format === 'string' ? format : undefined,
  }
}

/** Notes a promise: also an answer that was cut off has made it. */
function hear({ costs, free }: Told, answer: RawAnswer): void {
  const id = answer.headers.get('x-service-request-id')
  const cost = costIn(answer)
  if (id === undefined) return
  if (cost !== undefined) costs.set(id, cost)
  else if (answer.whole && answer.status > 299) free.add(id)
}

// --- what happens ---

/** @param pauseMs how long it lasts, where it lasts */
type Deed = (round: Round, pauseMs: number, random: Random) => Promise<void>

const lasting =
  (begin: (round: Round) => void, end: (round: Round) => void): Deed =>
  async (round, pauseMs) => {
    begin(round)
    try {
      await sleep(pauseMs)
    } finally {
      end(round)
    }
  }

const vendorIs = (mode: VendorMode): Deed =>
  lasting(
    ({ vendor }) => (vendor.mode = mode),
    ({ vendor }) => (vendor.mode = 'well'),
  )

/** Waits for the end of the process that a deed brings about. */
async function endsWith(round: Round, expected: readonly Ending[]): Promise<void> {
  const ended = await round.gateway.end()
  if (!expected.includes(ended)) run.fault(`the gateway ended with ${ended}: ${round.gateway.said}`)
}

/** What can happen with any driver. */
const COMMON: Readonly<Record<string, Deed>> = {
  'kill -9': async ({ gateway }) => void (await gateway.end('SIGKILL')),
  SIGTERM: async ({ gateway }) => {
    const ended = await gateway.end('SIGTERM')
    if (ended !== 0) run.fault(`SIGTERM ended the gateway with ${ended}: ${gateway.said}`)
  },
  reload: async ({ gateway }) => gateway.signal('SIGHUP'),
  'vendor refuses': vendorIs('refuses'),
  'vendor stalls': vendorIs('stalls'),
  'vendor resets': vendorIs('resets'),
  'plugin breaks': async (round, pauseMs) => {
    // Ten errors within a minute are a fault of the program.
    round.gateway.endings = [70]
    await lasting(
      (one) => (one.pluginBreaks = true),
      (one) => (one.pluginBreaks = false),
    )(round, pauseMs, () => 0)
  },
}

const FILE: Readonly<Record<string, Deed>> = {
  'ledger unlinked': async (round) => {
    rmSync(join(round.data, 'ledger.db'))
    await endsWith(round, [74])
  },
  'thread of the ledger ends': async (round) => {
    // The ledger gets another thread; where none lives, the process ends.
    round.gateway.endings = [70, 74]
    round.gateway.signal('SIGUSR2')
  },
}

/** Needs {@link Machine}. */
const MACHINE: Readonly<Record<string, Deed>> = {
  'clock jumps': async ({ machine }, _, random) => machine!.setClock(pick(random, CLOCKS)),
  'disk read-only': lasting(
    ({ machine }) => machine!.failWrites('EROFS'),
    ({ machine }) => machine!.failWrites(undefined),
  ),
  'disk slow': lasting(
    ({ machine }) => machine!.delaySyncs(100),
    ({ machine }) => machine!.delaySyncs(0),
  ),
}

const DISK: Readonly<Record<string, Deed>> = {
  'disk full': lasting(
    ({ disk }) => disk!.fill(),
    ({ disk }) => disk!.empty(),
  ),
}

const REDIS: Readonly<Record<string, Deed>> = {
  'store killed': async ({ redis }, pauseMs) => {
    await redis!.kill()
    await sleep(pauseMs)
    await redis!.start()
    // A second kill before this is the one that Redis does not survive.
    await redis!.wholeFile()
  },
  'store paused': lasting(
    ({ redis }) => redis!.pause(),
    ({ redis }) => redis!.resume(),
  ),
}

/** Lets things happen until the round is over. */
async function disturb(round: Round, deeds: ReadonlyMap<string, Deed>, endAt: number) {
  const names = [...deeds.keys()]
  for (let i = 0; performance.now() < endAt && run.faults.length === 0; i++) {
    const random = randomOf(round.seed, -1 - i)
    await sleep(200 + random(1800))
    await recover(round)
    const name = pick(random, names)
    run.count(`happened: ${name}`)
    await deeds.get(name)!(round, 200 + random(1800), random)
    await recover(round)
  }
}

/** Waits until calls are admitted again, starting the gateway where that is needed. */
async function recover(round: Round): Promise<void> {
  const { gateway } = round
  while (gateway.url === undefined || !(await gateway.ready())) {
    if (gateway.url !== undefined) continue
    gateway.repair()
    await gateway.start()
  }
}

// --- a round ---

async function play(seed: number): Promise<void> {
  const folder = ownFolder()
  const data = join(folder, 'data')
  const machine = Machine.build(folder)
  const disk = noDisk === undefined ? mountAt(data, DISK_MIB) : undefined
  if (!disk) mkdirSync(data)
  // Before the folder is removed.
  process.prependOnceListener('exit', () => disk?.unmount())
  const redis = options.driver === 'redis' ? await RedisServer.start() : undefined
  const vendor = await Vendor.start()
  const token = randomBytes(16).toString('hex')
  const keys = Array.from({ length: KEYS }, () => `chaos-${randomBytes(16).toString('hex')}`)
  const state: ChaosSetting['state'] = redis
    ? { driver: 'redis', url: redis.url, outbox: data }
    : { driver: 'file', path: data }
  const setting: ChaosSetting = { state, vendor: vendor.url, token, keys }
  const env = { ...machine?.env, CHAOS: JSON.stringify(setting) }
  const told: Told = { costs: new Map(), free: new Set() }
  const gateway = new ChaosGateway(folder, data, env, (ended) => {
    run.fault(`the gateway ended with ${ended}: ${gateway.said}`)
  })
  const round: Round = {
    seed,
    gateway,
    vendor,
    token,
    keys,
    told,
    machine,
    disk,
    redis,
    data,
    pluginBreaks: false,
    isOver: false,
  }
  const deeds = new Map(
    Object.entries({
      ...COMMON,
      ...(redis ? REDIS : FILE),
      ...(machine && MACHINE),
      ...(disk && DISK),
    }),
  )
  await gateway.start()
  const endAt = performance.now() + ROUND_SECONDS * 1000
  const calling = Promise.all(Array.from({ length: CALLERS }, (_, i) => call(round, i)))
  try {
    await Promise.race([disturb(round, deeds, endAt), calling])
  } finally {
    round.isOver = true
    await calling
  }
  if (run.faults.length === 0) await judge(round)
  await vendor.close()
  await redis?.[Symbol.asyncDispose]()
  disk?.unmount()
}

/** Holds the ledger against what clients were told. */
async function judge(round: Round): Promise<void> {
  const { gateway, told, token, seed } = round
  await recover(round)
  const headers = { authorization: `Bearer ${token}` }
  const verified = await fetch(`${gateway.url}/admin/ledger/verify`, { headers })
  const { data } = (await verified.json()) as { data?: { ok: boolean } }
  if (data?.ok !== true) run.fault(`the sums of the ledger are wrong: ${JSON.stringify(data)}`)
  const ended = await gateway.end('SIGTERM')
  if (ended !== 0) run.fault(`the last process ended with ${ended}: ${gateway.said}`)
  gateway.repair()
  const { costs, doubled } = gateway.booked()
  const wrong = { missing: 0, amount: 0, 'charged for a refusal': 0, doubled }
  for (const [id, cost] of told.costs) {
    const booked = costs.get(id)
    if (booked === undefined) wrong.missing++
    else if (parsePico(booked) !== cost) wrong.amount++
  }
  for (const id of told.free) {
    if (parsePico(costs.get(id) ?? '0') !== 0n) wrong['charged for a refusal']++
  }
  const sum = [...costs.values()].reduce((all, cost) => all + parsePico(cost), 0n)
  const repairs = [...gateway.repairs].map(([what, count]) => `, ${count} times ${what}`).join('')
  process.stdout.write(
    `  seed ${seed}: ${gateway.starts} processes, ${told.costs.size} costs read, ${costs.size} rows, ` +
      `${formatPico(sum)} USD${repairs}\n`,
  )
  for (const [what, count] of Object.entries(wrong)) {
    if (count > 0) run.fault(`seed ${seed}: costs that were ${what}: ${count}`)
  }
  if (told.costs.size === 0) run.fault(`seed ${seed}: no client was told a cost`)
}

const noDisk = hindrance()
if (noDisk !== undefined) process.stdout.write(`SKIPPED: disk full: ${noDisk}\n`)
if (options.driver === 'memory') throw new TypeError('expected --driver file or redis')
if (options.driver === 'redis' && !hasRedis()) throw new Error(NOT_INSTALLED)

await run.end(async () => {
  const rounds = Math.ceil(options.seconds / ROUND_SECONDS)
  for (let i = 0; i < rounds && run.faults.length === 0; i++) {
    await play(options.short ? SHORT_SEEDS[i % SHORT_SEEDS.length]! : options.seed + i)
  }
})
