import type { Deployment } from '../catalog.ts'
import { GatewayError, InvalidRequest, UpstreamFailure } from '../errors.ts'
import { ClientGone, type Call, type Intake, type Stage } from '../pipeline.ts'
import { flowFrom } from '../flow.ts'
import type { Batch, Job, Source } from '../plugin.ts'
import type { Session } from '../routing.ts'

/**
 * Asks a deployment, and the next one while none has given a first part. The first pull dials: until then nothing has gone
 * upstream, and a failure still becomes a proper status.
 */
export const route: Stage = async function route(call) {
  const exchange = new Exchange(call)
  // A generator that was never started, or that waits for a read, does not run its `finally` when the client leaves.
  call.scope.defer(() => exchange.close())
  return { parts: flowFrom(exchange) }
}

const NOTHING_MORE: Batch<any> = { parts: [], last: true }

/** Everything between the first dial and the last part. Owns the upstream connection and the model's line on the meter. */
class Exchange implements Source<any> {
  readonly #call: Call
  readonly #drains: boolean
  #dialled = false
  #finished = false
  #closing: Promise<void> | undefined
  #intake: Intake | undefined
  #branch: AbortController | undefined
  /** What is being waited for. */
  #pending: Promise<Batch<any>> | undefined

  constructor(call: Call) {
    this.#call = call
    this.#drains = call.runtime.config.billing.onDisconnect === 'drain'
  }

  async next(): Promise<Batch<any>> {
    if (this.#closing) {
      await this.#closing
      return NOTHING_MORE
    }
    try {
      this.#pending = this.#intake ? this.#intake.parts.next() : this.#dial()
      const batch = await this.#pending
      this.#finished = batch.last
      if (this.#finished || this.#closing) await this.close()
      return batch
    } catch (error) {
      await this.close()
      throw this.#failureOf(error)
    }
  }

  /** Books what was consumed and lets the upstream go. Idempotent: whoever comes later waits for the same end. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    const call = this.#call
    const left = call.aborted instanceof ClientGone
    if (left && this.#drains && this.#dialled) await this.#readOn()
    const usage = this.#intake?.usage() ?? (left && this.#dialled ? this.#sent() : undefined)
    if (usage) call.meter.push({ source: 'model', usage, prices: call.model.prices })
    if (this.#branch) call.drop(this.#branch)
    if (this.#finished) return
    this.#branch?.abort(new ClientGone())
    void this.#intake?.parts.close()
  }

  /** Tries deployments in order until one has given its first part. */
  async #dial(): Promise<Batch<any>> {
    const call = this.#call
    const { model, account, runtime } = call
    const { routing, config } = runtime
    const session: Session | undefined =
      call.session === null ? undefined : { account: account.id, id: call.session }
    const candidates = routing.order(model, session)
    let again = true
    for (let attempt = 1, next = 0; ; attempt++) {
      const deployment = candidates[next]!
      const started = performance.now()
      const report = (outcome: string) =>
        runtime.metrics.upstream({
          provider: deployment.provider,
          outcome,
          seconds: (performance.now() - started) / 1000,
        })
      try {
        const first = await this.#ask(deployment)
        report('ok')
        routing.succeeded(deployment)
        if (next > 0 && session) routing.pin(model, session, deployment)
        return first
      } catch (error) {
        const failure = this.#failureOf(error)
        if (!UpstreamFailure.is(failure) || call.aborted) throw failure
        report(failure.failure)
        routing.failed(deployment, failure, config.routing.cooldown * 1000)
        if (failure.unhealthy) {
          runtime.log.warn(
            `${call.id}: ${deployment.id} failed: ${failure.failure}${causeOf(failure)}`,
          )
        }
        if (!failure.failover || attempt >= config.routing.attempts) throw failure
        if (next + 1 < candidates.length) next++
        else if (failure.failure === 'upstream_error' && again) again = false
        else throw failure
      }
    }
  }

  async #ask(deployment: Deployment): Promise<Batch<any>> {
    const call = this.#call
    const { endpoint, runtime } = call
    const provider = runtime.providers.get(deployment.provider)!
    const branch = call.branch(this.#drains ? ClientGone : undefined)
    const { firstPartTimeout } = runtime.config.providers[deployment.provider]!
    const alarm = endpoint.streams(call.input)
      ? call.alarm(firstPartTimeout * 1000, () =>
          branch.abort(
            new UpstreamFailure('timeout', 'The model provider did not answer in time.'),
          ),
        )
      : undefined
    this.#dialled = true
    this.#branch = branch
    call.deployment = deployment.id
    try {
      const job: Job<any> = {
        input: call.outbound,
        model: deployment.model,
        options: deployment.options,
        requestId: call.id,
        signal: branch.signal,
        log: runtime.log,
      }
      const intake = endpoint.take(call, await provider[endpoint.operation]!(job))
      const first = await intake.parts.next()
      this.#intake = intake
      return first
    } catch (error) {
      const reason = branch.signal.aborted ? branch.signal.reason : error
      branch.abort(reason)
      call.drop(branch)
      throw reason
    } finally {
      alarm?.off()
    }
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
        batch = await Promise.race([this.#intake!.parts.next(), timeUp])
      }
    } catch {
      // What was seen until here is what is charged.
    } finally {
      clearTimeout(timer)
    }
  }

  /** Nothing came back, but the prompt went out. */
  #sent() {
    const { endpoint, input, model } = this.#call
    return { ...endpoint.estimate(input, model).least, estimated: true }
  }

  /** What was thrown, as what the client should hear. */
  #failureOf(error: unknown): unknown {
    const { aborted } = this.#call
    if (aborted) return aborted
    if (GatewayError.is(error)) return error
    if (error instanceof RangeError && error.message.includes('call stack')) {
      // Serialising is recursive: no vendor is to blame for a body that is nested ten thousand levels deep.
      return new InvalidRequest('invalid_value', 'The request body is nested too deeply.')
    }
    const message = 'The model provider failed in an unforeseen way.'
    return new UpstreamFailure('upstream_error', message, { cause: error })
  }
}

/** For the operator's log: names and codes, never a body, a key or an address with a query. */
function causeOf(failure: UpstreamFailure): string {
  const { cause } = failure
  if (!(cause instanceof Error)) return ''
  const code = 'code' in cause ? ` ${String(cause.code)}` : ''
  const message = cause.message.replace(/\bhttps?:\/\/\S+/g, '[address]').slice(0, 200)
  return ` (${cause.name}${code}: ${message})`
}
