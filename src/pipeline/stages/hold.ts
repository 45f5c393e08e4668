import { tierRefusal } from '../../models/allowlist.ts'
import { Forbidden, PaymentRequired, TooManyRequests, Unavailable } from '../../errors/errors.ts'
import type { HoldResult, HoldGranted } from '../../state/ledger/ledger.ts'
import type { Pico } from '../../money/money.ts'
import {
  HoldGrowth,
  withCosts,
  withPrompt,
  type Estimate,
  type HoldFigures,
  type HoldStep,
} from '../../money/holds.ts'
import { instructionsOf, NO_POLICY } from '../../policy/policy.ts'
import { searchOf } from '../native.ts'
import type { LimitName } from '../../observe/record.ts'
import { runningRow } from '../call-record.ts'
import { questionCosts } from './hold/questions.ts'
import type { Call, Stage } from '../pipeline.ts'
import { RESULT_TOKENS, searchPrice } from '../../search/search.ts'

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
  // On the free tier the ledger holds nothing; it decides, because a top-up may have ended the tier since the call entered.
  const figures = figuresOf(call, estimate)
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
  if (!held.ok) {
    call.limit = limitOf(held)
    throw refusalOf(call, held)
  }
  call.held = held
  // Before the first charge by them; nothing waits for it.
  void runtime.prices.keep([model])
  call.admitMs = call.elapsedMs
  runtime.events.emit('call.started', () => runningRow(call))
  call.scope.defer(() => learn(call, estimate))
  if (held.tight) growWith(call, figures)
  return await next()
}

/** What the call will consume, with what the policy and a web search add to its prompt. */
function estimateOf(call: Call): Estimate {
  const { request, model, endpoint, policy, runtime } = call
  const estimate = endpoint.billing.estimate(request, model)
  const to = policy !== NO_POLICY && endpoint.instructions ? instructionsOf(policy) : undefined
  const wanted = runtime.search && searchOf(call)
  if (!to && !wanted) return estimate
  const told = Math.ceil(Buffer.byteLength(to?.system ?? '') / BYTES_PER_TOKEN)
  return withPrompt(estimate, told + (wanted ? RESULT_TOKENS : 0), to?.maxOutputTokens)
}

/** The figures of the call, with the web search that the client wants and the questions of guards. */
function figuresOf(call: Call, estimate: Estimate): HoldFigures {
  const { runtime } = call
  const { hold } = runtime.config.billing
  const figures = runtime.holds.of(hold, subjectOf(call), estimate)
  const search = searchCost(call)
  const questions = questionCosts(call, estimate, figures.outputTokens)
  if (search === 0n && questions.ceiling === 0n) return figures
  return withCosts(hold, figures, {
    expected: questions.expected + search,
    ceiling: questions.ceiling + search,
    output: questions.output,
  })
}

function searchCost(call: Call): Pico {
  const { runtime } = call
  const wanted = searchOf(call)
  return wanted && runtime.search ? searchPrice(runtime.search.engineFor(wanted).prices) : 0n
}

function subjectOf({ account, model }: Call) {
  return { account: account.id, model: model.id, prices: model.prices }
}

function learn(call: Call, estimate: Estimate): void {
  const line = call.meter.find(({ source }) => source === 'model')
  if (call.outcome !== 'completed' || !line) return
  const seconds = call.elapsedMs / 1000
  call.runtime.holds.learn(subjectOf(call), { estimate, line, seconds })
}

/**
 * Has the hold grow with the answer. Of an answer that comes whole nothing is seen, so the tokens are guessed from the time
 * since the request came.
 */
function growWith(call: Call, figures: HoldFigures): void {
  const growth = new HoldGrowth(figures)
  let raising = false
  const reached = (tokens: number) => {
    const step = raising ? undefined : growth.next(tokens)
    if (!step) return
    raising = true
    // A raise that failed is tried again with the next tokens; if it was booked all the same, that has no effect.
    void raise(call, step)
      .then(
        () => growth.take(step),
        () => {},
      )
      .finally(() => (raising = false))
  }
  if (call.request.stream) {
    call.grow = reached
    return
  }
  const rate = call.runtime.holds.rateOf(call.model.id)
  const seconds = () => call.elapsedMs / 1000
  const wait = () => {
    if (growth.isOver) return
    const timeout = call.timeout((growth.covered / rate - seconds()) * 1000, () => {
      reached(seconds() * rate)
      wait()
    })
    call.scope.defer(() => timeout.clear())
  }
  wait()
}

async function raise(call: Call, { from, to }: HoldStep): Promise<void> {
  const { id: request, account, key, runtime } = call
  runtime.metrics.raised()
  await runtime.ledger.raise({ account: account.id, key: key.id, request, from, to })
}

function limitOf(refused: Exclude<HoldResult, HoldGranted>): LimitName | undefined {
  switch (refused.why) {
    case 'tier':
      return 'tier.model'
    case 'credits':
      return 'balance'
    case 'cap':
      return `${refused.of}.cap.${refused.scope}`
    case 'held':
      return 'held'
    case 'lost':
      return undefined
  }
}

function refusalOf(call: Call, refused: Exclude<HoldResult, HoldGranted>): Error {
  switch (refused.why) {
    case 'tier':
      return tierRefusal(call.runtime.catalog, call.model)
    case 'credits':
      return new PaymentRequired('The balance of this account is used up. Add credits to go on.')
    case 'cap':
      return new Forbidden('key_limit_exceeded', capMessage(refused))
    case 'held':
      return new TooManyRequests(
        'too_many_concurrent',
        'What is left of the balance or spend cap is set aside for calls that are still running.',
      )
    case 'lost':
      return new Unavailable(
        'service_unavailable',
        'The gateway was paused while it admitted this request. Send it again.',
      )
  }
}

function capMessage({ of, scope, resetsAt }: Extract<HoldResult, { why: 'cap' }>): string {
  if (scope === 'lifetime') return `The spend cap of this ${of} is reached.`
  const when =
    resetsAt === undefined ? '' : ` It starts anew at ${new Date(resetsAt).toISOString()}.`
  return `The spend cap of this ${of} for this ${scope} (UTC) is reached.${when}`
}
