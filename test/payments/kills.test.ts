/** What is left of an order and of a webhook where the gateway ended between two steps: nothing is lost, nothing is booked twice. */
import { afterEach, describe, expect, it } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { formatPico } from '../../src/money/money.ts'
import type { PaymentEvent } from '../../src/plugin.ts'
import { folder } from '../_folder.ts'
import { createGatewayBeside, createTestGateway, MOCK_CONFIG } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { installed, sharedServer } from '../state/redis/_engine.ts'
import { deliver, fakeProvider, paid, paymentsOf, reversal } from './_provider.ts'

const WRITES = ['put', 'create', 'replace', 'add', 'drop', 'del'] as const

/**
 * Lets a number of writes through; from then on each fails, as after a kill. A booking is two steps: it may be made, and its answer
 * lost. @returns ends that
 */
function killAfter({ runtime }: Gateway, most: number) {
  const { records, ledger } = runtime
  let made = 0
  const step = () => {
    if (made >= most) throw new Error('killed')
    made++
  }
  for (const name of WRITES) {
    const own = records[name] as (...args: unknown[]) => unknown
    Object.assign(records, {
      [name]: (...args: unknown[]) => {
        if (String(args[0]).startsWith('payment')) step()
        return own.apply(records, args)
      },
    })
  }
  const book = ledger.book.bind(ledger)
  ledger.book = async (booking) => {
    step()
    const settled = await book(booking)
    step()
    return settled
  }
  return () => {
    for (const name of WRITES) delete (records as any)[name]
    ledger.book = book
  }
}

const close: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const one of close.splice(0)) await one()
})

const engines: [string, () => Promise<UserConfig['state']>, boolean][] = [
  ['SQLite', async () => ({ driver: 'file', path: await folder({}) }), true],
  [
    'Redis',
    async () => ({ driver: 'redis', url: (await sharedServer()).url, outbox: await folder({}) }),
    installed,
  ],
]

describe.each(engines)('on %s, a gateway that is killed', (_, stateOf, isInstalled) => {
  it.skipIf(!isInstalled)('after any step books what was paid and taken back, once', async () => {
    const fake = fakeProvider()
    const config = { ...MOCK_CONFIG, ...paymentsOf(fake), state: await stateOf() }
    const first = await createTestGateway(config)
    const { secret } = first.key
    const order = async ({ ask }: Pick<typeof first, 'ask'>) =>
      (await ask('POST', '/v1/key/checkout', { key: secret, body: { usd: '25' } })).json.data
        .reference as string
    const balance = async ({ gateway }: Pick<typeof first, 'gateway'>) =>
      formatPico((await gateway.runtime.ledger.account('acme')).balance)
    let t = first
    close.push(() => t.close())
    let expected = 100
    let steps = 0
    for (let isWhole = false; !isWhole; steps++) {
      const reference = await order(t)
      const events = [
        reversal('refunded', reference, '2.30', `re_${reference}`),
        paid(reference),
        reversal('refund_failed', reference, '2.30', `re_${reference}`),
        reversal('disputed', reference, '4.60', `dp_${reference}`),
      ]
      const end = killAfter(t.gateway, steps)
      const { status } = await deliver(t.url, events)
      isWhole = status === 200
      end()
      // The provider delivers again; for every other one it does not, and the gateway asks.
      fake.found.set(`page_${reference}`, events)
      if (steps % 2 === 1) await t.gateway.runtime.payments.reconcile(Date.now() + 11 * 60_000)
      else {
        // Where the ledger did not answer in time, it delivers once more.
        await eventually(async () => expect((await deliver(t.url, events)).status).toBe(200))
      }
      expected += 20
      expect(await balance(t), `after ${steps} steps`).toBe(String(expected))
    }
    expect(steps).toBeGreaterThan(15)
    await t.close()
    t = await createTestGateway(config, undefined, { withAccount: false })
    expect(await balance(t)).toBe(String(expected))
    expect(await t.gateway.runtime.ledger.verify()).toEqual([])
  })
})

describe.skipIf(!installed)('several gateways on one Redis', () => {
  it('book each payment once, whatever each of them is told, and ask for an order once', async () => {
    const fake = fakeProvider()
    const { url } = await sharedServer()
    const configOf = async () => ({
      ...MOCK_CONFIG,
      ...paymentsOf(fake, { max: '1000' }),
      state: { driver: 'redis' as const, url, outbox: await folder({}) },
    })
    const first = await createTestGateway(await configOf())
    const all = [
      first,
      await createGatewayBeside(await configOf()),
      await createGatewayBeside(await configOf()),
    ]
    close.push(...all.map((one) => () => one.close()))
    const { data } = (await first.ask('POST', '/v1/key/checkout', { body: { usd: '25' } })).json
    const { reference } = data as { reference: string }
    await Promise.all(
      all.map(({ gateway }) => gateway.runtime.payments.reconcile(Date.now() + 11 * 60_000)),
    )
    expect(fake.asked).toHaveLength(1)
    const facts: PaymentEvent[] = [
      paid(reference),
      reversal('refunded', reference, '2.30'),
      reversal('disputed', reference),
      reversal('dispute_won', reference),
      paid('nowhere', 'pi_nowhere'),
    ]
    const sends = [...facts, ...facts, ...facts].map((fact, i) => deliver(all[i % 3]!.url, [fact]))
    for (const { status } of await Promise.all(sends)) expect(status).toBe(200)
    expect(formatPico(await first.balance())).toBe('122.5')
    const decide = all.map(({ url: own }, i) =>
      fetch(`${own}/admin/payments/pi_nowhere/book`, {
        method: 'POST',
        headers: { authorization: 'Bearer payments-token', 'content-type': 'application/json' },
        body: JSON.stringify({ account_id: 'acme', usd: String(10 + i) }),
      }),
    )
    const answers = await Promise.all(decide)
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409])
    const winner = answers.findIndex(({ status }) => status === 200)
    expect(formatPico(await first.balance())).toBe(String(132.5 + winner))
  })
})
