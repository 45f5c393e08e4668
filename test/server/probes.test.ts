import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { BodyBudget } from '../../src/gateway/body-budget.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { createHandler } from '../../src/server/handler.ts'
import type { Reason } from '../../src/server/siblings.ts'
import { createTestGateway, send } from '../_setup.ts'

beforeEach(() => void vi.useFakeTimers({ now: 0, toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

it('a heap that is nearly full for more than ten seconds makes a gateway not ready', async () => {
  const t = await createTestGateway()
  onTestFinished(() => t.close())
  const heap = { used_heap_size: 86, heap_size_limit: 100 }
  const bodies = new BodyBudget(
    () => 1e9,
    () => {},
    () => heap,
  )
  const gateway = Object.create(t.gateway, { bodies: { value: bodies } }) as Gateway
  const server = createServer(createHandler(gateway, () => false))
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const asked = async (path: string) => {
    const { status, json } = await send(`http://127.0.0.1:${port}${path}`, 'GET', undefined, {})
    return [status, json.reasons]
  }

  bodies.tick()
  vi.advanceTimersByTime(10_000)
  bodies.tick()
  expect(await asked('/readyz')).toEqual([200, []])
  vi.advanceTimersByTime(1)
  expect(await asked('/readyz')).toEqual([503, ['memory']])
  expect(await asked('/livez')).toEqual([200, []])
  heap.used_heap_size = 74
  bodies.tick()
  expect(await asked('/readyz')).toEqual([200, []])
})

it('a gateway is not ready while another process of its address is not', async () => {
  const t = await createTestGateway()
  onTestFinished(() => t.close())
  const siblings = { reasons: ['ledger'] as Reason[], metrics: async () => [] }
  const server = createServer(createHandler(t.gateway, () => false, siblings))
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const asked = async (path: string) => {
    const { status, json } = await send(`http://127.0.0.1:${port}${path}`, 'GET', undefined, {})
    return [status, json.reasons]
  }
  expect(await asked('/readyz')).toEqual([503, ['ledger']])
  expect(await asked('/livez')).toEqual([200, []])
  siblings.reasons = []
  expect(await asked('/readyz')).toEqual([200, []])
})
