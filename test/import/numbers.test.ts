import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { moveOf, readPrice } from '../../src/import/rows.ts'
import { readJson, readYaml } from '../../src/import/source.ts'
import { formatPrice, parsePrice } from '../../src/money/prices.ts'

const priceOf = (text: string, per?: number) => {
  const read = readPrice({ text, ...(per !== undefined && { per }) })
  return 'price' in read ? formatPrice(read.price) : read
}

describe('numbers of a list', () => {
  it('keep their text in YAML, on a line with very many of them too', () => {
    const prices = Array.from({ length: 200_000 }, () => '1.10')
    expect(readYaml(`prices: [${prices.join(' ,')} ]`)).toEqual({ prices })
  })

  it('arrive as they are written', () => {
    const text = '{"a":7.5e-07,"b":[1.10,12345678901234567890.1],"c":"x","d":{"e":-0}}'
    expect(readJson(text)).toEqual({
      a: '7.5e-07',
      b: ['1.10', '12345678901234567890.1'],
      c: 'x',
      d: { e: '-0' },
    })
  })

  it.each([
    ['7.5e-07', undefined, '0.00000075'],
    ['2.5E-6', undefined, '0.0000025'],
    ['0', undefined, '0'],
    ['0.10', 1_000_000, '0.0000001'],
    ['3', 1_000_000, '0.000003'],
    ['0.006', 60, '0.0001'],
    ['1e-18', undefined, '0.000000000000000001'],
  ])('%s for %s is the price %s', (text, per, price) => {
    expect(priceOf(text, per)).toBe(price)
  })

  it.each([
    ['1.0000000000000002e-06', undefined, '0.000001'],
    ['2.9999999999999999e-07', undefined, '0.0000003'],
    ['0.01', 60, '0.000166666666667'],
    ['4.5e-19', undefined, '0'],
  ])('%s for %s has digits that no price has: %s is proposed', (text, per, proposal) => {
    const read = priceOf(text, per) as { proposal: bigint; found: string }
    expect(read.found).toBe(text)
    expect(formatPrice(read.proposal)).toBe(proposal)
  })

  it.each(['-1', '', 'free', 'NaN', '1e400', '0x1', '1,5', `1${'0'.repeat(60)}`])(
    '%j is no price',
    (text) => {
      expect(priceOf(text)).toEqual({ wrong: expect.stringContaining(JSON.stringify(text)) })
    },
  )

  it('of a choice: the highest counts', () => {
    expect(readPrice({ text: ['0.03', '0.05', '0.035'] })).toEqual({ price: parsePrice('0.05') })
  })

  it('are exact for every price and scale', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 10n ** 20n }),
        fc.integer({ min: -12, max: 12 }),
        (price, exponent) => {
          const text = formatPrice(price)
          const [whole = '', fraction = ''] = text.split('.')
          // The same number with its point somewhere else.
          const scaled = `${whole}${fraction}e${-fraction.length + exponent}`
          const per = 10 ** Math.max(0, exponent)
          if (exponent < 0) return
          expect(readPrice({ text: scaled, per })).toEqual({ price })
        },
      ),
    )
  })
})

it('a move is told in percent, or as a factor', () => {
  const move = (from: string, to: string) => moveOf(parsePrice(from), parsePrice(to))
  expect(move('0.00001', '0.000012')).toBe('+20 %')
  expect(move('0.001', '0.002')).toBe('+100 %')
  expect(move('0.000003', '0.0000003')).toBe('÷10')
  expect(move('0.000001', '0.00002')).toBe('×20')
  expect(move('1', '0.88')).toBe('−12 %')
  expect(moveOf(undefined, 5n)).toBe('')
})
