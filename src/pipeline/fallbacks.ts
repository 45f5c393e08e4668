/** Other models that answer a call whose own model cannot: which one is next, and what changes with it. */
import { mayUse } from '../models/allowlist.ts'
import type { Model } from '../models/catalog.ts'
import { fallbacksOf, isTooSmall, type FallbackModel, type Skip } from '../models/fallbacks.ts'
import type { When } from '../models/fallback-list.ts'
import { logEvent } from '../observe/events.ts'
import { searchOf } from './native.ts'
import type { Call, Target } from './pipeline.ts'

/** A request with this header and the value `off` is answered by the asked model alone. */
const HEADER = 'x-service-fallback'
/** Most fallbacks that one call asks. */
const MOST_ASKED = 3

/** The request for providers before it fits one model, and whether it may go as the client wrote it. */
export type Unfitted = Pick<Target, 'outbound' | 'requiresNormalForm'>

/** Makes the request for providers fit a model. */
export function fitTo(call: Call, model: Model, from: Unfitted): void {
  const { endpoint, request, target } = call
  const { outbound, requiresNormalForm } = from
  const dropped = endpoint.drops?.(request.input, model) ?? []
  target.outbound = endpoint.fit?.(outbound, model, request.input, target.thinks) ?? outbound
  target.dropped = dropped.length > 0 ? dropped : undefined
  // What goes out as the client wrote it is not changed.
  target.requiresNormalForm =
    requiresNormalForm || dropped.length > 0 || model.defaults !== undefined
}

/** The fallbacks of one call, in the order of asking. Those of a fallback are not asked. */
export class FallbackWalk {
  readonly #call: Call
  readonly #asked: Model
  readonly #left: FallbackModel[]
  /** It is undefined until the first one is asked for. */
  #reason: When | undefined
  #tried = 0

  private constructor(call: Call, listed: readonly FallbackModel[]) {
    this.#call = call
    this.#asked = call.target.model
    this.#left = [...listed]
  }

  /** It is undefined for a call without fallbacks: a question of a guard has none either. */
  static of(call: Call): FallbackWalk | undefined {
    const { runtime, target, made, incoming } = call
    const { fallbacks } = runtime.config.routing
    if (!target.model.fallbacks && !fallbacks) return undefined
    if (!made.admission?.rehold || incoming.header(HEADER) === 'off') return undefined
    const listed = fallbacksOf(target.model, call.catalog, fallbacks)
    return listed.length > 0 ? new FallbackWalk(call, listed) : undefined
  }

  /** The model that the client asked for. */
  get asked(): Model {
    return this.#asked
  }

  /**
   * The next model that may be asked, for which the hold has been exchanged; undefined where there is none. Each model that is
   * passed over is noted among the attempts.
   * @param reason counts the first time: that of the asked model
   */
  async next(reason: When | undefined): Promise<Model | undefined> {
    this.#reason ??= reason
    const when = this.#reason
    if (!when) return undefined
    while (this.#tried < MOST_ASKED) {
      const one = this.#left.shift()
      if (!one) return undefined
      if (!one.when.includes(when)) continue
      const skipped =
        this.#skip(one.model, when) ??
        ((await this.#call.admission.rehold!(one.model)) ? 'money' : undefined)
      if (!skipped) {
        this.#tried++
        this.#call.target.replaced = { asked: this.#asked, reason: when }
        this.#call.headers['x-service-model'] =
          `${one.model.id}; asked=${this.#asked.id}; reason=${when}`
        return one.model
      }
      this.#call.answer.attempts.push({ model: one.model.id, skipped })
    }
    return undefined
  }

  /** Goes back to the asked model, after the others. @returns whether the ledger agrees */
  async back(): Promise<boolean> {
    const { target, headers, admission } = this.#call
    if (target.model !== this.#asked && (await admission.rehold!(this.#asked))) return false
    delete headers['x-service-model']
    target.replaced = undefined
    return true
  }

  /** No model answers: the call is one of the asked model again. */
  end(): void {
    const { target, headers } = this.#call
    target.model = this.#asked
    target.replaced = undefined
    delete headers['x-service-model']
  }

  /** Tells the operator that another model answers. */
  tell(): void {
    const { id, runtime, admission, target, answer } = this.#call
    const { asked, reason } = target.replaced!
    const { model } = target
    runtime.metrics.calls.fellBack(asked.label, model.label, reason)
    const skipped = answer.attempts.filter((one) => 'skipped' in one)
    logEvent(runtime.log, 'warn', {
      event: 'call.fallback',
      message: `${id}: ${model.id} answers in place of ${asked.id}: ${reason}`,
      members: {
        requestId: id,
        account_id: admission.account.id,
        key_id: admission.key.id,
        asked_model: asked.id,
        model: model.id,
        reason,
        skipped: skipped.map((one) => ({ model: one.model, why: one.skipped })),
      },
    })
  }

  #skip(model: Model, reason: When): Skip | undefined {
    const { admission, catalog, endpoint, request, target, runtime } = this.#call
    const { entered } = admission
    if (!mayUse(admission, model.id, catalog)) return 'not_allowed'
    if (!entered!.paid && !model.freeTier) return 'not_allowed'
    try {
      endpoint.check(request.input, model, catalog)
    } catch {
      return 'lacks'
    }
    if (searchesOtherwise(this.#call, model)) return 'lacks'
    const { promptTokens = 0 } = endpoint.billing.estimate(request, model).expected
    const tokens = promptTokensOf(admission.estimate?.expected.promptTokens, promptTokens)
    if (isTooSmall(model, reason, this.#asked, tokens)) return 'window'
    const { routing } = runtime
    if (!model.deployments.some((one) => routing.healthOf(one).isOpen())) return 'out'
    return target.model === model ? 'out' : undefined
  }
}

/** The larger of two estimates: that of the hold has the text that a policy and a web search add. */
function promptTokensOf(held = 0, own: number): number {
  return Math.max(held, own)
}

/** Whether the vendor would search the web where the gateway has to, or the other way round. */
function searchesOtherwise(call: Call, model: Model): boolean {
  const { target } = call
  const original = target.model
  const before = searchOf(call) !== undefined
  target.model = model
  try {
    return (searchOf(call) !== undefined) !== before
  } finally {
    target.model = original
  }
}
