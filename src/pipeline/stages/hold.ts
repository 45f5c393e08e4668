import { performance } from 'node:perf_hooks'
import type { Account } from '../../accounts/stored.ts'
import { tierRefusal } from '../../models/allowlist.ts'
import { Forbidden, PaymentRequired, TooManyRequests, Unavailable } from '../../errors/errors.ts'
import type {
  HoldGranted,
  HoldRequest,
  HoldResult,
  RefusedLimit,
} from '../../state/ledger/ledger.ts'
import type { Pico } from '../../money/money.ts'
import {
  HoldGrowth,
  withCosts,
  type Estimate,
  type HoldFigures,
  type HoldStep,
  questionCost,
} from '../../money/holds.ts'
import { instructionsOf, NO_POLICY } from '../../policy/policy.ts'
import { searchOf } from '../native.ts'
import { limitBounds, limitHeader, refusalText, zoneOf } from '../../accounts/limits.ts'
import { ruleOf } from '../../state/ledger/zone.ts'
import { leaseOf, noteLimit, setTokenHeaders } from '../rates.ts'
import { runningRow } from '../call-record.ts'
import type { Call, Stage } from '../pipeline.ts'
import { RESULT_TOKENS, searchPrice } from '../../search/search.ts'
import type { Model } from '../../models/catalog.ts'
import { sidesRead, type InputTexts, EXACT_ONLY } from '../../guard/adapter.ts'
import {
  costOfQuestions,
  questionsOf,
  type AskedTexts,
  type BudgetedQuestions,
} from '../../guard/plan.ts'

// The part of a hold for the questions of guards.

const CHARACTERS_PER_TOKEN = 4
const NONE: Costs = { expected: 0n, ceiling: 0n, output: 0n }
const NO_TEXT = { expected: 0, ceiling: 0 }
/** The length of a transcript or the text of a page is not known before. */
const UNKNOWN_TEXT = { expected: 1, ceiling: Infinity }

/** `output`: the part of the expected cost that grows with the answer. */
type Costs = Pick<HoldFigures, 'expected' | 'ceiling' | 'output'>

interface Asked {
  readonly questions: BudgetedQuestions
  /** Questions that are not about the answer, where its tokens are counted. */
  readonly fixed?: BudgetedQuestions
}

/**
 * The cost for the account of models that guards ask about a call.
 * @param outputTokens the expected tokens of the answer, all choices together
 */
function questionCosts(call: Call, estimate: Estimate, outputTokens: number): Costs {
  const budgeted = askedAbout(call, estimate, outputTokens)
  if (!budgeted) return NONE
  const { questions, fixed } = budgeted
  const sumOf = (some: BudgetedQuestions, figure: 'expected' | 'ceiling') =>
    costOfQuestions(some[figure], (id) => questionCost(call.catalog.get(id)?.prices ?? {}, figure))
  const expected = sumOf(questions, 'expected')
  const output = fixed ? expected - sumOf(fixed, 'expected') : 0n
  return { expected, ceiling: sumOf(questions, 'ceiling'), output }
}

function askedAbout(call: Call, { output }: Estimate, outputTokens: number): Asked | undefined {
  const { runtime, endpoint, request } = call
  const { policy } = call.target
  const own = endpoint.billing.questions?.(call)
  if (own) return { questions: own }
  const adapter = endpoint.guard
  if (!adapter || (policy === NO_POLICY && !runtime.guards.hasAlways)) return undefined
  const guards = runtime.guards.askingFor(policy, runtime.config.guards.billMonitor)
  if (guards.length === 0) return undefined
  const reads = sidesRead(adapter, policy)
  const input = reads.input ? charactersIn(adapter.inputTexts(request.input, [])) : 0
  const about = (text: AskedTexts['output'], choices = 1) =>
    questionsOf(guards, { input, output: text, choices })
  if (!reads.output || adapter.outputIsSilent) return { questions: about(NO_TEXT) }
  if (!output || output.isImage) return { questions: about(UNKNOWN_TEXT) }
  const { choices, limit } = output
  const text = {
    expected: (outputTokens / choices) * CHARACTERS_PER_TOKEN,
    ceiling: limit * CHARACTERS_PER_TOKEN,
  }
  return { questions: about(text, choices), fixed: about(NO_TEXT) }
}

const NO_EXPOSURE = { share: 0, most: 0n }
const BYTES_PER_TOKEN = 4

/**
 * Reserves money for the call, lets the hold grow where little money is left, and learns from a call that has completed.
 * @throws Forbidden for a spend cap, PaymentRequired for the balance, TooManyRequests while running calls hold the rest
 */
export const hold: Stage = {
  name: 'hold',
  before(call) {
    const { admission, target, runtime } = call
    const estimate = estimateOf(call)
    admission.estimate = estimate
    const figures = figuresOf(call, estimate)
    const wanted = requestOf(call, target.model, estimate, figures)
    const decide = (held: HoldResult) => {
      const waits = isWaiting(held) && runtime.config.billing.patience > 0
      return waits ? patient(call, wanted, held, figures) : take(call, held, figures)
    }
    const held = runtime.ledger.hold(wanted)
    return held instanceof Promise ? held.then(decide) : decide(held)
  },

  end(call) {
    const { estimate, held } = call.made.admission ?? {}
    if (estimate && held) learn(call, estimate)
  },
}

/**
 * What the ledger is asked for. On the free tier it holds nothing; it decides, because a top-up may have ended the tier since the
 * call entered.
 */
function requestOf(
  { id: request, admission, runtime }: Call,
  { id: model, freeTier }: Model,
  estimate: Estimate,
  figures: HoldFigures,
): HoldRequest {
  const { account, entered } = admission
  const { defaults } = runtime.config
  const { hold: policy, exposure } = runtime.config.billing
  const { expected, ceiling } = figures
  return {
    ...leaseOf(request, admission),
    at: entered!.at,
    expected,
    ceiling,
    exposure: policy === 'ceiling' ? NO_EXPOSURE : exposure,
    free: freeTier,
    model,
    tokens: tokensOf(estimate, figures),
    zone: ruleOf(zoneOf(account, defaults)),
    tierPerDay: defaults.freeTier.perDay,
  }
}

/** Exchanges the hold of a call for that of another model, or for a share of its own. See {@link Admission.rehold}. */
async function rehold(call: Call, model: Model, share = 1): Promise<Error | undefined> {
  const { admission, target, runtime } = call
  const original = target.model
  target.model = model
  let [estimate, figures] = [admission.estimate!, undefined as HoldFigures | undefined]
  try {
    estimate = estimateOf(call)
    figures = figuresOf(call, estimate)
  } finally {
    target.model = original
  }
  const part = share === 1 ? figures : partOf(figures, share)
  const held = await runtime.ledger.hold({
    ...requestOf(call, model, estimate, part),
    replaces: true,
  })
  runtime.metrics.held(heldAs(held))
  if (!held.ok) return refusalOf(call, held)
  admission.held = held
  admission.estimate = estimate
  target.model = model
  void runtime.prices.keep([model])
  call.admission.grow = undefined
  if (held.tight) growWith(call, part)
  return undefined
}

/** A share of what a call holds, in thousandths. */
function partOf(figures: HoldFigures, share: number): HoldFigures {
  const of = (amount: Pico) => (amount * BigInt(Math.ceil(share * 1000)) + 999n) / 1000n
  const { expected, ceiling, output } = figures
  return { ...figures, expected: of(expected), ceiling: of(ceiling), output: of(output) }
}

function heldAs(held: HoldResult) {
  return held.ok ? 'ok' : held.why === 'held' ? (`held_${held.by}` as const) : held.why
}

/** A call never waits inside for a number at once. */
function isWaiting(held: HoldResult): boolean {
  return !held.ok && held.why === 'held' && held.by !== 'concurrency'
}

/** Tokens of the prompt and of the answer, probably and at most. */
function tokensOf({ expected, most, output }: Estimate, { outputTokens }: HoldFigures) {
  const answer = output ? output.limit * output.choices : 0
  return {
    expected: Math.ceil((expected.promptTokens ?? 0) + Math.min(outputTokens, answer)),
    ceiling: Math.ceil((most.promptTokens ?? 0) + answer),
  }
}

/** The longest time between two questions to the ledger, in ms: other gateways settle too. */
const ASK_AGAIN_MS = 250

/**
 * Asks again while running calls hold the rest of the money, after each settlement of the account, for `billing.patience`. Bursts
 * of small accounts are served so in place of being refused.
 */
async function patient(
  call: Call,
  wanted: HoldRequest,
  refused: HoldResult,
  figures: HoldFigures,
): Promise<void> {
  const { runtime, admission } = call
  const until = performance.now() + runtime.config.billing.patience * 1000
  const scope = call.abortScope()
  let held = refused
  try {
    while (isWaiting(held) && performance.now() < until) {
      const leftMs = until - performance.now()
      await runtime.holds.settled.next(
        admission.account.id,
        Math.min(ASK_AGAIN_MS, leftMs),
        scope.signal,
      )
      call.throwIfAborted()
      held = await runtime.ledger.hold(wanted)
    }
  } finally {
    call.release(scope)
  }
  take(call, held, figures)
}

/** Takes the answer of the ledger. @throws where it refuses */
function take(call: Call, held: HoldResult, figures: HoldFigures): void {
  const { admission, target, runtime } = call
  runtime.metrics.held(heldAs(held))
  if (!held.ok) throw refusalOf(call, held)
  admission.held = held
  if (held.tokens) setTokenHeaders(call, held.tokens)
  admission.rehold = rehold.bind(undefined, call)
  // The prices are kept before the first charge by them; nothing waits for it.
  void runtime.prices.keep([target.model])
  call.marks.admitMs = call.elapsedMs
  runtime.events.emit('call.started', () => runningRow(call))
  if (held.tight) growWith(call, figures)
}

/** The consumption of the call, with the text that the policy and a web search add to its prompt. */
function estimateOf(call: Call): Estimate {
  const { request, endpoint, runtime } = call
  const { model, policy } = call.target
  const estimate = endpoint.billing.estimate(request, model)
  const to = policy !== NO_POLICY && endpoint.instructions ? instructionsOf(policy) : undefined
  const wanted = runtime.search && searchOf(call)
  if (!to && !wanted) return estimate
  const systemTokens = Math.ceil(Buffer.byteLength(to?.system ?? '') / BYTES_PER_TOKEN)
  return withPrompt(estimate, systemTokens + (wanted ? RESULT_TOKENS : 0), to?.maxOutputTokens)
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

function subjectOf({ admission: { account }, target: { model } }: Call) {
  return { account: account.id, model: model.id, prices: model.prices }
}

function learn(call: Call, estimate: Estimate): void {
  const { meter, outcome } = call.answer
  const line = meter.find(({ source }) => source === 'model')
  // Of another model than the asked one nothing is learned.
  if (outcome !== 'completed' || !line || call.target.replaced) return
  call.runtime.holds.learn(subjectOf(call), { estimate, line })
}

/**
 * Makes the hold grow with the answer. A whole answer shows no tokens, so they are guessed from the time since the
 * request came.
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
    call.admission.grow = reached
    return
  }
  const { holds } = call.runtime
  const rate = Math.max(...call.target.model.deployments.map(({ id }) => holds.rateOf(id)))
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
  const { id: request, runtime } = call
  runtime.metrics.raised()
  await runtime.ledger.raise({ ...leaseOf(request, call.admission), from, to })
}

function refusalOf(call: Call, refused: Exclude<HoldResult, HoldGranted>): Error {
  const { admission, runtime } = call
  const zone = zoneOf(admission.account, runtime.config.defaults)
  switch (refused.why) {
    case 'tier':
      admission.limit = 'tier.model'
      return tierRefusal(runtime.catalog, call.target.model)
    case 'credits':
      admission.limit = 'balance'
      call.headers['x-service-limit'] = 'balance'
      return new PaymentRequired(creditsRefusal(admission.account))
    case 'limit':
      return limitRefusal(call, refused, zone)
    case 'held':
      return heldRefusal(call, refused.limit, zone)
    case 'lost':
      return new Unavailable(
        'service_unavailable',
        'The gateway was paused while it admitted this request. Send it again.',
      )
  }
}

function creditsRefusal({ creditLimit }: Account): string {
  const used =
    creditLimit === undefined
      ? 'The balance of this account is'
      : 'The balance and the credit limit of this account are'
  return `${used} used up. Add credits to go on.`
}

function limitRefusal(
  call: Call,
  { limit, at }: Extract<HoldResult, { why: 'limit' }>,
  zone: string | undefined,
): Error {
  noteLimit(call, limit, limitHeader(limit, zone))
  const text = refusalText(limit, zone)
  if (limit.unit === 'usd' || limit.window === 'lifetime') {
    return new Forbidden('key_limit_exceeded', text)
  }
  const { resetsAt = at } = limitBounds(limit, zone)
  return new TooManyRequests('rate_limited', text, Math.max(1, resetsAt - at))
}

function heldRefusal(call: Call, limit: RefusedLimit | undefined, zone: string | undefined): Error {
  if (!limit) {
    call.admission.limit = 'held'
    call.headers['x-service-limit'] = 'balance'
    return new TooManyRequests(
      'too_many_concurrent',
      'What is left of the money is set aside for calls that are still running.',
    )
  }
  noteLimit(call, limit, limitHeader(limit, zone))
  return new TooManyRequests('too_many_concurrent', refusalText(limit, zone, true))
}

/** Characters of the last turn of an input, as far as judges read it; 1 for one that is media only. */
function charactersIn({ items }: InputTexts): number {
  let [characters, media] = [0, 0]
  for (const item of items) {
    if (!item.current || EXACT_ONLY.has(item.channel)) continue
    characters += item.text.length
    media += item.media?.length ?? 0
  }
  return characters === 0 && media > 0 ? 1 : characters
}

/** The estimate of a request with a longer prompt and another bound on its answer, in tokens. */
function withPrompt(estimate: Estimate, added: number, outputLimit = Infinity): Estimate {
  const { expected, most, output } = estimate
  return {
    ...estimate,
    expected: { ...expected, promptTokens: (expected.promptTokens ?? 0) + added },
    most: { ...most, promptTokens: (most.promptTokens ?? 0) + 2 * added },
    ...(output && { output: { ...output, limit: Math.min(output.limit, outputLimit) } }),
  }
}
