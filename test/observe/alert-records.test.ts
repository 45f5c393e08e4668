/** Alerts outlive the process that raised them, and none is told twice. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { createStorage } from 'unstorage'
import { describe, expect, it, vi } from 'vitest'
import { Alerts, type Finding } from '../../src/observe/alerts.ts'
import { StoredRecords } from '../../src/state/records.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, loaded } from '../_setup.ts'
import { eventually } from '../_wait.ts'

const MINUTE = 60_000

/** Gateways with one state. Each has alerts of its own. */
function setUp() {
  const { records, stored } = watched(new StoredRecords(createStorage()))
  const running: string[] = []
  const told: string[] = []
  let now = 0
  const start = async (gateway: string, isShared = false) => {
    const alerts = new Alerts({
      log: { warn() {}, info() {} },
      events: { emit() {} },
      tell: ({ kind, state }) => void told.push(`${gateway} ${state} ${kind}`),
      wallClock: () => now,
    })
    running.push(gateway)
    const others = isShared && { running: async () => running }
    await alerts.keepIn({ records, gateway, ...others })
    const observe = async (
      kind: Finding['kind'],
      state: Finding['state'] | 'gone',
      isKnown = () => true,
    ) => {
      const finding = { kind, object: 'acme', message: 'x' }
      // The steady clock of a process that reads alerts is the real one.
      const steadyMs = performance.now() + now
      alerts.observe(state === 'gone' ? [] : [{ ...finding, state }], steadyMs, isKnown)
      await stored()
      return told.splice(0)
    }
    return { alerts, observe }
  }
  return { start, running, pass: (ms: number) => (now += ms) }
}

/** Records, and a wait until nothing is read or written and nothing follows from it. */
function watched(own: StoredRecords) {
  let running = 0
  const records = new Proxy(own, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        const made: unknown = member.apply(target, args)
        if (!(made instanceof Promise)) return made
        running++
        return made.finally(() => running--)
      }
    },
  })
  const stored = async () => {
    for (let quiet = 0; quiet < 3; quiet = running === 0 ? quiet + 1 : 0) await turn()
  }
  return { records, stored }
}

describe('alerts of one gateway', () => {
  it('stay with their time and their mute after a restart, and end by a look of the new process', async () => {
    const { start, pass } = setUp()
    const first = await start('gw_1')
    pass(1000)
    expect(await first.observe('balance.low', 'wrong')).toEqual(['gw_1 raised balance.low'])
    const [{ id } = { id: '' }] = first.alerts.active
    first.alerts.mute(id, 5 * MINUTE)
    await first.observe('balance.low', 'wrong')
    pass(MINUTE)
    const second = await start('gw_2')
    expect(second.alerts.active).toEqual(first.alerts.active)
    expect(second.alerts.active).toMatchObject([{ raisedAt: 1000, mutedUntil: 5 * MINUTE }])
    // Nothing was looked at yet.
    expect(await second.observe('balance.low', 'gone', () => false)).toEqual([])
    expect(second.alerts.active).toHaveLength(1)
    expect(await second.observe('balance.low', 'between')).toEqual([])
    pass(5 * MINUTE)
    expect(await second.observe('balance.low', 'well')).toEqual(['gw_2 ended balance.low'])
    const third = await start('gw_3')
    expect([third.alerts.active, third.alerts.ended.length]).toEqual([[], 1])
  })

  it('are right at each moment, and told once a minute at most', async () => {
    const { start, pass } = setUp()
    const { alerts, observe } = await start('gw_1')
    expect(await observe('balance.low', 'wrong')).toEqual(['gw_1 raised balance.low'])
    pass(10_000)
    expect(await observe('balance.low', 'well')).toEqual([])
    expect((await start('gw_2')).alerts.active).toEqual([])
    pass(10_000)
    expect(await observe('balance.low', 'wrong')).toEqual([])
    expect(alerts.active).toHaveLength(1)
    expect((await start('gw_3')).alerts.active).toHaveLength(1)
    pass(MINUTE)
    expect(await observe('balance.low', 'wrong')).toEqual([])
    expect(await observe('balance.low', 'well')).toEqual(['gw_1 ended balance.low'])
  })

  it('whose end was not told are not raised again, when they are wrong after a restart', async () => {
    const { start, pass } = setUp()
    const first = await start('gw_1')
    await first.observe('balance.low', 'wrong')
    pass(1000)
    await first.observe('balance.low', 'well')
    const second = await start('gw_2')
    pass(MINUTE)
    expect(second.alerts.active).toEqual([])
    expect(await second.observe('balance.low', 'wrong')).toEqual([])
  })
})

describe('alerts of gateways with one state', () => {
  it('about what they share are told by one of them', async () => {
    const { start, pass } = setUp()
    const [one, two] = [await start('gw_1', true), await start('gw_2', true)]
    expect(await one.observe('balance.low', 'wrong')).toEqual(['gw_1 raised balance.low'])
    expect(await two.observe('balance.low', 'wrong')).toEqual([])
    pass(MINUTE)
    expect(await two.observe('balance.low', 'well')).toEqual(['gw_2 ended balance.low'])
    expect(await one.observe('balance.low', 'well')).toEqual([])
    pass(MINUTE)
    expect(await one.observe('balance.low', 'wrong')).toEqual(['gw_1 raised balance.low'])
  })

  it('about a process are its own, and end when it is gone', async () => {
    const { start, running } = setUp()
    const [one, two] = [await start('gw_1', true), await start('gw_2', true)]
    expect(await one.observe('disk.low', 'wrong')).toEqual(['gw_1 raised disk.low'])
    expect(await two.observe('disk.low', 'wrong')).toEqual(['gw_2 raised disk.low'])
    running.splice(0, 1)
    const { alerts, observe } = await start('gw_3', true)
    expect(alerts.ended).toMatchObject([{ message: 'x (the gateway is gone)' }])
    expect(await observe('balance.low', 'gone')).toEqual([])
    expect((await start('gw_4', true)).alerts.active).toEqual([])
  })
})

describe('a gateway', () => {
  it('has its seven alerts after a restart, and tells none again', async () => {
    const vendor = createServer((_request, response) => response.writeHead(401).end('{}'))
    await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve))
    const { port } = vendor.address() as AddressInfo
    const baseURL = `http://127.0.0.1:${port}/v1`
    const path = await folder({})
    const open = (isFirst = false) =>
      createTestGateway(
        loaded({
          state: { driver: 'file', path },
          providers: { house: { use: 'openai-compatible', options: { baseURL, apiKey: 'sk' } } },
          models: {
            'house/m': {
              pricing: { prompt: '0.000001', completion: '0.000002' },
              deployments: [{ provider: 'house', model: 'm' }],
            },
          },
        }),
        undefined,
        isFirst ? {} : { withAccount: false },
      )
    const first = await open(true)
    const { accounts, ledger } = first.gateway.runtime
    await first.newAccount('poor', '0.5')
    await first.newAccount('poorer', '0.4')
    const day = 86_400_000
    const expiresAt = Date.now() + day
    await first.newKey({ account: 'poor', spendCap: { usd: '0', scope: 'day' }, expiresAt })
    await first.newKey({ account: 'poorer', expiresAt })
    expect((await first.chat({ ...hello, model: 'house/m' })).status).toBe(502)
    const kinds = (t: typeof first) => t.gateway.runtime.alerts.active.map(({ kind }) => kind)
    const SEVEN = [
      'balance.low',
      'balance.low',
      'cap.100',
      'cap.80',
      'key.expiring',
      'key.expiring',
      'model.down',
    ]
    await eventually(() => expect(kinds(first).toSorted()).toEqual(SEVEN))
    await eventually(() => expect(toldIn(first.logged)).toHaveLength(7))
    const before = first.gateway.runtime.alerts.active
    expect(accounts && ledger).toBeTruthy()
    await first.close()

    const second = await open()
    expect(second.gateway.runtime.alerts.active).toEqual(before)
    await eventually(() => expect(second.gateway.runtime.spending.looked.complete).toBe(true))
    const looks = vi.spyOn(second.gateway.runtime.alerts, 'observe')
    await eventually(() => expect(looks.mock.calls.length).toBeGreaterThan(2))
    expect(second.gateway.runtime.alerts.active).toEqual(before)
    expect(toldIn(second.logged)).toEqual([])
    await second.close()
    await new Promise((resolve) => vendor.close(resolve))
  })

  it('says that it still looks until every account was looked at, and sees a change at once', async () => {
    await using t = await createTestGateway()
    const { spending, alerts } = t.gateway.runtime
    for (let i = 0; i < 20; i++) await t.newAccount(`a${i}`, '5')
    await eventually(() => expect(spending.looked).toMatchObject({ complete: true }))
    await t.gateway.runtime.ledger.book({
      kind: 'adjust',
      account: 'a1',
      amount: -4_700_000_000_000n,
      reference: 'r',
      note: 'test',
    })
    spending.touched('a1')
    await eventually(() => expect(alerts.isActive('balance.low', 'a1')).toBe(true))
  })
})

const toldIn = (lines: readonly string[]) => lines.filter((line) => /alert \w+\.\w+/.test(line))
