import { describe, expect, it } from 'vitest'
import { buildCatalog, type Model } from '../src/catalog.ts'
import { UpstreamFailure } from '../src/errors.ts'
import { Routing } from '../src/routing.ts'

interface Target {
  readonly name: string
  readonly weight?: number
  readonly priority?: number
}

function modelOf(...targets: readonly Target[]): Model {
  const deployments = targets.map(({ name, weight = 1, priority = 0 }) => ({
    provider: 'p',
    model: name,
    weight,
    priority,
    options: {},
  }))
  const entry = { enabled: true, pricing: { prompt: '1' }, capabilities: [], deployments }
  return buildCatalog({ 'acme/swift': entry as never }).get('acme/swift')!
}

const names = (routing: Routing, model: Model, session?: string) =>
  routing
    .order(model, session === undefined ? undefined : { account: 'a', id: session })
    .map((d) => d.model)
const first = (routing: Routing, model: Model, session?: string) =>
  names(routing, model, session)[0]!
const failure = (kind: ConstructorParameters<typeof UpstreamFailure>[0], retryAfterMs?: number) =>
  new UpstreamFailure(kind, 'x', retryAfterMs === undefined ? {} : { retryAfterMs })

describe('order', () => {
  it('goes by priority, and offers everything', () => {
    const model = modelOf({ name: 'c', priority: 2 }, { name: 'a' }, { name: 'b', priority: 1 })
    for (let i = 0; i < 20; i++) expect(names(new Routing(), model)).toEqual(['a', 'b', 'c'])
  })

  it('draws by weight among equals', () => {
    const routing = new Routing()
    const model = modelOf({ name: 'a', weight: 3 }, { name: 'b', weight: 1 })
    const draws = Array.from({ length: 4000 }, () => first(routing, model))
    const share = draws.filter((name) => name === 'a').length / draws.length
    // Three quarters; six standard deviations are 0.04.
    expect(Math.abs(share - 0.75)).toBeLessThan(0.04)
  })

  it('keeps a session where it is, in every process, and spreads sessions by weight', () => {
    const model = modelOf({ name: 'a', weight: 3 }, { name: 'b', weight: 1 })
    const sessions = Array.from({ length: 2000 }, (_, i) => `session-${i}`)
    const [here, there] = [new Routing(), new Routing()]
    const one = sessions.map((session) => first(here, model, session))
    expect(sessions.map((session) => first(there, model, session))).toEqual(one)
    const share = one.filter((name) => name === 'a').length / one.length
    expect(Math.abs(share - 0.75)).toBeLessThan(0.06)
  })

  it('moves few sessions when a deployment joins', () => {
    const routing = new Routing()
    const before = modelOf({ name: 'a' }, { name: 'b' })
    const after = modelOf({ name: 'a' }, { name: 'b' }, { name: 'c' })
    for (let i = 0; i < 300; i++) {
      const moved = first(routing, after, `${i}`)
      if (moved !== 'c') expect(moved).toBe(first(routing, before, `${i}`))
    }
  })
})

describe('health', () => {
  it('rests a deployment after repeated failures, and no longer than it must', () => {
    let now = 1_000_000
    const routing = new Routing(() => now)
    const model = modelOf({ name: 'a' }, { name: 'b', priority: 1 })
    const [a] = model.deployments
    for (let i = 0; i < 2; i++) routing.failed(a!, failure('upstream_error'), 30_000)
    expect(first(routing, model)).toBe('a')
    expect(routing.health(a!)).toEqual({
      state: 'well',
      failures: 2,
      lastFailure: 'upstream_error',
    })
    routing.failed(a!, failure('upstream_error'), 30_000)
    expect(names(routing, model)).toEqual(['b', 'a'])
    expect(routing.health(a!)).toMatchObject({ state: 'resting', restsUntil: now + 30_000 })
    now += 30_001
    expect(first(routing, model)).toBe('a')
    routing.succeeded(a!)
    expect(routing.health(a!)).toEqual({ state: 'well', failures: 0 })
  })

  it.each(['upstream_auth', 'upstream_balance', 'not_found'] as const)(
    'rests at once for %s',
    (kind) => {
      const routing = new Routing()
      const model = modelOf({ name: 'a' }, { name: 'b', priority: 1 })
      routing.failed(model.deployments[0]!, failure(kind), 30_000)
      expect(first(routing, model)).toBe('b')
    },
  )

  it('rests as long as the vendor says, within reason', () => {
    const now = 1_000_000
    const routing = new Routing(() => now)
    const model = modelOf({ name: 'a' }, { name: 'b', priority: 1 })
    const [a] = model.deployments
    routing.failed(a!, failure('upstream_rate', 7000), 30_000)
    expect(routing.health(a!).restsUntil).toBe(now + 7000)
    routing.failed(a!, failure('upstream_rate', 86_400_000), 30_000)
    expect(routing.health(a!).restsUntil).toBe(now + 300_000)
  })

  it('does not suffer for the faults of clients', () => {
    const routing = new Routing()
    const [a] = modelOf({ name: 'a' }).deployments
    for (const kind of ['bad_request', 'context_length', 'content_blocked'] as const) {
      for (let i = 0; i < 5; i++) routing.failed(a!, failure(kind), 30_000)
    }
    expect(routing.health(a!)).toEqual({ state: 'well', failures: 0 })
  })

  it('leaves a session where a fail-over moved it', () => {
    let now = 1_000_000
    const routing = new Routing(() => now)
    const model = modelOf({ name: 'a' }, { name: 'b' })
    const session = { account: 'a', id: 's' }
    const [home, other] = routing.order(model, session)
    for (let i = 0; i < 3; i++) routing.failed(home!, failure('upstream_error'), 30_000)
    routing.pin(model, session, other!)
    now += 60_000
    expect(routing.order(model, session)[0]).toBe(other)
    expect(first(routing, model, 'another')).toBe(first(new Routing(), model, 'another'))
  })
})
