/** Time zones: the rule that engines get names the date that the runtime's clock shows. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Clock, DAY_MS, offsetAt } from '../../../src/state/ledger/windows.ts'
import { firstMoment, isZone, momentIn, ruleOf } from '../../../src/state/ledger/zone.ts'

const CHANGING = [
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Havana',
  'Pacific/Apia',
]
const [FIRST, LAST] = [Date.UTC(2020, 0, 1), Date.UTC(2041, 0, 1)]
const clocks = new Map<string, Intl.DateTimeFormat>()

/** The date that the runtime shows, `YYYYMMDD`. */
function dateIn(zone: string, at: number): string {
  let clock = clocks.get(zone)
  if (!clock) clocks.set(zone, (clock = new Intl.DateTimeFormat('en-CA', { timeZone: zone })))
  return clock.format(at).replaceAll('-', '')
}

function dayBy(zone: string, asked: number, at: number): string {
  return new Clock(() => at).day(at, ruleOf(zone, asked))
}

describe('the rule of a zone', () => {
  it.each(CHANGING)('names the dates of %s around every change until 2040', (zone) => {
    let changes = 0
    for (let asked = FIRST; asked < LAST; asked += DAY_MS) {
      const rule = ruleOf(zone, asked)!
      if (rule.offset === rule.next) continue
      changes++
      for (const at of [rule.until - 1000, rule.until - 1, rule.until, rule.until + 1000]) {
        expect(dayBy(zone, asked, at), `${zone} ${new Date(at).toISOString()}`).toBe(
          dateIn(zone, at),
        )
      }
    }
    // Apia has none since 2021.
    expect(changes).toBeGreaterThan(zone === 'Pacific/Apia' ? 2 : 40)
  })

  it('names the date of any zone at any moment of the next two days', () => {
    const zones = Intl.supportedValuesOf('timeZone')
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: FIRST, max: LAST }),
        fc.integer({ min: 0, max: 2 * DAY_MS - 1 }),
        (zone, asked, later) => dayBy(zone, asked, asked + later) === dateIn(zone, asked + later),
      ),
      { numRuns: 2000 },
    )
  })

  it('is none for UTC, and offsets are no zones', () => {
    expect(ruleOf('UTC')).toBeUndefined()
    expect(['Europe/Berlin', 'UTC'].map(isZone)).toEqual([true, true])
    expect(['+01:00', 'Mars/Olympus', ''].map(isZone)).toEqual([false, false, false])
  })
})

describe('the first moment of a date', () => {
  it('is midnight, or the first moment after it where there is none', () => {
    const iso = (zone: string, date: string) => momentIn(zone, firstMoment(zone, date))
    expect(iso('Europe/Berlin', '2026-11-30')).toBe('2026-11-30T00:00:00+01:00')
    expect(iso('America/New_York', '2026-03-09')).toBe('2026-03-09T00:00:00-04:00')
    // In Havana the clock goes from midnight to one.
    expect(iso('America/Havana', '2026-03-08')).toBe('2026-03-08T01:00:00-04:00')
    expect(iso('UTC', '2026-11-30')).toBe('2026-11-30T00:00:00Z')
  })

  it('is where the date begins that the rule names', () => {
    for (const zone of CHANGING) {
      for (const date of ['2026-03-29', '2026-10-25', '2026-11-01', '2026-06-15']) {
        const at = firstMoment(zone, date)
        const day = date.replaceAll('-', '')
        expect(dateIn(zone, at)).toBe(day)
        expect(dateIn(zone, at - 1)).not.toBe(day)
        expect(offsetAt(at, ruleOf(zone, at))).toBeTypeOf('number')
      }
    }
  })
})
