/** Most of an ordinary text is not read at all, once that pays. Nobody may be able to tell. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { buildMachines, parsePattern, type Machines } from '../../src/patterns/build.ts'
import { Glance, isSuspect } from '../../src/patterns/search.ts'
import { sifter } from '../../src/patterns/sieve.ts'
import { PatternScan } from '../../src/patterns/scan.ts'
import { atOnce } from '../../src/patterns/time-slice.ts'
import { LITERALS, ordinaryText, PATTERNS } from '../guard/texts.ts'

const WORDS = ordinaryText(200_000, 11)

/** With a sieve, if there is any for these patterns. */
function machinesOf(patterns: readonly string[]): Machines {
  const machines = atOnce(buildMachines(patterns.map((one) => atOnce(parsePattern(one)))))
  atOnce(machines.sieve.make())
  return machines
}

/** What is found character by character. */
function isHit(machines: Machines, text: string): boolean {
  const scan = new PatternScan(machines)
  return 'match' in scan.push(text) || 'match' in scan.end()
}

const DISGUISES: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => text.replaceAll(' ', '  \n\t '),
  (text) => [...text.replaceAll(' ', '')].join(' '),
  (text) => [...text.replaceAll(' ', '')].join(' . '),
  (text) => text.replace(/(?<=^.{3})/u, '\u200b'),
  (text) => text.replace(/(?<=^.{3})/u, '\0'),
  (text) => text.replaceAll('o', '0').replaceAll('i', '1').replaceAll('a', '@'),
  (text) => text.replaceAll('o', '\u043e').replaceAll('a', '\u0430'),
  (text) => [...text].toReversed().join(''),
  (text) => Buffer.from(text).toString('base64'),
  (text) => Buffer.from(` ${text}`).toString('base64url'),
  (text) => Buffer.from(text).toString('hex'),
  (text) => [...Buffer.from(text)].map((byte) => byte.toString(16)).join(' '),
  (text) => text.replace(/[aeiou]/g, (one) => `%${one.charCodeAt(0).toString(16)}`),
  (text) => text.replace(/[aeiou]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
]

it('finds a literal in every disguise, wherever in a text it stands', () => {
  const literals = ['blue heron', 'acquisition', 'casino']
  const machines = machinesOf(literals)
  const glance = new Glance(machines)
  expect(machines.sieve.tables).toBeDefined()
  for (const literal of literals) {
    for (const disguise of DISGUISES) {
      const secret = disguise(literal)
      for (let before = 0; before <= 50; before++) {
        for (const after of [0, 5, 40]) {
          const text = `${WORDS.slice(0, before)} ${secret} ${WORDS.slice(0, after)}`
          expect(atOnce(isSuspect(machines, text)), text).toBe(true)
          expect(glance.isClean(text), text).toBe(false)
        }
      }
    }
  }
})

it('finds what is short at the very end of a text', () => {
  const machines = machinesOf(['qzx'])
  const glance = new Glance(machines)
  expect(machines.sieve.tables).toBeDefined()
  for (let before = 0; before <= 50; before++) {
    const text = `${'word '.repeat(10).slice(0, before)} qzx`
    expect(glance.isClean(text), text).toBe(false)
    expect(atOnce(isSuspect(machines, text)), text).toBe(true)
    expect(atOnce(isSuspect(machines, 'word '.repeat(8_000) + text)), text).toBe(true)
  }
})

it('finds what is hidden in either of two runs side by side', () => {
  const hidden = Buffer.from('casino').toString('base64')
  for (const other of ['Wrisalary', 'temperature', 'department']) {
    for (const two of [`${hidden} ${other}`, `${other} ${hidden}`]) {
      for (let before = 0; before < 16; before++) {
        const text = `${'word '.repeat(4).slice(0, before)} ${two} word word word word`
        // It knows nothing of what it reads yet.
        const machines = machinesOf(['casino'])
        expect(new Glance(machines).isClean(text), text).toBe(false)
        expect(atOnce(isSuspect(machines, text)), text).toBe(true)
      }
    }
  }
})

it('finds whatever is found character by character', () => {
  let [hits, sifted] = [0, 0]
  const piece = fc.oneof(
    fc.constantFrom(
      ...'word the casino nuclear blue heron, salary lottery 12 ab cd face'.split(' '),
    ),
    fc.constantFrom(' ', '. ', '\n', '-', '4', '%63', '\u200b', '\0', 'é', '日', '🦅', '\ud83e'),
    fc.constantFrom(...DISGUISES).map((disguise) => disguise('casino')),
  )
  fc.assert(
    fc.property(
      fc.uniqueArray(
        fc.constantFrom(...LITERALS.slice(0, 16), ...PATTERNS.slice(24), 'cd', 'é', ' ab'),
        {
          minLength: 1,
          maxLength: 6,
        },
      ),
      fc.array(fc.tuple(fc.nat(100_000), fc.nat(70), piece), { maxLength: 6 }),
      (patterns, parts) => {
        const machines = machinesOf([...new Set(['casino', ...patterns])])
        if (machines.sieve.tables) sifted++
        const text = parts
          .map(([from, length, middle]) => `${WORDS.slice(from, from + length)}${middle}`)
          .join(' ')
        if (!isHit(machines, text)) return
        hits++
        expect(atOnce(isSuspect(machines, text))).toBe(true)
        expect(new Glance(machines).isClean(text)).toBe(false)
      },
    ),
    { numRuns: 300 },
  )
  expect(hits).toBeGreaterThan(50)
  expect(sifted).toBeGreaterThan(50)
})

it('passes over short words without a stop', () => {
  const { tables } = machinesOf(LITERALS.slice(0, 8)).sieve
  const units = Uint16Array.from('The word is out. ', (char) => char.charCodeAt(0))
  const text = Uint16Array.from({ length: 170 }, (_, at) => units[at % units.length]!)
  const before = { run: 0, isRow: false }
  sifter!.load(tables!, text, 0, 170)
  // Whole blocks of sixteen, and the rest where nothing follows.
  expect(sifter!.pass(0, 170, false, before)).toBe(160)
  expect(sifter!.pass(0, 170, true, before)).toBeGreaterThan(170)
})

it('lets ordinary text pass', () => {
  const machines = machinesOf(LITERALS.slice(0, 8))
  expect(machines.sieve.tables).toBeDefined()
  const glance = new Glance(machines)
  for (let at = 0; at < WORDS.length; at += 4_000) {
    const text = WORDS.slice(at, at + 4_000)
    // What it does not know yet of its automaton it leaves to others to find out.
    expect(atOnce(isSuspect(machines, text)), text).toBe(false)
    expect(glance.isClean(text), text).toBe(true)
  }
})

it('is there for a few patterns once there was much text, and never for many', () => {
  for (const [count, pays] of [
    [8, true],
    [32, false],
  ] as const) {
    const literals = LITERALS.slice(0, count)
    const machines = atOnce(buildMachines(literals.map((one) => atOnce(parsePattern(one)))))
    expect(atOnce(isSuspect(machines, WORDS))).toBe(false)
    expect(machines.sieve.tables).toBeUndefined()
    expect(atOnce(isSuspect(machines, WORDS))).toBe(false)
    expect(machines.sieve.tables !== undefined).toBe(pays)
  }
})

it('does not mix up texts that are looked at in turns', () => {
  const [one, other] = [machinesOf(['blue heron']), machinesOf(['casino'])]
  const glance = new Glance(one)
  const long = WORDS.slice(0, 90_000)
  const looks = [
    [isSuspect(one, `${long}blue heron`), true],
    [isSuspect(other, `${long}blue heron`), false],
    [isSuspect(one, `${long}casino`), false],
    [isSuspect(other, `${long}casino${long}`), true],
  ] as const
  const running = new Set(looks)
  while (running.size > 0) {
    for (const look of running) {
      const { done, value } = look[0].next()
      expect(glance.isClean(`${WORDS.slice(0, 200)}blue heron`)).toBe(false)
      if (!done) continue
      expect(value).toBe(look[1])
      running.delete(look)
    }
  }
})
