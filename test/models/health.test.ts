import { describe, expect, it } from 'vitest'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { Health } from '../../src/models/health.ts'
import type { FailureClass } from '../../src/plugin.ts'

const COOLDOWN_MS = 30_000

/** A deployment on a clock of its own. */
function subject() {
  const clock = { now: 1_000_000 }
  const health = new Health(() => clock.now)
  return {
    clock,
    health,
    /** One call that fails. @returns the ms it rests from now on, if that is news */
    fails(failure: FailureClass = 'upstream_error', retryAfterMs?: number) {
      const began = health.begin()
      const options = retryAfterMs === undefined ? {} : { retryAfterMs }
      const restMs = health.failed(began, new UpstreamFailure(failure, 'x', options), COOLDOWN_MS)
      health.end(began)
      return restMs
    },
    /** One call that is answered to the end. */
    answers(latencyMs = 100) {
      const began = health.begin()
      const recovered = health.answered(began, latencyMs)
      health.end(began, true)
      return recovered
    },
  }
}

describe('a deployment', () => {
  it('is well until it has failed three times in a row', () => {
    const { health, clock, fails, answers } = subject()
    expect(health.report()).toEqual({ state: 'well', failures: 0, inFlight: 0 })
    for (let i = 0; i < 2; i++) expect(fails()).toBeUndefined()
    expect(answers()).toBe(false)
    for (let i = 0; i < 2; i++) expect(fails()).toBeUndefined()
    expect(health.report()).toMatchObject({ state: 'well', failures: 2 })
    expect(fails()).toBe(COOLDOWN_MS)
    expect(health.isOpen()).toBe(false)
    expect(health.report()).toEqual({
      state: 'resting',
      since: clock.now,
      failures: 3,
      restsUntil: clock.now + COOLDOWN_MS,
      lastFailure: 'upstream_error',
      latencyMs: 100,
      inFlight: 0,
    })
  })

  it.each(['upstream_auth', 'upstream_balance', 'not_found'] as const)(
    'rests at once for %s',
    (failure) => {
      const { fails } = subject()
      expect(fails(failure)).toBe(COOLDOWN_MS)
    },
  )

  it('rests as long as the vendor says, within reason, however often', () => {
    const { fails, clock } = subject()
    for (const [said, rests] of [
      [7000, 7000],
      [400, 400],
      [86_400_000, 300_000],
    ] as const) {
      expect(fails('upstream_rate', said)).toBe(rests)
      clock.now += rests
    }
  })

  it('is probed by one call, and the others keep away until that has an answer', () => {
    const { health, clock, fails } = subject()
    fails('upstream_auth')
    const since = clock.now
    clock.now += COOLDOWN_MS - 1
    expect(health.isOpen()).toBe(false)
    clock.now += 1
    expect(health.isOpen()).toBe(true)
    const probe = health.begin()
    expect(health.isOpen()).toBe(false)
    expect(health.report()).toMatchObject({ state: 'probing', since, inFlight: 1 })
    clock.now += 500
    expect(health.answered(probe, 500)).toBe(true)
    expect(health.isOpen()).toBe(true)
    expect(health.report()).toMatchObject({ state: 'well', since: clock.now })
    health.end(probe, true)
    expect(health.report()).toEqual({
      state: 'well',
      since: clock.now,
      failures: 0,
      latencyMs: 500,
      inFlight: 0,
    })
  })

  it('rests twice as long after each probe that fails, up to ten times; an answer makes up for it', () => {
    const { clock, fails, answers } = subject()
    const rests: (number | undefined)[] = []
    for (let i = 0; i < 6; i++) {
      const restMs = fails('upstream_auth')
      rests.push(restMs)
      clock.now += restMs!
    }
    expect(rests.map((ms) => ms! / COOLDOWN_MS)).toEqual([1, 2, 4, 8, 10, 10])
    expect(answers()).toBe(true)
    expect(fails('upstream_auth')).toBe(COOLDOWN_MS)
  })

  it('that answers a probe and then breaks off has not recovered', () => {
    const { health, clock, fails } = subject()
    for (let i = 0; i < 3; i++) fails()
    clock.now += COOLDOWN_MS
    const probe = health.begin()
    health.answered(probe, 10)
    const cut = new UpstreamFailure('upstream_error', 'x')
    expect(health.failed(probe, cut, COOLDOWN_MS)).toBe(2 * COOLDOWN_MS)
    health.end(probe)
    expect(health.report()).toMatchObject({ state: 'resting', failures: 4, inFlight: 0 })
  })

  it('is probed again at once when a probe found nothing out', () => {
    const { health, clock, fails } = subject()
    fails('not_found')
    clock.now += COOLDOWN_MS
    health.end(health.begin())
    expect(health.isOpen()).toBe(true)
    expect(health.report()).toMatchObject({ state: 'probing', failures: 1 })
  })

  it('counts a burst that fails together as one finding', () => {
    const { health, clock } = subject()
    const calls = Array.from({ length: 20 }, () => health.begin())
    const overloaded = new UpstreamFailure('overloaded', 'x')
    const rests = calls.map((call) => health.failed(call, overloaded, COOLDOWN_MS))
    for (const call of calls) health.end(call)
    expect(rests.filter((ms) => ms !== undefined)).toEqual([COOLDOWN_MS])
    clock.now += COOLDOWN_MS
    const probe = health.begin()
    expect(health.failed(probe, overloaded, COOLDOWN_MS)).toBe(2 * COOLDOWN_MS)
  })

  it('does not rest or recover by news from before', () => {
    const { health, clock, fails } = subject()
    const [slow, slower] = [health.begin(), health.begin()]
    fails('upstream_rate', 60_000)
    expect(health.answered(slow, 900)).toBe(false)
    health.end(slow, true)
    expect(health.report()).toMatchObject({ state: 'resting', failures: 1, inFlight: 1 })
    clock.now += 60_000
    const probe = health.begin()
    health.answered(probe, 10)
    health.end(probe, true)
    health.failed(slower, new UpstreamFailure('upstream_auth', 'x'), COOLDOWN_MS)
    expect(health.report()).toMatchObject({ state: 'well', failures: 0 })
  })

  it('that is asked while it rests, for want of another, recovers if it answers', () => {
    const { health, clock, fails, answers } = subject()
    fails('overloaded', 10_000)
    const { restsUntil } = health
    expect(fails('upstream_error')).toBeUndefined()
    expect(health.restsUntil).toBe(restsUntil)
    clock.now += 1000
    expect(fails('overloaded', 20_000)).toBeUndefined()
    expect(health.restsUntil).toBe(clock.now + 20_000)
    expect(answers()).toBe(true)
    expect(health.isOpen()).toBe(true)
  })
})

describe('one is worse off than another', () => {
  it('when it is twice as slow, beyond noise', () => {
    const [slow, quick] = [subject(), subject()]
    quick.answers(5)
    slow.answers(30)
    expect(slow.health.isWorseThan(quick.health, 1)).toBe(false)
    for (let i = 0; i < 20; i++) slow.answers(800)
    expect(slow.health.isWorseThan(quick.health, 1)).toBe(true)
    expect(quick.health.isWorseThan(slow.health, 1)).toBe(false)
    // Long ago is not now.
    slow.clock.now += 60_000
    expect(slow.health.isWorseThan(quick.health, 1)).toBe(false)
  })

  it('when it has twice its share to do, beyond noise', () => {
    const [busy, idle] = [subject(), subject()]
    for (let i = 0; i < 8; i++) busy.health.begin()
    expect(busy.health.isWorseThan(idle.health, 1)).toBe(false)
    for (let i = 0; i < 8; i++) busy.health.begin()
    expect(busy.health.isWorseThan(idle.health, 1)).toBe(true)
    expect(busy.health.isWorseThan(idle.health, 3)).toBe(false)
  })
})
