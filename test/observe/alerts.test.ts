import * as fc from 'fast-check'
import { createStorage } from 'unstorage'
import { expect, it } from 'vitest'
import { Alerts, type Finding } from '../../src/observe/alerts.ts'
import { StoredRecords } from '../../src/state/records.ts'

/** Alerts by a clock of the test, and what they tell. */
function setUp() {
  const told: string[] = []
  let now = 0
  const log = { warn: say, info: say }
  const alerts = new Alerts({ log, events: { emit: () => {} }, wallClock: () => now })
  function say(entry: unknown) {
    const { members } = entry as { members: { kind: string; object: string; state: string } }
    told.push(`${members.state} ${members.kind} ${members.object}`)
  }
  const pass = (seconds: number, ...findings: readonly Partial<Finding>[]) => {
    now += seconds * 1000
    const whole = findings.map((one) => ({ ...DOWN, ...one }))
    alerts.observe(whole, now)
  }
  return { alerts, told, pass, at: () => now }
}

const DOWN: Finding = { kind: 'deployment.down', object: 'a/m', state: 'wrong', message: 'away' }

it('is raised after it was wrong without a break, and ends after it was well without one', () => {
  const { alerts, told, pass } = setUp()
  pass(0, {})
  pass(59, {})
  expect(told).toEqual([])
  pass(1, { state: 'well' })
  pass(1, {})
  pass(59, {})
  expect(told).toEqual([])
  pass(1, {})
  expect(told).toEqual(['raised deployment.down a/m'])
  expect(alerts.active).toMatchObject([{ object: 'a/m', message: 'away' }])
  pass(1, { state: 'well' })
  pass(30, { state: 'between' })
  pass(1, { state: 'well' })
  pass(59, { state: 'well' })
  expect(alerts.active).toHaveLength(1)
  pass(1, { state: 'well' })
  expect(told).toEqual(['raised deployment.down a/m', 'ended deployment.down a/m'])
  expect([alerts.active, alerts.ended.length]).toEqual([[], 1])
})

it('ends for what is gone, as after a change of the configuration', () => {
  const { alerts, told, pass } = setUp()
  pass(0, { kind: 'model.down' })
  expect(alerts.counts.get('model.down')).toBe(1)
  pass(61)
  pass(10)
  expect(told).toEqual(['raised model.down a/m', 'ended model.down a/m'])
  expect(alerts.counts.get('model.down')).toBe(0)
})

it('has the present cause where it changes, without being told again, and stores it once a minute', async () => {
  const { alerts, told, pass } = setUp()
  const records = new StoredRecords(createStorage())
  await alerts.keepIn({ records, gateway: 'a' })
  const down = { kind: 'egress.down', object: 'proxy:3128' } as const
  pass(0, { ...down, message: 'ECONNREFUSED' })
  const { id } = alerts.active[0]!
  const stored = async () => (await records.get<{ message: string }>(`alert:${id}`))?.message
  await expect.poll(stored).toBe('ECONNREFUSED')
  for (const message of ['407', '502', '403']) {
    pass(1, { ...down, message })
    expect(alerts.active).toMatchObject([{ id, message }])
  }
  expect(await stored()).toBe('ECONNREFUSED')
  pass(60, { ...down, message: '403' })
  await expect.poll(stored).toBe('403')
  pass(1, { ...down, state: 'well', message: 'gone' })
  await expect
    .poll(() => told)
    .toEqual(['raised egress.down proxy:3128', 'ended egress.down proxy:3128'])
  expect(alerts.ended).toMatchObject([{ message: '403' }])
})

it('tells nothing of a muted alert, which stays in the list', () => {
  const { alerts, told, pass, at } = setUp()
  pass(0, { kind: 'ledger.differs', object: '' })
  const { id } = alerts.active[0]!
  expect(alerts.mute('al_none', 1)).toBeUndefined()
  expect(alerts.mute(id, at() + 120_000)).toMatchObject({ mutedUntil: 120_000 })
  pass(61, { kind: 'ledger.differs', object: '', state: 'well' })
  expect(told).toEqual(['raised ledger.differs '])
  expect(alerts.ended).toHaveLength(1)
})

it('raises and ends by turns, and not more than once a minute, however it goes up and down', () => {
  const step = fc.record({
    seconds: fc.integer({ min: 0, max: 90 }),
    state: fc.constantFrom<Finding['state']>('wrong', 'between', 'well'),
  })
  const kinds = fc.constantFrom<Finding['kind']>('deployment.down', 'outbox.old', 'log.dropped')
  fc.assert(
    fc.property(kinds, fc.array(step, { maxLength: 200 }), (kind, steps) => {
      const { told, pass, at } = setUp()
      const changes: number[] = []
      for (const { seconds, state } of steps) {
        const before = told.length
        pass(seconds, { kind, state })
        if (told.length > before) changes.push(at())
      }
      told.forEach((line, i) => {
        expect(line).toBe(`${i % 2 === 0 ? 'raised' : 'ended'} ${kind} a/m`)
        if (i > 0) expect(changes[i]! - changes[i - 1]!).toBeGreaterThanOrEqual(60_000)
      })
    }),
    { numRuns: 50 },
  )
})
