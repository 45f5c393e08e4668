/** Who looks after the rules of a policy, and what is said where nobody does. */
import { describe, expect, it } from 'vitest'
import { coverageOf, coverageWarnings } from '../../src/guard/coverage.ts'
import { GuardRegistry, type GuardInstance } from '../../src/guard/plan.ts'
import { compilePatternsSliced } from '../../src/patterns/patterns.ts'
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
const guardsOf = (...all: GuardInstance[]) =>
  new GuardRegistry(all, compilePatternsSliced, () => false)
const policyOf = (more: Partial<Policy> = {}) =>
  tighten({ version: 1, deny: ['code'], ...more }, undefined)
const NOBODY = 'nothing on this gateway judges deny:code: the model is told about it, no more'

describe('a rule that guards only look on for', () => {
  it('is enforced by nobody, which is no failure, and is said', async () => {
    const guards = guardsOf(loaded('words', { mode: 'monitor' }))
    const roster = await guards.planFor(policyOf(), () => {})
    expect(roster).toMatchObject({ faults: [], unenforced: ['deny:code'] })
    expect(roster!.monitoring).toHaveLength(1)
    expect(coverageOf(guards, policyOf())).toEqual([{ rule: 'deny:code', input: [], output: [] }])
    expect(await coverageWarnings(guards, policyOf())).toEqual([NOBODY])
  })

  it('is enforced where another one blocks for it', async () => {
    const guards = guardsOf(loaded('words', { mode: 'monitor' }), loaded('others'))
    const roster = await guards.planFor(policyOf(), () => {})
    expect(roster).toMatchObject({ faults: [], unenforced: [] })
    expect(await coverageWarnings(guards, policyOf())).toEqual([])
  })
})

describe('a guard for keys that name it', () => {
  const guards = guardsOf(loaded('words', { applies: 'selected' }))

  it('covers nothing for others', async () => {
    expect(coverageOf(guards, policyOf())).toEqual([{ rule: 'deny:code', input: [], output: [] }])
    const [gap, ...more] = await coverageWarnings(guards, policyOf())
    expect(gap).toContain('nothing on this gateway looks after deny:code')
    expect(more).toEqual([])
  })

  it('covers what it answers for those who do', async () => {
    const policy = policyOf({ guard: { model: 'guard/words' } })
    expect(coverageOf(guards, policy)).toEqual([
      { rule: 'deny:code', input: ['words'], output: ['words'] },
    ])
    expect(await coverageWarnings(guards, policy)).toEqual([])
  })
})
