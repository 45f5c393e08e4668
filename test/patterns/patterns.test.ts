import { describe, expect, it } from 'vitest'
import {
  checkPatterns,
  compilePatterns,
  escapePattern,
  type PatternMatcher,
} from '../../src/patterns/patterns.ts'
import { fold, CONFUSABLES } from '../../src/patterns/views/fold.ts'
import { recordedCases } from '../fixtures.ts'
import { LITERALS, ordinaryText } from '../guard/texts.ts'

/** How much of a text in pieces is safe, and the match that stopped it. */
function stream(matcher: PatternMatcher, text: string, cuts: readonly number[]) {
  const scan = matcher.scan()
  let from = 0
  for (const cut of [...cuts, text.length]) {
    const { safeOffset: safe, match: hit } = scan.push(text.slice(from, cut))
    if (hit) return { sent: safe, hit }
    from = cut
  }
  const { safeOffset: safe, match: hit } = scan.end()
  return { sent: safe, hit }
}

function everyUnit(text: string): number[] {
  return Array.from({ length: text.length - 1 }, (_, at) => at + 1)
}

describe('recorded patterns', () => {
  const cases = recordedCases('guard/patterns.jsonl')
  if (!cases) {
    const reason = 'no recorded patterns; set FIXTURES_DIR to have them checked'
    it('recorded patterns', (context) => context.skip(reason))
    return
  }

  it.each(cases)('$id: $note', ({ patterns, text, chunkings, expect: expected }) => {
    if (expected.verdict === 'invalid') {
      expect(checkPatterns(patterns).problem?.index).toBe(expected.pattern_index)
      return
    }
    const matcher = compilePatterns(patterns)
    const blocks = expected.verdict === 'block'
    expect(matcher.find(text) !== undefined).toBe(blocks)
    for (const chunking of chunkings) {
      const cuts = chunking === 'whole' ? [] : chunking === 'each' ? everyUnit(text) : chunking
      const { sent, hit } = stream(matcher, text, cuts)
      expect(hit !== undefined).toBe(blocks)
      if (blocks) expect(sent).toBeLessThanOrEqual(expected.max_emit)
      else expect(sent).toBe(text.length)
    }
  })
})

describe('checkPatterns', () => {
  const { problem: none, warnings } = checkPatterns([
    'C\\+\\+',
    'begin.*end',
    '\\d+',
    'x{1000}',
    '((a+)+)+b',
    '(?s:a)\\b',
  ])

  it('accepts RE2', () => {
    expect(none).toBeUndefined()
  })

  it('warns of patterns that may retain text of any length, but not where the match is complete', () => {
    expect(warnings).toEqual([
      { code: 'pattern_unbounded', index: 1 },
      { code: 'pattern_unbounded', index: 4 },
    ])
  })

  it.each([
    ['C++', /is not RE2 \(invalid nested repetition operator: `\+\+`\)/, 'C\\+\\+'],
    ['a(?!b)', /is not RE2/, 'a\\(\\?!b\\)'],
    ['(a', /is not RE2 \(missing closing \): `\(a`\)/, '\\(a'],
    ['(a)\\1', /is not RE2/, '\\(a\\)\\\\1'],
    ['\\C', /is not RE2/, '\\\\C'],
    ['a{1001}', /is not RE2/, 'a\\{1001\\}'],
    ['a*', /can match nothing at all/, 'a\\*'],
    ['^|x', /can match nothing at all/, '\\^\\|x'],
    ['\\b', /can match nothing at all/, '\\\\b'],
    ['(a?){1000}', /at most 1500/, '\\(a\\?\\)\\{1000\\}'],
    ['(?:.{40}){40}', /compiles to 1600 instructions/, '\\(\\?:\\.\\{40\\}\\)\\{40\\}'],
    ['\u200b\u200d', /cannot be seen/, undefined],
    ['[\\x{200b}\\x{200c}]+', /cannot be seen/, '\\[\\\\x\\{200b\\}\\\\x\\{200c\\}\\]\\+'],
  ])('refuses %j and says how to write it', (pattern, reason, suggestion) => {
    const { problem } = checkPatterns(['fine', pattern])
    expect(problem).toMatchObject({ index: 1, reason: expect.stringMatching(reason) })
    expect(problem?.suggestion).toBe(suggestion)
    if (suggestion) expect(compilePatterns([suggestion]).find(`<${pattern}>`)).toBeDefined()
  })

  it('counts all patterns together', () => {
    const many = Array.from({ length: 13 }, (_, index) => `${index}[ab]{997}`)
    expect(checkPatterns(many.slice(1)).problem).toBeUndefined()
    expect(checkPatterns(many).problem).toMatchObject({
      index: 12,
      reason: expect.stringMatching(/of which at most 12000 are allowed/),
    })
  })

  it('writes nothing out before it has counted', () => {
    const wide = `(?:${'.{30}'.repeat(35)}){33}`
    expect(checkPatterns([wide]).problem?.reason).toMatch(/compiles to \d{5} instructions/)
  })
})

describe('compilePatterns', () => {
  it('says which pattern is wrong', () => {
    expect(() => compilePatterns(['fine', 'C++'])).toThrow(/^Pattern 1 is not RE2/)
  })

  it('remembers what it has compiled', () => {
    const matcher = compilePatterns(['remembered'])
    expect(compilePatterns(['remembered'])).toBe(matcher)
  })

  it('keeps the patterns of keys however many requests bring their own', () => {
    const matcher = compilePatterns(['kept'], 'key')
    for (let index = 0; index < 1_100; index++) compilePatterns([index.toString(36)], 'request')
    expect(compilePatterns(['kept'], 'key')).toBe(matcher)
  })

  it('finds nothing without patterns', () => {
    const matcher = compilePatterns([])
    expect(matcher.find('anything')).toBeUndefined()
    expect(stream(matcher, 'any\u{1f985}thing', [4])).toEqual({ sent: 10, hit: undefined })
  })

  it('escapes texts so that they mean themselves', () => {
    const text = 'a.b*c?[x](y){2}|^$\\d+'
    const matcher = compilePatterns([escapePattern(text)])
    expect(matcher.find(`see ${text}!`)).toMatchObject({ start: 4, end: 4 + text.length })
    expect(matcher.find('aXbbc')).toBeUndefined()
  })
})

describe('views', () => {
  const word = 'jellyfish'
  const hidden = (encode: (bytes: Buffer) => string, before = '') =>
    encode(Buffer.from(`${before}${word}${before}`))
  const blocked: [name: string, text: string, view: string][] = [
    ['as written', 'A JellyFish here', 'raw'],
    ['zero-width', 'jel\u200bly\u2060fi\u00adsh', 'raw'],
    ['Cyrillic', 'jеllyfiѕh', 'folded'],
    ['Greek', 'jellyfιsh', 'folded'],
    ['full-width', 'ｊｅｌｌｙｆｉｓｈ', 'folded'],
    ['circled', 'ⓙⓔⓛⓛⓨⓕⓘⓢⓗ', 'folded'],
    ['small capitals', 'ᴊᴇʟʟʏꜰɪꜱʜ', 'folded'],
    ['mathematical', '𝒋𝒆𝒍𝒍𝒚𝒇𝒊𝒔𝒉', 'folded'],
    ['flags', '🇯🇪🇱🇱🇾🇫🇮🇸🇭', 'folded'],
    ['negative squares', '🅹🅴🅻🅻🆈🅵🅸🆂🅷', 'folded'],
    ['accents', 'jé\u0308l\u0327l\u0336yfi\u20ddsh', 'folded'],
    ['a ligature', 'jellyﬁsh', 'folded'],
    [
      'tags',
      [...word].map((one) => String.fromCodePoint(0xe0000 + one.charCodeAt(0))).join(''),
      'folded',
    ],
    ['bidi', '\u202ejelly\u2066fish\u2069', 'raw'],
    ['spaces', 'j e l l y f i s h', 'squeezed'],
    ['hyphens', 'j-e-l-l-y-f-i-s-h', 'squeezed'],
    ['pairs', 'je ll yf is h', 'squeezed'],
    ['dots', 'j...e...l...l...y...f...i...s...h', 'squeezed'],
    ['leet', 'j3llyf1sh', 'leet'],
    ['rot13', 'wryylsvfu', 'derived'],
    ['reversed', 'hsifyllej', 'derived'],
    ...['', 'x', 'xy', 'xyz'].map((before): [string, string, string] => [
      `base64 behind ${before.length} bytes`,
      hidden((bytes) => bytes.toString('base64'), before),
      'decoded',
    ]),
    ...['A', 'AB', 'ABC'].map((junk): [string, string, string] => [
      `base64 behind ${junk.length} characters`,
      junk + hidden((bytes) => bytes.toString('base64')),
      'decoded',
    ]),
    ['base64url of look-alikes', Buffer.from('»jеllyfish«').toString('base64url'), 'decoded'],
    ['base64 behind junk', Buffer.from(`\u0000\u0001${word}`).toString('base64'), 'decoded'],
    ['hexadecimal', hidden((bytes) => bytes.toString('hex')), 'decoded'],
    ['half a byte, then hexadecimal', `a${hidden((bytes) => bytes.toString('hex'))}`, 'decoded'],
    [
      'spaced hexadecimal',
      hidden((bytes) => bytes.toString('hex').match(/../g)!.join(' ')),
      'decoded',
    ],
    ['percent', hidden((bytes) => bytes.toString('hex').replace(/../g, '%$&')), 'decoded'],
    ['one percent', 'jell%79fish', 'decoded'],
    ['UTF-8 in percents', 'j%D0%B5llyfish', 'decoded'],
    ['\\u', 'jelly\\u0066ish', 'decoded'],
    ['\\u{}', 'jelly\\u{66}ish', 'decoded'],
    ['\\x', '\\x6a\\x65lly\\x66ish', 'decoded'],
    ['entities', 'jelly&#102;&#x69;sh', 'decoded'],
    ['an entity without its semicolon', 'jelly&#102 ish'.replace(' ', ''), 'decoded'],
  ]
  const matcher = compilePatterns([word])

  it.each(blocked)('see %s', (_, text, view) => {
    const padded = `Well, ${text}, you see.`
    const found = matcher.find(padded)
    expect(found?.view).toBe(view)
    for (const cuts of [[], everyUnit(padded)]) {
      const { sent, hit } = stream(matcher, padded, cuts)
      expect(hit).toEqual(found)
      expect(sent).toBeLessThanOrEqual(found!.start)
    }
  })

  it.each([
    ['two layers', Buffer.from(Buffer.from(word).toString('base64')).toString('base64')],
    ['gaps of four', 'j....e....l....l....y....f....i....s....h'],
    ['runs of three', 'jel lyf ish'],
    ['mostly signs', '7h47 15 8055'],
    ['another word', 'jellybean'],
    ['a run that is too short', 'amVsbHk'],
  ])('leave %s alone', (_, text) => {
    expect(matcher.find(text)).toBeUndefined()
    expect(stream(matcher, text, everyUnit(text)).sent).toBe(text.length)
  })

  it('do not turn one short word into another', () => {
    const short = compilePatterns(['bomb', 'ban'])
    for (const text of ['b o m b', '80m8', 'ono', 'nab', Buffer.from('a bomb').toString('hex')]) {
      expect(short.find(text)).toBeUndefined()
    }
  })

  it('undo marks that are stacked upon letters', () => {
    const stacked = (marks: string) => Array.from('heron', (letter) => letter + marks).join('')
    for (const marks of ['\u0489', '\u0483\u0323', '\ua670', '\u0336\u20dd\u0488']) {
      expect(compilePatterns(['her[o]n']).find(stacked(marks))).toMatchObject({ view: 'folded' })
    }
  })

  it('keep classes of a script apart from look-alikes of another', () => {
    const cyrillic = compilePatterns(['\\p{Cyrillic}{2}', '[а-я]{3}', 'тест'])
    expect(cyrillic.find('peace, cop, tect, Ae, ordinary English')).toBeUndefined()
    expect(cyrillic.find('и вот')).toMatchObject({ pattern: 0, view: 'raw' })
    const english = compilePatterns(['bot', 'mat', 'get', 'so', 'here', 'net'])
    expect(english.find('вот мат нет, и так: он купил Windows, а потом Linux')).toBeUndefined()
  })

  it('fold classes that were written out, and negated ones not', () => {
    expect(compilePatterns(['[Аа]nna']).find('anna')).toMatchObject({ view: 'folded' })
    expect(compilePatterns(['^[^a]+$']).find('аaа')).toBeUndefined()
    expect(compilePatterns(['"[^"]*"x']).find('“a”x')).toMatchObject({ view: 'folded' })
  })

  it('know what RE2 takes for the edge of a word, in each view', () => {
    const matcher = compilePatterns(['\\bcaf\\b'])
    expect(matcher.find('café')).toMatchObject({ view: 'raw', start: 0, end: 3 })
    expect(compilePatterns(['\\bcafe\\b']).find('un café.')).toMatchObject({
      view: 'folded',
      start: 3,
    })
  })

  it('leave case alone only where a pattern says so', () => {
    const matcher = compilePatterns(['(?-i)Acme'])
    expect(matcher.find('acme, АCME, ａcme')).toBeUndefined()
    expect(matcher.find('an Acme')).toMatchObject({ view: 'raw', start: 3, end: 7 })
  })

  it('find nothing in 200,000 ordinary words that only evasions would explain', () => {
    const matcher = compilePatterns([...LITERALS, ...EVERYDAY])
    const text = ordinaryText(1_200_000, 3)
    expect(text.split(/\s+/).length).toBeGreaterThan(200_000)
    expect(matcher.find(text)).toBeUndefined()
  })
})

describe('confusables', () => {
  it('all stand for a letter from a to z, and none is ASCII', () => {
    expect(CONFUSABLES.size).toBeGreaterThan(300)
    for (const [from, to] of CONFUSABLES) {
      expect(from).toBeGreaterThan(127)
      expect(String.fromCodePoint(to)).toMatch(/^[a-z]$/)
    }
  })

  it('do not contradict each other, and folding twice changes nothing', () => {
    for (let codePoint = 0; codePoint < 0x20000; codePoint++) {
      const symbols = fold(codePoint)
      if (symbols.length === 1 && symbols[0] === codePoint) continue
      if (symbols.some((symbol) => fold(symbol).join() !== String(symbol))) {
        expect.fail(`U+${codePoint.toString(16)} folds to ${symbols.join()}, which folds on`)
      }
    }
  })
})

describe('search', () => {
  it('finds what find finds, in slices', async () => {
    const matcher = compilePatterns(['[ab]*a[ab]{40}c', 'needle here', 'a long way.*home'])
    const texts = [
      `${'ab'.repeat(5_000)}d`,
      `${ordinaryText(50_000, 4)} needle here ${ordinaryText(50_000, 5)}`,
      `${ordinaryText(2_000, 6)} bmVlZGxlIGhlcmU= ${'62 '.repeat(9_000)}`,
      `${'%41'.repeat(9_000)} needl%65 here`,
      ordinaryText(10_000, 7),
    ]
    for (const text of texts) {
      expect(await matcher.search(text)).toEqual(matcher.find(text))
    }
  })

  it('searches several texts at the same time', async () => {
    const matcher = compilePatterns(['[ab]*a[ab]{40}c'])
    const random = ordinaryText(40_000, 8).replace(/[^ab]/g, (one) => 'ab'[one.charCodeAt(0) % 2]!)
    const searches = [`${random}${'a'.repeat(41)}c`, random].map((text) => matcher.search(text))
    for (const search of searches) expect(search).toBeInstanceOf(Promise)
    const [hit, miss] = await Promise.all(searches)
    expect(hit).toMatchObject({ pattern: 0, start: 0, end: 40_042 })
    expect(miss).toBeUndefined()
  })
})

it.each([
  ['covid19', 'c0v1d19'],
  ['zebrafish77', 'z3br4f15h77'],
])('finds %s in leet, whose own digits stand for no letters', (pattern, disguised) => {
  const matcher = compilePatterns([pattern])
  expect(matcher.find(`It is ${disguised}.`)).toMatchObject({ view: 'leet' })
  expect(matcher.find(`It is ${disguised.replace(/\p{L}/gu, '5')}.`)).toBeUndefined()
})

it('finds a word in leet with a mark in it, whatever else is forbidden', () => {
  for (const others of [[], ['xy'], ['x+y'], ['x.y']]) {
    const matcher = compilePatterns([...others, 'her%on'])
    expect(matcher.find('h3r%\u03080n')).toMatchObject({ view: 'leet', pattern: others.length })
  }
})

/** Everyday words that fill a list of fifty patterns. */
const EVERYDAY = [
  'cocaine',
  'pistol',
  'terror',
  'suicide',
  'hostage',
  'kidnap',
  'forgery',
  'perjury',
  'smuggle',
  'espionage',
  'sabotage',
  'treason',
  'vodka',
  'whisky',
  'tobacco',
  'heroin',
  'poison',
  'grenade',
  'bribery',
  'insider',
]
