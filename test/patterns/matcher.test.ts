import fc from 'fast-check'
import { RE2JS } from 're2js'
import { describe, expect, it } from 'vitest'
import { compilePatterns, type PatternMatcher } from '../../src/patterns/patterns.ts'
import { judge, type Judgement } from './oracle.ts'
import { hostilePatterns, ordinaryText, randomNumbers } from '../guard/texts.ts'
import { runs } from '../_runs.ts'

/** Patterns of every kind, with few letters, so that they get in each other's way. */
const PATTERNS = [
  ['heron', 'abcdef', 'cd', 'blue heron', 'banned', 'aab', 'ab', 'ba', 'nail', 'filler', 'ss'],
  [
    'wörld',
    'straße',
    'Ελλάδα',
    'привет',
    '日本語',
    'ﬁsh',
    'e\u0301a',
    'a  b',
    'test-case',
    '🦅 nest',
  ],
  ['a.*b', 'a+b', 'he(r|ro)n?x', '[a-c]{2,4}d', '[^a]b', '(ab|ba)+c', 'a?b?c?d', '[ab]{3,5}[cd]'],
  ['\\bhen\\b', 'a\\Bb', '^ab', 'ab$', '(?m)^b', '(?m)a$', '(a|b)*c\\b', 'b\\b.a', 'a(b|$)'],
  ['x\\s+y', '(?s)a.b', 'a\\n+b', '\\d{3}-\\d{2}', '[[:alpha:]]{3}1', '\\pL1', '(?-i)Ab'],
  ['é+x', '[éè]te', 'x(?:\\b|y)', '\\x{200b}a', 'st\\x{fb01}z', 'blue\\s+heron'],
].flat()

const PIECES = [
  [
    'a',
    'b',
    'c',
    'd',
    'ab',
    'ba',
    'he',
    'ron',
    'heron',
    'blue',
    'x',
    'y',
    'X',
    'A',
    'B',
    'hen',
    'then',
  ],
  [
    ' ',
    '  ',
    '\n',
    '\r\n',
    '\t',
    '-',
    '.',
    '"',
    '“',
    '1',
    '0',
    '3',
    '123-45',
    '%',
    '&#',
    '\\u',
    '==',
  ],
  ['\u200b', '\u00ad', '\ufe0f', '❤️', '👩‍💻', '🦅', '\ud83e', '\udd85', '\u0308', '\u0301'],
  [
    'е',
    'о',
    'а',
    'é',
    'ß',
    'ss',
    'ﬁ',
    'fi',
    'ö',
    'ⓗ',
    'ｈ',
    'Ᏼ',
    '日',
    '本',
    '語',
    'привет',
    'Ελλ',
  ],
  ['h e r o n', 'b-a-n-n-e-d', 'ba nn ed', 'n41l', 'f1ll3r', 'h3r0n', 'ban', 'ned', 'W'],
  [
    'urbea',
    'noreh',
    'onaarq',
    'aGVyb24',
    'YmFubmVk',
    'xYmFubmVk',
    '62616e6e6564',
    '62 61 6e 6e 65 64',
  ],
  [
    '%68%65ron',
    'he%72on',
    '\\u0068eron',
    '&#104;eron',
    '&#x62anned',
    'ab%63',
    '\\x62anned',
    '\\ud83e',
  ],
].flat()

const patternLists = fc.array(fc.constantFrom(...PATTERNS), { minLength: 1, maxLength: 3 })
const texts = fc.oneof(
  fc.array(fc.constantFrom(...PIECES), { maxLength: 18 }),
  // Few pieces, over and over.
  fc
    .array(fc.constantFrom(...PIECES), { minLength: 2, maxLength: 4 })
    .chain((few) => fc.array(fc.constantFrom(...few), { maxLength: 18 })),
)
const encodings = fc.constantFrom('base64', 'base64url', 'hex', 'utf8')

/** How much of a growing text may be safe, and has to be. */
interface Bounds {
  readonly least?: number
  readonly most?: number
}

/** Pushes a text in pieces and checks the progress after each. @returns the last progress */
function follow(
  matcher: PatternMatcher,
  text: string,
  cuts: Iterable<number>,
  boundsAt: (at: number, safe: number) => Bounds = () => ({}),
) {
  const scan = matcher.scan()
  // One assertion for all steps: there are hundreds of thousands of them.
  const wrong: object[] = []
  let from = 0
  let before = 0
  let hit: ReturnType<typeof scan.push> | undefined
  for (const cut of [...cuts, text.length]) {
    const step = scan.push(text.slice(from, cut))
    const { safeOffset: safe } = step
    if (safe < before) wrong.push({ cut, safe, before })
    if (step.match) {
      hit = step
      break
    }
    const { least = 0, most = cut } = boundsAt(cut, safe)
    if (safe < least || safe > most || safe > cut) wrong.push({ cut, safe, least, most })
    before = safe
    from = cut
  }
  expect(wrong).toEqual([])
  return hit ?? scan.end()
}

function randomCuts(text: string, random: () => number): number[] {
  const density = random()
  const cuts: number[] = []
  for (let at = 1; at < text.length; at++) if (random() < density) cuts.push(at)
  return cuts
}

/** Compares a matcher with the reference for many ways to cut a text. @returns how many */
function compare(
  patterns: readonly string[],
  text: string,
  seed: number,
  chunkings: number,
  expected: Judgement = judge(patterns, text),
): number {
  const matcher = compilePatterns(patterns)
  const found = matcher.find(text)
  const [first] = expected.matches
  expect(found === undefined).toBe(first === undefined)
  if (found && first) {
    const { pattern, start, end } = found
    expect(expected.matches.filter(({ known }) => known === first.known)).toContainEqual(
      expect.objectContaining({ pattern, start, end }),
    )
  }
  const oldest = Math.min(...expected.matches.map(({ start }) => start))
  const random = randomNumbers(seed)
  let last: unknown
  for (let round = 0; round < chunkings; round++) {
    const cuts = round === 0 ? [] : randomCuts(text, random)
    const step = follow(matcher, text, cuts, (at, safe) => {
      const hold = expected.holds.get(at)
      // Half of a surrogate pair waits for the other half.
      if (hold === undefined || /[\ud800-\udbff]/.test(text.charAt(at - 1))) return {}
      // For long pasts the answer may lag, and decoders retain more.
      return !expected.decodes && at - safe <= 256 ? { least: hold, most: hold } : { most: hold }
    })
    expect(step.match).toEqual(found)
    // Nothing of any match is safe, and all of a text without one is.
    if (step.match) expect(step.safeOffset).toBeLessThanOrEqual(oldest)
    else expect(step.safeOffset).toBe(text.length)
    if (round > 0) expect(step).toEqual(last)
    last = step
  }
  return chunkings
}

describe('a matcher', () => {
  it('agrees with threads that remember where they began, for thousands of ways to cut texts', () => {
    let chunkings = 0
    const numRuns = runs(40)
    fc.assert(
      fc.property(
        patternLists,
        texts,
        encodings,
        fc.nat(3),
        fc.nat(),
        (patterns, pieces, encoding, offset, seed) => {
          const secret = Buffer.from('xyz'.slice(0, offset) + patterns[0]!).toString(encoding)
          const text = [...pieces.slice(0, offset * 3), secret, ...pieces.slice(offset * 3)].join(
            '',
          )
          chunkings += compare(patterns, text, seed, 5)
          chunkings += compare(patterns, pieces.join(''), seed, 5)
        },
      ),
      { numRuns },
    )
    expect(chunkings).toBeGreaterThanOrEqual(numRuns * 10)
  })

  it('agrees with them where thousands of states are alive', () => {
    for (const [, patterns, make] of hostilePatterns()) {
      compare(patterns.slice(0, 4), make(40), 1, 2)
    }
    const wide = ['a[ab]{0,300}b[ab]{150}c\\b', '\\b(?:ab?){400}c', '[ab]{600}$']
    const [, , random] = hostilePatterns()[2]!
    compare(wide, `${random(400)} ${random(20)}`, 2, 2)
  })

  it('agrees with RE2 on plain text', () => {
    const atoms = [
      'a',
      'b',
      'c',
      '.',
      '[ab]',
      '[^b]',
      '\\d',
      '\\w',
      '\\b',
      '\\B',
      '^',
      '$',
      '-',
      'ab',
    ]
    const suffixes = ['', '', '', '*', '+', '?', '{2}', '{1,3}', '*?']
    const { tree } = fc.letrec<{ tree: string }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 3 },
        fc
          .tuple(fc.constantFrom(...atoms), fc.constantFrom(...suffixes))
          .map(([atom, suffix]) => (/^(\\[bB]|\^|\$)$/.test(atom) ? atom : atom + suffix)),
        fc.tuple(tie('tree'), tie('tree')).map(([one, other]) => `${one}${other}`),
        fc.tuple(tie('tree'), tie('tree')).map(([one, other]) => `(?:${one}|${other})`),
        fc
          .tuple(tie('tree'), fc.constantFrom('*', '+', '?'))
          .map(([one, suffix]) => `(${one})${suffix}`),
        fc
          .tuple(tie('tree'), fc.constantFrom('(?m)', '(?s)'))
          .map(([one, flag]) => `${flag}${one}`),
      ),
    }))
    const text = fc.string({
      unit: fc.constantFrom('a', 'b', 'c', '1', '-', '\n', 'A', 'B'),
      maxLength: 14,
    })
    let matches = 0
    const numRuns = runs(200)
    fc.assert(
      fc.property(tree, fc.array(text, { minLength: 4, maxLength: 4 }), (pattern, all) => {
        let matcher: PatternMatcher
        try {
          matcher = compilePatterns([pattern])
        } catch {
          // Mostly patterns that match the empty text.
          return
        }
        const reference = RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE)
        for (const one of all) {
          const expected = reference.test(one)
          if (expected) matches++
          expect(matcher.find(one) !== undefined).toBe(expected)
          const step = follow(matcher, one, [...one].keys())
          expect(step.match !== undefined).toBe(expected)
          if (!step.match) continue
          // It is a match, and none of it is safe.
          const { start, end } = step.match
          expect(reference.matcher(one).find(start)).toBe(true)
          expect(end).toBeGreaterThan(start)
          expect(step.safeOffset).toBeLessThanOrEqual(start)
        }
      }),
      { numRuns },
    )
    expect(matches).toBeGreaterThan(numRuns / 6)
  })

  it('releases nothing of a longer match when a shorter one inside it is complete', () => {
    const matcher = compilePatterns(['abcdef', 'cd'])
    for (const cuts of [[], [1, 2, 3, 4], [3]]) {
      expect(follow(matcher, 'x abcdef', cuts)).toMatchObject({
        safeOffset: 2,
        match: { pattern: 1, start: 4 },
      })
    }
  })

  it('retains the beginning of a word through any number of invisible characters', () => {
    const matcher = compilePatterns(['heron'])
    const text = `see h${'\u200b'.repeat(5_000)}eron`
    const step = follow(matcher, text, text.split('').keys(), (at) =>
      at > 4 ? { least: 4, most: 4 } : {},
    )
    expect(step).toEqual({
      safeOffset: 4,
      match: { pattern: 0, view: 'raw', start: 4, end: text.length },
    })
  })

  it('keeps pairs of surrogates together', () => {
    const matcher = compilePatterns(['🦅'])
    const scan = matcher.scan()
    expect(scan.push('an \ud83e')).toEqual({ safeOffset: 3 })
    expect(scan.push('\udd85!')).toMatchObject({ safeOffset: 3, match: { start: 3, end: 5 } })
    expect(follow(matcher, '\ud83e\ud83e\udd84\ud83e', [1, 2, 3])).toEqual({ safeOffset: 4 })
  })

  it('gives the same answer for the same text, for long matches too', () => {
    const matcher = compilePatterns(['begin.{300,}end', 'a[ab]{280}b[ab]{20}c', 'xx'])
    const random = randomNumbers(11)
    const noise = Array.from({ length: 500 }, () => (random() < 0.5 ? 'a' : 'b')).join('')
    const long = `some begin ${noise} of it.\n`
    const hit = `${long}${noise}${noise}xx`
    for (const text of [long + noise, hit]) {
      const whole = follow(matcher, text, [])
      for (let round = 0; round < runs(1); round++) {
        expect(follow(matcher, text, randomCuts(text, random))).toEqual(whole)
      }
      expect(follow(matcher, text, text.split('').keys())).toEqual(whole)
    }
  })

  it('releases a long past soon after it is over', () => {
    const matcher = compilePatterns(['a[ab]{600}c'])
    const random = randomNumbers(12)
    const noise = Array.from({ length: 2_000 }, () => (random() < 0.5 ? 'a' : 'b')).join('')
    const bounds = (at: number) => ({ least: at - (602 * (8 / 7) + 1) })
    follow(matcher, noise, noise.split('').keys(), bounds)
  })

  it('retains no more than part of a word for literals', () => {
    const words = ['blue heron', 'project falcon', 'casino']
    const matcher = compilePatterns(words)
    const text = ordinaryText(20_000, 13)
    let held = 0
    follow(matcher, text, text.split('').keys(), (at, safe) => {
      held += at - safe
      return { least: at - 4 * 'project falcon'.length }
    })
    // Long words are looked into for base64.
    expect(held / text.length).toBeLessThan(6)
  })

  it('drops its tables when they are full, and goes on', () => {
    const matcher = compilePatterns(['[ab]*a[ab]{14}c', 'ab{20}a'])
    const random = randomNumbers(14)
    const noise = Array.from({ length: 30_000 }, () => (random() < 0.5 ? 'a' : 'b')).join('')
    const text = `${noise}${'a'.repeat(15)}c`
    const found = matcher.find(text)
    expect(found).toMatchObject({ pattern: 0, start: 0, end: text.length })
    expect(follow(matcher, text, [10_000, 20_000])).toEqual({ safeOffset: 0, match: found })
  })

  it('reads a text of a million characters under hostile patterns', () => {
    for (const [, patterns, make] of hostilePatterns().slice(0, 3)) {
      const matcher = compilePatterns(patterns)
      const text = make(1 << 20)
      expect(matcher.find(text)).toBeUndefined()
      expect(matcher.find(`${text.slice(0, 5_000)} heron`)).toBeUndefined()
    }
  })
})
