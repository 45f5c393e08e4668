import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AbortScope } from '../../lifetime/abort-scope.ts'
import type { Deployment } from '../../models/catalog.ts'
import { GatewayError, InvalidRequest, UpstreamFailure } from '../../errors/errors.ts'
import { concernsOperator, type Health } from '../../models/health.ts'
import type { Timeout } from '../../lifetime/timeouts.ts'
import { ClientDisconnected, type Call, type ProviderAnswer, type Stage } from '../pipeline.ts'
import { flowFrom } from '../../stream/flow.ts'
import type { Batch, Flow, ProviderRequest, Source, Usage } from '../../plugin.ts'
import { retryDelayMs, type SessionAffinity } from '../../models/routing.ts'

/**
 * Asks a deployment, and the next one while none has given a first part. The first pull dials: until then nothing has gone
 * upstream, and a failure still becomes a proper status.
 */
export const route: Stage = async function route(call) {
  const exchange = new FailoverSource(call)
  // A generator that was never started, or that waits for a read, does not run its `finally` when the client leaves.
  call.scope.defer(() => exchange.close())
  return { parts: flowFrom(exchange) }
}

const NOTHING_MORE: Batch<any> = { parts: [], last: true }

/** Everything between the first dial and the last part. Owns the upstream connection and the model's line on the meter. */
class FailoverSource implements Source<any> {
  readonly #call: Call
  readonly #drains: boolean
  #dialled = false
  #finished = false
  #metered = false
  #closed = false
  /** Its end, while that needs time. */
  #closing: Promise<void> | undefined
  #intake: ProviderAnswer | undefined
  /** What is left of an answer that comes in parts. */
  #flow: Flow<any> | undefined
  #branch: AbortScope | undefined
  #deployment: Deployment | undefined
  /** How the deployment has been doing; absent while it has nothing to do with this call. */
  #health: Health | undefined
  /** What `#health` said when the call began. */
  #began = 0
  /** What is being waited for. */
  #pending: Promise<Batch<any>> | undefined

  constructor(call: Call) {
    this.#call = call
    this.#drains = call.runtime.config.billing.onDisconnect === 'drain'
  }

  async next(): Promise<Batch<any>> {
    if (this.#closed) {
      await this.#closing
      return NOTHING_MORE
    }
    try {
      this.#pending = this.#intake ? this.#flow!.next() : this.#dial()
      const batch = await this.#pending
      const ending = this.#passed(batch)
      if (ending) await ending
      return batch
    } catch (error) {
      throw await this.#broken(error)
    }
  }

  /** Notes a batch on its way. A promise only if the end needs time. */
  #passed(batch: Batch<any>): void | Promise<void> {
    this.#finished = batch.last
    if (batch.last) this.#bind()
    if (!batch.last && !this.#closed) return undefined
    const ending = this.close()
    // An answer may begin after its call has ended.
    if (ending) return ending.then(() => this.#part())
    this.#part()
  }

  /** What the client should hear of it. */
  async #broken(error: unknown): Promise<unknown> {
    const failure = this.#failureOf(error)
    if (this.#health && UpstreamFailure.is(failure) && !this.#call.aborted) this.#blame(failure)
    await this.close()
    return failure
  }

  /**
   * Books what was consumed and lets the upstream go. Idempotent: whoever comes later waits for the same end. A promise
   * only while that needs time.
   */
  close(): void | Promise<void> {
    if (this.#closed) return this.#closing
    this.#closed = true
    const reads =
      this.#drains &&
      this.#dialled &&
      !this.#metered &&
      this.#call.aborted instanceof ClientDisconnected
    if (!reads) return this.#release()
    this.#closing = this.#readOn().then(() => this.#release())
    return this.#closing
  }

  #release(): void {
    this.#closing = undefined
    const call = this.#call
    const left = call.aborted instanceof ClientDisconnected
    const usage = this.#intake?.usage() ?? (left && this.#dialled ? this.#sent() : undefined)
    if (usage) this.#meter(usage)
    if (this.#branch) call.release(this.#branch)
    this.#part()
    if (this.#finished) return
    this.#branch?.abort(new ClientDisconnected())
    void this.#flow?.close()
  }

  /** The deployment has no more to do with this call. */
  #part(): void {
    this.#health?.end(this.#began, this.#finished)
    this.#health = undefined
  }

  /** What goes on with this answer goes on where it was given. */
  #bind(): void {
    const bond = this.#intake?.affinityToken?.()
    if (bond === undefined) return
    const { runtime, account } = this.#call
    runtime.routing.pin({ account: account.id }, bond, this.#deployment!)
  }

  /** Notes what was consumed, once. */
  #meter(usage: Usage): void {
    if (this.#metered) return
    this.#metered = true
    this.#call.meter.push({ source: 'model', usage, prices: this.#call.model.prices })
  }

  /** Tries deployments until one has given its first part. */
  async #dial(): Promise<Batch<any>> {
    const call = this.#call
    const { model, runtime } = call
    const { routing, metrics, config, log } = runtime
    const ties = model.deployments.length > 1 ? affinityOf(call) : undefined
    let again = true
    let tried: readonly Deployment[] | undefined
    let deployment = routing.choose(model, ties)!
    for (let attempt = 1; ; attempt++) {
      const health = routing.healthOf(deployment)
      const hopeful = health.isOpen()
      this.#deployment = deployment
      this.#health = health
      this.#began = health.begin()
      const started = performance.now()
      const branch = this.#branchFor(deployment)
      const alarm = this.#alarmFor(deployment, branch)
      try {
        const intake = call.endpoint.normalize(call, await this.#ask(deployment, branch.signal))
        const { parts } = intake
        const first = 'next' in parts ? await parts.next() : { parts, last: true }
        alarm?.clear()
        this.#intake = intake
        call.request.rawJson?.release()
        if (intake.chargeAtFirstPart) this.#meter(intake.usage())
        if ('next' in parts) this.#flow = parts
        const ms = performance.now() - started
        metrics.upstream({ provider: deployment.provider, outcome: 'ok', seconds: ms / 1000 })
        if (health.answered(this.#began, ms)) log.info(`${deployment.id} is well again`)
        if (ties) routing.remember(model, ties, deployment)
        return first
      } catch (error) {
        alarm?.clear()
        const reason = branch.signal.aborted ? branch.signal.reason : error
        branch.abort(reason)
        call.release(branch)
        const failure = this.#failureOf(reason)
        // Whoever closed it does not want to know.
        if (this.#closed) throw failure
        if (UpstreamFailure.is(failure) && !call.aborted) {
          const seconds = (performance.now() - started) / 1000
          metrics.upstream({ provider: deployment.provider, outcome: failure.failure, seconds })
          this.#blame(failure)
        }
        this.#part()
        // Nobody who rests is asked after one who rests and has failed again.
        const goesOn = hopeful && attempt < config.routing.attempts && !call.aborted
        if (!goesOn || !UpstreamFailure.is(failure) || !failure.failover) throw failure
        tried = tried ? [...tried, deployment] : [deployment]
        const next = routing.choose(model, ties, tried)
        const pauseMs = next || !again ? undefined : retryDelayMs(failure)
        if (!next && pauseMs === undefined) throw failure
        if (next) deployment = next
        else again = false
        if (pauseMs) await this.#pause(pauseMs)
        if (this.#closed) throw failure
      }
    }
  }

  /** Ends one attempt, and not the call. */
  #branchFor({ limits }: Deployment): AbortScope {
    const branch = this.#call.abortScope(this.#drains ? ClientDisconnected : undefined)
    branch.limits = limits
    this.#branch = branch
    return branch
  }

  /** Ends an attempt whose stream does not begin. */
  #alarmFor({ provider, limits }: Deployment, branch: AbortScope): Timeout | undefined {
    const call = this.#call
    if (!call.request.stream || call.endpoint.slowStart) return undefined
    const { firstPartTimeout } = call.runtime.config.providers[provider]!
    return call.timeout((limits?.firstPartTimeout ?? firstPartTimeout) * 1000, () =>
      branch.abort(new UpstreamFailure('timeout', 'The model provider did not answer in time.')),
    )
  }

  /** What the provider answers. May throw at once. */
  #ask({ id, provider: name, model, options }: Deployment, signal: AbortSignal): Promise<unknown> {
    const call = this.#call
    const { endpoint, runtime } = call
    this.#dialled = true
    call.deployment = id
    const { outbound: input, id: requestId } = call
    const job: ProviderRequest<any> = { input, model, options, requestId, signal, log: runtime.log }
    const provider = runtime.providers.get(name)!
    const serve = provider[endpoint.operation] as (job: ProviderRequest<any>) => Promise<unknown>
    return serve.call(provider, job)
  }

  /** Waits, and stops waiting when the call does. */
  async #pause(ms: number): Promise<void> {
    const branch = this.#call.abortScope()
    try {
      await sleep(ms, undefined, { signal: branch.signal })
    } catch (error) {
      throw this.#failureOf(error)
    } finally {
      this.#call.release(branch)
    }
  }

  /** Counts a failure against the deployment, and tells the operator. */
  #blame(failure: UpstreamFailure): void {
    if (!failure.unhealthy) return
    const { log, config } = this.#call.runtime
    const restMs = this.#health!.failed(this.#began, failure, config.routing.cooldown * 1000)
    const rests = restMs === undefined ? '' : `; it rests for ${restMs / 1000} s`
    const what = `${this.#deployment!.id} failed: ${failure.failure}${causeOf(failure)}${rests}`
    log[concernsOperator(failure) ? 'error' : 'warn'](`${this.#call.id}: ${what}`)
  }

  /** The client left, and the operator wants to know what the answer would have cost: read on, within bounds. */
  async #readOn(): Promise<void> {
    const { drainSeconds, drainBytes } = this.#call.runtime.config.billing
    const { promise: timeUp, resolve } = Promise.withResolvers<undefined>()
    const timer = setTimeout(resolve, drainSeconds * 1000, undefined)
    try {
      let read = 0
      let batch = await Promise.race([this.#pending, timeUp])
      while (batch && !batch.last && read < drainBytes) {
        read += Buffer.byteLength(JSON.stringify(batch.parts))
        batch = await Promise.race([this.#flow!.next(), timeUp])
      }
    } catch {
      // What was seen until here is what is charged.
    } finally {
      clearTimeout(timer)
    }
  }

  /** Nothing came back, but the prompt went out. */
  #sent() {
    const { endpoint, request, model } = this.#call
    return { ...endpoint.billing.estimate(request.input, model).least, estimated: true }
  }

  /** What was thrown, as what the client should hear. */
  #failureOf(error: unknown): unknown {
    const { aborted } = this.#call
    if (aborted) return aborted
    if (UpstreamFailure.is(error)) return error.about(this.#call.endpoint.errorField)
    if (GatewayError.is(error)) return error
    if (error instanceof RangeError && error.message.includes('call stack')) {
      // Serialising is recursive: no vendor is to blame for a body that is nested ten thousand levels deep.
      return new InvalidRequest('invalid_value', 'The request body is nested too deeply.')
    }
    const message = 'The model provider failed in an unforeseen way.'
    return new UpstreamFailure('upstream_error', message, { cause: error })
  }
}

function affinityOf({ account, request }: Call): SessionAffinity {
  const { session, affinityToken } = request
  return { account: account.id, session, affinityToken }
}

/** For the operator's log: names and codes, never a body, a key or an address with a query. */
function causeOf(failure: UpstreamFailure): string {
  const { cause } = failure
  if (!(cause instanceof Error)) return ''
  const code = 'code' in cause ? ` ${String(cause.code)}` : ''
  const message = cause.message.replace(/\bhttps?:\/\/\S+/g, '[address]').slice(0, 200)
  return ` (${cause.name}${code}: ${message})`
}
