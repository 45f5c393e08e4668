import { describe, expect, it } from 'vitest'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { Health } from '../../src/models/routing.ts'
import type { FailureClass } from '../../src/plugin.ts'

const COOLDOWN_MS = 30_000

/** The health of a deployment, on its own clock. */
function deployment() {
  const clock = { now: 1_000_000 }
  const health = new Health(() => clock.now)
  return {
    clock,
    health,
    /** One call that fails. @returns ms of the cooldown that starts with it */
    fails(failure: FailureClass = 'upstream_error', retryAfterMs?: number) {
      const began = health.begin()
      const options = retryAfterMs === undefined ? {} : { retryAfterMs }
      const cooldownMs = health.failed(
        began,
        new UpstreamFailure(failure, 'x', options),
        COOLDOWN_MS,
      )
      health.end(began)
      return cooldownMs
    },
    /** One call that is answered completely. */
    answers(latencyMs = 100) {
      const began = health.begin()
      const recovered = health.answered(began, latencyMs)
      health.end(began, true)
      return recovered
    },
  }
}

describe('a deployment', () => {
  it('is healthy until it has failed three times in a row', () => {
    const { health, clock, fails, answers } = deployment()
    expect(health.report()).toMatchObject({ state: 'healthy', failures: 0, inFlight: 0 })
    for (let i = 0; i < 2; i++) expect(fails()).toBeUndefined()
    expect(answers()).toBe(false)
    for (let i = 0; i < 2; i++) expect(fails()).toBeUndefined()
    expect(health.report()).toMatchObject({ state: 'healthy', failures: 2 })
    expect(fails()).toBe(COOLDOWN_MS)
    expect(health.isOpen()).toBe(false)
    expect(health.report()).toMatchObject({
      state: 'cooldown',
      since: clock.now,
      failures: 3,
      cooldownUntil: clock.now + COOLDOWN_MS,
      lastFailure: 'upstream_error',
      latencyMs: 100,
      inFlight: 0,
    })
  })

  it.each(['upstream_auth', 'upstream_balance', 'not_found'] as const)(
    'starts a cooldown at once for %s',
    (failure) => {
      const { fails } = deployment()
      expect(fails(failure)).toBe(COOLDOWN_MS)
    },
  )

  it('cools down as long as the vendor asks, five minutes at most', () => {
    const { fails, clock } = deployment()
    for (const [asked, expected] of [
      [7000, 7000],
      [400, 400],
      [86_400_000, 300_000],
    ] as const) {
      expect(fails('upstream_rate', asked)).toBe(expected)
      clock.now += expected
    }
  })

  it('is probed by one call; others avoid it until that call is answered', () => {
    const { health, clock, fails } = deployment()
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
    expect(health.report()).toMatchObject({ state: 'healthy', since: clock.now })
    health.end(probe, true)
    expect(health.report()).toMatchObject({
      state: 'healthy',
      since: clock.now,
      failures: 0,
      latencyMs: 500,
      inFlight: 0,
    })
  })

  it('doubles its cooldown after each failed probe, up to ten times; a complete answer resets it', () => {
    const { clock, fails, answers } = deployment()
    const cooldowns: (number | undefined)[] = []
    for (let i = 0; i < 6; i++) {
      const cooldownMs = fails('upstream_auth')
      cooldowns.push(cooldownMs)
      clock.now += cooldownMs!
    }
    expect(cooldowns.map((ms) => ms! / COOLDOWN_MS)).toEqual([1, 2, 4, 8, 10, 10])
    expect(answers()).toBe(true)
    expect(fails('upstream_auth')).toBe(COOLDOWN_MS)
  })

  it('has not recovered if the answer to a probe breaks off', () => {
    const { health, clock, fails } = deployment()
    for (let i = 0; i < 3; i++) fails()
    clock.now += COOLDOWN_MS
    const probe = health.begin()
    health.answered(probe, 10)
    const cut = new UpstreamFailure('upstream_error', 'x')
    expect(health.failed(probe, cut, COOLDOWN_MS)).toBe(2 * COOLDOWN_MS)
    health.end(probe)
    expect(health.report()).toMatchObject({ state: 'cooldown', failures: 4, inFlight: 0 })
  })

  it('is probed again at once when a probe had no outcome', () => {
    const { health, clock, fails } = deployment()
    fails('not_found')
    clock.now += COOLDOWN_MS
    health.end(health.begin())
    expect(health.isOpen()).toBe(true)
    expect(health.report()).toMatchObject({ state: 'probing', failures: 1 })
  })

  it('counts a burst of calls that fail together as one failure', () => {
    const { health, clock } = deployment()
    const calls = Array.from({ length: 20 }, () => health.begin())
    const overloaded = new UpstreamFailure('overloaded', 'x')
    const cooldowns = calls.map((call) => health.failed(call, overloaded, COOLDOWN_MS))
    for (const call of calls) health.end(call)
    expect(cooldowns.filter((ms) => ms !== undefined)).toEqual([COOLDOWN_MS])
    clock.now += COOLDOWN_MS
    const probe = health.begin()
    expect(health.failed(probe, overloaded, COOLDOWN_MS)).toBe(2 * COOLDOWN_MS)
  })

  it('ignores the outcome of calls that began in an earlier state', () => {
    const { health, clock, fails } = deployment()
    const [slow, slower] = [health.begin(), health.begin()]
    fails('upstream_rate', 60_000)
    expect(health.answered(slow, 900)).toBe(false)
    health.end(slow, true)
    expect(health.report()).toMatchObject({ state: 'cooldown', failures: 1, inFlight: 1 })
    clock.now += 60_000
    const probe = health.begin()
    health.answered(probe, 10)
    health.end(probe, true)
    health.failed(slower, new UpstreamFailure('upstream_auth', 'x'), COOLDOWN_MS)
    expect(health.report()).toMatchObject({ state: 'healthy', failures: 0 })
  })

  it('recovers during a cooldown if it answers a call that had no other deployment', () => {
    const { health, clock, fails, answers } = deployment()
    fails('overloaded', 10_000)
    const { cooldownUntil } = health
    expect(fails('upstream_error')).toBeUndefined()
    expect(health.cooldownUntil).toBe(cooldownUntil)
    clock.now += 1000
    expect(fails('overloaded', 20_000)).toBeUndefined()
    expect(health.cooldownUntil).toBe(clock.now + 20_000)
    expect(answers()).toBe(true)
    expect(health.isOpen()).toBe(true)
  })
})

describe('a deployment is worse than another', () => {
  it('when it is twice as slow, beyond noise', () => {
    const [slow, quick] = [deployment(), deployment()]
    quick.answers(5)
    slow.answers(30)
    expect(slow.health.isWorseThan(quick.health, 1)).toBe(false)
    for (let i = 0; i < 20; i++) slow.answers(800)
    expect(slow.health.isWorseThan(quick.health, 1)).toBe(true)
    expect(quick.health.isWorseThan(slow.health, 1)).toBe(false)
    // Old measurements do not count.
    slow.clock.now += 60_000
    expect(slow.health.isWorseThan(quick.health, 1)).toBe(false)
  })

  it('when it has twice its share of calls, beyond noise', () => {
    const [busy, idle] = [deployment(), deployment()]
    for (let i = 0; i < 8; i++) busy.health.begin()
    expect(busy.health.isWorseThan(idle.health, 1)).toBe(false)
    for (let i = 0; i < 8; i++) busy.health.begin()
    expect(busy.health.isWorseThan(idle.health, 1)).toBe(true)
    expect(busy.health.isWorseThan(idle.health, 3)).toBe(false)
  })
})

describe('a deployment that an operator has taken out', () => {
  it('gets no calls until its time is over, or it is taken back in', () => {
    const { health, clock } = deployment()
    health.takeOut(clock.now + 1000)
    expect([health.isOut(), health.isOpen()]).toEqual([true, false])
    expect(health.report()).toMatchObject({
      state: 'cooldown',
      since: clock.now,
      cooldownUntil: clock.now + 1000,
      takenOut: true,
    })
    clock.now += 1000
    expect([health.isOut(), health.isOpen(), health.report().state]).toEqual([
      false,
      true,
      'healthy',
    ])
    health.takeOut(clock.now + 1000)
    health.resume()
    expect([health.isOut(), health.isOpen()]).toEqual([false, true])
  })

  it('forgets its failures when it is taken back in', () => {
    const { health, fails } = deployment()
    for (let i = 0; i < 3; i++) fails()
    expect(health.isOpen()).toBe(false)
    health.resume()
    expect(health.report()).toMatchObject({ state: 'healthy', failures: 0 })
    expect([health.isOpen(), health.flawless]).toEqual([true, true])
  })
})
