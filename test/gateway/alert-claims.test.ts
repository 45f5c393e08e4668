/** An alert about what gateways share is told by one of them. */
import { createStorage } from 'unstorage'
import { expect, it } from 'vitest'
import { AlertClaims } from '../../src/gateway/sharing.ts'
import { Alerts, type Finding } from '../../src/observe/alerts.ts'
import { StoredRecords } from '../../src/state/records.ts'

it('is told by one gateway when raised and when ended, and again where that one runs no more', async () => {
  const records = new StoredRecords(createStorage())
  const running = ['gw_1', 'gw_2']
  const told: string[] = []
  const list = async () => running.map((id) => ({ id })) as never
  const start = (gatewayId: string) => {
    const claims = new AlertClaims({ records, instances: { list }, gatewayId })
    const pending: Promise<unknown>[] = []
    const alerts = new Alerts({
      log: { warn() {}, info() {} },
      events: { emit() {} },
      tell: ({ kind, state }) => void told.push(`${gatewayId} ${state} ${kind}`),
      claim(id, state) {
        const claimed = claims.claim(id, state)
        pending.push(claimed)
        return claimed
      },
    })
    return async (kind: Finding['kind'], state: Finding['state'], now: number) => {
      alerts.observe([{ kind, object: 'acme', state, message: 'x' }], now)
      await Promise.all(pending)
      return told.splice(0)
    }
  }
  const [one, two] = [start('gw_1'), start('gw_2')]
  expect(await one('balance.low', 'wrong', 0)).toEqual(['gw_1 raised balance.low'])
  expect(await two('balance.low', 'wrong', 1)).toEqual([])
  expect(await two('balance.low', 'well', 60_001)).toEqual(['gw_2 ended balance.low'])
  expect(await one('balance.low', 'well', 60_002)).toEqual([])
  expect(await one('balance.low', 'wrong', 120_002)).toEqual(['gw_1 raised balance.low'])
  running.shift()
  expect(await two('balance.low', 'wrong', 120_003)).toEqual(['gw_2 raised balance.low'])
  // Each process has its own.
  const [three, four] = [start('gw_3'), start('gw_4')]
  expect(await three('disk.low', 'wrong', 0)).toEqual(['gw_3 raised disk.low'])
  expect(await four('disk.low', 'wrong', 0)).toEqual(['gw_4 raised disk.low'])
})
