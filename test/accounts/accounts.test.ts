import { describe, expect, it, vi } from 'vitest'
import * as fc from 'fast-check'
import { createStorage } from 'unstorage'
import memory from 'unstorage/drivers/memory'
import { Accounts } from '../../src/accounts/accounts.ts'
import type { ResolvedKey } from '../../src/accounts/stored.ts'
import { hashSecret, hasValidChecksum } from '../../src/accounts/secrets.ts'
import { simpleForm } from '../../src/server/admin/resources/limit.ts'
import type { Admission } from '../../src/state/ledger/ledger.ts'
import { StoredRecords } from '../../src/state/records.ts'
import type { SqliteLedger } from '../../src/state/sqlite/engine.ts'
import { openInMemory } from '../state/sqlite/_engine.ts'
import { holdOf } from '../state/_hold.ts'

const FREE_TIER = { rpm: 20, concurrency: 5 }

/** Accounts over state in memory, with a settable clock and access to the raw storage. */
function setUp() {
  const clock = { now: Date.UTC(2026, 5, 1) }
  const now = () => clock.now
  const config = { limits: { rpm: 600, concurrency: 1000 } }
  const driver = memory()
  const stored = driver.getInstance!() as Map<string, string>
  const records = new StoredRecords(createStorage({ driver }))
  const { ledger } = openInMemory({ now })
  const instance = () => new Accounts({ records, ledger, defaults: () => config, now })
  let requests = 0
  const enter = ({ key, account }: ResolvedKey): Admission => {
    const request = `req_${++requests}`
    const { revision } = key
    const accountRevision = account.revision
    return ledger.enter({
      request,
      account: account.id,
      key: key.id,
      revision,
      accountRevision,
      freeTier: FREE_TIER,
    })
  }
  const pay = (account: string) =>
    ledger.book({ kind: 'top-up', account, amount: 10n ** 12n, reference: 'first' })
  return { clock, config, stored, records, ledger, instance, accounts: instance(), enter, pay }
}

/** What {@link setUp} makes, and one account with one key. */
async function setUpKey() {
  const all = setUp()
  await all.accounts.createAccount({ id: 'acme', name: 'Acme' })
  const { key, secret } = await all.accounts.createKey('acme', { id: 'laptop', name: 'Laptop' })
  const sha256 = hashSecret(secret)
  return { ...all, key, secret, sha256, known: (await all.accounts.find(sha256))! }
}

function spendCap(usd: string) {
  return { spendCap: { usd, scope: 'day' } as const }
}

describe('secrets', () => {
  it('are sk-sluice-, forty base-62 characters and six of checksum', async () => {
    const { secret, key } = await setUpKey()
    expect(secret).toMatch(/^sk-sluice-[0-9A-Za-z]{46}$/)
    expect(key.start).toBe(secret.slice(0, 14))
    expect(hasValidChecksum(secret)).toBe(true)
  })

  it('are different every time', async () => {
    const { accounts, secret } = await setUpKey()
    const other = await accounts.createKey('acme', { name: 'Other' })
    expect(other.secret).not.toBe(secret)
  })

  it('with a typing error are recognised', async () => {
    const { secret } = await setUpKey()
    const characters = fc.constantFrom(...'0123456789ABCXYZabcxyz')
    fc.assert(
      fc.property(fc.integer({ min: 10, max: secret.length - 1 }), characters, (at, character) => {
        const typed = secret.slice(0, at) + character + secret.slice(at + 1)
        expect(hasValidChecksum(typed)).toBe(typed === secret)
      }),
    )
    expect(hasValidChecksum(secret.slice(0, -1))).toBe(false)
    expect(hasValidChecksum(`${secret}0`)).toBe(false)
    expect(hasValidChecksum('sk-sluice-')).toBe(false)
    expect(hasValidChecksum('some-other-secret')).toBe(true)
  })

  it('end in a checksum that other programs can compute: CRC-32 in base 62', () => {
    const body = `sk-sluice-${'0'.repeat(40)}`
    // crc32(body) is 1910667480.
    expect(hasValidChecksum(`${body}25IxtQ`)).toBe(true)
  })

  it('are stored as hashes only', async () => {
    const { accounts, stored, secret, sha256 } = await setUpKey()
    const given = 'a-secret-of-my-own'
    await accounts.createKey('acme', { name: 'Given', secret: given })
    await accounts.changeKey('laptop', { name: 'Renamed' })
    const everything = [...stored].flat().join('\n')
    expect(everything).toContain(sha256)
    for (const raw of [secret, secret.slice(14, 50), given, given.slice(0, 10)]) {
      expect(everything).not.toContain(raw)
    }
  })
})

describe('accounts', () => {
  it('are listed in the order of creation', async () => {
    const { accounts, clock } = setUp()
    const made = await accounts.createAccount({ id: 'zebra', name: 'Zebra' })
    expect(made).toEqual({
      id: 'zebra',
      name: 'Zebra',
      disabled: false,
      revision: 0,
      createdAt: clock.now,
    })
    const second = await accounts.createAccount({ name: 'Some one' })
    expect(second.id).toMatch(/^acct_[0-9a-z]{16,}$/)
    expect(await accounts.listAccounts()).toEqual([made, second])
    expect(await accounts.account('zebra')).toEqual(made)
    expect(await accounts.account('nobody')).toBeUndefined()
    expect(await accounts.account('No:body?')).toBeUndefined()
  })

  it.each(['', 'Upper', 'a b', 'a:b', 'a/b', 'ü', 'a'.repeat(65)])(
    'refuse the id %j',
    async (id) => {
      const { accounts } = setUp()
      await expect(accounts.createAccount({ id, name: 'Name' })).rejects.toMatchObject({
        status: 400,
        code: 'invalid_value',
        param: 'id',
        message: '"id" has to be 1 to 64 lower-case letters, digits, "_" or "-".',
      })
      expect(await accounts.listAccounts()).toEqual([])
    },
  )

  it('are created once, also by concurrent requests', async () => {
    const { accounts } = setUp()
    const tries = Array.from({ length: 20 }, (_, i) =>
      accounts.createAccount({ id: 'acme', name: `Try ${i}` }),
    )
    const outcomes = await Promise.allSettled(tries)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await accounts.listAccounts()).toMatchObject([{ name: 'Try 0' }])
    await expect(tries[1]).rejects.toMatchObject({
      code: 'invalid_value',
      param: 'id',
      message: '"id" has to be new; account acme exists already.',
    })
  })
})

describe('keys', () => {
  it('are found by the hash of their secret', async () => {
    const { accounts, key, sha256 } = await setUpKey()
    const known = await accounts.find(sha256)
    expect(known).toEqual({ key, account: await accounts.account('acme') })
    expect(accounts.peek(sha256)).toBe(known)
    expect(await accounts.find(hashSecret('unknown'))).toBeNull()
    expect(accounts.peek(hashSecret('unknown'))).toBeNull()
    expect(accounts.peek(hashSecret('never asked for'))).toBeUndefined()
  })

  it('have the given settings and no others', async () => {
    const { accounts, clock } = await setUpKey()
    const wanted = {
      name: 'Kiosk',
      disabled: true,
      expiresAt: clock.now + 1000,
      models: ['vendor/model'],
    } as const
    const limits = { rpm: 5, concurrency: 2, spendCap: { usd: '12.50', scope: 'month' } } as const
    const { key } = await accounts.createKey('acme', { ...wanted, ...limits })
    expect(simpleForm(key)).toEqual(limits)
    expect(key).toMatchObject({ ...wanted, account: 'acme', createdAt: clock.now })
    expect(key.id).toMatch(/^key_[0-9a-z]{16,}$/)
    expect(await accounts.key(key.id)).toEqual(key)
    expect(await accounts.key('laptop')).toMatchObject({ disabled: false, name: 'Laptop' })
    expect(await accounts.key('laptop')).not.toHaveProperty('limits')
  })

  it('are listed by account, or all, in the order of creation', async () => {
    const { accounts } = await setUpKey()
    await accounts.createAccount({ id: 'other', name: 'Other' })
    await accounts.createKey('other', { id: 'third', name: 'Third' })
    await accounts.createKey('acme', { id: 'second', name: 'Second' })
    const ids = async (account?: string) => (await accounts.listKeys(account)).map(({ id }) => id)
    expect(await ids('acme')).toEqual(['laptop', 'second'])
    expect(await ids('nobody')).toEqual([])
    expect(await ids()).toEqual(['laptop', 'second', 'third'])
  })

  it('can be seeded by secret, or by hash without the secret', async () => {
    const { accounts } = await setUpKey()
    const secret = 'a-secret-of-my-own'
    const own = await accounts.createKey('acme', { id: 'own', name: 'Own', secret })
    expect(own).toMatchObject({ secret, key: { start: 'seeded', sha256: hashSecret(secret) } })
    const sha256 = hashSecret('known elsewhere')
    const hashed = await accounts.createKey('acme', { id: 'hashed', name: 'Hashed', sha256 })
    expect(hashed).toMatchObject({ secret: '', key: { start: 'seeded', sha256 } })
    expect((await accounts.find(sha256))!.key.id).toBe('hashed')
  })

  it('can be taken over from another system with their secret', async () => {
    const { secret } = await setUpKey()
    const { accounts } = setUp()
    await accounts.createAccount({ id: 'acme', name: 'Acme' })
    const { key } = await accounts.createKey('acme', { name: 'Moved', secret })
    expect(key.start).toBe(secret.slice(0, 14))
  })

  it.each([
    ['a name of spaces', { name: '  ' }, 'name'],
    ['a long name', { name: 'x'.repeat(201) }, 'name'],
    ['no requests per minute', { rpm: 0 }, 'rpm_limit'],
    ['a fraction of a call', { concurrency: 1.5 }, 'concurrency_limit'],
    ['no moment', { expiresAt: NaN }, 'expires_at'],
    ['no model', { models: [] }, 'models'],
    ['a cap that is no amount', spendCap('many'), 'spend_cap.usd'],
    ['a negative cap', spendCap('-1'), 'spend_cap.usd'],
    ['a cap beyond counting', spendCap('1000000000000'), 'spend_cap.usd'],
  ])('refuse %s, when made and when changed', async (_, change, param) => {
    const { accounts, key } = await setUpKey()
    const refused = { status: 400, code: 'invalid_value', param }
    await expect(accounts.createKey('acme', { name: 'New', ...change })).rejects.toMatchObject(
      refused,
    )
    await expect(accounts.changeKey('laptop', change)).rejects.toMatchObject(refused)
    expect(await accounts.listKeys()).toEqual([key])
  })

  it.each([
    ['a malformed id', { id: 'Not OK' }, 'id'],
    ['an id that is taken', { id: 'laptop' }, 'id'],
    ['a malformed hash', { sha256: 'abc' }, 'sha256'],
    ['a short secret', { secret: 'short' }, 'secret'],
    ['a secret with spaces', { secret: 'a secret of my own' }, 'secret'],
    ['one of our secrets, mistyped', { secret: 'sk-sluice-0123456789' }, 'secret'],
    ['secret and hash', { secret: 'a-secret-of-my-own', sha256: '0'.repeat(64) }, 'secret'],
  ])('refuse %s', async (_, wanted, param) => {
    const { accounts, key } = await setUpKey()
    const made = accounts.createKey('acme', { name: 'New', ...wanted })
    await expect(made).rejects.toMatchObject({ status: 400, code: 'invalid_value', param })
    await expect(made).rejects.not.toThrow(/my.own/)
    expect(await accounts.listKeys()).toEqual([key])
  })

  it('refuse a secret that another key has', async () => {
    const { accounts, secret, sha256, key } = await setUpKey()
    const taken = { status: 400, code: 'invalid_value' }
    const bySecret = accounts.createKey('acme', { name: 'Twin', secret })
    await expect(bySecret).rejects.toMatchObject({ ...taken, param: 'secret' })
    const byHash = accounts.createKey('acme', { name: 'Twin', sha256 })
    await expect(byHash).rejects.toMatchObject({ ...taken, param: 'sha256' })
    expect((await accounts.find(sha256))!.key.id).toBe(key.id)
  })

  it('need an existing account, and have to exist to be changed', async () => {
    const { accounts } = await setUpKey()
    const unknown = { status: 404, code: 'not_found' }
    const made = accounts.createKey('nobody', { name: 'New' })
    await expect(made).rejects.toMatchObject({
      ...unknown,
      message: 'There is no account "nobody".',
    })
    const change = accounts.changeKey('nothing', { disabled: true })
    await expect(change).rejects.toMatchObject({
      ...unknown,
      message: 'There is no key "nothing".',
    })
  })

  it('can be created again after an interrupted attempt', async () => {
    const { accounts, records } = await setUpKey()
    vi.spyOn(records, 'create').mockRejectedValueOnce(new Error('disk full'))
    const wanted = { id: 'late', name: 'Late', secret: 'a-secret-of-my-own' }
    await expect(accounts.createKey('acme', wanted)).rejects.toThrow('disk full')
    expect(await accounts.find(hashSecret(wanted.secret))).toBeNull()
    expect(await accounts.listKeys('acme')).toHaveLength(1)
    const { key } = await accounts.createKey('acme', { ...wanted, secret: 'another-secret' })
    expect((await accounts.find(key.sha256))!.key.id).toBe('late')
    expect(await accounts.listKeys('acme')).toHaveLength(2)
    // The records of the interrupted attempt admit no call.
    expect(await accounts.reload(hashSecret(wanted.secret))).toBeNull()
  })
})

describe('a change', () => {
  it('changes the given members, removes those that are null, keeps the rest', async () => {
    const { accounts, clock } = await setUpKey()
    const cap = { usd: '1', scope: 'day' } as const
    await accounts.changeKey('laptop', { rpm: 5, spendCap: cap, models: ['vendor/*'] })
    clock.now += 1000
    const key = await accounts.changeKey('laptop', { rpm: null, spendCap: undefined, models: null })
    expect(key.name).toBe('Laptop')
    expect(simpleForm(key)).toEqual({ spendCap: cap })
    expect(await accounts.key('laptop')).toEqual(key)
    expect(key.models).toBeUndefined()
  })

  it('reads limits of earlier releases, which kept some beside the list, and writes one list', async () => {
    const { accounts, records, key } = await setUpKey()
    const week = { unit: 'usd', window: 'week', value: '2' } as const
    const raise = { value: '3', until: Date.UTC(2100, 0, 1) }
    const former = {
      rpm: 5,
      concurrency: 2,
      spendCap: { usd: '1', scope: 'day' },
      limits: [{ ...week, name: 'cap.week' }],
      raises: { 'cap.week': raise, 'cap.day': { ...raise, value: '4' } },
      since: { 'cap.week': 7 },
    }
    await records.replace('key:laptop', { ...key, ...former }, key.revision)
    const limits = [
      { unit: 'requests', window: 'minute', value: 5, name: 'rpm' },
      { unit: 'concurrent', value: 2, name: 'concurrency' },
      { unit: 'usd', window: 'day', value: '1', name: 'cap.day', raised: { ...raise, value: '4' } },
      { ...week, name: 'cap.week', raised: raise, since: 7 },
    ]
    expect((await accounts.key('laptop'))!.limits).toEqual(limits)
    expect((await accounts.keysOf(['laptop']))[0]!.limits).toEqual(limits)
    expect((await accounts.directory.view()).keys.get('laptop')!.hasCap).toBe(true)
    await accounts.changeKey('laptop', { rpm: 6 })
    const written = await records.get<object>('key:laptop')
    expect(written).toMatchObject({ limits: [{ ...limits[0], value: 6 }, ...limits.slice(1)] })
    for (const name of ['rpm', 'concurrency', 'spendCap', 'raises', 'since']) {
      expect(written).not.toHaveProperty(name)
    }
  })

  it('of a raise needs the limit, also where that has just gone', async () => {
    const { accounts } = await setUpKey()
    const raise = accounts.raise('key', 'laptop', 'cap.week', { value: '9', until: undefined })
    await expect(raise).rejects.toMatchObject({ status: 404, code: 'not_found' })
  })

  it('raises the revision to the time, at least by one', async () => {
    const { accounts, clock, key } = await setUpKey()
    expect(key.revision).toBe(clock.now)
    const changes = [1, 2, 3].map((rpm) => accounts.changeKey('laptop', { rpm }))
    const revisions = (await Promise.all(changes)).map(({ revision }) => revision)
    expect(revisions).toEqual([clock.now + 1, clock.now + 2, clock.now + 3])
    clock.now += 5000
    expect((await accounts.changeKey('laptop', { rpm: 4 })).revision).toBe(clock.now)
  })

  it('is not lost to a concurrent one', async () => {
    const { accounts } = await setUpKey()
    const cap = { usd: '1', scope: 'day' } as const
    await Promise.all([
      accounts.changeKey('laptop', { rpm: 5 }),
      accounts.changeKey('laptop', { disabled: true }),
      accounts.changeKey('laptop', { spendCap: cap }),
    ])
    const key = (await accounts.key('laptop'))!
    expect(key.disabled).toBe(true)
    expect(simpleForm(key)).toEqual({ rpm: 5, spendCap: cap })
  })

  it('that names a revision is applied to that revision only', async () => {
    const { accounts, key } = await setUpKey()
    const condition = { expected: key.revision }
    const { revision } = await accounts.changeKey('laptop', { rpm: 5 }, condition)
    const late = accounts.changeKey('laptop', { rpm: 6 }, condition)
    const current = { limits: [{ name: 'rpm', value: 5 }], revision }
    await expect(late).rejects.toMatchObject({ status: 412, current })
    const next = await accounts.changeKey('laptop', { rpm: 7 }, { expected: revision })
    expect(simpleForm(next)).toEqual({ rpm: 7 })
  })

  it('that disables a key refuses the next enter, here', async () => {
    const { accounts, enter, sha256, known } = await setUpKey()
    expect(enter(known)).toMatchObject({ ok: true })
    await accounts.changeKey('laptop', { disabled: true })
    expect(enter(known)).toEqual({ ok: false, why: 'stale' })
    expect(enter((await accounts.find(sha256))!)).toEqual({ ok: false, why: 'disabled', of: 'key' })
  })

  it('that disables a key refuses the next enter, in an instance that has it cached', async () => {
    const { accounts, instance, enter, sha256 } = await setUpKey()
    const elsewhere = instance()
    const cached = (await elsewhere.find(sha256))!
    expect(enter(cached)).toMatchObject({ ok: true })
    await accounts.changeKey('laptop', { disabled: true })
    expect(elsewhere.peek(sha256)).toBe(cached)
    expect(enter(cached)).toEqual({ ok: false, why: 'stale' })
    expect(enter((await elsewhere.reload(sha256))!)).toEqual({
      ok: false,
      why: 'disabled',
      of: 'key',
    })
    expect(elsewhere.peek(sha256)!.key.disabled).toBe(true)
  })

  it('applies from the moment it is acknowledged: rate, concurrency, expiry, cap', async () => {
    const { accounts, clock, enter, sha256, ledger, pay } = await setUpKey()
    await pay('acme')
    const known = async () => (await accounts.find(sha256))!
    await accounts.changeKey('laptop', { concurrency: 1 })
    expect(enter(await known())).toMatchObject({ ok: true })
    expect(enter(await known())).toMatchObject({ why: 'concurrency' })
    await accounts.changeKey('laptop', { concurrency: null, rpm: 1 })
    expect(enter(await known())).toMatchObject({ why: 'rpm', rate: { limit: 1 } })
    await accounts.changeKey('laptop', { rpm: null, spendCap: { usd: '0', scope: 'month' } })
    const { at } = enter(await known()) as { at: number }
    const hold = {
      request: 'req_4',
      account: 'acme',
      key: 'laptop',
      at,
      ...holdOf(0n),
      free: false,
    }
    expect(ledger.hold(hold)).toMatchObject({ why: 'limit', limit: { name: 'cap.month' } })
    await accounts.changeKey('laptop', { expiresAt: clock.now })
    expect(enter(await known())).toEqual({ ok: false, why: 'expired', of: 'key' })
  })

  it('is in the records before the ledger has it', async () => {
    const { accounts, records, ledger } = await setUpKey()
    const limits = ledger.limits.bind(ledger)
    let seen: unknown
    vi.spyOn(ledger, 'limits').mockImplementation(async (...args) => {
      seen = await records.get('key:laptop')
      await limits(...args)
    })
    const key = await accounts.changeKey('laptop', { disabled: true })
    expect(seen).toEqual(key)
  })
})

describe('admission', () => {
  it('lets exactly fifty of two hundred concurrent calls in for a limit of fifty a minute', async () => {
    const { accounts, enter, sha256, pay } = await setUpKey()
    await pay('acme')
    await accounts.changeKey('laptop', { rpm: 50 })
    const answers = await Promise.all(
      Array.from({ length: 200 }, async () => enter((await accounts.find(sha256))!)),
    )
    expect(answers.filter(({ ok }) => ok)).toHaveLength(50)
    expect(answers.filter((answer) => !answer.ok && answer.why === 'rpm')).toHaveLength(150)
  })

  it('works for keys that are new to the ledger', async () => {
    const { records, config, sha256 } = await setUpKey()
    const { ledger } = openInMemory()
    const accounts = new Accounts({ records, ledger, defaults: () => config })
    const { key, account } = (await accounts.find(sha256))!
    const { revision } = key
    const entry = { account: account.id, key: key.id, revision, freeTier: FREE_TIER }
    expect(ledger.enter({ ...entry, request: 'req_1' })).toMatchObject({ ok: true })
  })

  it('recovers by a reload when the ledger has lost the limits', async () => {
    const { records, config, sha256 } = await setUpKey()
    let { ledger } = openInMemory()
    const engine = {
      limits: (...args: Parameters<SqliteLedger['limits']>) => ledger.limits(...args),
    }
    const accounts = new Accounts({ records, ledger: engine as never, defaults: () => config })
    const { key, account } = (await accounts.find(sha256))!
    ledger = openInMemory().ledger
    const { revision } = key
    const entry = {
      request: 'req_1',
      account: account.id,
      key: key.id,
      revision,
      freeTier: FREE_TIER,
    }
    expect(ledger.enter(entry)).toEqual({ ok: false, why: 'stale' })
    await accounts.reload(sha256)
    expect(ledger.enter(entry)).toMatchObject({ ok: true })
  })

  it('applies new defaults within a minute', async () => {
    const { accounts, clock, config, enter, sha256, pay } = await setUpKey()
    await pay('acme')
    config.limits = { rpm: 1, concurrency: 30 }
    clock.now += 60_001
    expect(enter((await accounts.find(sha256))!)).toMatchObject({ ok: true, rate: { limit: 1 } })
  })
})

describe('the cache', () => {
  it('reads the records once for concurrent look-ups', async () => {
    const { instance, records, sha256 } = await setUpKey()
    const get = vi.spyOn(records, 'get')
    const accounts = instance()
    const found = await Promise.all(Array.from({ length: 50 }, () => accounts.find(sha256)))
    expect(new Set(found).size).toBe(1)
    expect(get.mock.calls.map(([key]) => key)).toEqual([
      `hash:${sha256}`,
      'account:acme',
      'key:laptop',
    ])
  })

  it('forgets a key after a minute, and an unknown one after two seconds', async () => {
    const { accounts, clock, sha256 } = await setUpKey()
    const unknown = hashSecret('unknown')
    await accounts.find(unknown)
    clock.now += 1999
    expect(accounts.peek(unknown)).toBeNull()
    clock.now += 2
    expect(accounts.peek(unknown)).toBeUndefined()
    clock.now += 57_000
    expect(accounts.peek(sha256)).toBeDefined()
    clock.now += 2000
    expect(accounts.peek(sha256)).toBeUndefined()
  })

  it('knows a new key at once, also after a look-up that found none', async () => {
    const { accounts } = await setUpKey()
    const secret = 'a-secret-of-my-own'
    expect(await accounts.find(hashSecret(secret))).toBeNull()
    await accounts.createKey('acme', { id: 'own', name: 'Own', secret })
    expect((await accounts.find(hashSecret(secret)))!.key.id).toBe('own')
  })

  it('keeps nothing of a failed look-up', async () => {
    const { instance, records, sha256 } = await setUpKey()
    const accounts = instance()
    vi.spyOn(records, 'get').mockRejectedValueOnce(new Error('store is down'))
    await expect(accounts.find(sha256)).rejects.toThrow('store is down')
    expect((await accounts.find(sha256))!.key.id).toBe('laptop')
  })
})

describe('a change of an account', () => {
  it('holds for all its keys with the next enter, in an instance that has them cached', async () => {
    const { accounts, instance, sha256, enter, known } = await setUpKey()
    const other = instance()
    const cached = (await other.find(sha256))!
    const { key: second } = await accounts.createKey('acme', { name: 'Second' })
    const { revision } = await accounts.changeAccount('acme', { rpm: 1 })
    expect(enter(known)).toEqual({ ok: false, why: 'stale' })
    expect(enter(cached)).toEqual({ ok: false, why: 'stale' })
    expect(enter((await other.reload(sha256))!)).toMatchObject({ ok: true, rate: { limit: 1 } })
    const refused = enter((await accounts.find(second.sha256))!)
    expect(refused).toMatchObject({ why: 'rpm', of: 'account' })
    const change = { rpm: null, disabled: true, note: 'moved out' }
    const next = await accounts.changeAccount('acme', change, { expected: revision })
    expect(next).toMatchObject({ disabled: true, note: 'moved out' })
    expect(next.limits).toBeUndefined()
    const disabled = enter((await other.reload(sha256))!)
    expect(disabled).toEqual({ ok: false, why: 'disabled', of: 'account' })
    const late = accounts.changeAccount('acme', { rpm: 5 }, { expected: revision })
    await expect(late).rejects.toMatchObject({ status: 412, current: { note: 'moved out' } })
  })

  it('that archives it refuses it and all its keys for good', async () => {
    const { accounts } = await setUpKey()
    await accounts.createKey('acme', { name: 'Second' })
    const archived = await accounts.archiveAccount('acme')
    expect(archived).toMatchObject({ disabled: true, archivedAt: expect.any(Number) })
    const keys = await accounts.listKeys('acme')
    expect(keys.map(({ archivedAt }) => archivedAt !== undefined)).toEqual([true, true])
    const refused = { status: 400, code: 'invalid_value' }
    await expect(accounts.changeAccount('acme', { disabled: false })).rejects.toMatchObject(refused)
    await expect(accounts.createKey('acme', { name: 'Third' })).rejects.toMatchObject(refused)
  })
})

describe('a rotation', () => {
  it('leaves the secret before for its time, and ends the one before that at once', async () => {
    const { accounts, clock, sha256, enter } = await setUpKey()
    const second = await accounts.rotateKey('laptop', { overlap: 60 })
    const admitted = async (hash: string) => {
      const known = await accounts.find(hash)
      return known !== null && enter(known).ok
    }
    const secondHash = hashSecret(second.secret)
    expect([await admitted(sha256), await admitted(secondHash)]).toEqual([true, true])
    clock.now += 59_999
    expect(await admitted(sha256)).toBe(true)
    clock.now += 1
    expect([await admitted(sha256), await admitted(secondHash)]).toEqual([false, true])

    const third = await accounts.rotateKey('laptop', { overlap: 60 })
    const fourth = await accounts.rotateKey('laptop', { overlap: 0 })
    const hashes = [secondHash, hashSecret(third.secret), hashSecret(fourth.secret)]
    expect(await Promise.all(hashes.map(admitted))).toEqual([false, false, true])
    expect(fourth.key).toMatchObject({ id: 'laptop', name: 'Laptop', start: expect.anything() })
  })

  it('reaches an instance that has the key cached', async () => {
    const { accounts, instance, sha256, enter } = await setUpKey()
    const other = instance()
    const cached = (await other.find(sha256))!
    await accounts.rotateKey('laptop', { overlap: 0 })
    expect(enter(cached)).toEqual({ ok: false, why: 'stale' })
    expect(await other.reload(sha256)).toBeNull()
  })

  it('needs a key that is not archived', async () => {
    const { accounts, known, enter } = await setUpKey()
    const archived = await accounts.archiveKey('laptop')
    expect(archived).toMatchObject({ disabled: true, archivedAt: expect.any(Number) })
    expect(enter(known).ok).toBe(false)
    await expect(accounts.rotateKey('laptop', { overlap: 0 })).rejects.toMatchObject({
      status: 400,
    })
    await expect(accounts.changeKey('laptop', { disabled: false })).rejects.toMatchObject({
      status: 400,
    })
    expect((await accounts.archiveKey('laptop')).archivedAt).toBe(archived.archivedAt)
  })
})
