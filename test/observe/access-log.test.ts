import { describe, expect, it } from 'vitest'
import { AccessLog } from '../../src/observe/access-log.ts'
import type { KnownCall } from '../../src/observe/record.ts'
import { retriesOf } from '../../src/pipeline/call-record.ts'

const record: KnownCall = {
  id: 'req_01J00000000000000000000000',
  at: '2026-08-01T10:21:07.123Z',
  method: 'POST',
  endpoint: '/v1/chat/completions',
  status: 200,
  outcome: 'completed',
  times: { total_ms: 1234 },
  account_id: 'acct',
  key_id: 'laptop',
  model: 'acme/swift',
  deployment: 'mock/swift',
  usage: { prompt_tokens: 812, completion_tokens: 220 },
  cost_usd: '0.000855',
}

function openLog(format: 'pretty' | 'json') {
  const writes: string[] = []
  return { writes, log: new AccessLog({ format, write: (text) => writes.push(text) }) }
}

describe('the access log', () => {
  it('writes nothing before a flush, then everything at once', () => {
    const { log, writes } = openLog('json')
    log.add(record)
    log.add({ ...record, status: 502, outcome: 'failed' })
    expect(writes).toEqual([])
    log.flush()
    expect(writes).toHaveLength(1)
    expect(
      writes[0]!
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).status),
    ).toEqual([200, 502])
  })

  it('makes no empty write, and writes no line twice', () => {
    const { log, writes } = openLog('json')
    log.flush()
    log.add(record)
    log.flush()
    log.flush()
    expect(writes).toHaveLength(1)
  })

  it('throws nothing where it cannot be written', () => {
    const log = new AccessLog({
      format: 'json',
      write: () => {
        throw new Error('the disk is full')
      },
    })
    log.add(record)
    expect(() => log.flush()).not.toThrow()
  })

  it('does not let a batch grow past 64 KiB and a line', () => {
    const { log, writes } = openLog('json')
    for (let i = 0; i < 1000; i++) log.add(record)
    log.flush()
    expect(writes.length).toBeGreaterThan(1)
    for (const text of writes) expect(text.length).toBeLessThan(65_536 + 500)
    expect(writes.join('').trimEnd().split('\n')).toHaveLength(1000)
  })

  it('has ISO times and exact costs in JSON, and leaves out unknown members', () => {
    const { log, writes } = openLog('json')
    log.add({ ...record, account_id: undefined, key_id: undefined })
    log.flush()
    const line = JSON.parse(writes[0]!)
    expect(line).toMatchObject({ at: '2026-08-01T10:21:07.123Z', cost: '0.000855', ms: 1234 })
    expect(line).not.toHaveProperty('account')
  })

  it('shows no text of a client, not even as a retry count', () => {
    for (const format of ['json', 'pretty'] as const) {
      const { log, writes } = openLog(format)
      log.add({ ...record, retry: retriesOf('my secret') })
      log.flush()
      expect(writes[0]).not.toContain('secret')
    }
  })

  it('is one readable line in pretty form', () => {
    const { log, writes } = openLog('pretty')
    log.add(record)
    log.flush()
    expect(writes[0]).toBe(
      '10:21:07.123 200 completed    1.234s POST /v1/chat/completions acme/swift by mock/swift ' +
        '812+220 tokens $0.000855 acct/laptop req_01J00000000000000000000000\n',
    )
  })

  it('says in the line of a call what the guards did', () => {
    const { log, writes } = openLog('pretty')
    const guard = { outcome: 'blocked', rules: ['deny:code', 'bannedPatterns'] }
    log.add({ ...record, guard })
    log.flush()
    expect(writes[0]).toContain(' by mock/swift guard blocked deny:code,bannedPatterns 812+220 ')
  })

  it('has the error code, and keeps its columns without a status', () => {
    const { log, writes } = openLog('pretty')
    log.add({
      ...record,
      status: 429,
      outcome: 'failed',
      code: 'rate_limited',
      times: { total_ms: 2 },
      retry: 0,
    })
    log.add({ ...record, status: 0, outcome: 'cancelled', times: { total_ms: 61_500 }, retry: 2 })
    log.flush()
    const [first, second] = writes[0]!.split('\n') as [string, string]
    expect(first).toContain(' 429 failed ')
    expect(first).toContain(' rate_limited ')
    expect(first).not.toContain('retry')
    expect(second).toContain(' --- cancelled ')
    expect(second).toContain(' retry 2 ')
    expect(first.indexOf('POST')).toBe(second.indexOf('POST'))
  })
})
