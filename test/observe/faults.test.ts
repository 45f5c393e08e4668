import { expect, it } from 'vitest'
import { Faults } from '../../src/observe/faults.ts'

/** Faults of a plugin in `/plugins/p.js`, by a clock of the test. */
function setUp(write: (line: string) => void = () => {}) {
  const lines: string[] = []
  let now = 0
  const say = (said: unknown) => {
    const line = typeof said === 'string' ? said : (said as { readonly message: string }).message
    write(line)
    lines.push(line)
  }
  const faults = new Faults({
    log: { error: say, warn: say, debug: () => {} },
    metrics: { faulted: () => {} },
    clean: (text) => text,
    now: () => now,
  })
  faults.own('/plugins', 'stray')
  const report = (message: string) => {
    const error = new Error(message)
    error.stack = `Error: ${message}\n    at late (/plugins/p.js:1:2)`
    return faults.report(error, 'unhandledRejection')
  }
  const pass = (ms: number) => {
    now += ms
    faults.tick()
  }
  return { lines, report, pass }
}

it('ten lines a minute are logged for each message of a plugin, and the number of the others', () => {
  const { lines, report, pass } = setUp()
  for (let i = 0; i < 25; i++) report('a flood')
  report('something else')
  expect(lines.filter((line) => line.includes('a flood at /plugins/p.js:1:2'))).toHaveLength(10)
  expect(lines.at(-1)).toContain('something else')
  pass(59_000)
  expect(lines).toHaveLength(11)
  pass(1000)
  expect(lines.slice(11)).toEqual([
    'unhandledRejection plugin:stray: Error: a flood (15 more within a minute were not logged)',
  ])
  report('a flood')
  expect(lines).toHaveLength(13)
})

it('messages that all differ have a bound too', () => {
  const { lines, report, pass } = setUp()
  for (let i = 0; i < 5000; i++) report(`call ${i}`)
  expect(lines).toHaveLength(110)
  pass(60_000)
  expect(lines.slice(110)).toEqual(['other messages (4890 more within a minute were not logged)'])
})

it('a log that cannot be written changes nothing', () => {
  const { report, pass } = setUp(() => {
    throw new Error('the disk is full')
  })
  for (let i = 0; i < 25; i++) expect(report('a flood').action).toBe('continue')
  expect(() => pass(60_000)).not.toThrow()
})
