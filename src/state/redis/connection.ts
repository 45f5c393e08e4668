/**
 * The one connection to Redis that records and ledger share: made by unstorage's driver, checked at the start, and asked
 * with deadlines. A question that could not be sent in time is never sent: what was given up must not happen later.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster, Redis, RedisOptions } from 'ioredis'
import type { Driver } from 'unstorage'
import { ConfigError, Unavailable } from '../../errors/errors.ts'
import type { Log } from '../ledger/ledger.ts'
import { inspectServers, isCluster, renewFiles } from './server-checks.ts'

export interface Connected {
  readonly connection: RedisConnection
  /** Of unstorage, on the same connection. */
  readonly driver: Driver
}

/** What every key begins with. */
export const PREFIX = 'gw'

/** What the keys of an account begin with; the braces keep them in one slot of a cluster. */
export function accountPrefix(account: string): string {
  return `${PREFIX}:{${account}}:`
}

/** The key of an account's rows. */
export function rowsKey(account: string): string {
  return `${accountPrefix(account)}u`
}

const START_MS = 5000
/** A server that owes an answer and is silent for so long is taken for gone. */
const SILENCE_MS = 500
const CONNECT_MS = 1000
/** Before a question is repeated whose connection was lost. */
const PAUSE_MS = 20
/** Between two attempts to leave a server that has become a replica. */
const REPLICA_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 500
/** Before the operator is told of the same refusal again. */
const SAME_REFUSAL_MS = 60_000
/** How often a cluster is asked which servers it has. */
const REFRESH_MS = 5000

const OPTIONS = {
  // What Redis counts with 64 bits does not fit a double.
  stringNumbers: true,
  // Whoever asked has given up by the time a lost connection is back.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  socketTimeout: SILENCE_MS,
  connectTimeout: CONNECT_MS,
} satisfies RedisOptions

/**
 * Connects, and checks that what is there can hold a ledger.
 * @param url `redis://` or `rediss://`; of a cluster, a list with one or more of its nodes
 * @throws ConfigError when ioredis is missing, a URL is malformed, nothing answers, or a server is not fit
 */
export async function connect(url: string | readonly string[], log: Log): Promise<Connected> {
  const urls = (typeof url === 'string' ? [url] : url).map(parse)
  if (urls.length === 0) throw refused('expected at least one URL')
  const redis = await loadDriver()
  const driver = redis(typeof url === 'string' ? serverOptions(url) : clusterOptions(urls))
  const connection = new RedisConnection(driver.getInstance!(), log)
  try {
    const { refusal, risks } = await connection.open()
    if (refusal !== undefined) throw refused(refusal)
    for (const risk of risks) log.warn(risk)
    await connection.renewFiles()
    return { connection, driver: driver as Driver }
  } catch (error) {
    connection.close()
    throw error
  }
}

/** Asks with deadlines, and tells when the store may have forgotten something. */
export class RedisConnection {
  readonly client: Redis | Cluster
  readonly #log: Log
  #ready = Promise.withResolvers<void>()
  #connected = false
  /** What the store last answered instead of doing what it was asked; '' if it did. */
  #refusal = ''
  /** The refusal that was logged last, and when, steady ms. */
  #told = ''
  #toldAt = -Infinity
  #opened = false
  #closed = false
  #lastError = 'it does not answer, or is still loading what it has'
  #primaries = ''
  #returned: () => void = () => {}

  constructor(client: Redis | Cluster, log: Log) {
    this.client = client
    this.#log = log
    client.on('ready', () => this.#arrive())
    client.on('close', () => this.#lose())
    client.on('error', (error: Error & { lastNodeError?: Error }) => {
      this.#lastError = (error.lastNodeError ?? error).message
    })
    if (!isCluster(client)) return
    client.on('+node', () => this.#return())
    client.on('refresh', () => this.#comparePrimaries(client))
  }

  /** Whether the store answers, as far as is known. */
  get ok(): boolean {
    return this.#connected && this.#refusal === ''
  }

  /** @param listener called whenever the store is back, or another server has taken over */
  onReturn(listener: () => void): void {
    this.#returned = listener
  }

  /** Waits for the store and looks at it. @throws ConfigError when it does not answer, or does not let us in */
  async open(): Promise<Awaited<ReturnType<typeof inspectServers>>> {
    const turnedAway = Promise.withResolvers<never>()
    const listen = (error: Error) => {
      if (isAnswer(error)) turnedAway.reject(error)
    }
    this.client.on('error', listen)
    try {
      const inspection = this.ask(START_MS, () => inspectServers(this.client))
      return await Promise.race([inspection, turnedAway.promise])
    } catch {
      throw refused(`Redis cannot be reached: ${this.#lastError}.`)
    } finally {
      this.client.off('error', listen)
      this.#opened = true
    }
  }

  /** Sees to what a killed server may have left in its file; see {@link renewFiles}. */
  async renewFiles(): Promise<void> {
    try {
      await this.#within(START_MS, () => renewFiles(this.client))
    } catch (error) {
      if (!isAnswer(error) || /already|in progress/.test(error.message)) return
      this.#log.warn(
        `Redis does not write its append-only file anew (${error.message}): if it was killed, the file may ` +
          'have remains of a script in it, and the next start of Redis would book them. See to BGREWRITEAOF.',
      )
    }
  }

  /**
   * The answer to a question that is sent as soon as the store can be asked.
   * @param ms the deadline, connecting included
   * @throws Unavailable when it passes, or the store refuses
   */
  async ask<T>(ms: number, send: () => Promise<T>): Promise<T> {
    try {
      const answer = await this.#within(ms, send)
      this.#refusal = ''
      return answer
    } catch (cause) {
      if (isAnswer(cause)) this.#report(cause.message)
      const message = 'The gateway cannot reach its ledger right now.'
      throw new Unavailable('service_unavailable', message, { cause })
    }
  }

  close(): void {
    this.#closed = true
    this.client.disconnect()
  }

  #within<T>(ms: number, send: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let failure = new Error(`Redis has not answered within ${ms} ms`)
      let late = false
      const timer = setTimeout(() => {
        late = true
        reject(failure)
      }, ms)
      const attempt = async () => {
        for (;;) {
          if (!this.#connected) await this.#ready.promise
          if (late) return
          try {
            return resolve(await send())
          } catch (error) {
            if (isAnswer(error)) throw error
            failure = error as Error
          }
          // A lost connection is soon replaced, and whatever is asked can be asked twice.
          await sleep(PAUSE_MS)
        }
      }
      attempt()
        .catch(reject)
        .finally(() => clearTimeout(timer))
    })
  }

  /** Once a minute, as long as the refusals are the same: every call may meet with one. */
  #report(message: string): void {
    // Lua adds which script it was, and where in it.
    const [refusal = ''] = message.split(' script: ')
    const now = performance.now()
    if (refusal !== this.#told || now - this.#toldAt > SAME_REFUSAL_MS) {
      this.#log.error(`Redis refuses: ${refusal}`)
      this.#told = refusal
      this.#toldAt = now
    }
    this.#lastError = refusal
    this.#refusal = refusal
  }

  #arrive(): void {
    this.#connected = true
    this.#ready.resolve()
    if (!this.#opened) return
    this.#log.info('Redis is back')
    this.#return()
  }

  #return(): void {
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
    this.#return()
  }
}

/** Whether Redis itself said no. */
function isAnswer(error: unknown): error is Error {
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

/** A primary that has become a replica: its address leads to the new one, or soon will. */
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

/** The user, the password and whether to encrypt are those of the first node. */
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

/** The message repeats nothing of the URL: there may be a password in it. */
function parse(url: string): URL {
  const parsed = URL.parse(url)
  if (parsed?.hostname && /^rediss?:$/.test(parsed.protocol)) return parsed
  throw refused('expected a URL such as "redis://127.0.0.1:6379"')
}

function refused(message: string): ConfigError {
  return new ConfigError('the configuration', [{ path: 'state.url', message }])
}
