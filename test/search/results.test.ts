import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ALL_CHARACTERS,
  cleanResults,
  EXCERPT_CHARACTERS,
  urlKey,
  singleLine,
  shorten,
  visible,
  domainRules,
} from '../../src/search/results.ts'

const ANYWHERE = domainRules([], [])
const result = (url: string, more: object = {}) => ({ url, title: 'T', content: 'text', ...more })
const urlsOf = (...results: unknown[]) =>
  cleanResults(results, ANYWHERE, 10).results.map(({ url }) => url)

describe('results', () => {
  it('without an address that can be shown are left out', () => {
    expect(
      urlsOf(
        null,
        7,
        {},
        result(''),
        result('javascript:alert(1)'),
        result('data:text/html,x'),
        result('file:///etc/passwd'),
        result('ftp://a.example/'),
        result('/relative'),
        result('https://user:pass@a.example/'),
        result(`https://a.example/${'x'.repeat(2100)}`),
        { ...result(''), url: 5 },
        result(' https://a.example/b "c" '),
      ),
    ).toEqual(['https://a.example/b%20%22c%22'])
  })

  it('without text are left out', () => {
    expect(
      urlsOf(
        result('https://a.example/', { content: ' \u200b\n' }),
        result('https://b.example/', { content: 5 }),
      ),
    ).toEqual([])
  })

  it('count once for each page', () => {
    expect(
      urlsOf(
        result('https://a.example/x'),
        result('http://www.a.example/x/#part'),
        result('https://a.example/x?utm_source=b&utm_medium=c'),
        result('https://a.example/x?id=1'),
        result('https://a.example/x?id=2&utm_source=b'),
      ),
    ).toEqual([
      'https://a.example/x',
      'https://a.example/x?id=1',
      'https://a.example/x?id=2&utm_source=b',
    ])
  })

  it('obey the domain rules and the wanted number', () => {
    const results = ['a', 'b', 'c', 'd'].map((name) => result(`https://${name}.example/`))
    const rules = domainRules([], ['a.example'])
    expect(cleanResults(results, rules, 2).results.map(({ url }) => url)).toEqual([
      'https://b.example/',
      'https://c.example/',
    ])
  })

  it('have the host as title where they have none, and keep their date', () => {
    const {
      results: [first, second],
    } = cleanResults(
      [
        result('https://a.example/x', { title: '  ' }),
        result('https://b.example/', { publishedAt: '2026-01-02' }),
      ],
      ANYWHERE,
      10,
    )
    expect(first).toEqual({ url: 'https://a.example/x', title: 'a.example', content: 'text' })
    expect(second).toMatchObject({ publishedAt: '2026-01-02' })
  })

  it('are shortened, each and together', () => {
    const long = 'word '.repeat(10_000)
    const many = Array.from({ length: 10 }, (_, i) =>
      result(`https://a.example/${i}`, { content: i === 0 ? 'short' : long, title: long }),
    )
    const { results } = cleanResults(many, ANYWHERE, 10)
    expect(results).toHaveLength(10)
    const lengths = results.map(({ content }) => content.length)
    expect(lengths[0]).toBe(5)
    expect(lengths.reduce((sum, length) => sum + length)).toBeLessThanOrEqual(ALL_CHARACTERS)
    expect(Math.min(...lengths.slice(1))).toBeGreaterThan(1000)
    expect(results.every(({ title }) => title.length <= 200)).toBe(true)
    const [one] = cleanResults(
      [result('https://a.example/', { content: long })],
      ANYWHERE,
      1,
    ).results
    expect(one!.content.length).toBeLessThanOrEqual(EXCERPT_CHARACTERS)
    expect(one!.content).toMatch(/word …$/)
  })

  it('obey all limits for random input', () => {
    const anything = fc.record(
      { url: fc.oneof(fc.webUrl(), fc.anything()), title: fc.anything(), content: fc.anything() },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(anything, fc.anything())), fc.nat(10), (results, limit) => {
        const { results: clean } = cleanResults(results, ANYWHERE, limit + 1)
        expect(clean.length).toBeLessThanOrEqual(limit + 1)
        expect(new Set(clean.map(({ url }) => urlKey(new URL(url)))).size).toBe(clean.length)
        for (const { url, title, content } of clean) {
          expect(url).toMatch(/^https?:\/\//)
          expect(title).not.toBe('')
          expect(content).not.toBe('')
        }
      }),
    )
  })
})

describe('texts', () => {
  it('lose invisible characters', () => {
    const tagged = [...'ignore']
      .map((c) => String.fromCodePoint(0xe0000 + c.charCodeAt(0)))
      .join('')
    expect(visible(`a\u202eb\u0000c\u200bd\u2066e${tagged}f\r\ng  \n\n\n\nh\ud800`)).toBe(
      'abcdef\ng\n\nh\ufffd',
    )
    expect(singleLine(' one\n two\t three ')).toBe('one two three')
  })

  it('with long runs of blanks take linear time', () => {
    const blanks = ' \t'.repeat(200_000)
    expect(visible(`a${blanks}b${blanks}\nc`)).toBe(`a${blanks}b\nc`)
  })

  it('keep what scripts and emoji need', () => {
    const text = 'می‌خواهم 👩‍🚀 é ไทย'
    expect(visible(text)).toBe(text)
  })

  it('are cut between words and never inside a character', () => {
    expect(shorten('one hundred and twenty-three', 16)).toBe('one hundred and')
    expect(shorten('one hundred', 8)).toBe('one hund')
    expect(shorten('one two three', 13)).toBe('one two three')
    expect(shorten('abcdefghij', 5, '…')).toBe('abcd…')
    expect(shorten('ab😀', 3)).toBe('ab')
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(30), (text, limit) => {
        const cut = shorten(text, limit)
        expect(cut.length).toBeLessThanOrEqual(limit)
        expect(cut.isWellFormed()).toBe(true)
        expect(text.startsWith(cut)).toBe(true)
      }),
    )
  })
})
