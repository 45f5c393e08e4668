/** Which guards enforce the rules of a policy, and what the operator is told where none does. */
import { describe, expect, it } from 'vitest'
import { coverageWarnings } from '../../src/guard/policy-check.ts'
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
