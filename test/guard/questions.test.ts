/** Money for the questions of guards: part of what is set aside for a call. */
import { expect, it } from 'vitest'
import * as v from 'valibot'
import judge from '../../plugins/guards/judge.ts'
import { defineGuard, type GuardPlugin } from '../../src/plugin.ts'
import type { Policy } from '../../src/policy/policy.ts'
import { formatPico } from '../../src/money/money.ts'
import type { HoldRequest } from '../../src/state/ledger/ledger.ts'
import { guarded, type Guarded } from './_setup.ts'

type Settings = Parameters<typeof guarded>[0][number]

const DENY: Partial<Policy> = { deny: ['code'] }
/** 3,000 tokens of the question and 300 of its answer, at the prices of `acme/judge`. */
const QUESTION = 3000 * 0.000001 + 300 * 0.000002

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
async function added(
  use: readonly Settings[],
  policy: Partial<Policy>,
  settings: Parameters<typeof guarded>[1] = {},
  body: object = {},
): Promise<number> {
  const paid = use.map((one) => ('kind' in one ? { use: one as GuardPlugin } : one))
  const byOperator = paid.map((one) => ({ ...one, billing: 'operator' as const }))
  await using without = await guarded(byOperator, settings)
  await using withThem = await guarded(paid, settings)
  const [expected, ceiling] = await heldFor(without, policy, body)
  const [expectedWith, ceilingWith] = await heldFor(withThem, policy, body)
  const [one, other] = [expectedWith! - expected!, ceilingWith! - ceiling!]
  expect(one).toBeCloseTo(other, 12)
  return one
}

const asking: Settings = { use: judge, options: { model: 'acme/judge' } }

it('a question is set aside for each judge and origin of rules', async () => {
  expect(await added([asking], DENY)).toBeCloseTo(QUESTION, 12)
  const request = { policy: { version: 1, deny: ['math'] } }
  expect(await added([asking], DENY, {}, request)).toBeCloseTo(2 * QUESTION, 12)
  const second: Settings = { ...asking, name: 'second' }
  expect(await added([asking, second], DENY)).toBeCloseTo(2 * QUESTION, 12)
})

it('the model that a policy names is the one that is paid for', async () => {
  const policy = { ...DENY, guard: { model: 'acme/free' } }
  expect(await added([asking], policy)).toBe(0)
  const named = { ...DENY, guard: { model: 'acme/judge' } }
  expect(await added([{ use: judge }], named)).toBeCloseTo(QUESTION, 12)
})

it('nothing is set aside for questions that are not asked, or that the operator pays for', async () => {
  expect(await added([asking], { systemPrompt: 'Be brief.' })).toBe(0)
  expect(await added([asking], { ...DENY, guard: { input: false, output: false } })).toBe(0)
  expect(await added([{ ...asking, mode: 'monitor' }], DENY)).toBe(0)
  const monitored = { ...DENY, guard: { mode: 'monitor' as const } }
  expect(await added([asking], monitored)).toBe(0)
  expect(await added([asking], monitored, { billMonitor: true })).toBeCloseTo(QUESTION, 12)
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
