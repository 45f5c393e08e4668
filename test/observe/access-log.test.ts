import { describe, expect, it } from 'vitest'
import { Bill } from '../../src/money/money.ts'
import { AccessLog } from '../../src/observe/access-log.ts'
import type { CallRecord } from '../../src/observe/record.ts'

const record: CallRecord = {
  at: Date.UTC(2026, 7, 1, 10, 21, 7, 123),
  requestId: 'req_01J00000000000000000000000',
  method: 'POST',
  path: '/v1/chat/completions',
  status: 200,
  outcome: 'completed',
  ms: 1234,
  account: 'acct',
  key: 'laptop',
  model: 'acme/swift',
  deployment: 'mock/swift',
  usage: { promptTokens: 812, completionTokens: 220 },
  bill: new Bill(855_000_000n, []),
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
    log.add({ ...record, account: undefined, key: undefined })
    log.flush()
    const line = JSON.parse(writes[0]!)
    expect(line).toMatchObject({ at: '2026-08-01T10:21:07.123Z', cost: '0.000855', ms: 1234 })
    expect(line).not.toHaveProperty('account')
  })

  it('shows no text of a client, not even as a retry count', () => {
    for (const format of ['json', 'pretty'] as const) {
      const { log, writes } = openLog(format)
      log.add({ ...record, retryCount: 'my secret' })
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

  it('has the error code, and keeps its columns without a status', () => {
    const { log, writes } = openLog('pretty')
    log.add({
      ...record,
      status: 429,
      outcome: 'failed',
      code: 'rate_limited',
      ms: 2,
      retryCount: '0',
    })
    log.add({ ...record, status: 0, outcome: 'cancelled', ms: 61_500, retryCount: '2' })
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
