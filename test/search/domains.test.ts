import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { domainRules } from '../../src/search/results.ts'

const allows = (include: readonly string[], exclude: readonly string[], url: string) =>
  domainRules(include, exclude).allow(new URL(url))

describe('a domain pattern', () => {
  it.each([
    ['example.com', 'https://example.com/', true],
    ['example.com', 'https://docs.example.com/a', true],
    ['example.com', 'http://EXAMPLE.com:8080/', true],
    ['example.com', 'https://notexample.com/', false],
    ['example.com', 'https://example.com.evil.org/', false],
    ['Example.COM.', 'https://example.com/', true],
    ['https://example.com/', 'https://example.com/a', true],
    ['example.com:443', 'https://example.com/a', true],
    ['*.substack.com', 'https://a.substack.com/p', true],
    ['*.substack.com', 'https://substack.com/p', false],
    ['*.substack.com', 'https://evilsubstack.com/', false],
    ['docs.*.org', 'https://docs.python.org/3', true],
    ['docs.*.org', 'https://www.docs.python.org/3', false],
    ['*', 'https://anything.example/', true],
    ['.gov', 'https://nasa.gov/moon', true],
    ['gov', 'https://gov.example/', false],
    ['openai.com/blog', 'https://openai.com/blog', true],
    ['openai.com/blog', 'https://openai.com/blog/a?b=c', true],
    ['openai.com/blog/', 'https://www.openai.com/blog/a', true],
    ['openai.com/blog', 'https://openai.com/blogs', false],
    ['openai.com/blog', 'https://openai.com/', false],
    ['example.com/*/api', 'https://example.com/v2/api', true],
    ['example.com/*/api', 'https://example.com/v2/api/x', false],
    ['example.com/v2/*', 'https://example.com/v2/a/b', true],
    ['müller.example', 'https://xn--mller-kva.example/', true],
    ['*.müller.example', 'https://www.müller.example/', true],
    ['example.com/größe', 'https://example.com/gr%C3%B6%C3%9Fe', true],
    ['', 'https://example.com/', false],
    ['two words', 'https://example.com/', false],
    ['x'.repeat(3000), 'https://example.com/', false],
  ])('%j and %s: %s', (pattern, url, expected) => {
    expect(allows([pattern], [], url)).toBe(expected)
    expect(allows([], [pattern], url)).toBe(!expected)
  })

  it('excludes where it is also included', () => {
    const url = 'https://docs.example.com/old/page'
    expect(allows(['example.com'], ['example.com/new'], url)).toBe(true)
    expect(allows(['docs.example.com'], ['example.com/old'], url)).toBe(false)
    expect(allows(['example.com', 'a.com'], ['b.com', '*.example.com/old'], url)).toBe(false)
    expect(allows([], [], url)).toBe(true)
  })
})

describe('the filters for an engine', () => {
  it.each([
    [['example.com'], [{ host: 'example.com' }]],
    [['example.com/docs/'], [{ host: 'example.com', path: '/docs' }]],
    [['*.example.com'], [{ host: 'example.com' }]],
    [['*.example.com/docs'], [{ host: 'example.com' }]],
    [['a*z.example.com'], [{ host: 'example.com' }]],
    [['example.com/*/docs'], [{ host: 'example.com' }]],
    [['a.com', 'docs.*.org'], []],
    [['a.com', '.gov'], []],
    [['a.com', 'not one'], [{ host: 'a.com' }]],
  ])('of %j is never narrower', (include, expected) => {
    expect(domainRules(include, []).include).toEqual(expected)
  })

  it.each([
    [['example.com', '*.example.org'], [{ host: 'example.com' }]],
    [['example.com/docs'], [{ host: 'example.com', path: '/docs' }]],
    [['example.com/*/docs', '.gov', '*'], []],
  ])('of %j to be left out is never wider', (exclude, expected) => {
    expect(domainRules([], exclude).exclude).toEqual(expected)
  })

  it('cover every address that the patterns allow', () => {
    const label = fc.constantFrom('a', 'b', 'ab', '*', 'a*')
    const host = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'))
    const path = fc.constantFrom('', '/', '/a', '/a/*', '/a/b')
    const pattern = fc.tuple(host, path).map(([one, other]) => one + other)
    const plain = fc.tuple(
      fc.array(fc.constantFrom('a', 'b', 'ab'), { minLength: 2, maxLength: 5 }),
      fc.constantFrom('/', '/a', '/a/b', '/ab'),
    )
    fc.assert(
      fc.property(
        fc.array(pattern, { minLength: 1, maxLength: 3 }),
        plain,
        (patterns, [labels, p]) => {
          const url = new URL(`https://${labels.join('.')}${p}`)
          const within = ({ host: h, path: under }: { host: string; path?: string }) =>
            `.${url.hostname}`.endsWith(`.${h}`) &&
            (!under || `${url.pathname}/`.startsWith(`${under}/`))
          const include = domainRules(patterns, [])
          if (include.allow(url) && include.include.length > 0) {
            expect(include.include.some(within)).toBe(true)
          }
          const exclude = domainRules([], patterns)
          if (exclude.exclude.some(within)) expect(exclude.allow(url)).toBe(false)
        },
      ),
      { numRuns: 2000 },
    )
  })
})
