import { tierRefusal } from '../../models/allowlist.ts'
import { Forbidden, PaymentRequired, TooManyRequests, Unavailable } from '../../errors/errors.ts'
import type { HoldResult, HoldGranted } from '../../state/ledger/ledger.ts'
import { withPrompt, type Estimate, type HoldFigures } from '../../money/holds.ts'
import type { Pico } from '../../money/money.ts'
import { instructionsOf, NO_POLICY } from '../../policy/policy.ts'
import type { Call, Stage } from '../pipeline.ts'
import { RESULT_TOKENS, searchPrice } from '../../search/search.ts'

const NOTHING: HoldFigures = { expected: 0n, ceiling: 0n, output: 0n, outputTokens: 0 }
const NO_EXPOSURE = { share: 0, most: 0n }
const BYTES_PER_TOKEN = 4

/**
 * Reserves money for the call, lets the hold grow where little money is left, and learns from a call that has completed.
 * @throws Forbidden for a spend cap, PaymentRequired for the balance, TooManyRequests while running calls hold the rest
 */
export const hold: Stage = async function hold(call, next) {
  const { id: request, account, key, entered, model, runtime } = call
  const { hold: policy, exposure } = runtime.config.billing
  const estimate = estimateOf(call)
  const figures = entered.paid ? figuresOf(call, estimate) : NOTHING
  const { expected, ceiling } = figures
  const held = await runtime.ledger.hold({
    request,
    account: account.id,
    key: key.id,
    at: entered.at,
    expected,
    ceiling,
    exposure: policy === 'ceiling' ? NO_EXPOSURE : exposure,
    free: model.freeTier,
  })
  runtime.metrics.held(held.ok ? 'ok' : held.why === 'held' ? `held_${held.by}` : held.why)
  if (!held.ok) throw refusalOf(call, held)
  call.held = held
  call.scope.defer(() => learn(call, estimate))
  if (held.tight) growWith(call, figures)
  return next()
}

/** What the call will consume, with what the policy and a web search add to its prompt. */
function estimateOf({ request, model, endpoint, policy, online, runtime }: Call): Estimate {
  const estimate = endpoint.billing.estimate(request, model)
  const to = policy !== NO_POLICY && endpoint.instructions ? instructionsOf(policy) : undefined
  const wanted = runtime.search && endpoint.grounding?.searchRequest(request.input, online)
  if (!to && !wanted) return estimate
  const told = Math.ceil(Buffer.byteLength(to?.system ?? '') / BYTES_PER_TOKEN)
  return withPrompt(estimate, told + (wanted ? RESULT_TOKENS : 0), to?.maxOutputTokens)
}

/** The figures of the call, and of the web search that the client wants. */
function figuresOf(call: Call, estimate: Estimate): HoldFigures {
  const { runtime, endpoint, request, online } = call
  const figures = runtime.holds.of(runtime.config.billing.hold, subjectOf(call), estimate)
  const wanted = endpoint.grounding?.searchRequest(request.input, online)
  if (!wanted || !runtime.search) return figures
  const search = searchPrice(runtime.search.engineFor(wanted).prices)
  const { expected, ceiling } = figures
  return { ...figures, expected: expected + search, ceiling: ceiling + search }
}

function subjectOf({ account, model }: Call) {
  return { account: account.id, model: model.id, prices: model.prices }
}

function learn(call: Call, estimate: Estimate): void {
  const line = call.meter.find(({ source }) => source === 'model')
  if (call.outcome !== 'completed' || !line) return
  const seconds = (Date.now() - call.startedAt) / 1000
  call.runtime.holds.learn(subjectOf(call), { estimate, line, seconds })
}

/**
 * Has the hold grow with the answer, up to the ceiling. Of an answer that comes whole nothing is seen, so the tokens are
 * guessed from the time.
 */
function growWith(call: Call, figures: HoldFigures): void {
  if (figures.output === 0n) return
  const growth = new Growth(call, figures)
  if (call.request.stream) call.grow = (tokens) => growth.reached(tokens)
  else growth.follow(call.runtime.holds.rateOf(call.model.id))
}

/** A hold that grows: the part for the answer doubles when the call has written as many tokens as that part pays for. */
class Growth {
  readonly #call: Call
  readonly #ceiling: Pico
  #held: Pico
  #output: Pico
  /** Tokens that `#output` pays for. */
  #covered: number
  #raising = false

  constructor(call: Call, { expected, ceiling, output, outputTokens }: HoldFigures) {
    this.#call = call
    this.#ceiling = ceiling
    this.#held = expected
    this.#output = output
    this.#covered = outputTokens
  }

  /** @param tokens written so far */
  reached(tokens: number): void {
    if (tokens < this.#covered || this.#held >= this.#ceiling || this.#raising) return
    let [held, output, covered] = [this.#held, this.#output, this.#covered]
    for (; tokens >= covered && held < this.#ceiling; covered *= 2) {
      held += output
      output *= 2n
    }
    const { id: request, account, key, runtime } = this.#call
    const to = held < this.#ceiling ? held : this.#ceiling
    const raise = { account: account.id, key: key.id, request, from: this.#held, to }
    const raised = () => {
      this.#held = to
      this.#output = output
      this.#covered = covered
    }
    this.#raising = true
    runtime.metrics.raised()
    // A raise that failed is tried again with the next tokens; one that was booked all the same is not repeated.
    void Promise.resolve(runtime.ledger.raise(raise))
      .then(raised, () => {})
      .finally(() => {
        this.#raising = false
      })
  }

  /** Guesses the tokens by the time since the request came. @param rate tokens a second */
  follow(rate: number): void {
    const call = this.#call
    const seconds = () => (Date.now() - call.startedAt) / 1000
    const wait = () => {
      const timeout = call.timeout((this.#covered / rate - seconds()) * 1000, () => {
        this.reached(seconds() * rate)
        if (this.#held < this.#ceiling) wait()
      })
      call.scope.defer(() => timeout.clear())
    }
    wait()
  }
}

function refusalOf(call: Call, refused: Exclude<HoldResult, HoldGranted>): Error {
  switch (refused.why) {
    case 'tier':
      return tierRefusal(call.runtime.catalog, call.model)
    case 'credits':
      return new PaymentRequired('The balance of this account is used up. Add credits to go on.')
    case 'cap':
      return new Forbidden('key_limit_exceeded', capMessage(refused.scope, refused.resetsAt))
    case 'held':
      return new TooManyRequests(
        'too_many_concurrent',
        'What is left of the balance or spend cap is set aside for calls that are still running.',
      )
    case 'lost':
      return new Unavailable('service_unavailable', 'The gateway was paused for too long.')
  }
}

function capMessage(scope: 'lifetime' | 'day' | 'month', resetsAt: number | undefined): string {
  if (scope === 'lifetime') return 'The spend cap of this key is reached.'
  const when =
    resetsAt === undefined ? '' : ` It starts anew at ${new Date(resetsAt).toISOString()}.`
  return `The spend cap of this key for this ${scope} (UTC) is reached.${when}`
}
