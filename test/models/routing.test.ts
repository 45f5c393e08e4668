import { describe, expect, it } from 'vitest'
import { buildCatalog, type Deployment, type Model } from '../../src/models/catalog.ts'
import { UpstreamFailure } from '../../src/errors/errors.ts'
import { Routing, retryDelayMs } from '../../src/models/routing.ts'

interface Target {
  readonly name: string
  readonly provider?: string
  readonly weight?: number
  readonly priority?: number
}

function catalogOf(...targets: readonly Target[]) {
  const deployments = targets.map(({ name, provider = 'p', weight = 1, priority = 0 }) => ({
    provider,
    model: name,
    weight,
    priority,
    options: {},
  }))
  const entry = { enabled: true, pricing: { prompt: '1' }, aliases: [], created: 0, deployments }
  return buildCatalog({ 'acme/swift': entry as never })
}
const modelOf = (...targets: readonly Target[]): Model => catalogOf(...targets).get('acme/swift')!

const inSession = (session: string) => ({ account: 'a', session })
const first = (routing: Routing, model: Model, session?: string) =>
  routing.choose(model, session === undefined ? undefined : inSession(session))!.model

/** All deployments, in the order in which a call would try them. */
function order(routing: Routing, model: Model): string[] {
  const tried: Deployment[] = []
  for (let next = routing.choose(model); next; next = routing.choose(model, undefined, tried)) {
    tried.push(next)
  }
  return tried.map((one) => one.model)
}

/** Starts a cooldown of a deployment. */
function coolDown(routing: Routing, deployment: Deployment, retryAfterMs = 30_000): void {
  const health = routing.healthOf(deployment)
  const began = health.begin()
  health.failed(began, new UpstreamFailure('upstream_rate', 'x', { retryAfterMs }), 0)
  health.end(began)
}

/** One call that is answered completely. */
function answers(routing: Routing, deployment: Deployment, latencyMs = 100): void {
  const health = routing.healthOf(deployment)
  const began = health.begin()
  health.answered(began, latencyMs)
  health.end(began, true)
}

/** The share of the draws that are `a`. */
function shareOfA(draws: readonly string[]): number {
  return draws.filter((name) => name === 'a').length / draws.length
}

describe('the first choice', () => {
  it('follows priority; every deployment is offered in the end', () => {
    const model = modelOf({ name: 'c', priority: 2 }, { name: 'a' }, { name: 'b', priority: 1 })
    for (let i = 0; i < 20; i++) expect(order(new Routing(), model)).toEqual(['a', 'b', 'c'])
  })

  it('is drawn by weight among equals', () => {
    const routing = new Routing()
    const model = modelOf({ name: 'a', weight: 3 }, { name: 'b', weight: 1 })
    for (const deployment of model.deployments) answers(routing, deployment)
    const draws = Array.from({ length: 4000 }, () => first(routing, model))
    // Three quarters; six standard deviations are 0.04.
    expect(Math.abs(shareOfA(draws) - 0.75)).toBeLessThan(0.04)
  })

  it('is drawn by weight among three, whatever their names', () => {
    const routing = new Routing()
    const model = modelOf({ name: 'b', weight: 2 }, { name: 'a', weight: 5 }, { name: 'c' })
    const draws = Array.from({ length: 4000 }, () => first(routing, model))
    expect(Math.abs(shareOfA(draws) - 5 / 8)).toBeLessThan(0.05)
  })

  it('avoids a deployment that is much slower, until the measurement is old', () => {
    let now = 1_000_000
    const routing = new Routing(() => now)
    const model = modelOf({ name: 'a' }, { name: 'b' })
    const [a, b] = model.deployments
    answers(routing, a!, 2000)
    answers(routing, b!, 300)
    for (let i = 0; i < 50; i++) expect(first(routing, model)).toBe('b')
    now += 31_000
    const draws = Array.from({ length: 4000 }, () => first(routing, model))
    expect(Math.abs(shareOfA(draws) - 0.5)).toBeLessThan(0.05)
  })

  it('avoids a deployment where calls pile up', () => {
    const routing = new Routing()
    const model = modelOf({ name: 'a' }, { name: 'b' })
    const taken = { a: 0, b: 0 }
    // `a` never answers; `b` answers at once.
    for (let i = 0; i < 200; i++) {
      const deployment = routing.choose(model)!
      taken[deployment.model as 'a' | 'b']++
      if (deployment.model === 'a') routing.healthOf(deployment).begin()
      else answers(routing, deployment)
    }
    expect(taken.a).toBeLessThan(15)
  })

  it('is the same for a session in every process; sessions spread by weight', () => {
    const model = modelOf({ name: 'a', weight: 3 }, { name: 'b', weight: 1 })
    const sessions = Array.from({ length: 2000 }, (_, i) => `session-${i}`)
    const [here, there] = [new Routing(), new Routing()]
    const one = sessions.map((session) => first(here, model, session))
    // Latency does not move a session.
    answers(there, model.deployments[0]!, 60_000)
    answers(there, model.deployments[1]!, 10)
    expect(sessions.map((session) => first(there, model, session))).toEqual(one)
    expect(Math.abs(shareOfA(one) - 0.75)).toBeLessThan(0.06)
  })

  it('changes for few sessions when a deployment is added', () => {
    const routing = new Routing()
    const before = modelOf({ name: 'a' }, { name: 'b' })
    const after = modelOf({ name: 'a' }, { name: 'b' }, { name: 'c' })
    for (let i = 0; i < 300; i++) {
      const moved = first(routing, after, `${i}`)
      if (moved !== 'c') expect(moved).toBe(first(routing, before, `${i}`))
    }
  })
})

describe('a deployment in cooldown', () => {
  it('is tried last, the one whose cooldown ends first before the others', () => {
    const routing = new Routing(() => 1_000_000)
    const model = modelOf({ name: 'a' }, { name: 'b', priority: 1 }, { name: 'c', priority: 2 })
    const [a, b, c] = model.deployments
    coolDown(routing, a!, 20_000)
    expect(order(routing, model)).toEqual(['b', 'c', 'a'])
    coolDown(routing, b!, 10_000)
    expect(order(routing, model)).toEqual(['c', 'b', 'a'])
    coolDown(routing, c!, 15_000)
    expect(order(routing, model)).toEqual(['b', 'c', 'a'])
  })

  it('receives one call after its cooldown, and all calls when that one was answered', () => {
    let now = 1_000_000
    const routing = new Routing(() => now)
    const model = modelOf({ name: 'a' }, { name: 'b', priority: 1 })
    const [a] = model.deployments
    coolDown(routing, a!)
    expect(first(routing, model)).toBe('b')
    now += 30_000
    expect(first(routing, model)).toBe('a')
    const health = routing.healthOf(a!)
    const probe = health.begin()
    expect(first(routing, model)).toBe('b')
    health.answered(probe, 10)
    expect(first(routing, model)).toBe('a')
  })

  it('is forgotten when its provider has new settings, and kept otherwise', () => {
    const routing = new Routing()
    const catalog = catalogOf({ name: 'a', provider: 'old' }, { name: 'b', provider: 'new' })
    const [a, b] = catalog.get('acme/swift')!.deployments
    coolDown(routing, a!)
    coolDown(routing, b!)
    routing.retain(catalog, (provider) => provider === 'old')
    expect(routing.healthOf(a!).isOpen()).toBe(false)
    expect(routing.healthOf(b!).isOpen()).toBe(true)
    routing.retain(catalogOf({ name: 'b', provider: 'new' }), () => true)
    expect(routing.healthOf(a!).isOpen()).toBe(true)
  })
})

describe('a session or conversation', () => {
  it('stays where a fail-over took it, also when its first deployment is healthy again', () => {
    let now = 1_000_000
    const routing = new Routing(() => now)
    const model = modelOf({ name: 'a' }, { name: 'b' })
    const affinity = inSession('s')
    const assigned = routing.choose(model, affinity)!
    coolDown(routing, assigned)
    const other = routing.choose(model, affinity)!
    expect(other).not.toBe(assigned)
    routing.remember(model, affinity, other)
    now += 60_000
    expect(routing.choose(model, affinity)).toBe(other)
    expect(first(routing, model, 'another')).toBe(first(new Routing(), model, 'another'))
    expect(routing.choose(model, { ...affinity, account: 'b' })).toBe(
      new Routing().choose(model, { ...affinity, account: 'b' }),
    )
  })

  it('continues at the deployment that signed its reasoning, whatever its session', () => {
    const routing = new Routing()
    const model = modelOf({ name: 'a' }, { name: 'b', priority: 1 }, { name: 'c', priority: 1 })
    const [a, b, c] = model.deployments
    const affinity = { account: 'a', affinityToken: 'c2lnbmVk' }
    expect(routing.choose(model, affinity)).toBe(a)
    routing.pin(affinity, affinity.affinityToken, c!)
    answers(routing, c!, 60_000)
    answers(routing, a!, 10)
    expect(routing.choose(model, affinity)).toBe(c)
    expect(routing.choose(model, { ...affinity, session: 's' })).toBe(c)
    expect(routing.choose(model, { ...affinity, account: 'b' })).toBe(a)
    expect(routing.choose(model, affinity, [c!])).toBe(a)
    expect(routing.choose(model, affinity, [a!])).toBe(c)
    coolDown(routing, c!)
    expect(routing.choose(model, affinity)).toBe(a)
    coolDown(routing, a!)
    expect(routing.choose(model, affinity)).toBe(b)
  })
})

describe('another try at the same deployment', () => {
  const pause = (kind: ConstructorParameters<typeof UpstreamFailure>[0], retryAfterMs?: number) =>
    retryDelayMs(new UpstreamFailure(kind, 'x', retryAfterMs === undefined ? {} : { retryAfterMs }))

  it('is tried at once, after a short delay, or not at all', () => {
    expect(pause('upstream_error')).toBe(0)
    expect(pause('upstream_rate', 700)).toBe(700)
    expect(pause('overloaded', 900)).toBe(900)
    for (let i = 0; i < 20; i++) {
      expect(pause('overloaded')).toBeGreaterThanOrEqual(200)
      expect(pause('overloaded')).toBeLessThan(600)
    }
    expect(pause('upstream_rate')).toBeUndefined()
    expect(pause('upstream_rate', 1001)).toBeUndefined()
    expect(pause('overloaded', 30_000)).toBeUndefined()
    for (const final of ['timeout', 'upstream_auth', 'upstream_balance', 'not_found'] as const) {
      expect(pause(final)).toBeUndefined()
    }
  })
})
