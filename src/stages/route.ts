import type { Deployment } from '../catalog.ts'
import { GatewayError, InvalidRequest, UpstreamFailure } from '../errors.ts'
import { ClientGone, type Call, type Intake, type Stage } from '../pipeline.ts'
import type { Job } from '../plugin.ts'
import type { Session } from '../routing.ts'

/**
 * Asks a deployment, and the next one while none has given a first part. The first pull dials: until then nothing has gone
 * upstream, and a failure still becomes a proper status.
 */
export const route: Stage = async function route(call) {
  const exchange = new Exchange(call)
  // A generator that was never started, or that waits for a read, does not run its `finally` when the client leaves.
  call.scope.defer(() => exchange.close())
  return { parts: exchange.parts() }
}

/** Everything between the first dial and the last part. Owns the upstream connection and the model's line on the meter. */
class Exchange {
  readonly #call: Call
  readonly #drains: boolean
  #dialled = false
  #finished = false
  #closing: Promise<void> | undefined
  #intake: Intake | undefined
  #iterator: AsyncIterator<any> | undefined
  #branch: AbortController | undefined
  /** The part that is being waited for. */
  #pending: Promise<IteratorResult<any>> | undefined

  constructor(call: Call) {
    this.#call = call
    this.#drains = call.runtime.config.billing.onDisconnect === 'drain'
  }

  /** Written out, not a generator: every part of every answer passes here. */
  parts(): AsyncIterableIterator<any> {
    return {
      [Symbol.asyncIterator]() {
        return this
      },
      next: () => this.#next(),
      return: async () => {
        await this.close()
        return { value: undefined, done: true }
      },
    }
  }

  async #next(): Promise<IteratorResult<any>> {
    if (this.#closing) {
      await this.#closing
      return { value: undefined, done: true }
    }
    try {
      this.#pending = this.#iterator ? this.#iterator.next() : this.#dial()
      const result = await this.#pending
      this.#finished = result.done === true
      if (this.#finished || this.#closing) await this.close()
      return this.#closing ? { value: undefined, done: true } : result
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
    // Not awaited: a generator that waits for a read returns when the read does.
    void this.#iterator?.return?.()?.catch(() => {})
  }

  /** Tries deployments in order until one has given its first part. */
  async #dial(): Promise<IteratorResult<any>> {
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

  async #ask(deployment: Deployment): Promise<IteratorResult<any>> {
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
      const iterator = intake.parts[Symbol.asyncIterator]()
      const first = await iterator.next()
      this.#intake = intake
      this.#iterator = iterator
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
      let result = await Promise.race([this.#pending, timeUp])
      while (result && !result.done && read < drainBytes) {
        read += Buffer.byteLength(JSON.stringify(result.value))
        result = await Promise.race([this.#iterator!.next(), timeUp])
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
