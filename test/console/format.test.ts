/** How the console writes values: from the text that the API sent, never through floating point. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  callShare,
  addAmounts,
  count,
  duration,
  exactMoney,
  moment,
  money,
  plainDecimal,
  shortCount,
} from '../../src/console/format.ts'
import { readAnswer } from '../../src/console/amounts.ts'
import { formatPico, usdJson } from '../../src/money/money.ts'

const RUNS = { numRuns: 200 }
const pico = fc.bigInt(-(10n ** 24n), 10n ** 24n)

describe('amounts', () => {
  it('are the decimals that were sent, in JSON of the gateway too', () => {
    fc.assert(
      fc.property(pico, (amount) => {
        const text = JSON.stringify({ cost_usd: usdJson(amount) })
        const read = readAnswer(text) as { cost_usd: string }
        // A double has at most 17 digits, so larger ones are compared as what was sent.
        const sent = /:(.*)}/.exec(text)![1]!
        expect(read.cost_usd).toBe(plainDecimal(sent))
        expect(plainDecimal(formatPico(amount))).toBe(formatPico(amount))
      }),
      RUNS,
    )
  })

  it('are shown whole where all decimals are wanted, without an exponent', () => {
    fc.assert(
      fc.property(pico, (amount) => {
        const text = formatPico(amount)
        const shown = exactMoney(text)
        expect(shown).not.toMatch(/e/i)
        expect(shown.replaceAll(/[$,]/g, '').replace('\u2212', '-')).toBe(text)
        expect(money(text)).toMatch(/^\u2212?\$[\d,]+(\.\d+)?$/)
      }),
      RUNS,
    )
  })

  it('sum exactly', () => {
    fc.assert(
      fc.property(fc.array(pico, { maxLength: 8 }), (amounts) => {
        const sum = amounts.reduce((total, one) => total + one, 0n)
        expect(addAmounts(amounts.map((one) => formatPico(one)))).toBe(formatPico(sum))
      }),
      RUNS,
    )
  })

  it.each([
    ['1234567.8', '$1,234,568'],
    ['12.345', '$12.35'],
    ['999.995', '$1,000.00'],
    ['0.0123', '$0.0123'],
    ['0.00012', '$0.0001'],
    ['0.0000081', '$0.0000081'],
    ['0.000008125', '$0.0000081'],
    ['0.00000096', '$0.00000096'],
    ['0', '$0'],
    ['-4', '\u2212$4.00'],
    ['8.125e-6', '$0.0000081'],
  ])('%s in a table is %s', (amount, shown) => {
    expect(money(amount)).toBe(shown)
  })

  it('that were not reported are a dash, and are not zero', () => {
    expect([money(null), exactMoney(undefined), count(null)]).toEqual(['–', '–', '–'])
  })

  it('are text inside of members that hold amounts, and numbers elsewhere', () => {
    const text = '{"cost_details":{"prompt":2.060e-4},"usage":{"prompt_tokens":12},"rate":0.5}'
    expect(readAnswer(text)).toEqual({
      cost_details: { prompt: '0.000206' },
      usage: { prompt_tokens: 12 },
      rate: 0.5,
    })
  })
})

describe('times', () => {
  const now = Date.parse('2026-11-23T10:21:07.000Z')

  it('leave out the day when it is today', () => {
    expect(moment('2026-11-23T08:00:09.120Z', 'utc', now)).toBe('08:00:09')
    expect(moment('2026-11-22T23:59:59.999Z', 'utc', now)).toBe('2026-11-22 23:59:59')
  })

  it('have the day of their zone', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }),
        (date) => {
          const text = moment(date.toISOString(), 'local', now)
          const clock = text.slice(-8)
          expect(clock).toBe(date.toTimeString().slice(0, 8))
        },
      ),
      RUNS,
    )
  })

  it.each([
    [0, '0 ms'],
    [0.3, '<1 ms'],
    [840, '840 ms'],
    [999.6, '1.00 s'],
    [2410, '2.41 s'],
    [59_994, '60.0 s'],
    [59_996, '1 min 00 s'],
    [185_000, '3 min 05 s'],
    [7_260_000, '2 h 01 min'],
  ])('%s ms is %s', (ms, shown) => {
    expect(duration(ms)).toBe(shown)
  })
})

describe('counts', () => {
  it.each([
    [12_408, '12,408'],
    [99_999, '99,999'],
    [123_456, '123 k'],
    [1_249_000, '1.2 M'],
    [2_500_000_000, '2.5 G'],
  ])('%s in a table is %s', (value, shown) => {
    expect(shortCount(value)).toBe(shown)
  })

  it('are said, and no percentage, where calls are few', () => {
    expect([
      callShare(3, 3),
      callShare(0, 0),
      callShare(null, 4),
      callShare(1, 19),
      callShare(4, 20),
      callShare(4, 1000),
      callShare(0, 20),
    ]).toEqual(['3 of 3', 'no calls', '–', '1 of 19', '20 %', '0.4 %', '0 %'])
  })
})
