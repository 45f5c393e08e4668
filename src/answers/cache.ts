/** Answers of models that equal requests get again: names, keys, and a storage whose faults reach no call. */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import type { Storage } from 'unstorage'
import { atMost } from '../lifetime/cache.ts'
import { inTime } from '../lifetime/scope.ts'
import { parseExactly } from '../plugin.ts'
import type { Records } from '../state/records.ts'
import { Flight, type StoredAnswer } from './flight.ts'
import { AnswerStorage } from './storage.ts'

/** Keys of one account, until its answers are purged. */
export interface AccountKeys {
  readonly seal: Buffer
  readonly name: Buffer
}

interface CacheOptions {
  readonly storage: Storage
  /** Name of the driver, for operators. */
  readonly driver: string
  /** The folder of a driver that keeps files, which is swept. */
  readonly folder: string | undefined
  /** Most bytes of an entry as stored, and of the folder. */
  readonly mostEntryBytes: number
  readonly mostBytes: number
  readonly timeoutMs: number
  readonly maxTtl: number
  /** Is told of each result, and of what a stored answer has saved. */
  readonly metrics: {
    answered(result: string): void
    saved(amount: bigint, model: string): void
  }
  readonly warn: (message: string) => void
}

const SECRET = 'secret:answers'
const MOST_WRITES = 32
/** Faults in a row after which the storage is left alone for a while. */
const MOST_FAULTS = 5
const REST_MS = 10_000
const SWEEP_MS = 3_600_000
const KEYS = 10_000

const RESULTS = ['hit', 'joined', 'miss', 'pass', 'stored', 'too_large', 'late', 'failed'] as const
type CacheResult = (typeof RESULTS)[number]

export class AnswerCache {
  /** The counts since the start. */
  readonly counts = Object.fromEntries(RESULTS.map((one) => [one, 0])) as Record<
    CacheResult,
    number
  >
  /** What stored answers have cost less than new ones, in picodollars. */
  saved = 0n
  readonly driver: string
  readonly #options: CacheOptions
  readonly #answers: AnswerStorage
  readonly #flights = new Map<string, Flight>()
  readonly #keys = new LRUCache<string, AccountKeys>(atMost(KEYS))
  #secret: Promise<string> | undefined
  #writes = 0
  #faults = 0
  /** Steady ms. */
  #restsUntil = 0
  readonly #sweeping: NodeJS.Timeout | undefined

  constructor(options: CacheOptions) {
    this.#options = options
    this.driver = options.driver
    this.#answers = new AnswerStorage(options.storage)
    void this.#probe().catch((error: unknown) => this.#failed(error))
    if (options.folder !== undefined) {
      this.#sweeping = setInterval(() => void this.sweep(), SWEEP_MS).unref()
    }
  }

  get state(): 'ok' | 'resting' {
    return performance.now() < this.#restsUntil ? 'resting' : 'ok'
  }

  count(result: CacheResult): void {
    this.counts[result]++
    this.#options.metrics.answered(result)
  }

  /** Counts what the client of a stored answer has not paid, in picodollars. @param model its label */
  save(amount: bigint, model: string): void {
    this.saved += amount
    this.#options.metrics.saved(amount, model)
  }

  /** @param salt the salt of the account; a new one makes all its answers unreadable */
  async keysOf(records: Records, account: string, salt = ''): Promise<AccountKeys> {
    const id = `${account}\0${salt}`
    const cached = this.#keys.get(id)
    if (cached) return cached
    const secret = await this.#secretOf(records)
    const derived = (info: string) => Buffer.from(hkdfSync('sha256', secret, id, info, 32))
    const keys = { seal: derived('answers'), name: derived('answers:names') }
    this.#keys.set(id, keys)
    return keys
  }

  #secretOf(records: Records): Promise<string> {
    const read = async () => {
      await records.create(SECRET, { secret: randomBytes(32).toString('hex') })
      return (await records.get<{ secret: string }>(SECRET))!.secret
    }
    return (this.#secret ??= read().catch((error: unknown) => {
      this.#secret = undefined
      throw error
    }))
  }

  /** The call that asks for a name at the moment; undefined where this one does, from now on. */
  fly(name: string): Flight | undefined {
    const flight = this.#flights.get(name)
    if (!flight) this.#flights.set(name, new Flight(() => this.#flights.delete(name)))
    return flight
  }

  /** The call that asks for a name has ended. @param stored resolves when the answer can be found */
  land(name: string, answer?: StoredAnswer, stored = Promise.resolve()): void {
    const flight = this.#flights.get(name)
    if (answer) flight?.end(answer, stored)
    else flight?.pass()
  }

  /** The answer of a name; undefined where there is none, and for every fault of the storage. */
  async find(name: string, { seal }: AccountKeys): Promise<StoredAnswer | undefined> {
    if (this.state === 'resting') return undefined
    try {
      const bytes = await this.#timely(this.#answers.get(name, seal))
      if (!bytes) return undefined
      const answer = parseExactly(bytes.toString()) as StoredAnswer
      const age = (Date.now() - answer.at) / 1000
      return age <= answer.ttl ? answer : undefined
    } catch (error) {
      this.#failed(error)
      return undefined
    }
  }

  /** Stores an answer. Never rejects; no call waits for it. */
  async store(name: string, { seal }: AccountKeys, answer: StoredAnswer): Promise<void> {
    if (this.#writes >= MOST_WRITES || this.state === 'resting') return this.count('failed')
    const value = Buffer.from(JSON.stringify(answer))
    const { mostEntryBytes } = this.#options
    this.#writes++
    try {
      const put = this.#answers.put(name, value, answer.ttl, seal, mostEntryBytes)
      this.count((await this.#timely(put)) ? 'stored' : 'too_large')
    } catch (error) {
      this.#failed(error)
    } finally {
      this.#writes--
    }
  }

  drop(name: string): void {
    void this.#answers.drop(name).catch((error: unknown) => this.#failed(error))
  }

  /** Writes, reads and removes an entry, so that a storage that cannot be used is told of at once. */
  async #probe(): Promise<void> {
    const name = `a:probe-${randomBytes(8).toString('hex')}`
    const key = randomBytes(32)
    await this.#answers.put(name, Buffer.from('probe'), 60, key)
    const value = await this.#answers.get(name, key)
    await this.#answers.drop(name)
    if (value?.toString() !== 'probe') throw new Error('the storage does not give back what it got')
  }

  /** Removes files that are too old, then the oldest ones of too many. */
  async sweep(now = Date.now()): Promise<void> {
    const { folder, maxTtl, mostBytes } = this.#options
    if (folder === undefined) return
    try {
      const files = await filesIn(folder)
      files.sort((a, b) => b.at - a.at)
      let bytes = 0
      for (const { path, at, size } of files) {
        bytes += size
        if (now - at > maxTtl * 1000 || bytes > mostBytes) await rm(path, { force: true })
      }
    } catch (error) {
      this.#options.warn(`stored answers could not be swept: ${String(error)}`)
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping)
    await this.#options.storage.dispose().catch(() => {})
  }

  async #timely<T>(pending: Promise<T>): Promise<T> {
    // One that is late may still fail.
    pending.catch(() => {})
    const value = await inTime(pending, this.#options.timeoutMs, () => new Late())
    this.#faults = 0
    return value
  }

  #failed(error: unknown): void {
    this.count(error instanceof Late ? 'late' : 'failed')
    this.#options.warn(`the storage of answers has failed: ${String(error)}`)
    if (++this.#faults < MOST_FAULTS) return
    this.#faults = 0
    this.#restsUntil = performance.now() + REST_MS
  }
}

/** The storage has not answered in time. */
class Late extends Error {
  constructor() {
    super('the storage has not answered in time')
  }
}

/**
 * The name of an entry. Who reads the storage can neither read nor guess a request.
 * @param material what apart from the text has to be equal
 * @param text the request that would go to the vendor
 */
export function nameOf({ name }: AccountKeys, material: readonly unknown[], text: string): string {
  const digest = createHmac('sha256', name)
    .update(JSON.stringify(material))
    .update('\0')
    .update(text)
    .digest('hex')
  return `a:${digest.slice(0, 40)}`
}

interface StoredFile {
  readonly path: string
  readonly at: number
  readonly size: number
}

async function filesIn(folder: string): Promise<StoredFile[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files: StoredFile[] = []
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const { mtimeMs: at, size } = await stat(path)
    files.push({ path, at, size })
  }
  return files
}
