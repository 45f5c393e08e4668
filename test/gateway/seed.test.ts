import { hash } from 'node:crypto'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { ConfigError, Unavailable } from '../../src/errors/errors.ts'
import { seed, Seeding } from '../../src/gateway/seed.ts'
import { welcome } from '../../src/gateway/welcome.ts'
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts'
import { simpleForm } from '../../src/server/admin/resources/limit.ts'
import { parsePico } from '../../src/money/money.ts'
import { loaded, MOCK_CONFIG } from '../_setup.ts'

const URL = 'http://127.0.0.1:8787'
/** A start whose output a person sees. */
const TERMINAL = { generate: true }

let gateway: Gateway | undefined
afterEach(async () => {
  await gateway?.close()
  gateway = undefined
})

async function start(config: UserConfig = {}): Promise<Gateway> {
  const whole = { log: { level: 'silent' as const }, ...MOCK_CONFIG, ...config }
  return (gateway = await createGateway(loaded(whole)))
}

async function madeSecret(): Promise<{ id: string; secret: string }> {
  const other = await createGateway(loaded(MOCK_CONFIG))
  const { secret = '', keys } = await seed(other, TERMINAL)
  await other.close()
  return { id: keys[0]!, secret }
}

describe('a first start', () => {
  it('makes an account with 10 USD and one key that is found by its text', async () => {
    const { runtime } = await start()
    const report = await seed(gateway!, TERMINAL)
    expect(report).toMatchObject({ accounts: ['local'] })
    expect(await runtime.ledger.account('local')).toMatchObject({
      balance: parsePico('10'),
      paid: true,
    })
    const found = await runtime.accounts.find(hash('sha256', report.secret!, 'hex'))
    expect(found).toMatchObject({ account: { id: 'local' }, key: { id: report.keys[0] } })
  })

  it('makes nothing a second time', async () => {
    await start()
    await seed(gateway!, TERMINAL)
    expect(await seed(gateway!, TERMINAL)).toEqual({ accounts: [], keys: [] })
    expect((await gateway!.runtime.ledger.account('local')).balance).toBe(parsePico('10'))
  })

  it('makes the account and no key where no person sees it, and the key later', async () => {
    await start()
    expect(await seed(gateway!)).toEqual({ accounts: ['local'], keys: [], needsKey: true })
    expect(await seed(gateway!)).toEqual({ accounts: [], keys: [], needsKey: true })
    const secret = 'chosen-by-the-operator'
    const report = await seed(gateway!, { secret, generate: true })
    expect(report).toEqual({ accounts: [], keys: [expect.any(String)] })
    expect(await gateway!.runtime.accounts.find(hash('sha256', secret, 'hex'))).toBeTruthy()
    expect(await seed(gateway!, TERMINAL)).toEqual({ accounts: [], keys: [] })
  })

  it('goes on where one broke off', async () => {
    const { runtime } = await start()
    await runtime.accounts.createAccount({ id: 'local', name: 'Local' })
    const report = await seed(gateway!, TERMINAL)
    expect(report).toMatchObject({ accounts: [], keys: [expect.any(String)] })
    expect(report.secret).toMatch(/^sk-sluice-/)
    expect((await runtime.ledger.account('local')).balance).toBe(parsePico('10'))
    expect(await seed(gateway!, TERMINAL)).toEqual({ accounts: [], keys: [] })
  })

  it('makes one account where two gateways start on one state', async () => {
    await start()
    const reports = await Promise.all([seed(gateway!, TERMINAL), seed(gateway!, TERMINAL)])
    expect(reports.flatMap(({ accounts }) => accounts)).toEqual(['local'])
    expect((await gateway!.runtime.ledger.account('local')).balance).toBe(parsePico('10'))
  })

  it('makes nothing where an operator has made an account', async () => {
    const { runtime } = await start()
    await runtime.accounts.createAccount({ id: 'mine', name: 'Mine' })
    expect(await seed(gateway!, TERMINAL)).toEqual({ accounts: [], keys: [] })
  })
})

describe('the seed of a configuration', () => {
  it('is tried again where the store is away in the middle, and then whole', async () => {
    const limits = [{ unit: 'requests' as const, window: 'minute' as const, value: 3 }]
    const account = { id: 'me', name: 'Me', credits: '2.50', limits }
    const keys = [{ id: 'laptop', name: 'Laptop', secret: 'sk-a-secret-of-the-seed-0001' }]
    const { runtime } = await start({ seed: { accounts: [{ ...account, keys }] } })
    const away = new Unavailable('service_unavailable', 'away')
    const book = vi.spyOn(runtime.ledger, 'book')
    const create = vi.spyOn(runtime.accounts, 'createKey')
    book.mockRejectedValueOnce(away).mockRejectedValueOnce(away)
    create.mockRejectedValueOnce(away)
    const seeding = new Seeding(gateway!, 1)
    const { report } = await seeding.begin()
    expect([seeding.isPending, await runtime.accounts.account('me')]).toMatchObject([
      true,
      { limits: [{ name: 'rpm', value: 3 }] },
    ])
    expect(await report).toEqual({ accounts: [], keys: ['laptop'] })
    expect(seeding.isPending).toBe(false)
    expect(book).toHaveBeenCalledTimes(4)
    expect((await runtime.ledger.account('me')).balance).toBe(parsePico('2.5'))
    await seeding.close()
  })

  it('creates accounts, books credits once, and takes keys by text or digest', async () => {
    const [one, two] = [await madeSecret(), await madeSecret()]
    const { runtime } = await start({
      seed: {
        accounts: [
          {
            id: 'me',
            name: 'Me',
            credits: '2.50',
            keys: [
              { id: 'laptop', name: 'Laptop', secret: one.secret, rpm_limit: 3 },
              {
                id: 'phone',
                name: 'Phone',
                sha256: hash('sha256', two.secret, 'hex'),
                spend_cap: { usd: '1', scope: 'day' },
                expires_at: '2099-01-31T00:00:00Z',
                models: ['mock/*'],
                policy: { version: 1, maxOutputTokens: 9 },
              },
            ],
          },
        ],
      },
    })
    expect(await seed(gateway!, TERMINAL)).toEqual({ accounts: ['me'], keys: ['laptop', 'phone'] })
    expect((await runtime.ledger.account('me')).balance).toBe(parsePico('2.5'))
    expect((await runtime.accounts.find(hash('sha256', one.secret, 'hex')))!.key).toMatchObject({
      id: 'laptop',
      limits: [{ name: 'rpm', value: 3 }],
    })
    expect((await runtime.accounts.find(hash('sha256', two.secret, 'hex')))!.key).toMatchObject({
      id: 'phone',
      limits: [{ name: 'cap.day', value: '1' }],
      expiresAt: Date.UTC(2099, 0, 31),
      models: ['mock/*'],
      policy: { version: 1, maxOutputTokens: 9 },
    })
    expect(await seed(gateway!, TERMINAL)).toEqual({ accounts: [], keys: [] })
    expect((await runtime.ledger.account('me')).balance).toBe(parsePico('2.5'))
  })

  it('leaves what an operator has changed since', async () => {
    const { secret } = await madeSecret()
    const keys = [{ id: 'laptop', name: 'Laptop', secret }]
    const { runtime } = await start({ seed: { accounts: [{ id: 'me', name: 'Me', keys }] } })
    await seed(gateway!, TERMINAL)
    await runtime.accounts.changeKey('laptop', { disabled: true, name: 'Renamed' })
    await seed(gateway!, TERMINAL)
    expect(await runtime.accounts.key('laptop')).toMatchObject({ disabled: true, name: 'Renamed' })
  })

  it('is compared with what is stored, and a start warns of each difference', async () => {
    const [one, two] = [await madeSecret(), await madeSecret()]
    const key = (secret: string, more = {}) => ({ id: 'laptop', name: 'Laptop', secret, ...more })
    const seedOf = (keys: object[], name = 'Me') =>
      ({ seed: { accounts: [{ id: 'me', name, keys }] } }) as UserConfig
    const cap = {
      spend_cap: { usd: '1', scope: 'day' },
      policy: { version: 1, maxOutputTokens: 9 },
    }
    const first = seedOf([key(one.secret, cap)])
    const { runtime } = await start(first)
    const lines: string[] = []
    runtime.log.warn = ((message: string) => void lines.push(message)) as typeof runtime.log.warn
    await seed(gateway!, TERMINAL)
    await seed(gateway!, TERMINAL)
    expect(lines).toEqual([])
    const changed = { ...cap, spend_cap: { usd: '2', scope: 'day' }, rpm_limit: 3 }
    await gateway!.reload(loaded({ ...MOCK_CONFIG, ...seedOf([key(two.secret, changed)], 'Ada') }))
    await seed(gateway!, TERMINAL)
    expect(lines.filter((line) => String(line).startsWith('seed:'))).toEqual([
      expect.stringContaining('account "me" differs from the store in name; the store is used'),
      expect.stringMatching(
        /key "laptop" differs from the store in secret, .*rpm_limit.*; the store/,
      ),
    ])
    expect(lines.join()).toContain('spend_cap')
    expect(lines.join()).not.toContain('policy')
    for (const { secret } of [one, two]) expect(lines.join()).not.toContain(secret)
  })

  it('that is managed makes the store what it says: the old secret is refused, the new one works', async () => {
    const [one, two] = [await madeSecret(), await madeSecret()]
    const seedOf = (secret: string, more: object, name: string) =>
      ({
        seed: {
          manage: true,
          accounts: [{ id: 'me', name, keys: [{ id: 'laptop', name: 'Laptop', secret, ...more }] }],
        },
      }) as UserConfig
    const { runtime } = await start(
      seedOf(one.secret, { rpm_limit: 5, concurrency_limit: 7 }, 'Me'),
    )
    await seed(gateway!, TERMINAL)
    const changed = seedOf(two.secret, { rpm_limit: 3 }, 'Ada')
    await gateway!.reload(loaded({ ...MOCK_CONFIG, ...changed }))
    for (let times = 0; times < 2; times++) await seed(gateway!, TERMINAL)
    const found = (secret: string) => runtime.accounts.find(hash('sha256', secret, 'hex'))
    expect(await found(one.secret)).toBeNull()
    const { key, account } = (await found(two.secret))!
    // A member that the file does not name stays.
    expect(key.id).toBe('laptop')
    expect(simpleForm(key)).toEqual({ rpm: 3, concurrency: 7 })
    expect(account.name).toBe('Ada')
    const rows = await runtime.audit.list({ actor: 'seed' }, undefined, 10)
    expect(rows.map(({ object, changes }) => [object, Object.keys(changes)])).toEqual([
      ['key:laptop', ['secret', 'rpm_limit']],
      ['account:me', ['name']],
    ])
  })

  it('says which key has a policy that cannot be used', async () => {
    const { secret } = await madeSecret()
    const keys = [{ id: 'laptop', name: 'Laptop', secret, policy: { version: 3 } }]
    await start({ seed: { accounts: [{ id: 'me', name: 'Me', keys }] } })
    const failure = await seed(gateway!, TERMINAL).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ConfigError)
    expect((failure as Error).message).toMatch(/laptop[^]*policy\.version[^]*the number 1/)
    expect((failure as Error).message).not.toContain(secret)
  })
})

describe('the welcome', () => {
  it('shows base URL, key, and a call with the first chat model', async () => {
    await start()
    const report = await seed(gateway!, TERMINAL)
    const text = welcome(report, gateway!, URL)
    expect(text).toMatch(/^Sluicegate \S+ {3}http:\/\/127\.0\.0\.1:8787\n/)
    expect(text).toContain(`Authorization: Bearer ${report.secret}"`)
    expect(text).toContain('"model":"mock/echo"')
    expect(text).toContain('10 USD')
    expect(text).not.toContain('\u001b')
    const wide = text.split('\n').filter((line) => line.length > 80)
    expect(wide.filter((line) => !/sk-sluice|https?:/.test(line))).toEqual([])
  })

  it('shows no key that was made before', async () => {
    await start()
    const { secret } = await seed(gateway!, TERMINAL)
    const text = welcome(await seed(gateway!, TERMINAL), gateway!, URL)
    expect(text).not.toContain(secret)
    expect(text).toContain('Bearer $API_KEY')
  })

  it('says how to get an admin API, and where it is when there is one', async () => {
    const nothing = { accounts: [], keys: [] }
    await start()
    expect(welcome(nothing, gateway!, URL)).toContain('SLUICEGATE_ADMIN_TOKEN')
    await gateway!.close()
    await start({ admin: { token: 'a-token-of-8' } })
    const text = welcome(nothing, gateway!, URL)
    expect(text).toContain(`${URL}/admin`)
    expect(text).not.toContain('a-token-of-8')
    expect(text).toContain(`${URL}/console\n`)
    const link = `${URL}/console#token=once.1.admin`
    expect(welcome(nothing, gateway!, URL, [], link)).toMatch(/#token=once\.1\.admin\n +works once/)
    await gateway!.close()
    await start({ admin: { enabled: false } })
    expect(welcome(nothing, gateway!, URL)).toContain('Admin      off: admin.enabled is false\n')
  })

  it('shows an address that can be called where the gateway listens on all of them', async () => {
    await start()
    const nothing = { accounts: [], keys: [] }
    expect(welcome(nothing, gateway!, 'http://0.0.0.0:1')).toContain('curl http://127.0.0.1:1/v1/')
    expect(welcome(nothing, gateway!, 'http://[::]:1')).toContain('curl http://[::1]:1/v1/')
  })

  it('makes no call up without a chat model', async () => {
    await start({ models: {} })
    expect(welcome({ accounts: [], keys: [] }, gateway!, URL)).not.toContain('curl')
  })
})

describe('limits in a seed', () => {
  const WITH_LIMITS: UserConfig = {
    seed: {
      manage: true,
      accounts: [
        {
          id: 'firm',
          name: 'Firm',
          time_zone: 'Europe/Berlin',
          limits: [
            { unit: 'usd', window: 'week', value: '5' },
            { unit: 'requests', window: 'minute', value: 60 },
          ],
          deny_models: ['mock/large'],
          teams: [
            { id: 'field', name: 'Field', limits: [{ unit: 'tokens', window: 'day', value: 900 }] },
          ],
          keys: [
            {
              id: 'key_field',
              name: 'field',
              secret: 'a-secret-of-the-field',
              team_id: 'field',
              limits: [{ unit: 'usd', window: '5h', value: '1.5' }],
            },
          ],
        },
      ],
    },
  }

  it('are those of accounts, teams and keys, and follow the file', async () => {
    const { runtime } = await start(WITH_LIMITS)
    await seed(gateway!)
    const { accounts, audit } = runtime
    expect(await accounts.account('firm')).toMatchObject({
      timeZone: 'Europe/Berlin',
      limits: [
        { name: 'cap.week', value: '5' },
        { name: 'rpm', value: 60 },
      ],
      denyModels: ['mock/large'],
    })
    expect(await accounts.team('field')).toMatchObject({
      account: 'firm',
      limits: [{ name: 'tokens.day', value: 900 }],
    })
    expect(await accounts.key('key_field')).toMatchObject({
      team: 'field',
      limits: [{ name: 'cap.5h', value: '1.5' }],
    })
    const { revision } = (await accounts.team('field'))!
    // A second start finds everything as the file says.
    await seed(gateway!)
    expect((await accounts.team('field'))!.revision).toBe(revision)
    await accounts.changeTeam('field', { limits: null })
    await seed(gateway!)
    expect(await accounts.team('field')).toMatchObject({ limits: [{ name: 'tokens.day' }] })
    const updates = (await audit.list({}, undefined, 20)).filter(
      ({ action }) => action === 'team.update',
    )
    expect(updates).toHaveLength(1)
  })

  it('end a start where they are impossible', async () => {
    const { accounts } = WITH_LIMITS.seed!
    const wrong = { ...accounts![0]!, time_zone: '+02:00' }
    await start({ seed: { accounts: [wrong] } })
    await expect(seed(gateway!)).rejects.toThrow(ConfigError)
  })
})
