/** Usage and statements by the command line. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { call, start } from '../_cli.ts'

const TOKEN = 'admin-token-of-the-test'
let gateway: TestGateway
let at: string[]
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
  at = ['--url', gateway.url, '--token', TOKEN]
})
afterAll(() => gateway.close())

const chat = (key: string, headers: Record<string, string> = {}) =>
  gateway.ask('POST', '/v1/chat/completions', { key, body: hello, headers })

it('says who used what, and that it equals the ledger', async () => {
  const { id, secret } = await gateway.newKey()
  const { json } = await chat(secret, { 'x-service-tag': 'nightly' })
  await chat(secret)
  const shown = await call(['usage', '--by', 'key,model', '--rollup', 'day', '--key', id, ...at])
  expect(shown.out).toMatch(/^START +KEY +MODEL +CALLS +COST USD +PROMPT TOKENS/)
  expect(shown.out).toContain(`${id}  mock/echo  2`)
  expect(shown.out).toMatch(/Equals the ledger, as of 2/)
  const csv = await call(['usage', '--by', 'tag', '--key', id, '--csv', ...at])
  expect(csv.out.split('\r\n').filter((line) => line.includes(',nightly,'))).toHaveLength(1)
  expect((await call(['usage', 'verify', ...at])).out).toMatch(/^Equals the ledger/)
  expect(await call(['usage', '--by', 'colour', ...at])).toMatchObject({
    code: 2,
    err: expect.stringContaining('one of account, team, key'),
  })
  const statement = await call(['statement', 'acme', ...at])
  expect(statement.out).toMatch(/AT +BOOKING +REFERENCE +USD\n.* opening +- +0\n/)
  expect(statement.out).toMatch(/mock\/echo +\d+ +0\.0/)
  expect(statement.out).toMatch(/nightly +1 +0\.0/)
  // What has no name is said, because a column of nothing is left out on a terminal.
  expect(statement.out).toMatch(/\(none\) +1 +0\.0/)
  const byTag = await call(['usage', '--by', 'tag', '--key', id, '--rollup', 'day', ...at])
  expect(byTag.out).toMatch(/ \(none\) +1 +0\.0/)
  expect((await call(['statement', 'acme', '--csv', ...at])).out).toMatch(
    /^section,name,at,kind,reference/,
  )
  expect(json.usage.cost).toBeGreaterThan(0)
  expect((await call(['usage', 'rebuild', ...at])).out).toMatch(/in the background/)
})

it('follows calls as they end', async () => {
  const { id, secret } = await gateway.newKey()
  const { child, said } = await start(['requests', 'tail', '--key', id, ...at])
  await expect
    .poll(
      async () => {
        await chat(secret)
        return said()
      },
      { timeout: 30_000 },
    )
    .toMatch(new RegExp(`200 {2}completed .* ${id} {2}\\$0\\.\\d+ {2}req_`))
  child.kill()
  const ended = await call(['requests', 'end', 'req_0', ...at])
  expect(ended).toMatchObject({
    code: 1,
    err: expect.stringContaining('No request "req_0" is running'),
  })
})
