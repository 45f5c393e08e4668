import { hash } from 'node:crypto'
import { nameOf, type AccountKeys, type AnswerCache } from '../../answers/cache.ts'
import type { StoredAnswer } from '../../answers/flight.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import type { Model } from '../../models/catalog.ts'
import { entryOf } from '../../models/listing.ts'
import { firstFactor, timesFactor } from '../../models/markup.ts'
import type { CacheUse } from '../../models/entry.ts'
import { compilePrices, versionOf, type Prices } from '../../money/prices.ts'
import { costOf, isOfModel } from '../../money/money.ts'
import type { Feed, Producer, Sink } from '../../stream/chain.ts'
import { RawJson } from '../../stream/raw-json.ts'
import { hashOf } from '../call-record.ts'
import { fitTo } from '../fallbacks.ts'
import type { Call, ProviderAnswer, Stage } from '../pipeline.ts'

const HEADER = 'x-service-cache'
const MOST_BYTES = 4 * 1024 * 1024
/** Version of the form of entries. */
const FORM = 1
/** Parts of a stored answer that go out in one turn of the loop. */
const PARTS_A_TURN = 64
const ORDER = ['off', 'asked', 'on'] as const

type Pass = 'temperature' | 'search' | 'address' | 'size' | 'withheld' | 'form'

/** What the request says about stored answers. */
interface CacheDirective {
  readonly use: 'on' | 'off' | 'refresh'
  /** Seconds; an older answer is none. */
  readonly ttl: number | undefined
}

/**
 * Answers an equal request with the answer that is stored, or waits for an equal call that runs; keeps the answer of any other.
 * @param next the stage that asks a vendor, for a call that has waited in vain
 */
export function reuseBefore(next: Stage): Stage {
  return {
    name: 'reuse',
    before(call) {
      const { answers } = call.runtime
      return answers && call.endpoint.stored ? begin(call, answers, next) : undefined
    },
    end: (call) => call.made.target?.reuse?.end(),
  }
}

/** The lowest use of key and model; `off` where neither says anything. */
function useOf(key: CacheUse | undefined, { cache }: Pick<Model, 'cache'>): CacheUse {
  const places = [key, cache?.use].flatMap((one) => (one ? [ORDER.indexOf(one)] : []))
  return places.length === 0 ? 'off' : ORDER[Math.min(...places)]!
}

/** @throws InvalidRequest for another header */
function directiveIn(header: string | undefined): CacheDirective | undefined {
  if (header === undefined) return undefined
  const [, use, ttl] = /^(on|off|refresh)(?:\s*;\s*ttl=(\d{1,7}))?$/.exec(header.trim()) ?? []
  if (use === undefined) {
    const message = `Invalid ${HEADER}: expected on, off or refresh, such as "on; ttl=600".`
    throw new InvalidRequest('invalid_value', message, { param: null })
  }
  return { use: use as CacheDirective['use'], ttl: ttl === undefined ? undefined : Number(ttl) }
}

function begin(call: Call, cache: AnswerCache, next: Stage): Promise<void> | undefined {
  const { admission, target, incoming } = call
  const use = useOf(admission.key.cache, target.model)
  if (use === 'off') return undefined
  const directive = directiveIn(incoming.header(HEADER))
  if (directive?.use === 'off' || (use === 'asked' && !directive)) return undefined
  const from = { outbound: target.outbound, requiresNormalForm: target.requiresNormalForm }
  fitTo(call, target.model, from)
  const text = RawJson.stringify(withoutStream(target.outbound))
  const pass = passOf(call, text, directive !== undefined)
  Object.assign(target, from)
  if (pass) {
    call.headers[HEADER] = `pass; reason=${pass}`
    cache.count('pass')
    target.reuse = { result: 'pass', end() {} }
    return undefined
  }
  // What equal requests get is the same in every form.
  target.requiresNormalForm = true
  return new Reuse(call, cache, next, text, directive).begin()
}

function withoutStream(outbound: unknown): object {
  const { stream: _, stream_options: _options, ...rest } = outbound as Record<string, unknown>
  return rest
}

/** Why no stored answer can be used. */
function passOf(call: Call, text: string, isExplicit: boolean): Pass | undefined {
  const { endpoint, request, target } = call
  const { outbound } = target
  if (request.untranslatable) return 'form'
  if (endpoint.grounding?.searchRequest(request.input, target.online)) return 'search'
  if (endpoint.addresses && endpoint.addresses.of(outbound).length > 0) return 'address'
  if (target.withheld) return 'withheld'
  if (Buffer.byteLength(text) > MOST_BYTES) return 'size'
  return !isExplicit && endpoint.stored!.varies?.(outbound) ? 'temperature' : undefined
}

/** One call that may get a stored answer, or give one. */
class Reuse implements Feed<unknown>, Producer {
  result: 'hit' | 'joined' | 'miss' = 'miss'
  age: number | undefined
  readonly #call: Call
  readonly #cache: AnswerCache
  readonly #next: Stage
  readonly #text: string
  readonly #directive: CacheDirective | undefined
  #keys!: AccountKeys
  #name = ''
  /** Seconds; an older answer is none. */
  #maxAge = 0
  /** Parts of the vendor's answer; undefined where they are not stored. */
  #parts: unknown[] | undefined
  /** Whether other calls may wait for this one. */
  #flies = false
  #sink!: Sink<unknown>
  readonly isBilled = true
  #inner: Producer | undefined
  #paused = false
  #closed = false
  #stopWaiting: (() => void) | undefined

  constructor(
    call: Call,
    cache: AnswerCache,
    next: Stage,
    text: string,
    directive: CacheDirective | undefined,
  ) {
    this.#call = call
    this.#cache = cache
    this.#next = next
    this.#text = text
    this.#directive = directive
  }

  async begin(): Promise<void> {
    const call = this.#call
    const { admission, target, runtime } = call
    const { account, key } = admission
    const { scope, wait } = runtime.config.answers!
    const own = target.model.cache?.ttl ?? runtime.config.answers!.ttl
    this.#keys = await this.#cache.keysOf(runtime.records, account.id, account.answers)
    this.#name = nameOf(this.#keys, materialOf(call, scope === 'key' ? key.id : ''), this.#text)
    target.reuse = this
    call.through({ push: this.#pass.bind(this) })
    const isFresh = this.#directive?.use === 'refresh'
    this.#maxAge = Math.min(this.#directive?.ttl ?? own, own)
    const flight = isFresh || wait === 0 ? undefined : this.#cache.fly(this.#name)
    call.headers[HEADER] = 'miss'
    if (flight) {
      call.source = this
      return
    }
    // Equal calls wait for this one now.
    this.#flies = !isFresh && wait > 0
    const stored = isFresh ? undefined : await this.#cache.find(this.#name, this.#keys)
    call.throwIfAborted()
    if (!stored || !this.#isUsable(stored)) return this.#collect()
    if (this.#flies) this.#cache.land(this.#name, stored)
    this.#flies = false
    this.#take(stored, 'hit')
    call.source = new StoredParts(this.#unpacked(stored))
  }

  // The source of a call that waits.

  start(sink: Sink<unknown>): Producer {
    this.#sink = sink
    void this.#wait().catch((error: unknown) => this.#sink.fail(error))
    return this
  }

  discard(): void | Promise<void> {
    return this.close()
  }

  pause(): void {
    this.#paused = true
    this.#inner?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#inner?.resume()
  }

  close(complete = false): void | Promise<void> {
    this.#closed = true
    this.#stopWaiting?.()
    return this.#inner?.close(complete)
  }

  /** While it waits, a call holds what a stored answer costs. */
  async #wait(): Promise<void> {
    const call = this.#call
    const { admission, target, runtime } = call
    const pending = this.#awaitAnswer(runtime.config.answers!.wait * 1000)
    await admission.rehold!(target.model, Number(this.#price()))
    const answer = await pending
    if (this.#closed) return
    if (answer && this.#isUsable(answer)) {
      this.#take(answer, 'joined')
      return this.#run(new StoredParts(this.#unpacked(answer)))
    }
    const refused = await admission.rehold!(target.model)
    if (this.#closed) return
    if (refused) return this.#sink.fail(refused)
    this.#collect()
    void this.#next.before!(call)
    this.#run(call.source!)
  }

  /** The answer of the call that asks; undefined where it has none, and after a while. */
  #awaitAnswer(waitMs: number): Promise<StoredAnswer | undefined> {
    const { promise, resolve } = Promise.withResolvers<StoredAnswer | undefined>()
    const flight = this.#cache.fly(this.#name)
    if (!flight) {
      this.#flies = true
      resolve(undefined)
      return promise
    }
    const timeout = this.#call.timeout(waitMs, () => {
      this.#stopWaiting?.()
      resolve(undefined)
    })
    const stop = flight.wait((answer) => {
      // From now on this call is the one that the others wait for.
      this.#flies = answer === undefined
      timeout.clear()
      resolve(answer)
    })
    this.#stopWaiting = () => {
      stop()
      timeout.clear()
      resolve(undefined)
    }
    return promise
  }

  #run(feed: Feed<unknown>): void {
    this.#inner = feed.start(this.#sink)
    if (this.#paused) this.#inner.pause()
  }

  #price(): string {
    const { model } = this.#call.target
    return firstFactor(model.cache?.price, this.#call.runtime.config.answers!.price)
  }

  #collect(): void {
    this.#parts = []
    this.#cache.count('miss')
  }

  #pass(part: unknown, emit: (part: unknown) => void): void {
    this.#parts?.push(part)
    emit(part)
  }

  /** Whether it is young enough, and its deployment is there: a reasoning signature is of use to that alone. */
  #isUsable({ deployment, at }: StoredAnswer): boolean {
    if (Date.now() - at > this.#maxAge * 1000) return false
    return this.#call.target.model.deployments.some(({ id }) => id === deployment)
  }

  #take(answer: StoredAnswer, result: 'hit' | 'joined'): void {
    const call = this.#call
    const { model } = call.target
    const { usage, at, ttl } = answer
    this.result = result
    this.age = Math.max(0, Math.floor((Date.now() - at) / 1000))
    const left = Math.max(0, ttl - this.age)
    call.headers[HEADER] = `hit; age=${this.age}; ttl=${left}`
    this.#cache.count(result)
    const prices = shareOf(model, this.#price())
    call.answer.meter.push({ source: 'cache', usage, prices })
    const whole = costOf({ source: 'cache', usage, prices: model.prices })
    this.#cache.save(whole - costOf({ source: 'cache', usage, prices }), model.label)
  }

  #unpacked({ parts, deployment }: StoredAnswer): readonly unknown[] {
    const call = this.#call
    const { deployments } = call.target.model
    const unpacked = call.endpoint.stored!.unpack(call, parts)
    const { affinityToken } = (call.answer.state ?? {}) as Partial<ProviderAnswer>
    const token = affinityToken?.call(call.answer.state)
    // Only the deployment that has answered accepts its signature in the next turn.
    if (token !== undefined && deployments.length > 1) {
      const answered = deployments.find(({ id }) => id === deployment)!
      call.runtime.routing.pin({ account: call.admission.account.id }, token, answered)
    }
    call.dropContent()
    return unpacked
  }

  /** The call has ended. An answer is stored once its charge is booked. */
  end(): void | Promise<void> {
    const call = this.#call
    const { answer } = call
    if (this.result !== 'miss') {
      const isBlocked = answer.outcome === 'refused' || answer.error?.code === 'policy_violation'
      if (isBlocked) this.#cache.drop(this.#name)
      return
    }
    this.#stopWaiting?.()
    if (this.#parts && answer.outcome === 'completed' && call.charge) {
      return call.charge.book().then(() => this.#keep())
    }
    this.#keep()
  }

  #keep(): void {
    const answer = this.#storable()
    const stored = answer && this.#cache.store(this.#name, this.#keys, answer)
    if (this.#flies) this.#cache.land(this.#name, answer, stored)
  }

  #storable(): StoredAnswer | undefined {
    const { answer, target, request, runtime, endpoint } = this.#call
    const { outcome, bill, flags, meter, deployment } = answer
    const line = meter.find(isOfModel)
    if (!this.#parts || outcome !== 'completed' || !bill || flags.size > 0) return undefined
    if (target.replaced || !line || deployment === undefined) return undefined
    const parts = endpoint.stored!.pack(this.#parts, request.stream)
    if (parts === undefined) return undefined
    const ttl = target.model.cache?.ttl ?? runtime.config.answers!.ttl
    return { v: 1, at: Date.now(), ttl, deployment, usage: line.usage, parts }
  }
}

/** Gives the parts of a stored answer, some in each turn of the loop. */
class StoredParts implements Feed<unknown>, Producer {
  readonly #parts: readonly unknown[]
  #sink!: Sink<unknown>
  #at = 0
  #paused = false
  #over = false

  constructor(parts: readonly unknown[]) {
    this.#parts = parts
  }

  start(sink: Sink<unknown>): Producer {
    this.#sink = sink
    this.#turn()
    return this
  }

  discard(): void {
    this.#over = true
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    setImmediate(() => this.#turn())
  }

  close(): void {
    this.#over = true
  }

  #turn(): void {
    if (this.#over || this.#paused) return
    const until = Math.min(this.#at + PARTS_A_TURN, this.#parts.length)
    while (this.#at < until && !this.#over) this.#sink.push(this.#parts[this.#at++])
    if (this.#over) return
    if (this.#at === this.#parts.length) {
      this.#over = true
      return this.#sink.end()
    }
    if (this.#sink.batchEnd()) setImmediate(() => this.#turn())
    else this.#paused = true
  }
}

/** Prices of a stored answer, by those of its model. */
const shares = new WeakMap<Model, Map<string, Prices>>()

function shareOf(model: Model, factor: string): Prices {
  const byFactor = shares.get(model) ?? new Map<string, Prices>()
  shares.set(model, byFactor)
  let prices = byFactor.get(factor)
  if (!prices) byFactor.set(factor, (prices = compilePrices(timesFactor(model.pricing, factor))))
  return prices
}

/** Hashes of what models are, by the model. */
const hashes = new WeakMap<Model, string>()

/** What has to be equal beside the text, so that one call gets the answer of another. */
function materialOf(call: Call, key: string): readonly unknown[] {
  const { admission, target, endpoint, request } = call
  const { model, masked } = target
  const policies = [hashOf(admission.key.policy), hashOf(request.policy)]
  const prices = versionOf(model.prices)
  return [
    FORM,
    endpoint.operation,
    admission.account.id,
    key,
    model.id,
    printOf(model),
    prices,
    policies,
    ...(masked ? ['masked'] : []),
  ]
}

function printOf(model: Model): string {
  let print = hashes.get(model)
  if (print === undefined) {
    const { deployments, defaults, cache } = model
    const targets = deployments.map(({ provider, model: name, options }) => [
      provider,
      name,
      options,
    ])
    print = hash('sha256', JSON.stringify([entryOf(model), targets, defaults, cache]))
    hashes.set(model, print)
  }
  return print
}
