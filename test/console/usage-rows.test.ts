/** The tables of the screen of usage: nothing is lost between the answer and what is shown. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { UsageAnswer, UsageCell, UsageTotals } from '../../src/console/answers.ts'
import { addAmounts } from '../../src/console/format.ts'
import { sumOf, usageTable } from '../../src/console/screens/usage-rows.ts'

const NOTHING: UsageTotals = {
  calls: 0,
  cost_usd: '0',
  promotional_usd: '0',
  refunded_usd: '0',
  prompt_tokens: null,
  cached_tokens: null,
  cache_write_tokens: null,
  completion_tokens: null,
  reasoning_tokens: null,
  images: null,
  pages: null,
  seconds: null,
  characters: null,
  searches: null,
  search_units: null,
  estimated: null,
  errors: null,
  refused: null,
  blocked: null,
  p50_ms: null,
  p95_ms: null,
  first_part_p50_ms: null,
  first_part_p95_ms: null,
}
const DAYS = ['2026-10-30', '2026-10-31', '2026-11-01']

const cell = fc
  .record({
    day: fc.constantFrom(...DAYS),
    model: fc.constantFrom('one', 'two', null),
    calls: fc.nat(1000),
    pico: fc.bigInt(0n, 10n ** 18n),
    prompt_tokens: fc.option(fc.nat(1_000_000)),
  })
  .map(({ day, model, calls, pico, prompt_tokens }) => ({
    ...NOTHING,
    start: `${day}T00:00:00Z`,
    group: { model },
    calls,
    cost_usd: decimal(pico),
    prompt_tokens,
  }))
const cells = fc.uniqueArray(cell, { selector: ({ start, group }) => `${start} ${group.model}` })

describe('the table of usage', () => {
  it('adds up to the cells that it is made of, to the last decimal', () => {
    fc.assert(
      fc.property(cells, cells, (data, other) => {
        const { rows } = usageTable(answerOf(data, other), 'cost_usd')
        const all = [...data, ...other]
        const total = sumOf(rows.map(({ sums }) => sums))
        expect(total.calls ?? 0).toBe(all.reduce((sum, one) => sum + one.calls, 0))
        expect(total.cost_usd ?? '0').toBe(addAmounts(all.map((one) => one.cost_usd)))
      }),
      { numRuns: 50 },
    )
  })

  it('calls keys by their names, and tells those of one name apart', () => {
    const ofKey = (key: string) => ({
      ...NOTHING,
      start: `${DAYS[0]}T00:00:00Z`,
      group: { key, model: 'echo' },
    })
    const key_names = { key_00012345: 'agent', key_00019876: 'agent', key_2: 'desk', key_3: null }
    const data = Object.keys(key_names).map(ofKey)
    const { rows } = usageTable({ ...answerOf(data, []), key_names }, 'cost_usd')
    expect(rows.map(({ name }) => name)).toEqual([
      'agent …2345 · echo',
      'agent …9876 · echo',
      'desk · echo',
      'key_3 · echo',
    ])
  })

  it('has the dearest group first, and all other groups in the last row', () => {
    const data = [
      { ...NOTHING, start: `${DAYS[0]}T00:00:00Z`, group: { model: 'cheap' }, cost_usd: '0.1' },
      { ...NOTHING, start: `${DAYS[0]}T00:00:00Z`, group: { model: 'dear' }, cost_usd: '0.05' },
      { ...NOTHING, start: `${DAYS[1]}T00:00:00Z`, group: { model: 'dear' }, cost_usd: '0.06' },
    ]
    const { rows } = usageTable(answerOf(data, [data[0]!]), 'cost_usd')
    expect(rows.map(({ name }) => name)).toEqual(['dear', 'cheap', 'Other'])
  })

  it('says that a quantity was not reported, and that a day had no calls', () => {
    const data = [
      { ...NOTHING, start: `${DAYS[0]}T00:00:00Z`, group: { model: 'one' }, prompt_tokens: null },
      { ...NOTHING, start: `${DAYS[1]}T00:00:00Z`, group: { model: 'one' }, prompt_tokens: 7 },
    ]
    const { rows, times } = usageTable(answerOf(data, []), 'prompt_tokens')
    expect(rows[0]!.values).toEqual([null, 7, 0])
    expect(rows[0]!.sums).toMatchObject({ prompt_tokens: 7, cached_tokens: null })
    expect(times.map((at) => new Date(at * 1000).toISOString().slice(0, 10))).toEqual(DAYS)
  })

  it('has the days of a time zone, also that of a change of its clocks', () => {
    const range = { from: '2026-10-24T00:00:00+02:00', to: '2026-10-27T00:00:00+01:00' }
    const times = usageTable(
      { ...answerOf([], []), range, time_zone: 'Europe/Berlin' },
      'calls',
    ).times
    const days = times.map((at) => new Date(at * 1000).toISOString().slice(0, 10))
    expect(days).toEqual(['2026-10-24', '2026-10-25', '2026-10-26'])
  })

  it('has a step for each month', () => {
    const answer = { ...answerOf([], []), rollup: 'month' as const }
    const range = { from: '2026-01-01T00:00:00Z', to: '2026-04-01T00:00:00Z' }
    expect(usageTable({ ...answer, range }, 'calls').times).toHaveLength(3)
  })
})

function answerOf(data: readonly UsageCell[], other: readonly UsageCell[]): UsageAnswer {
  return {
    data,
    other,
    totals: NOTHING,
    rollup: 'day',
    range: { from: `${DAYS[0]}T00:00:00Z`, to: '2026-11-02T00:00:00Z' },
    time_zone: 'UTC',
    partial: { from: null },
    indexed: 1,
    ledger: { agrees: true, as_of: '', cost_usd: '0', differences: [] },
  }
}

function decimal(pico: bigint): string {
  const text = pico.toString().padStart(13, '0')
  return `${text.slice(0, -12)}.${text.slice(-12)}`.replace(/\.?0+$/, '')
}
