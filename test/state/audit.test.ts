import { beforeAll, describe, expect, it } from 'vitest'
import { changesBetween } from '../../src/server/admin/audit.ts'
import { auditConformance } from '../conformance/audit.ts'
import { installed, needRedis, open as openRedis, sharedServer } from './redis/_engine.ts'
import type { RedisServer } from './redis/_redis.ts'
import { open, openInMemory } from './sqlite/_engine.ts'

auditConformance('memory', () => openInMemory().audit)
auditConformance('file', async () => (await open()).audit)

describe('with Redis', () => {
  let server: RedisServer
  needRedis()
  beforeAll(async () => {
    if (installed) server = await sharedServer()
  })
  auditConformance('redis', async () => {
    await server.ask((client) => client.flushall())
    return (await openRedis(server.url)).audit
  })
})

it('a folder that is opened again has its audit log', async () => {
  const first = await open()
  await first.audit.add({ actor: 'admin', address: '::1', action: 'a', object: 'b', changes: {} })
  const rows = await first.audit.list({}, undefined, 1)
  await first.ledger.close()
  const second = await open(first.path)
  expect(await second.audit.list({}, undefined, 10)).toEqual(rows)
})

it('changes are the members that differ, each by its path', () => {
  const before = { name: 'a', cap: { usd: '5', scope: 'day' }, models: ['x'], rpm: null, same: 1 }
  const after = { name: 'b', cap: { usd: '6', scope: 'day' }, models: ['x', 'y'], rpm: 5, same: 1 }
  expect(changesBetween(before, after)).toEqual({
    name: { before: 'a', after: 'b' },
    'cap.usd': { before: '5', after: '6' },
    models: { before: ['x'], after: ['x', 'y'] },
    rpm: { after: 5 },
  })
  expect(changesBetween(before, { ...before, cap: null, rpm: undefined })).toEqual({
    cap: { before: { usd: '5', scope: 'day' } },
  })
})
