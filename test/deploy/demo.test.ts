/** `--demo`: a month of calls that the ledger proves, and nothing of it stays. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { call, start, urlOf } from '../_cli.ts'
import { send } from '../_setup.ts'

it('is a month that adds up, and leaves no folder', async () => {
  const running = await start(['serve', '--demo', '--port', '0'])
  const url = await urlOf(running)
  const file = /token in (\S+)\n/.exec(running.said())![1]!
  const headers = { authorization: `Bearer ${(await readFile(file, 'utf8')).trim()}` }
  const get = async (path: string) =>
    (await send(`${url}/admin${path}`, 'GET', undefined, headers)).json.data
  // The first page does not wait for the month, and says that it is still being written.
  expect(await get('/session')).toMatchObject({ demo: true, demo_filling: true })
  await expect.poll(() => get('/session')).not.toHaveProperty('demo_filling')
  const checked = await get('/ledger/verify?prices=true')
  expect(checked).toMatchObject({ ok: true, prices: { unknown: 0, wrong: [] } })
  expect(checked.prices.checked).toBeGreaterThan(38_000)

  const accounts = await get('/accounts')
  const balances = Object.fromEntries(
    accounts.map((one: { id: string; balance_usd: unknown }) => [one.id, Number(one.balance_usd)]),
  )
  expect(balances).toMatchObject({ lumen: 58.2, ferry: 0.37, meadow: 0 })
  expect(accounts.filter((one: { free_tier: boolean }) => one.free_tier)).toHaveLength(1)
  const keys = await get('/keys')
  expect(keys).toHaveLength(12)
  expect(keys.filter((one: { disabled: boolean }) => one.disabled)).toHaveLength(1)

  // The request log has the days before yesterday, too.
  const old = new Date(Date.now() - 20 * 86_400_000).toISOString()
  expect((await get(`/requests?to=${old}&limit=5`)).length).toBe(5)
  // So has the Guard screen, by the rules that the keys' policies have.
  const { decisions } = await get(`/guard?from=${old}`)
  const rules = new Set(decisions.map((one: { rule: string }) => one.rule))
  expect([...rules].toSorted()).toEqual(['', 'bannedPatterns', 'deny:legal', 'deny:medical'])
  running.child.kill('SIGTERM')
  expect((await running.ended).code).toBe(0)
  expect(existsSync(file)).toBe(false)
})

it('ends while the month is written, and leaves no folder', async () => {
  const running = await start(['serve', '--demo', '--port', '0'])
  await urlOf(running)
  const file = /token in (\S+)\n/.exec(running.said())![1]!
  running.child.kill('SIGTERM')
  expect(await running.ended).toMatchObject({ code: 0, err: '' })
  expect(existsSync(file)).toBe(false)
})

it('takes no state of anything else', async () => {
  const { code, err } = await call(['serve', '--demo', '--data', 'mine'])
  expect(err).toMatch(/--demo has a folder and a configuration of its own: leave out --data/)
  expect(code).toBe(2)
})
