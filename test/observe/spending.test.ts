/** Balances and caps as alerts and gauges, of a real ledger. */
import { expect, it } from 'vitest'
import { formatPico, parsePico } from '../../src/money/money.ts'
import { MoneyMetrics } from '../../src/observe/metrics.ts'
import { RecentErrors } from '../../src/gateway/alert-findings.ts'
import { Spending } from '../../src/observe/spending.ts'
import { familiesText } from '../../src/observe/prometheus.ts'
import { createTestGateway, hello } from '../_setup.ts'

const DAY_MS = 86_400_000

it('follows the money of accounts and keys that are used, and of no others', async () => {
  await using t = await createTestGateway()
  const { accounts, ledger } = t.gateway.runtime
  const read: string[] = []
  const metrics = new MoneyMetrics()
  let [top, now]: [number | undefined, number] = [undefined, 0]
  const spending = new Spending({
    accounts: {
      accountsOf(ids) {
        read.push(...ids)
        return accounts.accountsOf(ids)
      },
      keysOf: (ids) => accounts.keysOf(ids),
      listTeams: (id) => accounts.listTeams(id),
    },
    ledger,
    settings: () => ({ below: parsePico('1'), top, timeZone: 'UTC', lists: [] }),
    everything: async () => ({ accounts: [], keys: [] }),
    wasEmpty: () => false,
    top: async (most) => ({ accounts: ['acme'].slice(0, most), keys: [] }),
    metrics,
    warn: (message) => expect.unreachable(message),
  })
  const found = () =>
    spending.findings().map(({ kind, object, state }) => `${kind} ${object} ${state}`)
  /** One look, and what it has found. */
  const look = async (expected: readonly string[]) => {
    await spending.tick((now += 10_000))
    expect(found().toSorted()).toEqual(expected.toSorted())
  }
  const book = (account: string, amount: bigint) =>
    ledger.book({ kind: 'adjust', account, amount, reference: `r${++now}`, note: 'test' })

  // A key that has spent 90 % of its cap, and expires.
  await t.newAccount('other', '5')
  const cost = (await t.chat(hello)).json.usage.cost
  const cap = formatPico((parsePico(String(cost)) * 10n) / 9n)
  const expiresAt = Date.now() + DAY_MS
  await accounts.changeKey(t.key.id, { spendCap: { usd: cap, scope: 'day' }, expiresAt })
  await look([])
  expect(read).toEqual([])
  spending.touched('acme', t.key.id, false)
  const expiring = `key.expiring ${t.key.id} wrong`
  await look([`cap.80 key ${t.key.id} day wrong`, expiring])
  expect(spending.findings()[0]).toMatchObject({
    message: expect.stringContaining('expires on'),
  })
  expect(new Set(read)).toEqual(new Set(['acme']))

  // A larger cap ends the alert, without another call.
  await accounts.changeKey(t.key.id, { spendCap: { usd: '1', scope: 'day' }, expiresAt: null })
  await look([])

  // Caps of a team, of a week, against the value in force.
  const team = await accounts.createTeam('acme', { name: 'Field' })
  await accounts.changeKey(t.key.id, { team: team.id })
  const week = { unit: 'usd', window: 'week' } as const
  await accounts.changeTeam(team.id, { limits: [{ ...week, value: '0.000000000001' }] })
  expect((await t.chat(hello)).status).toBe(200)
  spending.touched('acme')
  await look([`cap.80 team ${team.id} week wrong`, `cap.100 team ${team.id} week wrong`])
  const raise = { value: '5', until: Date.now() + DAY_MS }
  await accounts.raise('team', team.id, 'cap.week', raise, 'admin')
  await look([])

  // A balance that is low, too low for a call, and above the bound again.
  const balance = await t.balance()
  await book('acme', parsePico('0.9') - balance)
  spending.touched('acme', t.key.id, true)
  await look(['balance.low acme wrong', 'balance.empty acme wrong'])
  await look(['balance.low acme wrong'])
  await book('acme', parsePico('0.2'))
  await look(['balance.low acme between'])
  await book('acme', parsePico('0.2'))
  await look([])
  expect(read).not.toContain('other')

  // Gauges of those that spend most; without them, nothing.
  expect(metrics.families()).toEqual([])
  top = 1
  now += 60_000
  await look([])
  expect(familiesText(metrics.families())).toContain(
    'sluicegate_account_balance_usd{account="acme"} 1.3',
  )
  await spending.close()
})

it('finds models that fail often within five minutes', () => {
  const errors = new RecentErrors()
  let now = 0
  const state = (calls: number, failed: number, fellBack = 0) =>
    errors.findings(new Map([['m', { calls, failed, fellBack }]]), (now += 30_000))[0]!.state
  expect(state(0, 0)).toBe('well')
  expect(state(19, 19)).toBe('between')
  expect(state(25, 20)).toBe('wrong')
  // The failures are older than five minutes at last.
  const later = Array.from({ length: 12 }, (_, i) => state(25 + i, 20))
  expect(later.slice(0, 6)).toEqual(Array.from({ length: 6 }, () => 'wrong'))
  expect(later.at(-1)).toBe('well')
})
