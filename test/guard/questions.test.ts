/** Money for the questions of guards: part of what is set aside for a call. */
import { expect, it } from 'vitest'
import * as v from 'valibot'
import judge from '../../plugins/guards/judge.ts'
import { defineGuard, type GuardPlugin } from '../../src/plugin.ts'
import type { Policy } from '../../src/policy/policy.ts'
import { formatPico } from '../../src/money/money.ts'
import type { HoldRequest } from '../../src/state/ledger/ledger.ts'
import { honest, isForJudge, vendorOf } from '../plugins/judge/_judge.ts'
import { json } from '../upstream.ts'
import { guarded, wholeOf, type Guarded } from './_setup.ts'

type Settings = Parameters<typeof guarded>[0][number]

const DENY: Partial<Policy> = { deny: ['code'] }
/** 3,000 tokens of the question and 300 of its answer, at the prices of `acme/judge`. */
const QUESTION = 3000 * 0.000001 + 300 * 0.000002
/** The same of a long one. */
const LONG_QUESTION = 6000 * 0.000001 + 1200 * 0.000002
/** What the questions about one call may cost, but for those that run when it is spent. */
const BUDGET = 0.02
const UNUSABLE = {
  index: 0,
  message: { role: 'assistant', content: 'I would rather not.' },
  finish_reason: 'stop',
}
/** The price of two questions: one about the input, and one about an answer of one segment. */
const BOTH = 2 * QUESTION

/** What is set aside for a call with a policy. */
async function heldFor(g: Guarded, policy: Partial<Policy>, body: object = {}) {
  const { ledger } = g.t.gateway.runtime
  const { hold } = ledger
  const asked: HoldRequest[] = []
  ledger.hold = (request) => {
    asked.push(request)
    return hold.call(ledger, request)
  }
  // Nothing answers: what comes after the hold does not matter.
  await g.ask(policy, { max_tokens: 10, ...body })
  ledger.hold = hold
  expect(asked).toHaveLength(1)
  return [asked[0]!.expected, asked[0]!.ceiling].map((amount) => Number(formatPico(amount)))
}

/** What the guards of `use` add to both figures. */
async function addedBy(
  use: readonly Settings[],
  policy: Partial<Policy>,
  settings: Parameters<typeof guarded>[1] = {},
  body: object = {},
): Promise<{ readonly expected: number; readonly ceiling: number }> {
  const paid = use.map((one) => ('kind' in one ? { use: one as GuardPlugin } : one))
  const byOperator = paid.map((one) => ({ ...one, billing: 'operator' as const }))
  await using without = await guarded(byOperator, settings)
  await using withThem = await guarded(paid, settings)
  const [expected, ceiling] = await heldFor(without, policy, body)
  const [expectedWith, ceilingWith] = await heldFor(withThem, policy, body)
  return { expected: expectedWith! - expected!, ceiling: ceilingWith! - ceiling! }
}

/** What they add to the expected cost; the ceiling grows by no less. */
async function added(...given: Parameters<typeof addedBy>): Promise<number> {
  const { expected, ceiling } = await addedBy(...given)
  expect(ceiling).toBeGreaterThanOrEqual(expected)
  return expected
}

const asking: Settings = { use: judge, options: { model: 'acme/judge' } }

it('questions are set aside for each judge and origin of rules, about the input and the answer', async () => {
  expect(await added([asking], DENY)).toBeCloseTo(BOTH, 12)
  const request = { policy: { version: 1, deny: ['math'] } }
  expect(await added([asking], DENY, {}, request)).toBeCloseTo(2 * BOTH, 12)
  const second: Settings = { ...asking, name: 'second' }
  expect(await added([asking, second], DENY)).toBeCloseTo(2 * BOTH, 12)
  expect(await added([asking], { ...DENY, guard: { output: false } })).toBeCloseTo(QUESTION, 12)
  expect(await added([asking], { ...DENY, guard: { input: false } })).toBeCloseTo(QUESTION, 12)
})

it('as many are set aside as are asked about a long input and its answer', async () => {
  const body = { messages: [{ role: 'user', content: 'word '.repeat(4000) }], max_tokens: 150 }
  // Windows of the input, and segments of 600 characters.
  expect(await added([asking], DENY, {}, body)).toBeCloseTo((4 + 3) * QUESTION, 12)
  await using g = await guarded([asking])
  const sentence = 'This is a sentence of forty characters. '
  g.vendor.answer(
    vendorOf((asked) => honest(asked, () => ({})), wholeOf({ content: sentence.repeat(15) })),
  )
  const { status, json: passed } = await g.ask(DENY, body)
  expect([status, passed.guard.outcome]).toEqual([200, 'passed'])
  expect(g.vendor.requests.filter(isForJudge)).toHaveLength(4 + 3)
})

it('of a conversation only the last turn counts', async () => {
  const messages = [
    { role: 'user', content: 'word '.repeat(4000) },
    { role: 'assistant', content: 'Yes?' },
    { role: 'user', content: 'Go on.' },
  ]
  expect(await added([asking], DENY, {}, { messages })).toBeCloseTo(BOTH, 12)
})

it('a judge that asks once for each of its rules has as many questions', async () => {
  const use: Settings = {
    use: judge,
    options: { kind: 'shieldgemma', model: 'acme/judge' },
    applies: 'always',
  }
  expect(await added([use], {})).toBeCloseTo(4 * BOTH, 12)
})

it('the ceiling has all that the budget of a call pays for', async () => {
  const short = await addedBy([asking], { ...DENY, guard: { output: false } })
  // An answer that is of no use is asked for again.
  expect(short.ceiling).toBeCloseTo(2 * LONG_QUESTION, 12)
  const long = await addedBy([asking], DENY, {}, { max_tokens: 100_000 })
  // Three questions about one text may run at once.
  expect(long.ceiling).toBeCloseTo(BUDGET + 3 * LONG_QUESTION, 12)
  const choices = await addedBy([asking], DENY, {}, { max_tokens: 100_000, n: 20 })
  expect(choices.ceiling).toBeCloseTo(24 * LONG_QUESTION, 12)
})

it('no call pays more for questions than its ceiling has for them', async () => {
  const policy = { ...DENY, guard: { onError: 'allow' as const } }
  const body = { messages: [{ role: 'user', content: 'word '.repeat(4000) }], max_tokens: 500 }
  const { ceiling } = await addedBy([asking], policy, {}, body)
  await using g = await guarded([asking])
  const usage = { prompt_tokens: 5000, completion_tokens: 1000 }
  g.vendor.answer(({ json: { model } }) =>
    model === 'judge'
      ? json({ id: 'x', created: 1, model, choices: [UNUSABLE], usage })
      : wholeOf({ content: 'This is a sentence. '.repeat(100) }),
  )
  const { status, json: answer } = await g.ask(policy, body)
  expect([status, answer.guard.degraded]).toEqual([200, ['judge']])
  const { guard_cost: cost } = answer.usage.cost_details
  expect(cost).toBeGreaterThan(BUDGET)
  expect(cost).toBeLessThanOrEqual(ceiling)
})

it('an account that holds ceilings holds this one too', async () => {
  const policy = { ...DENY, guard: { output: false } }
  await using g = await guarded([asking], {}, { billing: { hold: 'ceiling' } })
  const [expected, ceiling] = await heldFor(g, policy)
  expect(expected).toBe(ceiling)
})

it('the model that a policy names is the one that is paid for', async () => {
  const policy = { ...DENY, guard: { model: 'acme/free' } }
  expect(await added([asking], policy)).toBe(0)
  const named = { ...DENY, guard: { model: 'acme/judge' } }
  expect(await added([{ use: judge }], named)).toBeCloseTo(BOTH, 12)
})

it('nothing is set aside for questions that are not asked, or that the operator pays for', async () => {
  expect(await added([asking], { systemPrompt: 'Be brief.' })).toBe(0)
  expect(await added([asking], { ...DENY, guard: { input: false, output: false } })).toBe(0)
  expect(await added([{ ...asking, mode: 'monitor' }], DENY)).toBe(0)
  const monitored = { ...DENY, guard: { mode: 'monitor' as const } }
  expect(await added([asking], monitored)).toBe(0)
  expect(await added([asking], monitored, { billMonitor: true })).toBeCloseTo(BOTH, 12)
})

it('a guard that cannot say what it asks holds up no call', async () => {
  const confused = (asks: () => unknown) =>
    defineGuard({
      name: 'confused',
      options: v.strictObject({}),
      setup: () => ({
        enforces: ['deny:code'],
        execution: 'local',
        asks: asks as () => string,
        checkInput: (items) => items.map(() => ({ action: 'pass' })),
      }),
    })
  const fails = () => {
    throw new Error('it does not know')
  }
  for (const asks of [fails, () => 7, () => 'acme/unknown', () => undefined]) {
    expect(await added([confused(asks)], DENY)).toBe(0)
  }
})

it('a guard that cannot say how many questions it asks is taken to ask one', async () => {
  const asks = (questions: (characters: number) => unknown) =>
    defineGuard({
      name: 'vague',
      options: v.strictObject({}),
      setup: () => ({
        enforces: ['deny:code'],
        execution: 'remote',
        asks: () => 'acme/judge',
        questions: questions as () => number,
        checkInput: (items) => items.map(() => ({ action: 'pass' })),
      }),
    })
  const fails = () => {
    throw new Error('it does not know')
  }
  for (const questions of [fails, () => 'many', () => 0, () => 1.5, () => Number.NaN]) {
    expect(await added([asks(questions)], DENY)).toBeCloseTo(QUESTION, 12)
  }
  expect(await added([asks((characters) => characters)], DENY)).toBeCloseTo(
    Math.min('Tell me something.'.length, 24) * QUESTION,
    12,
  )
})
