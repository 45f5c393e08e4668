/**
 * The one connection to Redis, which records and ledger share. unstorage's driver makes it. Every request has a deadline; a
 * request that could not be sent by then is never sent, because its caller has already dealt with the failure.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import type { Driver } from 'unstorage'
import { ConfigError, Unavailable } from '../../errors/errors.ts'
import type { Log } from '../ledger/ledger.ts'

interface Connected {
  readonly connection: RedisConnection
  /** unstorage's driver, on the same connection. */
  readonly driver: Driver
}

const AT_ONCE = 500

/** Items in portions: a large pipeline would delay admissions. */
export function batchesOf<Item>(items: readonly Item[]): (readonly Item[])[] {
  const count = Math.ceil(items.length / AT_ONCE)
  return Array.from({ length: count }, (_, i) => items.slice(i * AT_ONCE, (i + 1) * AT_ONCE))
}

/** Prefix of every key. */
export const PREFIX = 'gw'

/** Prefix of an account's keys. The braces keep them in one slot of a cluster. */
export function accountPrefix(account: string): string {
  return `${PREFIX}:{${account}}:`
}

export function keysOf(account: string, ...names: readonly string[]): string[] {
  return names.map((name) => accountPrefix(account) + name)
}

export function rowsKey(account: string): string {
  return `${accountPrefix(account)}u`
}

const START_MS = 5000
/** Deadline of requests that no client waits for. */
const BACKGROUND_MS = 2000
/** A connection that is silent for this long while an answer is due counts as lost. */
const SILENCE_MS = 500
const CONNECT_MS = 1000
/** Least delay of a timer that shows that the process did not run. */
const LATE_MS = 25
/** Pause before a request is repeated whose connection was lost. */
const PAUSE_MS = 20
/** Least time between two reconnections because the server has become a replica. */
const REPLICA_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 500
/** Least time between two log entries of the same refusal. */
const SAME_REFUSAL_MS = 60_000
/** How often a script is run that shows whether the ledger can be written. */
const PULSE_MS = 1000
const PULSE_DEADLINE_MS = 500
/** A ledger whose last pulse is older than this cannot be written. */
const PULSE_LASTS_MS = 2500
/** Time between two looks at the memory of the servers. */
const MEMORY_MS = 10_000
/** Writes a key that is never read, as admissions write: a server may answer reads and refuse this. */
const PULSE_SCRIPT = "redis.call('SET', KEYS[1], '1', 'EX', 60) return 1"
/** How often the list of a cluster's servers is read. */
const REFRESH_MS = 5000

const OPTIONS = {
  // Redis counts with 64 bits, a number of JavaScript is exact to 53.
  stringNumbers: true,
  // The caller has given up by the time a lost connection is back.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  socketTimeout: SILENCE_MS,
  connectTimeout: CONNECT_MS,
} satisfies RedisOptions

/**
 * Connects, and checks that the servers can hold a ledger.
 * @param holdsLedger false for servers whose contents may be lost: these may have any settings
 * @param url `redis://` or `rediss://`; for a cluster, a list of one or more of its nodes
 * @throws ConfigError when ioredis is missing, a URL is malformed, no server answers, or a server cannot hold a ledger
 */
export async function connect(
  url: string | readonly string[],
  log: Log,
  holdsLedger = true,
): Promise<Connected> {
  const urls = (typeof url === 'string' ? [url] : url).map(parse)
  if (urls.length === 0) throw refused('expected at least one URL')
  const redis = await loadDriver()
  const driver = redis(typeof url === 'string' ? serverOptions(url) : clusterOptions(urls))
  const connection = new RedisConnection(driver.getInstance!(), log, holdsLedger)
  try {
    const { refusal, risks } = await connection.open()
    if (refusal !== undefined) throw refused(refusal)
    if (holdsLedger) await connection.startPulse()
    for (const risk of risks) log.warn(risk)
    await connection.renewFiles()
    return { connection, driver: driver as Driver }
  } catch (error) {
    connection.close()
    throw error
  }
}

/** Sends requests with deadlines, and notifies its listener when Redis may have lost recent writes. */
export class RedisConnection {
  readonly client: Redis | Cluster
  readonly #log: Log
  readonly #holdsLedger: boolean
  #ready = Promise.withResolvers<void>()
  #connected = false
  /** The error with which Redis refused a request since the last pulse; '' if it did not. */
  #refusal = ''
  /** Steady ms of the last pulse that succeeded. */
  #pulsedAt = -Infinity
  #pulse: NodeJS.Timeout | undefined
  /** One key for each primary. */
  #pulseKeys: readonly string[] = []
  /** The refusal that was logged last, and its time, steady ms. */
  #logged = ''
  #loggedAt = -Infinity
  #opened = false
  #closed = false
  #lastError = 'it does not answer, or is still loading its data'
  #primaries = ''
  /** Whether writes wait for the end of this turn. */
  #gathers = false
  #returned: () => void = () => {}
  #connections = 0
  #memoryUsed = 0
  /** Steady ms. */
  #memoryAt = -Infinity

  constructor(client: Redis | Cluster, log: Log, holdsLedger: boolean) {
    this.client = client
    this.#log = log
    this.#holdsLedger = holdsLedger
    client.on('ready', () => this.#arrive())
    client.on('close', () => this.#lose())
    client.on('error', (error: Error & { lastNodeError?: Error }) => {
      this.#lastError = (error.lastNodeError ?? error).message
    })
    if (!isCluster(client)) return
    client.on('+node', () => this.#return())
    client.on('refresh', () => this.#comparePrimaries(client))
  }

  /** Whether the ledger can be written: the connection is up, and a script has written within the last seconds. */
  get ok(): boolean {
    if (!this.#connected || this.#refusal !== '') return false
    return !this.#holdsLedger || performance.now() - this.#pulsedAt < PULSE_LASTS_MS
  }

  /** The cause while it is not {@link ok}. */
  get why(): string | undefined {
    if (this.ok) return undefined
    if (this.#refusal !== '') return `Redis refuses: ${this.#refusal}`
    return `Redis cannot be reached: ${this.#lastError}`
  }

  /** Share of its memory that the fullest server uses; 0 where there is no bound. */
  get memoryUsed(): number {
    return this.#memoryUsed
  }

  /** Number of connections so far: a store may have lost recent writes with each, or be another one. */
  get connections(): number {
    return this.#connections
  }

  /** @param listener called whenever the connection is back, or another server has become primary */
  onReturn(listener: () => void): void {
    this.#returned = listener
  }

  /** Waits for the servers and inspects them. @throws ConfigError when they do not answer, or refuse the connection */
  async open(): Promise<Awaited<ReturnType<typeof inspectServers>>> {
    const rejected = Promise.withResolvers<never>()
    const listen = (error: Error) => {
      if (isRefusal(error)) rejected.reject(error)
    }
    this.client.on('error', listen)
    try {
      const inspect = this.#holdsLedger ? inspectServers : reachServers
      const inspection = this.ask(() => inspect(this.client), START_MS)
      return await Promise.race([inspection, rejected.promise])
    } catch {
      throw refused(`Redis cannot be reached: ${this.#lastError}.`)
    } finally {
      this.client.off('error', listen)
      this.#opened = true
    }
  }

  /**
   * Runs a script that writes, now and every second. What passes by itself (a full memory, a replica, a failing disk) only
   * makes {@link ok} false.
   * @throws ConfigError when the server does not run scripts at all
   */
  async startPulse(): Promise<void> {
    this.client.defineCommand('pulse', { numberOfKeys: 1, lua: PULSE_SCRIPT })
    await this.#beat(START_MS)
    // ioredis sends a script whole the first time, by its hash from then on.
    if (this.ok) await this.#beat(START_MS)
    if (/^NOPERM|unknown command/.test(this.#refusal)) {
      const name = serversOf(this.client).map(nameOf).join(', ')
      throw refused(
        `${name} does not run scripts ("${this.#refusal}"): allow EVALSHA, EVAL and SCRIPT LOAD.`,
      )
    }
    this.#pulse = setInterval(() => void this.#beat(), PULSE_MS)
    this.#pulse.unref()
  }

  async #beat(deadlineMs = PULSE_DEADLINE_MS): Promise<void> {
    const client = this.client as (Redis | Cluster) & { pulse(key: string): Promise<unknown> }
    try {
      await this.#within(async () => {
        if (this.#pulseKeys.length === 0) this.#pulseKeys = await pulseKeys(client)
        await Promise.all(this.#pulseKeys.map((key) => client.pulse(key)))
      }, deadlineMs)
      this.#refusal = ''
      this.#pulsedAt = performance.now()
      if (this.#pulsedAt - this.#memoryAt > MEMORY_MS) void this.#lookAtMemory()
    } catch (cause) {
      if (isRefusal(cause)) this.#report(cause.message)
    }
  }

  async #lookAtMemory(): Promise<void> {
    this.#memoryAt = performance.now()
    // A server that does not answer has an alert of its own.
    const servers = await memoryOf(this.client).catch(() => undefined)
    if (!servers) return
    this.#memoryUsed = Math.max(...servers.map(({ used, most }) => (most > 0 ? used / most : 0)))
  }

  /** See {@link renewFiles}; a failure is logged. */
  async renewFiles(): Promise<void> {
    if (!this.#holdsLedger) return
    try {
      await this.#within(() => renewFiles(this.client), START_MS)
    } catch (error) {
      if (!isRefusal(error) || /already|in progress/.test(error.message)) return
      this.#log.warn(
        `Redis does not write its append-only file anew (${error.message}): if it was killed, the file may ` +
          'hold part of a script, which the next start of Redis would book. Run BGREWRITEAOF.',
      )
    }
  }

  /**
   * Sends a request as soon as there is a connection. It may be sent twice, so it has to be idempotent.
   * @param ms the deadline, which includes the time to connect
   * @throws Unavailable when it passes, or Redis refuses
   */
  async ask<T>(send: () => Promise<T>, ms = BACKGROUND_MS): Promise<T> {
    try {
      return await this.#within(send, ms)
    } catch (cause) {
      if (isRefusal(cause)) this.#report(cause.message)
      const message = 'The gateway cannot reach its ledger right now.'
      throw new Unavailable('service_unavailable', message, { cause })
    }
  }

  /** Sends a request for each of many items, some at a time, each time as {@link ask} does. @returns answers in their order */
  async askMany<Item, Answer>(
    items: readonly Item[],
    send: (item: Item) => Promise<Answer>,
  ): Promise<Answer[]> {
    const answers: Answer[] = []
    for (const some of batchesOf(items)) {
      answers.push(...(await this.ask(() => Promise.all(some.map(send)))))
    }
    return answers
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#pulse)
    this.client.disconnect()
  }

  #within<T>(send: () => Promise<T>, ms: number): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let failure: Error | undefined
      let late = false
      const due = performance.now() + ms
      const giveUp = () => {
        late = true
        reject(failure ?? new Error(`Redis has not answered within ${ms} ms`))
      }
      // A late timer shows that this process did not run: an answer may have waited as long, or the connection was given up.
      let timer = setTimeout(() => {
        if (performance.now() - due < LATE_MS) giveUp()
        else timer = setTimeout(giveUp, ms)
      }, ms)
      const attempt = async () => {
        for (;;) {
          if (!this.#connected) await this.#ready.promise
          if (late) return
          this.#gather()
          try {
            return resolve(await send())
          } catch (error) {
            if (isRefusal(error)) throw error
            failure = error as Error
          }
          // A lost connection is soon replaced.
          await sleep(PAUSE_MS)
        }
      }
      attempt()
        .catch(reject)
        .finally(() => clearTimeout(timer))
    })
  }

  /** What is sent in one turn of the event loop goes out in one write: 8 % less processor time of a request. */
  #gather(): void {
    const { client } = this
    if (this.#gathers || isCluster(client)) return
    const { stream } = client
    this.#gathers = true
    stream.cork()
    setImmediate(() => {
      this.#gathers = false
      stream.uncork()
    })
  }

  /** Logs a refusal, the same one at most once a minute: every call may cause it. */
  #report(message: string): void {
    // Redis adds the script and the line.
    const [refusal = ''] = message.split(' script: ')
    const now = performance.now()
    if (refusal !== this.#logged || now - this.#loggedAt > SAME_REFUSAL_MS) {
      this.#log.error(`Redis refuses: ${refusal}`)
      this.#logged = refusal
      this.#loggedAt = now
    }
    this.#lastError = refusal
    this.#refusal = refusal
  }

  #arrive(): void {
    this.#connected = true
    this.#ready.resolve()
    if (!this.#opened) return
    this.#log.info('Redis is back')
    if (this.#pulse) void this.#beat()
    this.#return()
  }

  #return(): void {
    this.#connections++
    this.#returned()
    if (this.#opened) void this.renewFiles()
  }

  #lose(): void {
    if (!this.#connected) return
    this.#connected = false
    this.#ready = Promise.withResolvers()
    if (!this.#closed) this.#log.warn('the connection to Redis is lost')
  }

  #comparePrimaries(cluster: Cluster): void {
    const primaries = cluster
      .nodes('master')
      .map(({ options }) => `${options.host}:${options.port}`)
    const names = primaries.sort().join()
    if (names === this.#primaries) return
    this.#primaries = names
    this.#pulseKeys = []
    this.#return()
  }
}

function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

async function loadDriver() {
  try {
    return (await import('unstorage/drivers/redis')).default
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    const message =
      'needs the package "ioredis": install it beside the gateway (npm install ioredis@5).'
    throw new ConfigError('the configuration', [{ path: 'state.driver', message }])
  }
}

/** Reconnects when the server has become a replica: its address leads to the new primary, or soon will. */
function leaveReplicas(): (error: Error) => boolean {
  let last = -Infinity
  return ({ message }) => {
    const now = performance.now()
    if (!message.startsWith('READONLY') || now - last < REPLICA_PAUSE_MS) return false
    last = now
    return true
  }
}

function retryStrategy(times: number): number {
  return Math.min(50 * times, LONGEST_PAUSE_MS)
}

function serverOptions(url: string) {
  return {
    ...OPTIONS,
    url,
    base: PREFIX,
    enableOfflineQueue: false,
    retryStrategy,
    reconnectOnError: leaveReplicas(),
  }
}

/** Options of a cluster. User, password and encryption are those of the first node. */
function clusterOptions(urls: readonly URL[]) {
  const { username, password, protocol } = urls[0]!
  const encrypted = protocol === 'rediss:'
  return {
    base: PREFIX,
    cluster: urls.map(({ hostname, port }) => ({ host: hostname, port: Number(port || 6379) })),
    clusterOptions: {
      slotsRefreshInterval: REFRESH_MS,
      maxRedirections: 5,
      redisOptions: {
        ...OPTIONS,
        ...(username && { username: decodeURIComponent(username) }),
        ...(password && { password: decodeURIComponent(password) }),
        ...(encrypted && { tls: {} }),
      },
    },
  }
}

/** Parses a URL. The message of the error does not repeat it, because it may contain a password. */
function parse(url: string): URL {
  const parsed = URL.parse(url)
  if (parsed?.hostname && /^rediss?:$/.test(parsed.protocol)) return parsed
  throw refused('expected a URL such as "redis://127.0.0.1:6379"')
}

function refused(message: string): ConfigError {
  return new ConfigError('the configuration', [{ path: 'state.url', message }])
}

// Checks whether servers can hold a ledger, and which risks their settings carry.

interface ServerInfo {
  /** Why a server cannot be used, and the necessary change. */
  readonly refusal?: string
  /** Possible losses in a crash, one sentence each. */
  readonly risks: readonly string[]
}

const OLDEST_MAJOR = 7

type Fields = Readonly<Record<string, string | undefined>>

export function isCluster(client: Redis | Cluster): client is Cluster {
  return client.isCluster
}

export function serversOf(client: Redis | Cluster): readonly Redis[] {
  return isCluster(client) ? client.nodes('master') : [client]
}

/** Reads version, role and settings of the servers. @throws Error when a server does not answer */
async function inspectServers(client: Redis | Cluster): Promise<ServerInfo> {
  const inspections = await Promise.all(
    serversOf(client).map(async (node) => {
      const fields = fieldsOf(await node.info())
      const refusal = refusalOf(fields, isCluster(client))
      if (refusal !== undefined) return { refusal: `${nameOf(node)} ${refusal}`, risks: [] }
      const risks = risksOf(fields, await settingsOf(node))
      return { risks: risks.map((risk) => `${nameOf(node)} ${risk}`) }
    }),
  )
  const refused = inspections.find(({ refusal }) => refusal !== undefined)
  return refused ?? { risks: inspections.flatMap(({ risks }) => risks) }
}

/** Memory of each server, in bytes; `most` is 0 where it has no bound. @throws Error when a server does not answer */
export async function memoryOf(
  client: Redis | Cluster,
): Promise<readonly { readonly used: number; readonly most: number }[]> {
  return Promise.all(
    serversOf(client).map(async (server) => {
      const { used_memory: used, maxmemory: most } = fieldsOf(await server.info('memory'))
      return { used: Number(used), most: Number(most) }
    }),
  )
}

/** A key for each primary: scripts of a cluster run where the slot of their key is. */
async function pulseKeys(client: Redis | Cluster): Promise<readonly string[]> {
  const keys = new Map<string, string>()
  const primaries = serversOf(client).length
  for (let n = 0; keys.size < primaries; n++) {
    const key = `${PREFIX}:pulse:${n}`
    if (!isCluster(client)) return [key]
    const slot = Number(await client.cluster('KEYSLOT', key))
    keys.set(client.slots[slot]?.[0] ?? '', key)
  }
  return [...keys.values()]
}

/** Waits for the servers. @throws Error when one does not answer */
async function reachServers(client: Redis | Cluster): Promise<ServerInfo> {
  await Promise.all(serversOf(client).map((node) => node.ping()))
  return { risks: [] }
}

/**
 * Rewrites append-only files that were not rewritten since their servers started. A server that is killed while it writes the
 * effects of a script drops them at its next start, but may leave part of them in the file and apply that part at the start
 * after (seen with Redis 7.0; newer versions of Valkey remove the part).
 * @throws Error when a server does not answer, or does not permit the command
 */
async function renewFiles(client: Redis | Cluster): Promise<void> {
  await Promise.all(
    serversOf(client).map(async (node) => {
      const fields = fieldsOf(await node.info('persistence'))
      const { aof_enabled: enabled, aof_rewrites: done, aof_rewrite_in_progress: running } = fields
      if (enabled === '1' && done === '0' && running === '0') await node.bgrewriteaof()
    }),
  )
}

function refusalOf(fields: Fields, cluster: boolean): string | undefined {
  const { redis_version: version = '', maxmemory_policy: policy = 'noeviction' } = fields
  if (Number.parseInt(version, 10) < OLDEST_MAJOR) {
    return (
      `is version ${version}: ${OLDEST_MAJOR}.0 or newer is needed, because before it a server could ` +
      'replicate scripts as text, and its replicas would then use their own clocks.'
    )
  }
  if (policy !== 'noeviction') {
    return `would throw money away when its memory is full: set its maxmemory-policy to noeviction, not ${policy}.`
  }
  if (fields.role === 'slave') return 'is a replica: take the address of its primary.'
  if (fields.cluster_enabled === '1' && !cluster) {
    return 'is one of a cluster: give "url" a list of its nodes, if only of this one.'
  }
  return undefined
}

/** @param settings undefined when the server does not permit to read them */
function risksOf(fields: Fields, settings: Fields | undefined): string[] {
  if (fields.aof_enabled === '0') {
    return [
      'keeps no append-only file: what was booked since its last snapshot is lost with the process. ' +
        'Set appendonly to yes.',
    ]
  }
  if (!settings) {
    return [
      'does not permit CONFIG GET: whether it writes to disk in time, and waits for replicas, is not known.',
    ]
  }
  const { appendfsync, 'min-replicas-to-write': least } = settings
  const replicated = Number(fields.connected_slaves) > 0
  const risks: string[] = []
  if (appendfsync === 'no') {
    risks.push(
      'leaves it to the system when to write to disk: a power cut takes half a minute of bookings. ' +
        'Set appendfsync to always, or with replicas to everysec.',
    )
  }
  if (appendfsync === 'everysec' && !replicated) {
    risks.push(
      'writes to disk every second: a power cut takes up to two seconds of bookings, and they are ' +
        'booked again only if this process survives it. Set appendfsync to always.',
    )
  }
  if (replicated && least === '0') {
    risks.push(
      'does not wait for its replicas: a failover forgets what they had not yet, and it is booked ' +
        'again only if this process survives it. Set min-replicas-to-write to 1.',
    )
  }
  return risks
}

async function settingsOf(node: Redis): Promise<Fields | undefined> {
  try {
    const answer = (await node.config('GET', 'appendfsync', 'min-replicas-to-write')) as string[]
    const pairs = answer.flatMap((name, i) => (i % 2 === 0 ? [[name, answer[i + 1]]] : []))
    return Object.fromEntries(pairs)
  } catch {
    return undefined
  }
}

function fieldsOf(info: string): Fields {
  const lines = info.split('\r\n').filter((line) => line.includes(':'))
  return Object.fromEntries(lines.map((line) => line.split(/:(.*)/s, 2)))
}

function nameOf({ options: { host, port } }: Redis): string {
  return `Redis at ${host}:${port}`
}
