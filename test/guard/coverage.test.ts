/** Which guards enforce the rules of a policy, and what the operator is told where none does. */
import { describe, expect, it } from 'vitest'
import { coverageWarnings, idleGuards } from '../../src/guard/policy-check.ts'
import { GuardRegistry, type GuardInstance } from '../../src/guard/plan.ts'
import { tighten, type Policy } from '../../src/policy/policy.ts'
import { wordGuard } from './_doubles.ts'

const loaded = (name: string, more: Partial<GuardInstance> = {}): GuardInstance => ({
  name,
  plugin: name,
  guard: wordGuard('forbidden'),
  applies: 'with-rules',
  mode: 'block',
  billing: 'account',
  ...more,
})
const guardsOf = (...all: GuardInstance[]) => new GuardRegistry(all, () => false)
const policyOf = (more: Partial<Policy> = {}) =>
  tighten({ version: 1, deny: ['code'], ...more }, undefined)
const UNENFORCED = 'nothing on this gateway judges deny:code: the model is told about it, no more'

describe('a rule that guards only look on for', () => {
  it('leaves a rule unenforced, which is no fault, and the operator is told', async () => {
    const guards = guardsOf(loaded('words', { mode: 'monitor' }))
    const plan = await guards.planFor(policyOf(), () => {})
    expect(plan).toMatchObject({ faults: [], unenforced: ['deny:code'] })
    expect(plan!.monitoring.assignments).toHaveLength(1)
    expect(await coverageWarnings(guards, policyOf())).toEqual([UNENFORCED])
  })

  it('is enforced where another one blocks for it', async () => {
    const guards = guardsOf(loaded('words', { mode: 'monitor' }), loaded('others'))
    const plan = await guards.planFor(policyOf(), () => {})
    expect(plan).toMatchObject({ faults: [], unenforced: [] })
    expect(await coverageWarnings(guards, policyOf())).toEqual([])
  })
})

describe('a guard for keys that name it', () => {
  const guards = guardsOf(loaded('words', { applies: 'selected' }))

  it('covers nothing for others', async () => {
    const [gap, ...more] = await coverageWarnings(guards, policyOf())
    expect(gap).toContain('nothing on this gateway looks after deny:code')
    expect(more).toEqual([])
  })

  it('covers what it answers for those who do', async () => {
    const policy = policyOf({ guard: { model: 'guard/words' } })
    expect(await coverageWarnings(guards, policy)).toEqual([])
  })
})

describe('a guard with rules of its own alone', () => {
  const guard = wordGuard('forbidden', { enforces: ['x:words/word'] })
  const told = (guards: GuardRegistry) => idleGuards(guards).map(({ message }) => message)
  const named = policyOf({ deny: [], guard: { model: 'guard/words' } })

  it('runs for no key that does not name it, and the operator is told', async () => {
    const guards = guardsOf(loaded('words', { guard }))
    expect(told(guards)).toEqual([expect.stringContaining('"applies: always"')])
    expect(await coverageWarnings(guards, policyOf({ deny: [] }))).toEqual([
      expect.stringMatching(/^guard words does not check calls with this key: .*x:words\/word/),
    ])
    expect(await coverageWarnings(guards, named)).toEqual([])
  })

  it.each(['always', 'selected'] as const)(
    'is what the operator wants with %s',
    async (applies) => {
      const guards = guardsOf(loaded('words', { guard, applies }))
      expect(told(guards)).toEqual([])
      expect(await coverageWarnings(guards, policyOf({ deny: [] }))).toEqual([])
    },
  )

  it('is asked for a rule of a policy that it enforces too', () => {
    const both = wordGuard('forbidden', { enforces: ['x:words/word', 'deny:code'] })
    expect(told(guardsOf(loaded('words', { guard: both })))).toEqual([])
  })
})
