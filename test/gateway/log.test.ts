/** Lines of the log: one form, one line for each error, and bounds on equal ones. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ConfigError, Unavailable } from '../../src/errors/errors.ts'
import { createLog } from '../../src/gateway/log.ts'
import { logEvent } from '../../src/observe/events.ts'

const MINUTE_MS = 60_000

let written: string

beforeEach(() => {
  written = ''
  vi.useFakeTimers({ now: Date.parse('2026-08-01T10:21:07.123Z') })
  for (const stream of [process.stdout, process.stderr]) {
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      written += String(text)
      return true
    })
  }
})

afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

function logOf(format: 'pretty' | 'json' = 'pretty', level = 'info') {
  return createLog({ config: { log: { format, level } } } as never)
}

function lines(): string[] {
  return written.trimEnd().split('\n')
}

it('a line has its time in UTC, its level if it is not info, and its text', () => {
  const log = logOf()
  log.info('Redis is back')
  log.warn('the connection to Redis is lost')
  log.withTag('acme').error('no words')
  expect(lines()).toEqual([
    '10:21:07.123 Redis is back',
    '10:21:07.123 warn the connection to Redis is lost',
    '10:21:07.123 error acme: no words',
  ])
})

it('an error of a known kind is one line with its causes; any other one has its place too', () => {
  const log = logOf()
  const cause = new Error('connect ECONNREFUSED 10.0.0.1:6379')
  log.warn('sharing failed', new Unavailable('service_unavailable', 'Redis is away.', { cause }))
  log.error('not read', new ConfigError('gateway.yaml', [{ path: 'a', message: 'unknown key' }]))
  log.error('not opened', Object.assign(new Error('no such file'), { code: 'ENOENT' }))
  log.error('internal error', new TypeError('x is not a function'))
  const [away, config, system, fault, ...rest] = lines()
  expect(away).toBe(`10:21:07.123 warn sharing failed: Redis is away.: ${cause.message}`)
  expect(config).toBe('10:21:07.123 error not read: gateway.yaml is not valid: | a  unknown key')
  expect(system).toBe('10:21:07.123 error not opened: no such file')
  expect(fault).toMatch(
    /error internal error: x is not a function \| at .*log\.test\.ts\S*:\d+:\d+/,
  )
  expect(rest).toEqual([])
})

it('as JSON, an error has its stack where its kind is unforeseen or details are wanted', () => {
  const away = new Unavailable('service_unavailable', 'Redis is away.')
  for (const [level, has] of [
    ['info', false],
    ['debug', true],
  ] as const) {
    written = ''
    const log = logOf('json', level)
    log.error('a', away)
    log.error('b', new Error('c'))
    const [known, other] = lines().map((line) => JSON.parse(line))
    expect(known).toMatchObject({ event: 'message', level: 'error', message: 'a: Redis is away.' })
    expect('stack' in known.error).toBe(has)
    expect(other.error.stack).toContain('log.test.ts')
  }
})

it('ten equal lines a minute are written, fewer about a state that is away, and their number', () => {
  const log = logOf()
  const away = new Unavailable('service_unavailable', 'Redis is away.')
  for (let second = 0; second < 600; second++) {
    log.warn('the connection to Redis is lost')
    log.error(`req_${second}: waiving its charge failed`, away)
    log.error(`settlement not booked: ${second}`)
    vi.advanceTimersByTime(1000)
  }
  vi.advanceTimersByTime(MINUTE_MS)
  const count = (text: string) => lines().filter((line) => line.includes(text)).length
  expect(count('settlement not booked')).toBe(600)
  expect(count('more within a minute')).toBe(10)
  expect(count('the connection to Redis is lost')).toBe(110)
  expect(count('waiving its charge failed')).toBe(5)
  expect(written).toContain(
    'req_480: waiving its charge failed: Redis is away. (119 more were not logged)',
  )
})

it('events bound themselves', () => {
  const log = logOf('json')
  for (let i = 0; i < 30; i++) {
    logEvent(log, 'info', { event: 'auth.failed', message: 'no valid key', members: { i } })
  }
  expect(lines()).toHaveLength(30)
})
