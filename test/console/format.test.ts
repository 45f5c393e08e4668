/** How the console writes values: from the text that the API sent, never through floating point. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  bytes,
  callShare,
  addAmounts,
  columnMoney,
  count,
  duration,
  exactMoney,
  hour,
  listDecimals,
  moment,
  money,
  plainDecimal,
  shortCount,
  wholeDecimals,
} from '../../src/console/format.ts'
import { readAnswer } from '../../src/console/amounts.ts'
import { actorText } from '../../src/console/text.ts'
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

  it('that are left are rounded down', () => {
    expect(money('24.9986015')).toBe('$25.00')
    expect(money('24.9986015', true)).toBe('$24.99')
    expect(money('12999.9', true)).toBe('$12,999')
    expect(money('0.000199', true)).toBe('$0.00019')
    expect(money('0.999', true)).toBe('$0.99')
    expect(money('-0.000119', true)).toBe('\u2212$0.00012')
    fc.assert(
      fc.property(fc.bigInt(1n, 10n ** 18n), (amount) => {
        const shown = money(formatPico(amount), true).replaceAll(/[$,]/g, '')
        expect(shown).toMatch(/[1-9]/)
        expect(addAmounts([formatPico(amount), `-${shown}`])).not.toMatch(/^-/)
      }),
      RUNS,
    )
  })

  it('of a column have the same decimals, and none of them is written as nothing', () => {
    const decimalsIn = (shown: string) => shown.split('.')[1]?.length
    fc.assert(
      fc.property(fc.array(pico, { minLength: 1, maxLength: 8 }), (amounts) => {
        const texts = amounts.map((one) => formatPico(one))
        for (const decimals of [wholeDecimals(texts), listDecimals(texts)]) {
          const shown = texts.map((one) => columnMoney(one, decimals))
          expect(new Set(shown.map(decimalsIn))).toEqual(new Set([decimals]))
          for (const [place, one] of shown.entries())
            if (amounts[place] !== 0n) expect(one).toMatch(/[1-9]/)
        }
        const whole = texts.map((one) => columnMoney(one, wholeDecimals(texts)))
        expect(
          whole.map((one) => plainDecimal(one.replaceAll(/[$,]/g, '').replace('\u2212', '-'))),
        ).toEqual(texts)
      }),
      RUNS,
    )
    expect(listDecimals(['1280', '0.3705', null])).toBe(2)
    expect(listDecimals(['1280', '0.00123456'])).toBe(4)
    expect(listDecimals(['0.00000000123'])).toBe(8)
    expect(columnMoney('0.00000000123', 8)).toBe('<$0.00000001')
    expect(columnMoney('0.999', 2, true)).toBe('$0.99')
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
    ['0.0123', '$0.012'],
    ['0.5', '$0.50'],
    ['0.9951', '$1.00'],
    ['0.00012', '$0.00012'],
    ['0.0000081', '$0.0000081'],
    ['0.000008125', '$0.0000081'],
    ['0.00000096', '$0.00000096'],
    ['0', '$0'],
    ['-4', '\u2212$4.00'],
    ['8.125e-6', '$0.0000081'],
  ])('%s alone is %s', (amount, shown) => {
    expect(money(amount)).toBe(shown)
  })

  it('that were not reported are a dash, and are not zero', () => {
    const writers = [money, exactMoney, count, shortCount, duration, bytes] as const
    for (const write of writers) {
      expect([write(null), write(undefined)], write.name).toEqual(['–', '–'])
      expect(write(0 as never), write.name).toContain('0')
    }
    expect([callShare(null, 3), callShare(3, null)]).toEqual(['–', '–'])
    expect([callShare(0, 3), callShare(0, 0)]).toEqual(['0 of 3', 'no calls'])
  })

  it('are a dash by one name, which stands for null in every file', () => {
    const folder = resolve(import.meta.dirname, '../../src/console')
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    const wrong = files
      .filter((file) => file.endsWith('.ts') && file !== 'format.ts')
      .filter((file) => /['"`>]–['"`<]/.test(readFileSync(join(folder, file), 'utf8')))
    expect(wrong).toEqual([])
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

describe.each(['en-US', 'de-DE', 'fr-FR', 'en-IN', 'ja-JP', 'ar-EG'])('in %s', (language) => {
  afterEach(() => void vi.unstubAllGlobals())

  it('an amount has all of its digits, and a moment its clock', async () => {
    vi.stubGlobal('navigator', { language })
    vi.resetModules()
    const format = await import('../../src/console/format.ts')
    fc.assert(
      fc.property(pico, (amount) => {
        const text = formatPico(amount)
        const digits = format.exactMoney(text).replaceAll(/\D/g, '')
        expect(digits).toBe(text.replaceAll(/\D/g, ''))
      }),
      RUNS,
    )
    expect(format.moment('2026-11-22T23:59:58Z', 'utc', 0)).toMatch(/23\D59\D58/)
    expect(format.count(12_408).replaceAll(/\D/g, '')).toBe('12408')
  })
})

describe('times', () => {
  const now = Date.parse('2026-11-23T10:21:07.000Z')

  it('leave out the day when it is today', () => {
    expect(moment('2026-11-23T08:00:09.120Z', 'utc', now)).toBe('08:00:09')
    expect(moment('2026-11-22T23:59:59.999Z', 'utc', now)).toBe('Nov 22, 2026, 23:59:59')
  })

  it('are an hour, or the day of another one, where only the hour is known', () => {
    expect(hour('2026-11-23T08:00:00.000Z', 'utc', now)).toBe('08:00\u201309:00')
    expect(hour('2026-11-23T23:00:00.000Z', 'utc', now)).toBe('23:00\u201300:00')
    expect(hour('2026-11-22T23:00:00.000Z', 'utc', now)).toBe('Nov 22, 2026')
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
    [123_456, '123K'],
    [1_249_000, '1.2M'],
    [2_500_000_000, '2.5B'],
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

describe('who did something', () => {
  it.each([
    ['file:admin', 'the token admin of the configuration'],
    ['token:tok_1', 'the token tok_1'],
    ['oidc:google/ada@example.com', 'ada@example.com, signed in by google'],
    ['proxy:ada', 'ada, signed in by the proxy'],
    ['member:mem_1', 'the member mem_1'],
    ['key:key:1', 'the holder of the key key:1'],
    ['payments:stripe', 'a payment at stripe'],
    ['seed', 'the seed of the configuration'],
    ['gateway', 'the gateway itself'],
    ['ops', 'ops'],
  ])('%s is %s', (id, words) => {
    expect(actorText(id)).toBe(words)
  })
})
