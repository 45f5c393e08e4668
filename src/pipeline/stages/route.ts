import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AbortScope,
  type Timeout,
  dropLate,
  offAbort,
  onAbort,
  deepFrozen,
} from '../../lifetime/scope.ts'
import { lacks } from '../../models/capabilities.ts'
import { goneModel } from '../../models/allowlist.ts'
import type { Deployment, Model } from '../../models/catalog.ts'
import type { When } from '../../models/fallback-list.ts'
import { whenOf } from '../../models/fallbacks.ts'
import { Unavailable, UpstreamFailure, brokenAnswer } from '../../errors/errors.ts'
import { costOf } from '../../money/money.ts'
import { assess, stopped, type Assessment, type Hidden } from '../../money/plausible.ts'
import { ClientDisconnected, type Call, type ProviderAnswer, type Stage } from '../pipeline.ts'
import type { Chain, Feed, Producer, Sink } from '../../stream/chain.ts'
import { run } from '../../stream/flow.ts'
import type { Usage } from '../../plugin.ts'
import { ask, failureOf } from '../ask.ts'
import { FallbackWalk, fitTo, type Unfitted } from '../fallbacks.ts'
import {
  failureMessage,
  logFailure,
  logRecovery,
  type FailedAttempt,
  type NextStep,
} from '../attempt-log.ts'
import { tellUnserved } from '../unserved.ts'
import { traceHeaders, traceOf } from '../trace-context.ts'
import { retryDelayMs, type SessionAffinity, type Health } from '../../models/routing.ts'

/**
 * ms of silence that end a complete answer: its vendor neither marks its end nor closes the connection. Half of the
 * idle limit where that is less, because the connection itself fails at the limit.
 */
const GRACE_MS = 5000

/** The bounds of an answer. */
interface Limits {
  /** ms that a read may take without new content. */
  readonly idleMs: number
  /** Most characters and bytes of content. */
  readonly most: number
}

/**
 * Aborts an attempt whose answer brings nothing new while it is awaited, however many keep-alives arrive, or that
 * brings too much. A complete answer is ended instead, and sooner. It checks four times a second, so parts cost
 * nothing.
 */
class StallWatch {
  /** Whether the answer is awaited. While it is not, the client is slow and not the vendor. */
  waiting = true
  /** Whether the answer was ended for its vendor, whose connection is still open. */
  concluded = false
  readonly #answer: ProviderAnswer
  readonly #limits: Limits
  readonly #attempt: AbortScope
  readonly #conclude: () => void
  readonly #timeout: Timeout
  #before = -1
  #complete = false
  #since = 0

  /** @param conclude ends a complete answer for its vendor */
  constructor(
    call: Call,
    attempt: AbortScope,
    answer: ProviderAnswer,
    limits: Limits,
    conclude: () => void,
  ) {
    this.#conclude = conclude
    this.#attempt = attempt
    this.#answer = answer
    this.#limits = limits
    this.#timeout = call.timeout(0, this.#look.bind(this))
  }

  clear(): void {
    this.#timeout.clear()
  }

  #look(now: number): void {
    const { idleMs, most } = this.#limits
    const received = this.#answer.received!()
    const complete = this.#answer.complete?.() ?? false
    if (received > most) return this.#attempt.abort(tooMuch())
    const concludes = complete && !this.concluded
    const silentMs = now - this.#since
    if (!this.waiting || received !== this.#before || complete !== this.#complete) {
      this.#before = received
      this.#complete = complete
      this.#since = now
    } else if (concludes && silentMs >= Math.min(GRACE_MS, idleMs / 2)) {
      this.concluded = true
      this.#since = now
      this.#conclude()
    } else if (silentMs >= idleMs) {
      return this.#attempt.abort(stalled())
    }
    this.#timeout.restart()
  }
}

/** An answer of a plugin is too large. */
function tooMuch(): UpstreamFailure {
  return brokenAnswer('The model provider sent an answer that is too large.')
}

function stalled(): UpstreamFailure {
  return new UpstreamFailure('timeout', 'The model provider stopped in the middle of its answer.')
}

/**
 * Chooses a deployment and asks its provider; fails over to the next one until a first part has arrived. Nothing goes
 * upstream before the answer is started, so that a failure still becomes a status.
 */
export const route: Stage = {
  name: 'route',
  before(call) {
    call.source = new DeploymentAnswer(call)
  },
}

interface OneAttempt {
  readonly deployment: Deployment
  readonly scope: AbortScope
  /** Whether the deployment was not in cooldown. */
  readonly wasOpen: boolean
  /** Steady ms. */
  readonly startedAt: number
  /** Runs until the first part. */
  readonly timeout: Timeout | undefined
  /** Whether another deployment may still be asked. */
  isOpen: boolean
  /** Listens to its scope; taken off when the attempt ends. */
  aborted?: () => void
  /** The answer of the provider, until it has come. */
  pending?: Promise<unknown> | undefined
  /** What gives the parts of its answer. */
  chain?: Chain
  /** The state of its answer, once the provider has answered. */
  answer?: ProviderAnswer
}

class DeploymentAnswer implements Feed<unknown>, Producer {
  readonly #call: Call
  /** Whether the answer is read on after the client has left, to learn the usage. */
  readonly #drains: boolean
  readonly isBilled = true
  /** The receiver of the parts. */
  #sink!: Sink<unknown>
  /** Whether the sink has no room. */
  #paused = false
  /** Whether a request has gone upstream. */
  #hasAsked = false
  /** Whether the answer has come to its end. */
  #finished = false
  #metered = false
  #closed = false
  /** It is set while closing takes time. */
  #closing: Promise<void> | undefined
  /** Ends {@link #closing}; set while the answer is read on without a client. */
  #drained: (() => void) | undefined
  #answer: ProviderAnswer | undefined
  /** The assessment of its usage; undefined while it may grow. */
  #assessment: Assessment | undefined
  /** It is set while an answer comes in parts. */
  #watch: StallWatch | undefined
  /** The source of the parts of the current attempt. */
  #chain: Chain | undefined
  #attempt: AbortScope | undefined
  #deployment: Deployment | undefined
  #current: OneAttempt | undefined
  #affinity: SessionAffinity | undefined
  #tried: readonly Deployment[] = []
  /** Whether a deployment may be asked a second time, after a wait. */
  #mayRepeat = true
  /** The number of attempts at the current model so far. */
  #attempts = 0
  /** Place of the first of them among the attempts of the call. */
  #firstAttempt = 0
  /** Models that answer in place of the asked one; undefined for a call without. */
  #walk: FallbackWalk | undefined
  /** The request before it fits a model, while another model may be asked. */
  #unfitted: Unfitted | undefined
  /** What the client gets where no model answers: the failure of the asked one. */
  #firstFailure: unknown
  #startedAt = 0
  /** The time of the request of the current attempt, steady ms. */
  #askedAt = 0
  /** A failure that is logged when the next step is known. */
  #failed: FailedAttempt | undefined
  /** Health of the deployment, while the attempt counts in it. */
  #health: Health | undefined
  /** The token of `#health` for this attempt. */
  #began = 0

  constructor(call: Call) {
    this.#call = call
    this.#drains = call.runtime.config.billing.onDisconnect === 'drain'
  }

  start(sink: Sink<unknown>): Producer {
    this.#sink = sink
    try {
      this.#begin()
    } catch (error) {
      this.#giveUp(error)
    }
    return this
  }

  discard(): void | Promise<void> {
    return this.close()
  }

  pause(): void {
    this.#paused = true
    if (this.#watch) this.#watch.waiting = false
  }

  resume(): void {
    this.#paused = false
    if (this.#watch) this.#watch.waiting = true
    this.#chain?.resume()
  }

  /**
   * Puts the usage on the meter and closes the upstream. Idempotent: later calls wait for the first. A promise only while
   * that needs time.
   */
  close(): void | Promise<void> {
    if (this.#closed) return this.#closing
    this.#closed = true
    const { aborted } = this.#call
    // A client has left, or a step has stopped the answer, as a guard does.
    const isStopped = aborted === undefined || aborted instanceof ClientDisconnected
    const reads = this.#drains && this.#isAsked && !this.#metered && !this.#finished && isStopped
    if (!reads) return this.#release()
    this.#closing = this.#drain().then(() => this.#release())
    return this.#closing
  }

  /** Ends the answer with an error, as the client gets it. */
  #giveUp(error: unknown): void {
    const failure = this.#failureOf(error)
    if (this.#health && UpstreamFailure.is(failure) && !this.#call.aborted) this.#blame(failure)
    this.#say('give_up')
    if (this.#drained) return this.#drained()
    if (this.#closed) return
    this.#closed = true
    this.#release()
    this.#sink.fail(failure)
  }

  #release(): void {
    this.#closing = undefined
    this.#watch?.clear()
    const call = this.#call
    const left = call.aborted instanceof ClientDisconnected
    const isAsked = this.#isAsked
    const answer = this.#answer ?? (left && isAsked ? this.#current?.answer : undefined)
    if (answer) this.#assessment ??= this.#assess(answer, this.#finished)
    const usage = this.#assessment?.usage ?? (left && isAsked ? this.#unseenUsage() : undefined)
    if (usage) this.#meter(usage)
    else if (call.aborted && !left && isAsked && call.made.admission?.estimate) this.#countLost()
    if (this.#attempt) call.release(this.#attempt)
    this.#unlisten()
    this.#leaveDeployment()
    if (this.#finished && !this.#watch?.concluded) return
    void this.#chain?.close()
    this.#attempt?.abort(new ClientDisconnected())
  }

  /**
   * Takes the listener off the scope of the attempt, which the connection to the vendor keeps for a while, and with the
   * listener the whole call: 10 % of a request.
   */
  #unlisten(): void {
    const current = this.#current
    if (current?.aborted) offAbort(current.scope.signal, current.aborted)
  }

  /** Takes the attempt out of the deployment's health. */
  #leaveDeployment(): void {
    this.#health?.end(this.#began, this.#finished)
    this.#health = undefined
  }

  /** Pins the conversation to the deployment if the answer carries a token that only it understands. */
  #pin(): void {
    const { runtime, admission, target } = this.#call
    if (target.model.deployments.length < 2) return
    const token = this.#answer?.affinityToken?.()
    if (token === undefined) return
    runtime.routing.pin({ account: admission.account.id }, token, this.#deployment!)
  }

  /** Puts the usage on the meter, once. */
  #meter(usage: Usage): void {
    if (this.#metered) return
    this.#metered = true
    const { answer, target } = this.#call
    if (usage.estimated) answer.flags.add('estimated')
    if (this.#assessment?.verdict === 'suspicious') answer.flags.add('suspicious')
    const { cost } = this.#deployment!
    answer.meter.push({
      source: 'model',
      usage,
      prices: target.model.prices,
      ...(cost && { cost }),
    })
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
    const { prices } = call.target.model
    const usage = answer.usage()
    const report = complete ? usage : stopped(usage, this.#hiddenTokens(usage.hidden))
    const assessment = assess(report, prices, config.billing.mostPerCall)
    const { verdict, figures } = assessment
    if (verdict !== 'plausible') call.answer.reported = { ...call.answer.reported, [id]: figures }
    const origin = { request: call.id, provider, deployment: id }
    usageFindings.found(origin, assessment, complete)
    return assessment
  }

  /** Asks the model that the client wants, or at once another one while none of its deployments is open. */
  #begin(): void {
    const call = this.#call
    const { target, runtime } = call
    const { model, outbound, requiresNormalForm } = target
    this.#walk = FallbackWalk.of(call)
    if (!this.#walk) return this.#tryModel(model, target)
    this.#unfitted = { outbound, requiresNormalForm }
    const isOpen = model.deployments.some((one) => runtime.routing.healthOf(one).isOpen())
    if (isOpen) this.#tryModel(model, this.#unfitted)
    else this.#fallBack('down')
  }

  /** Chooses the first deployment of a model. @throws Unavailable without one */
  #tryModel(model: Model, from: Unfitted): void {
    const call = this.#call
    this.#attempts = 0
    this.#firstAttempt = call.answer.attempts.length
    this.#tried = []
    this.#mayRepeat = true
    this.#hasAsked = false
    fitTo(call, model, from)
    this.#affinity = model.deployments.length > 1 ? affinityOf(call) : undefined
    this.#try(call.runtime.routing.choose(model, this.#affinity) ?? outOfService())
  }

  /** Goes on with another model, or gives up. @param reason counts for the failure of the asked model */
  #fallBack(reason: When | undefined, failure?: unknown): void {
    this.#firstFailure ??= failure
    const giveUp = (error: unknown) => this.#giveUp(error)
    void this.#nextModel(reason)
      .then((model) => {
        if (this.#closed || this.#call.aborted) return giveUp(this.#firstFailure)
        if (!model) {
          this.#walk!.end()
          return giveUp(this.#firstFailure)
        }
        this.#say('fall_back')
        return this.#tryModel(model, this.#unfitted!)
      })
      .catch(giveUp)
  }

  /** The asked model comes last where it was passed over. */
  async #nextModel(reason: When | undefined): Promise<Model | undefined> {
    const walk = this.#walk!
    const model = await walk.next(reason)
    if (model || this.#firstFailure !== undefined) return model
    if (!(await walk.back())) outOfService()
    this.#walk = undefined
    return walk.asked
  }

  /** Ends the asking of one model. */
  #leaveModel(failure: unknown): void {
    const isFirst = this.#call.target.replaced === undefined
    const isUpstream = UpstreamFailure.is(failure)
    const reason = isUpstream ? whenOf(failure.failure, failure.failover) : undefined
    const goesOn = this.#walk && !this.#closed && !this.#call.aborted && (!isFirst || reason)
    if (goesOn) return this.#fallBack(reason, isFirst ? failure : undefined)
    this.#giveUp(this.#firstFailure ?? failure)
  }

  /** Continues with another deployment after one has failed, or gives up. */
  #failOver(attempt: OneAttempt, failure: unknown): void {
    const call = this.#call
    const { target, runtime } = call
    const { routing, config, metrics } = runtime
    const { model } = target
    if (this.#closed || call.aborted) return this.#giveUp(failure)
    // No deployment in cooldown is asked after another one in cooldown has failed.
    const goesOn = attempt.wasOpen && this.#attempts < config.routing.attempts
    if (!goesOn || !UpstreamFailure.is(failure) || !failure.failover) {
      return this.#leaveModel(this.#overall(failure))
    }
    const { deployment } = attempt
    this.#tried = [...this.#tried, deployment]
    const next = routing.choose(model, this.#affinity, this.#tried)
    const delayMs = next || !this.#mayRepeat ? undefined : retryDelayMs(failure)
    if (!next && delayMs === undefined) return this.#leaveModel(this.#overall(failure))
    this.#say(next ? 'fail_over' : 'retry')
    if (next) metrics.calls.failedOver(model.label, deployment.id, next.id, failure.failure)
    else this.#mayRepeat = false
    const goOn = () => {
      if (this.#closed) this.#giveUp(failure)
      else this.#try(next ?? deployment)
    }
    if (delayMs) this.#pause(delayMs).then(goOn, (error: unknown) => this.#giveUp(error))
    else goOn()
  }

  /**
   * The failure of all attempts: vendors limit the gateway only where each of them said so. A model of a wildcard that each of them
   * lacks does not exist for the client.
   */
  #overall(failure: unknown): unknown {
    const call = this.#call
    const { model } = call.target
    const attempts = call.answer.attempts.slice(this.#firstAttempt).filter((one) => 'result' in one)
    const isGone = attempts.length > 0 && attempts.every(({ result }) => result === 'not_found')
    if (model.wildcard !== undefined && isGone) {
      tellUnserved(call, model.id, 'gone')
      return goneModel(call.catalog, model)
    }
    const limited = (result: string) => result === 'upstream_rate'
    if (!UpstreamFailure.is(failure) || !limited(failure.failure)) return failure
    if (attempts.every(({ result }) => limited(result))) return failure
    const { retryAfterMs } = failure
    const message = 'The model provider is overloaded at the moment.'
    return new UpstreamFailure('overloaded', message, {
      cause: failure,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    })
  }

  /** Asks one deployment. Its first answer, or its failure, comes later. */
  #try(deployment: Deployment): void {
    const { runtime, target } = this.#call
    const health = runtime.routing.healthOf(deployment)
    // Attempts share it.
    if (!runtime.trustedProviders.has(deployment.provider)) {
      target.outbound = deepFrozen(target.outbound)
    }
    const wasOpen = health.isOpen()
    this.#deployment = deployment
    this.#health = health
    this.#began = health.begin()
    this.#attempts++
    const scope = this.#startAttempt(deployment)
    const attempt: OneAttempt = {
      deployment,
      scope,
      wasOpen,
      startedAt: performance.now(),
      timeout: this.#firstPartTimeout(deployment, scope),
      isOpen: true,
    }
    this.#startedAt = attempt.startedAt
    this.#current = attempt
    const { signal } = scope
    const fail = this.#failAttempt.bind(this, attempt)
    try {
      attempt.pending = ask(this.#call, deployment, signal, this.#asking.bind(this))
    } catch (error) {
      return fail(error)
    }
    const aborted = this.#abortAttempt.bind(this, attempt)
    attempt.aborted = aborted
    onAbort(signal, aborted)
    Promise.resolve(attempt.pending).then(this.#answered.bind(this, attempt), fail)
    if (signal.aborted) aborted()
  }

  #asking(): void {
    this.#hasAsked = true
    this.#askedAt = performance.now()
  }

  /** When the vendor was asked; 0 while a request to it waits for a connection. */
  get #reachedAt(): number {
    const attempt = this.#attempt
    return attempt?.sent ? attempt.begunAt : this.#askedAt
  }

  /** Whether the vendor may have worked for this call. */
  get #isAsked(): boolean {
    return this.#hasAsked && this.#reachedAt > 0
  }

  /** Handles the abort of an attempt's signal. */
  #abortAttempt(attempt: OneAttempt): void {
    const { chain, scope, pending } = attempt
    const { signal } = scope
    if (chain) return chain.abort(signal.reason)
    // A plugin may ignore its signal, and is not waited for.
    if (pending) dropLate(pending, signal)
    this.#failAttempt(attempt, signal.reason)
  }

  /** Takes the answer of a provider. */
  #answered(attempt: OneAttempt, result: unknown): void {
    // The plugin's code may hold the request, which is freed with the first part.
    attempt.pending = undefined
    if (!attempt.isOpen) return
    const { signal } = attempt.scope
    try {
      const answer = (attempt.answer = this.#call.endpoint.normalize(this.#call, signal))
      const parts = answer.open ? answer.open(result) : result
      if (isSequence(parts)) this.#read(parts, answer, attempt)
      else this.#take(parts, answer, attempt)
    } catch (error) {
      this.#failAttempt(attempt, error)
    }
  }

  /**
   * Ends an attempt that has failed before its first parts. Nothing of it went out, so its consumption is not
   * charged.
   */
  #failAttempt(attempt: OneAttempt, error: unknown): void {
    if (!attempt.isOpen) return
    attempt.isOpen = false
    const { scope, timeout, deployment, startedAt } = attempt
    const call = this.#call
    timeout?.clear()
    this.#assessment = undefined
    const reason: unknown = scope.signal.aborted ? scope.signal.reason : error
    void attempt.chain?.close()
    this.#unlisten()
    scope.abort(reason)
    call.release(scope)
    const failure = this.#failureOf(reason)
    if (UpstreamFailure.is(failure) && !call.aborted && !this.#closed) {
      const ms = performance.now() - startedAt
      const result = failure.failure
      call.runtime.metrics.upstream(deployment.provider, result, ms / 1000)
      const { message, sent } = this.#blame(failure)
      const status = sent?.status || undefined
      const { id } = deployment
      call.answer.attempts.push({ deployment: id, ms: Math.round(ms), result, status, message })
    }
    this.#leaveDeployment()
    this.#failOver(attempt, failure)
  }

  /** Passes an answer that came whole. @throws UpstreamFailure for one that cannot be true */
  #take(result: unknown, answer: ProviderAnswer, attempt: OneAttempt): void {
    const parts = answer.whole(result)
    this.#check(answer)
    this.#bound(answer)
    this.#commit(answer, attempt)
    this.#finish(parts)
  }

  /** Reads an answer that comes in parts. */
  #read(sequence: AsyncIterable<unknown>, answer: ProviderAnswer, attempt: OneAttempt): void {
    const { signal } = attempt.scope
    const parts = new AttemptParts({
      begin: (first, complete) => {
        if (complete || answer.chargeAtFirstPart) this.#check(answer)
        if (complete) this.#bound(answer)
        this.#commit(answer, attempt)
        if (answer.chargeAtFirstPart) this.#meter(this.#assessment!.usage)
        if (!complete) this.#watch = this.#watchOver(answer)
        for (const part of first) this.#push(part)
      },
      push: (part) => this.#push(part),
      batchEnd: () => this.#batchEnd(),
      end: () => {
        if (!this.#closed && !this.#assessment) this.#check(answer)
        this.#finish([])
      },
      refuse: (error) => this.#failAttempt(attempt, error),
      fail: (error) => this.#giveUp(error),
    })
    attempt.chain = this.#chain = run(sequence, answer.steps, parts, signal)
    // It may have failed at once.
    if (!attempt.isOpen && !this.#answer) void attempt.chain.close()
    if (signal.aborted) attempt.chain.abort(signal.reason)
  }

  #push(part: unknown): void {
    // No client gets the parts of an answer that is read on.
    if (!this.#drained) this.#sink.push(part)
  }

  #batchEnd(): boolean {
    if (this.#drained) {
      this.#checkDrained()
      return true
    }
    if (!this.#closed) this.#sink.batchEnd()
    return !this.#paused
  }

  /** Commits to the deployment: the answer has begun, and no other one is asked. */
  #commit(answer: ProviderAnswer, attempt: OneAttempt): void {
    const call = this.#call
    const { id, provider } = attempt.deployment
    attempt.isOpen = false
    attempt.timeout?.clear()
    this.#answer = answer
    if (this.#affinity) {
      call.runtime.routing.remember(call.target.model, this.#affinity, attempt.deployment)
    }
    this.#unfitted = undefined
    if (call.target.replaced) this.#walk?.tell()
    call.dropContent()
    const ms = performance.now() - attempt.startedAt
    call.runtime.metrics.upstream(provider, 'ok', ms / 1000)
    call.answer.attempts.push({ deployment: id, ms: Math.round(ms), result: 'ok' })
    if (this.#health?.answered(this.#began, ms)) logRecovery(call, this.#deployment!)
  }

  /** Passes the last parts, and the end. The usage is on the meter before. */
  #finish(parts: readonly unknown[]): void {
    if (this.#drained) return this.#drained()
    if (this.#closed) return
    this.#finished = true
    if (this.#assessment) this.#learn(this.#assessment)
    this.#pin()
    for (const part of parts) this.#sink.push(part)
    if (parts.length > 0) this.#sink.batchEnd()
    if (this.#closed) return
    const closing = this.close()
    if (closing) void closing.then(() => this.#sink.end())
    else this.#sink.end()
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

  /** Bounds the rest of an answer. */
  #watchOver(answer: ProviderAnswer): StallWatch | undefined {
    if (!answer.received) return undefined
    const { provider, limits } = this.#deployment!
    const { idleTimeout, maxStream } = this.#call.runtime.config.providers[provider]!
    const idleMs = (limits?.idleTimeout ?? idleTimeout) * 1000
    const bounds = { idleMs, most: maxStream }
    return new StallWatch(this.#call, this.#attempt!, answer, bounds, () => this.#chain?.conclude())
  }

  /** @throws UpstreamFailure for an answer that came whole and is too large */
  #bound(answer: ProviderAnswer): void {
    const { maxAnswer } = this.#call.runtime.config.providers[this.#deployment!.provider]!
    const received = answer.received?.() ?? 0
    if (received > maxAnswer) throw tooMuch()
  }

  /** Aborts an attempt whose stream does not begin; undefined where a whole answer is awaited. */
  #firstPartTimeout({ provider, limits }: Deployment, attempt: AbortScope): Timeout | undefined {
    const call = this.#call
    if (!call.request.stream || call.endpoint.slowStart) return undefined
    const { firstPartTimeout } = call.runtime.config.providers[provider]!
    return call.timeout((limits?.firstPartTimeout ?? firstPartTimeout) * 1000, () => {
      const late = () =>
        new UpstreamFailure('timeout', 'The model provider did not answer in time.')
      attempt.abort(attempt.sent?.proxyTimeout() ?? late())
    })
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
    const sent = this.#attempt?.sent
    // What a proxy does not let through says nothing of the vendor.
    const cooldownMs =
      failure.unhealthy && !sent?.waitsForProxy
        ? this.#health!.failed(this.#began, failure, config.routing.cooldown * 1000)
        : undefined
    const { id } = this.#deployment!
    if (cooldownMs !== undefined) metrics.calls.cooledDown(id, failure.failure)
    this.#failed = {
      failure,
      deployment: this.#deployment!,
      attempt: this.#attempts,
      ms: performance.now() - this.#startedAt,
      sent,
      message: failureMessage({ sent, failure }, (text) => mask.clean(text)),
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

  /** Reads on to the vendor's report, for no client. What bounds a client that stays bounds this as well. */
  async #drain(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#drained = resolve
    this.#chain?.resume()
    if (this.#watch) this.#watch.waiting = true
    this.#checkDrained()
    await promise
  }

  /** Stops reading on once the bill is known: a complete report is there, or one that covers all until then. */
  #checkDrained(): void {
    const { reported, incomplete } = this.#answer?.usage() ?? {}
    if (reported && !incomplete && this.#answer?.complete) this.#drained?.()
  }

  /** Counts what a whole answer cost the operator that did not come before the deadline. Its vendor reports it to no one. */
  #countLost(): void {
    const { request, target, aborted, runtime } = this.#call
    if (request.stream || !UpstreamFailure.is(aborted) || aborted.failure !== 'timeout') return
    const line = {
      source: 'model' as const,
      usage: this.#unseenUsage(),
      prices: target.model.prices,
    }
    runtime.metrics.unbilled('deadline', costOf(line))
  }

  /** Usage of a request that went upstream, and of whose answer nothing has come: the prompt, and what the model has written. */
  #unseenUsage(): Usage {
    const call = this.#call
    const { endpoint, request, target, admission, runtime } = call
    // A question of a guard has none.
    const estimate = admission.estimate ?? endpoint.billing.estimate(request, target.model)
    const { least, output } = estimate
    runtime.metrics.usageEstimated(this.#deployment!.provider, 'incomplete')
    const tokens = this.#hiddenTokens(endpoint.billing.hidden?.(call))
    const isImage = output?.isImage && tokens > 0
    return {
      ...least,
      ...(tokens > 0 && { completionTokens: tokens }),
      ...(isImage && { imageOutputTokens: tokens }),
      estimated: true,
    }
  }

  /**
   * Least number of tokens that the vendor has made until now, where they need not pass: those of reasoning, and of an answer that
   * comes whole. Without this, a client that leaves in time would have them for nothing.
   */
  #hiddenTokens(hidden: Hidden | undefined): number {
    const { request, target, admission, runtime } = this.#call
    const { output } = admission.estimate ?? {}
    const { model } = target
    const isWhole = !request.stream || lacks(model, 'STREAMING')
    if (!output || !this.#hasAsked) return 0
    if (!isWhole && !runtime.holds.reasons(model.id, hidden)) return 0
    const seconds = (performance.now() - this.#reachedAt) / 1000
    const tokens = Math.ceil(seconds * runtime.holds.rateOf(this.#deployment!.id))
    return Math.min(tokens, output.limit * output.choices)
  }

  /** Learns from an answer whose vendor has reported what it has made. */
  #learn({ estimated, usage }: Assessment): void {
    const call = this.#call
    if (estimated || usage.completionTokens === undefined) return
    call.runtime.holds.learnAnswer({
      model: call.target.model.id,
      deployment: this.#deployment!.id,
      hidden: call.endpoint.billing.hidden?.(call),
      tokens: usage.completionTokens,
      reasoning: usage.reasoningTokens ?? 0,
      seconds: (performance.now() - this.#reachedAt) / 1000,
    })
  }

  /** An error as the client gets it. */
  #failureOf(error: unknown): unknown {
    // Without a deployment no vendor was asked.
    if (!this.#deployment) return error
    const isSent = this.#attempt?.sent !== undefined || this.#attempt?.usesHttp
    return failureOf(this.#call, this.#deployment.provider, error, isSent)
  }
}

/** The receiver of the parts of one attempt. */
interface PartsOwner {
  /** It is called with the first parts. @param complete they are all. @throws an error that makes the attempt fail */
  begin(first: readonly unknown[], complete: boolean): void
  push(part: unknown): void
  batchEnd(): boolean
  /** @throws an error that makes the answer fail */
  end(): void
  /** It is called when the attempt has failed before its first parts. */
  refuse(error: unknown): void
  /** It is called when the answer has failed on the way. */
  fail(error: unknown): void
}

/** Retains the parts of an attempt until they are all that came together: what fails by then is left to another deployment. */
class AttemptParts implements Sink<unknown> {
  readonly #owner: PartsOwner
  /** They are undefined once they were passed. */
  #first: unknown[] | undefined = []

  constructor(owner: PartsOwner) {
    this.#owner = owner
  }

  push(part: unknown): void {
    if (this.#first) this.#first.push(part)
    else this.#owner.push(part)
  }

  batchEnd(): boolean {
    if (this.#first && this.#first.length > 0) this.#begin(false)
    return this.#owner.batchEnd()
  }

  end(): void {
    if (this.#first && !this.#begin(true)) return
    try {
      this.#owner.end()
    } catch (error) {
      this.#owner.fail(error)
    }
  }

  fail(error: unknown): void {
    if (this.#first) this.#owner.refuse(error)
    else this.#owner.fail(error)
  }

  /** @returns whether the attempt goes on */
  #begin(complete: boolean): boolean {
    try {
      this.#owner.begin(this.#first!, complete)
      this.#first = undefined
      return true
    } catch (error) {
      this.#owner.refuse(error)
      return false
    }
  }
}

/** Whether an answer comes in parts. */
function isSequence(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/** @throws Unavailable, because an operator has disabled every deployment of the model */
function outOfService(): never {
  const message = 'This model is out of service at the moment. Try again later.'
  throw new Unavailable('service_unavailable', message, { retryAfterSeconds: 30 })
}

/** Ties of the call to earlier calls, for the choice of a deployment. */
function affinityOf({ admission, request }: Call): SessionAffinity {
  const { session, affinityToken } = request
  return { account: admission.account.id, session, affinityToken }
}
