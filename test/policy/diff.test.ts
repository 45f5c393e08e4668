import { describe, expect, it } from 'vitest'
import { type Policy, diffPolicies, tighteningsOf } from '../../src/policy/policy.ts'

const policy = (members: Partial<Policy>): Policy => ({ version: 1, ...members })

describe('the difference of two policies', () => {
  it.each<[string, Partial<Policy>, Partial<Policy>, string]>([
    ['scope', {}, { scope: 'Shoes' }, 'tighter'],
    ['scope', { scope: 'Shoes' }, { scope: ' Shoes ' }, 'equal'],
    ['scope', { scope: 'Shoes' }, { scope: 'Boots' }, 'changed'],
    ['deny', { deny: ['code'] }, { deny: ['math', 'code'] }, 'tighter'],
    ['deny', { deny: ['math', 'code'] }, { deny: ['code', 'legal'] }, 'changed'],
    ['bannedPatterns', { bannedPatterns: ['a', 'b'] }, { bannedPatterns: ['b'] }, 'looser'],
    ['maxOutputTokens', { maxOutputTokens: 400 }, { maxOutputTokens: 500 }, 'looser'],
    ['maxOutputTokens', {}, { maxOutputTokens: 500 }, 'tighter'],
    ['systemPrompt', {}, { systemPrompt: 'Be brief.' }, 'changed'],
    ['guard.input', {}, { guard: { input: false } }, 'looser'],
    ['guard.mode', { guard: { mode: 'monitor' } }, {}, 'tighter'],
    ['guard.stream', {}, { guard: { stream: 'buffer' } }, 'tighter'],
    ['guard.onBlock', {}, { guard: { onBlock: 'error' } }, 'changed'],
  ])('tells the order of %s: %j, then %j', (member, from, to, order) => {
    const changed = diffPolicies(policy(from), policy(to)).filter((one) => one.member === member)
    expect(changed).toMatchObject([{ member, order }])
    const mirrored = diffPolicies(policy(to), policy(from)).find((one) => one.member === member)!
    const opposite = { tighter: 'looser', looser: 'tighter' }[order] ?? order
    expect(mirrored.order).toBe(opposite)
  })

  it('is none between no policy and an empty one', () => {
    const orders = diffPolicies(undefined, policy({})).map(({ order }) => order)
    expect(new Set(orders)).toEqual(new Set(['equal']))
  })

  it('says what a request can still add', () => {
    const own = policy({ deny: ['code'], maxOutputTokens: 400, guard: { mode: 'monitor' } })
    expect(tighteningsOf(own)).toMatchObject({
      deny: expect.not.arrayContaining(['code']),
      max_output_tokens: 400,
      guard: ['mode', 'stream'],
    })
  })
})
