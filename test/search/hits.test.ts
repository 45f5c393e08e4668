import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { domainRules } from '../../src/search/domains.ts'
import {
  ALL_CHARACTERS,
  cleanResults,
  EXCERPT_CHARACTERS,
  urlKey,
} from '../../src/search/results.ts'
import { singleLine, shorten, visible } from '../../src/search/texts.ts'

const ANYWHERE = domainRules([], [])
const hit = (url: string, more: object = {}) => ({ url, title: 'T', content: 'text', ...more })
const urlsOf = (...hits: unknown[]) => cleanResults(hits, ANYWHERE, 10).map(({ url }) => url)

describe('hits', () => {
  it('without an address that can be shown are left out', () => {
    expect(
      urlsOf(
        null,
        7,
        {},
        hit(''),
        hit('javascript:alert(1)'),
        hit('data:text/html,x'),
        hit('file:///etc/passwd'),
        hit('ftp://a.example/'),
        hit('/relative'),
        hit('https://user:pass@a.example/'),
        hit(`https://a.example/${'x'.repeat(2100)}`),
        { ...hit(''), url: 5 },
        hit(' https://a.example/b "c" '),
      ),
    ).toEqual(['https://a.example/b%20%22c%22'])
  })

  it('that say nothing are left out', () => {
    expect(
      urlsOf(
        hit('https://a.example/', { content: ' \u200b\n' }),
        hit('https://b.example/', { content: 5 }),
      ),
    ).toEqual([])
  })

  it('count once for each page', () => {
    expect(
      urlsOf(
        hit('https://a.example/x'),
        hit('http://www.a.example/x/#part'),
        hit('https://a.example/x?utm_source=b&utm_medium=c'),
        hit('https://a.example/x?id=1'),
        hit('https://a.example/x?id=2&utm_source=b'),
      ),
    ).toEqual([
      'https://a.example/x',
      'https://a.example/x?id=1',
      'https://a.example/x?id=2&utm_source=b',
    ])
  })

  it('come from where the caller wants, up to the number that is wanted', () => {
    const hits = ['a', 'b', 'c', 'd'].map((name) => hit(`https://${name}.example/`))
    const rules = domainRules([], ['a.example'])
    expect(cleanResults(hits, rules, 2).map(({ url }) => url)).toEqual([
      'https://b.example/',
      'https://c.example/',
    ])
  })

  it('are called by their site where they have no title, and say when they were written', () => {
    const [first, second] = cleanResults(
      [
        hit('https://a.example/x', { title: '  ' }),
        hit('https://b.example/', { publishedAt: '2026-01-02' }),
      ],
      ANYWHERE,
      10,
    )
    expect(first).toEqual({ url: 'https://a.example/x', title: 'a.example', content: 'text' })
    expect(second).toMatchObject({ publishedAt: '2026-01-02' })
  })

  it('are cut, each and together', () => {
    const long = 'word '.repeat(10_000)
    const many = Array.from({ length: 10 }, (_, i) =>
      hit(`https://a.example/${i}`, { content: i === 0 ? 'short' : long, title: long }),
    )
    const hits = cleanResults(many, ANYWHERE, 10)
    expect(hits).toHaveLength(10)
    const lengths = hits.map(({ content }) => content.length)
    expect(lengths[0]).toBe(5)
    expect(lengths.reduce((sum, length) => sum + length)).toBeLessThanOrEqual(ALL_CHARACTERS)
    expect(Math.min(...lengths.slice(1))).toBeGreaterThan(1000)
    expect(hits.every(({ title }) => title.length <= 200)).toBe(true)
    const [one] = cleanResults([hit('https://a.example/', { content: long })], ANYWHERE, 1)
    expect(one!.content.length).toBeLessThanOrEqual(EXCERPT_CHARACTERS)
    expect(one!.content).toMatch(/word …$/)
  })

  it('are all of that for anything an engine may send', () => {
    const anything = fc.record(
      { url: fc.oneof(fc.webUrl(), fc.anything()), title: fc.anything(), content: fc.anything() },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(anything, fc.anything())), fc.nat(10), (hits, limit) => {
        const clean = cleanResults(hits, ANYWHERE, limit + 1)
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
  it('lose what nobody sees', () => {
    const tagged = [...'ignore']
      .map((c) => String.fromCodePoint(0xe0000 + c.charCodeAt(0)))
      .join('')
    expect(visible(`a\u202eb\u0000c\u200bd\u2066e${tagged}f\r\ng  \n\n\n\nh\ud800`)).toBe(
      'abcdef\ng\n\nh\ufffd',
    )
    expect(singleLine(' one\n two\t three ')).toBe('one two three')
  })

  it('may be full of blanks', () => {
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
