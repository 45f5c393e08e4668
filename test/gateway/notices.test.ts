/** Settings that have no effect, or not the one that was meant, where operators set and see them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, loaded, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { seed } from '../../src/gateway/seed.ts'

const TOKEN = 'token-of-the-first-admin'
const CONFIG = { ...MOCK_CONFIG, admin: { token: TOKEN } }

let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway(CONFIG)
})
afterAll(() => gateway.close())

const ask = async (method: string, path: string, body?: object) => {
  const answer = await gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.json
}
const codes = ({ data }: any) => data.warnings.map((one: any) => one.code)

describe('a notice', () => {
  it('says that a limit is used up, with both figures, and which limit makes another idle', async () => {
    await gateway.newAccount('capped', '5')
    const made = await ask('POST', '/accounts/capped/keys', { name: 'k' })
    const { cost } = (await gateway.chat(hello, { key: made.key })).json.usage
    const cap = { spend_cap: { usd: '0.000001', scope: 'month' } }
    const key = await ask('PATCH', `/keys/${made.data.id}`, cap)
    expect(key.data.warnings).toMatchObject([
      { code: 'cap.reached', object: `key:${made.data.id}` },
    ])
    expect(key.data.warnings[0].message).toMatch(
      new RegExp(`the limit key.cap.month is reached, with ${cost} of 0.000001 USD: .* until 20`),
    )
    const account = await ask('PATCH', '/accounts/capped', { ...cap, rpm_limit: 5 })
    expect(codes(account)).toEqual(['cap.reached'])
    const idle = await ask('PATCH', `/keys/${made.data.id}`, {
      spend_cap: { usd: '50', scope: 'month' },
      rpm_limit: 60,
    })
    expect(idle.data.warnings.map((one: any) => [one.code, one.message])).toEqual([
      ['limit.above_account', 'the limit rpm of 60 has no effect: the account has 5'],
      [
        'cap.above_account',
        'the limit cap.month of 50 USD has no effect: the account has 0.000001 USD',
      ],
    ])
    const team = await ask('POST', '/accounts/capped/teams', {
      name: 'T',
      rpm_limit: 9,
      models: ['no/x'],
    })
    expect(codes(team)).toEqual(['limit.above_account', 'models.unknown'])
  })

  it('says that a key is refused, when it is made, rotated or played as', async () => {
    await gateway.newAccount('stopped', '5')
    await ask('PATCH', '/accounts/stopped', { disabled: true })
    const made = await ask('POST', '/accounts/stopped/keys', { name: 'k' })
    expect(codes(made)).toEqual(['account.disabled'])
    await ask('PATCH', `/keys/${made.data.id}`, { disabled: true })
    const rotated = await ask('POST', `/keys/${made.data.id}/rotate`, {})
    expect(codes(rotated)).toEqual(['key.disabled', 'account.disabled', 'key.rotation_idle'])
    const played = await ask('POST', `/keys/${made.data.id}/play`, {})
    expect(codes(played)).toEqual(['key.disabled', 'account.disabled'])
    expect(codes(await ask('GET', `/keys/${made.data.id}`))).toEqual([])
  })

  it('says what a free account cannot use, what a moved day does, and a key above its place', async () => {
    await gateway.newAccount('free')
    const made = await ask('POST', '/accounts/free/keys', { name: 'k', models: ['mock/echo'] })
    expect(codes(made)).toEqual(['models.free_tier'])
    const moved = await ask('PATCH', '/accounts/free', { time_zone: 'Asia/Tokyo' })
    expect(codes(moved)).toEqual(['zone.changed'])
    expect(codes(await ask('GET', '/accounts/free'))).toEqual([])
    const { data } = await ask('POST', '/members', { account: 'free', name: 'Ada' })
    await ask('PATCH', `/keys/${made.data.id}`, { owner: data.id, models: null })
    await ask('PATCH', '/accounts/free', { new_keys: { expires_in: 60 } })
    const above = await ask('GET', `/keys/${made.data.id}`)
    expect(above.data.warnings).toMatchObject([{ code: 'key.above_place', member: 'expires_at' }])
    const masked = await ask('POST', '/accounts/acme/keys', { name: 'm', mask: true })
    expect(codes(masked)).toEqual(['mask.idle'])
  })

  it('says what the seed of the configuration has otherwise, or sets again', async () => {
    const key = {
      id: 'seeded',
      name: 'Seeded',
      secret: 'sk-first-secret-of-a-seeded-key',
      rpm_limit: 7,
    }
    const withSeed = (manage: boolean, more = {}) =>
      loaded({
        ...CONFIG,
        seed: { manage, accounts: [{ id: 'seeded', name: 'Seeded', keys: [{ ...key, ...more }] }] },
      })
    const start = async (manage: boolean, more = {}) => {
      await gateway.gateway.reload(withSeed(manage, more))
      await seed(gateway.gateway)
    }
    await start(false)
    expect(codes(await ask('GET', '/keys/seeded'))).toEqual(['models.free_tier'].slice(1))
    const secret = 'sk-second-secret-of-a-seeded-key'
    await start(false, { secret, rpm_limit: 8 })
    const differs = await ask('GET', '/keys/seeded')
    expect(differs.data.warnings).toMatchObject([
      { code: 'seed.differs', message: expect.stringContaining('secret, rpm_limit') },
    ])
    expect(gateway.logged.join('\n')).toContain(
      'seed: key "seeded" differs from the store in secret, rpm_limit',
    )
    const alerts = (await ask('GET', '/alerts')).data
    expect(alerts).toContainEqual(
      expect.objectContaining({ kind: 'seed.differs', object: 'key:seeded' }),
    )
    await start(true, { secret, rpm_limit: 8 })
    const managed = await ask('PATCH', '/keys/seeded', { rpm_limit: 9 })
    expect(managed.data.warnings).toMatchObject([
      { code: 'seed.managed', message: expect.stringContaining('secret, name, rpm_limit') },
    ])
    expect(JSON.stringify(managed)).not.toContain(secret)
  })
})
