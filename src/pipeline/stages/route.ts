import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AbortScope, type Timeout, unlessAborted } from '../../lifetime/scope.ts'
import { deepFrozen } from '../../lifetime/frozen.ts'
import type { Deployment } from '../../models/catalog.ts'
import { Unavailable, UpstreamFailure } from '../../errors/errors.ts'
import { assess, type Assessment } from '../../money/plausible.ts'
import { ClientDisconnected, type Call, type ProviderAnswer, type Stage } from '../pipeline.ts'
import { flowFrom } from '../../stream/flow.ts'
import type { Batch, Flow, Source, Usage } from '../../plugin.ts'
import { ask, failureOf } from './route/ask.ts'
import {
  logFailure,
  logRecovery,
  saidBy,
  type FailedAttempt,
  type NextStep,
} from './route/failure-log.ts'
import { StallWatch, tooMuch } from './route/stall.ts'
import { traceHeaders, traceOf } from '../trace-context.ts'
import { retryDelayMs, type SessionAffinity } from '../../models/routing.ts'
import { type Health } from '../../models/health.ts'

/**
 * Chooses a deployment and asks its provider; fails over to the next one until a first part has arrived. Nothing goes
 * upstream before the first pull, so that a failure still becomes a status.
 */
export const route: Stage = async function route(call) {
  const source = new FailoverSource(call)
  // A flow that was never pulled, or that waits for a read, is not closed when the client leaves.
  call.scope.defer(() => source.close())
  return { parts: flowFrom(source) }
}

const ENDED: Batch<any> = { parts: [], last: true }

/** Tries deployments until one answers, then passes its parts. Owns the upstream connection and the model's meter line. */
class FailoverSource implements Source<any> {
  readonly #call: Call
  /** Read on after the client has left, to learn the usage. */
  readonly #drains: boolean
  /** A request has gone upstream. */
  #asked = false
  #finished = false
  #metered = false
  #closed = false
  /** Set while closing takes time. */
  #closing: Promise<void> | undefined
  #answer: ProviderAnswer | undefined
  /** What becomes of its usage; undefined while it may grow. */
  #assessment: Assessment | undefined
  /** Set while an answer comes in parts. */
  #watch: StallWatch | undefined
  /** The rest of an answer that comes in parts. */
  #flow: Flow<any> | undefined
  /** Ends the current attempt. */
  #attempt: AbortScope | undefined
  #deployment: Deployment | undefined
  /** Attempts so far, and when the current one began, steady ms. */
  #attempts = 0
  #startedAt = 0
  /** A failure that is logged when it is known what follows from it. */
  #failed: FailedAttempt | undefined
  /** Health of the deployment, while the attempt counts in it. */
  #health: Health | undefined
  /** The token of `#health` for this attempt. */
  #began = 0
  #pending: Promise<Batch<any>> | undefined

  constructor(call: Call) {
    this.#call = call
    this.#drains = call.runtime.config.billing.onDisconnect === 'drain'
  }

  async next(): Promise<Batch<any>> {
    if (this.#closed) {
      await this.#closing
      return ENDED
    }
    const watch = this.#watch
    try {
      if (watch) watch.waiting = true
      this.#pending = this.#answer ? this.#flow!.next() : this.#firstBatch()
      const batch = await this.#pending
      if (watch) watch.waiting = false
      if (batch.last && !this.#assessment) this.#check(this.#answer!)
      const ending = this.#note(batch)
      if (ending) await ending
      return batch
    } catch (error) {
      throw await this.#toFailure(error)
    }
  }

  /** Notes a batch that is passed on. A promise only if closing needs time. */
  #note(batch: Batch<any>): void | Promise<void> {
    this.#finished = batch.last
    if (batch.last) this.#pin()
    if (!batch.last && !this.#closed) return undefined
    const ending = this.close()
    // A first part may arrive after its call has ended.
    if (ending) return ending.then(() => this.#leaveDeployment())
    this.#leaveDeployment()
  }

  /** Closes, and returns the error for the client. */
  async #toFailure(error: unknown): Promise<unknown> {
    const failure = this.#failureOf(error)
    if (this.#health && UpstreamFailure.is(failure) && !this.#call.aborted) this.#blame(failure)
    this.#say('give_up')
    await this.close()
    return failure
  }

  /**
   * Puts the usage on the meter and closes the upstream. Idempotent: later calls wait for the first. A promise only while
   * that needs time.
   */
  close(): void | Promise<void> {
    if (this.#closed) return this.#closing
    this.#closed = true
    const reads =
      this.#drains &&
      this.#asked &&
      !this.#metered &&
      this.#call.aborted instanceof ClientDisconnected
    if (!reads) return this.#release()
    this.#closing = this.#drain().then(() => this.#release())
    return this.#closing
  }

  #release(): void {
    this.#closing = undefined
    this.#watch?.clear()
    const call = this.#call
    const left = call.aborted instanceof ClientDisconnected
    if (this.#answer) this.#assessment ??= this.#assess(this.#answer, this.#finished)
    const usage = this.#assessment?.usage ?? (left && this.#asked ? this.#promptUsage() : undefined)
    if (usage) this.#meter(usage)
    if (this.#attempt) call.release(this.#attempt)
    this.#leaveDeployment()
    if (this.#finished && !this.#watch?.concluded) return
    this.#attempt?.abort(new ClientDisconnected())
    void this.#flow?.close()
  }

  /** Takes the attempt out of the deployment's health. */
  #leaveDeployment(): void {
    this.#health?.end(this.#began, this.#finished)
    this.#health = undefined
  }

  /** Pins the conversation to the deployment if the answer carries a token that only it understands. */
  #pin(): void {
    const token = this.#answer?.affinityToken?.()
    if (token === undefined) return
    const { runtime, account } = this.#call
    runtime.routing.pin({ account: account.id }, token, this.#deployment!)
  }

  /** Puts the usage on the meter, once. */
  #meter(usage: Usage): void {
    if (this.#metered) return
    this.#metered = true
    const { flags, meter, model } = this.#call
    if (usage.estimated) flags.add('estimated')
    if (this.#assessment?.verdict === 'suspicious') flags.add('suspicious')
    meter.push({ source: 'model', usage, prices: model.prices })
  }

  /** Decides about the usage of a complete answer. @throws UpstreamFailure when it cannot be true */
  #check(answer: ProviderAnswer): void {
    this.#assessment = this.#assess(answer, true)
    if (this.#assessment.verdict !== 'absurd') return
    throw new UpstreamFailure('upstream_error', 'The model provider reported an impossible usage.')
  }

  /** Decides about the usage so far, and tells the operator. @param complete whether the vendor has answered to the end */
  #assess(answer: ProviderAnswer, complete: boolean): Assessment {
    const call = this.#call
    const { id, provider } = this.#deployment!
    const { config, usageFindings } = call.runtime
    const assessment = assess(answer.usage(), call.model.prices, config.billing.mostPerCall)
    const { verdict, figures } = assessment
    if (verdict !== 'plausible') call.reported = { ...call.reported, [id]: figures }
    const origin = { request: call.id, provider, deployment: id }
    usageFindings.found(origin, assessment, complete)
    return assessment
  }

  /** Tries deployments until one has given its first parts. */
  async #firstBatch(): Promise<Batch<any>> {
    const call = this.#call
    const { model, runtime } = call
    const { routing, config } = runtime
    const affinity = model.deployments.length > 1 ? affinityOf(call) : undefined
    let mayRepeat = true
    let tried: readonly Deployment[] | undefined
    let deployment = routing.choose(model, affinity) ?? outOfService()
    // Attempts share it.
    call.outbound = deepFrozen(call.outbound)
    for (let attempt = 1; ; attempt++) {
      const wasOpen = routing.healthOf(deployment).isOpen()
      try {
        const batch = await this.#try(deployment)
        if (affinity) routing.remember(model, affinity, deployment)
        return batch
      } catch (failure) {
        if (this.#closed || call.aborted) throw failure
        // No deployment in cooldown is asked after another one in cooldown has failed.
        const goesOn = wasOpen && attempt < config.routing.attempts
        if (!goesOn || !UpstreamFailure.is(failure) || !failure.failover)
          throw this.#overall(failure)
        tried = tried ? [...tried, deployment] : [deployment]
        const next = routing.choose(model, affinity, tried)
        const delayMs = next || !mayRepeat ? undefined : retryDelayMs(failure)
        if (!next && delayMs === undefined) throw this.#overall(failure)
        this.#say(next ? 'fail_over' : 'retry')
        const { label } = model
        if (next) runtime.metrics.calls.failedOver(label, deployment.id, next.id, failure.failure)
        if (next) deployment = next
        else mayRepeat = false
        if (delayMs) await this.#pause(delayMs)
        if (this.#closed) throw failure
      }
    }
  }

  /** The failure of all attempts: vendors limit the gateway only where each of them said so. */
  #overall(failure: unknown): unknown {
    const limited = (result: string) => result === 'upstream_rate'
    if (!UpstreamFailure.is(failure) || !limited(failure.failure)) return failure
    if (this.#call.attempts.every(({ result }) => limited(result))) return failure
    const { retryAfterMs } = failure
    const message = 'The model provider is overloaded at the moment.'
    return new UpstreamFailure('overloaded', message, {
      cause: failure,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    })
  }

  /** Asks one deployment and waits for its first parts. @throws the error for the client */
  async #try(deployment: Deployment): Promise<Batch<any>> {
    const call = this.#call
    const { routing, metrics } = call.runtime
    const { provider } = deployment
    const health = routing.healthOf(deployment)
    this.#deployment = deployment
    this.#health = health
    this.#began = health.begin()
    const started = (this.#startedAt = performance.now())
    this.#attempts++
    const scope = this.#startAttempt(deployment)
    const timeout = this.#firstPartTimeout(deployment, scope)
    try {
      const { signal } = scope
      const given = await unlessAborted(signal, this.#ask(deployment, signal))
      const answer = call.endpoint.normalize(call, given, signal)
      const { parts } = answer
      const batch = 'next' in parts ? await parts.next() : { parts, last: true }
      timeout?.clear()
      this.#assessment = undefined
      // Nothing has gone out: another deployment may answer with a usage that can be true.
      if (batch.last || answer.chargeAtFirstPart) this.#check(answer)
      if (batch.last) this.#bound(answer, provider)
      this.#answer = answer
      call.dropContent()
      if (answer.chargeAtFirstPart) this.#meter(this.#assessment!.usage)
      if ('next' in parts) this.#flow = parts
      if (!batch.last) this.#watch = this.#watchOver(answer, deployment, scope)
      const ms = performance.now() - started
      metrics.upstream(provider, 'ok', ms / 1000)
      call.attempts.push({ deployment: deployment.id, ms: Math.round(ms), result: 'ok' })
      if (health.answered(this.#began, ms)) logRecovery(call, deployment)
      return batch
    } catch (error) {
      timeout?.clear()
      // Nothing of this answer went out: what it consumed is not charged.
      this.#assessment = undefined
      const reason = scope.signal.aborted ? scope.signal.reason : error
      scope.abort(reason)
      call.release(scope)
      const failure = this.#failureOf(reason)
      if (this.#closed) throw failure
      if (UpstreamFailure.is(failure) && !call.aborted) {
        const ms = performance.now() - started
        const result = failure.failure
        metrics.upstream(provider, result, ms / 1000)
        const { said, sent } = this.#blame(failure)
        const status = sent?.status || undefined
        call.attempts.push({ deployment: deployment.id, ms: Math.round(ms), result, status, said })
      }
      this.#leaveDeployment()
      throw failure
    }
  }

  /** The abort scope of one attempt. It survives a client that left where the answer is read on. */
  #startAttempt({ provider, limits }: Deployment): AbortScope {
    const call = this.#call
    const scope = call.abortScope(this.#drains ? ClientDisconnected : undefined)
    scope.limits = limits
    if (call.runtime.config.providers[provider]!.forwardTrace) {
      const trace = call.trace ?? traceOf(call.incoming)
      if (trace) scope.traceHeaders = traceHeaders(trace)
    }
    scope.late = { instance: provider, metrics: call.runtime.metrics }
    this.#attempt = scope
    return scope
  }

  /** Sees to it that the rest of an answer comes to an end. */
  #watchOver(
    answer: ProviderAnswer,
    { provider, limits }: Deployment,
    attempt: AbortScope,
  ): StallWatch | undefined {
    if (!answer.received) return undefined
    const { idleTimeout, maxStream } = this.#call.runtime.config.providers[provider]!
    const idleMs = (limits?.idleTimeout ?? idleTimeout) * 1000
    return new StallWatch(this.#call, attempt, answer, { idleMs, most: maxStream })
  }

  /** @throws UpstreamFailure for an answer that came whole and is too large */
  #bound({ received }: ProviderAnswer, provider: string): void {
    const { maxAnswer } = this.#call.runtime.config.providers[provider]!
    if (received && received() > maxAnswer) throw tooMuch()
  }

  /** Aborts an attempt whose stream does not begin; undefined where a whole answer is awaited. */
  #firstPartTimeout({ provider, limits }: Deployment, attempt: AbortScope): Timeout | undefined {
    const call = this.#call
    if (!call.request.stream || call.endpoint.slowStart) return undefined
    const { firstPartTimeout } = call.runtime.config.providers[provider]!
    return call.timeout((limits?.firstPartTimeout ?? firstPartTimeout) * 1000, () =>
      attempt.abort(new UpstreamFailure('timeout', 'The model provider did not answer in time.')),
    )
  }

  /** Calls the provider's method. May throw at once. */
  #ask(deployment: Deployment, signal: AbortSignal): Promise<unknown> {
    return ask(this.#call, deployment, signal, () => (this.#asked = true))
  }

  /** @throws when the call is aborted meanwhile */
  async #pause(ms: number): Promise<void> {
    const scope = this.#call.abortScope()
    try {
      await sleep(ms, undefined, { signal: scope.signal })
    } catch (error) {
      throw this.#failureOf(error)
    } finally {
      this.#call.release(scope)
    }
  }

  /** Counts a failure in the deployment's health, and notes it for the logs. */
  #blame(failure: UpstreamFailure): FailedAttempt {
    const { config, metrics, mask } = this.#call.runtime
    const cooldownMs = failure.unhealthy
      ? this.#health!.failed(this.#began, failure, config.routing.cooldown * 1000)
      : undefined
    const { id } = this.#deployment!
    if (cooldownMs !== undefined) metrics.calls.cooledDown(id, failure.failure)
    const sent = this.#attempt?.sent
    this.#failed = {
      failure,
      deployment: this.#deployment!,
      attempt: this.#attempts,
      ms: performance.now() - this.#startedAt,
      sent,
      said: saidBy({ sent, failure }, (text) => mask.clean(text)),
      cooldownMs,
    }
    return this.#failed
  }

  /** Logs the last failure. */
  #say(next: NextStep): void {
    const failed = this.#failed
    this.#failed = undefined
    if (failed) logFailure(this.#call, failed, next)
  }

  /** Reads on after the client has left, within bounds, to learn the usage of the answer. */
  async #drain(): Promise<void> {
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
      // The usage that was read so far is charged.
    } finally {
      clearTimeout(timer)
    }
  }

  /** For a request that went upstream and was not answered: the prompt. */
  #promptUsage() {
    const { endpoint, request, model, runtime } = this.#call
    runtime.metrics.usageEstimated(this.#deployment!.provider, 'incomplete')
    return { ...endpoint.billing.estimate(request, model).least, estimated: true }
  }

  /** An error as the client gets it. */
  #failureOf(error: unknown): unknown {
    // Without a deployment no vendor was asked.
    return this.#deployment ? failureOf(this.#call, this.#deployment.provider, error) : error
  }
}

/** @throws Unavailable, because an operator has taken out every deployment of the model */
function outOfService(): never {
  const message = 'This model is out of service at the moment. Try again later.'
  throw new Unavailable('service_unavailable', message, { retryAfterSeconds: 30 })
}

/** Ties of the call to earlier calls, for the choice of a deployment. */
function affinityOf({ account, request }: Call): SessionAffinity {
  const { session, affinityToken } = request
  return { account: account.id, session, affinityToken }
}
