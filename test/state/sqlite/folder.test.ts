/** A ledger that was deleted, emptied, exchanged or replaced by an older copy while no gateway ran. */
import { copyFile, mkdir, readdir, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Accounts } from '../../../src/accounts/accounts.ts'
import { ConfigError, Unavailable } from '../../../src/errors/errors.ts'
import { beginLedger } from '../../../src/state/sqlite/folder.ts'
import { folder } from '../../_folder.ts'
import * as cli from '../../_cli.ts'
import { collect, LIMITS, NOON, open, openPaid, settlement, type Opened } from './_engine.ts'

const DAY_MS = 86_400_000

/** A folder whose gateway has ended, with one account and this many settlements. */
async function used(settlements = 1): Promise<{ path: string; file: string }> {
  const { ledger, path } = await openPaid()
  const calls = Array.from({ length: settlements }, (_, i) => settlement(`req_${i}`, 40n))
  await Promise.all(calls.map((call) => ledger.settle(call)))
  await ledger.close()
  return { path, file: join(path, 'ledger.db') }
}

/** The message with which a folder is refused. */
async function refusalOf(path: string): Promise<string> {
  const refused = await open(path).catch((error: unknown) => error)
  if (!(refused instanceof ConfigError)) throw refused
  expect(refused.issues).toMatchObject([{ path: 'state.path' }])
  return refused.issues[0]!.message
}

const identityIn = (message: string) => /ledger_[0-9a-f]{24}/.exec(message)![0]

describe('a ledger that is gone', () => {
  it.each([
    ['is missing', (file: string) => rm(file)],
    ['is empty', (file: string) => truncate(file, 0)],
    ['is another ledger', async (file: string) => copyFile((await used()).file, file)],
    [
      'is another ledger',
      async (file: string) => {
        await rm(file)
        await rename((await used()).file, file)
      },
    ],
  ])('is not replaced by an empty one: it %s', async (what, damage) => {
    const { path, file } = await used()
    await copyFile(file, join(path, 'kept.db'))
    await damage(file)
    const names = await readdir(path)
    const message = await refusalOf(path)
    expect(message).toContain(`${file} ${what}; this folder's ledger ledger_`)
    expect(message).toContain('had 1 account and was last written 2026-05-15T12:00:00.000Z.')
    const discard = `sluicegate ledger new --data ${path} --discard ${identityIn(message)}`
    expect(message.endsWith(discard)).toBe(true)
    expect(await refusalOf(path)).toBe(message)
    expect(await readdir(path)).toEqual(names)
    await rename(join(path, 'kept.db'), file)
    const { ledger, logged } = await open(path)
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 40n })
    expect([ledger.health().ok, logged]).toEqual([true, []])
  })

  it('is refused to all commands that open it', async () => {
    const { path, file } = await used()
    await rm(file)
    const cwd = await folder({ 'gateway.config.yaml': `state: { path: ${path} }\n`, 'x.jsonl': '' })
    for (const args of [['serve'], ['ledger', 'import', 'x.jsonl']]) {
      const { code, err } = await cli.call(args, { cwd })
      expect(err).toContain(`${file} is missing; this folder's ledger`)
      expect(code).toBe(1)
    }
  })

  it('is refused with the newest copy that could be put in its place', async () => {
    const { path, file } = await used()
    await mkdir(join(path, 'copies'))
    for (const day of ['20260514', '20260515', '20260513']) {
      await writeFile(join(path, 'copies', `ledger-${day}.db`), '')
    }
    await rm(file)
    expect(await refusalOf(path)).toContain(
      `Put ${path}/copies/ledger-20260515.db there, without files ledger.db-wal and`,
    )
  })
})

describe('an older copy in the place of a ledger', () => {
  it('admits nothing before it was accepted, also after a restart', async () => {
    const { path, file } = await used()
    await copyFile(file, join(path, 'copy.db'))
    const second = await open(path)
    for (let i = 0; i < 3; i++) await second.ledger.settle(settlement(`late_${i}`, 1n))
    await second.ledger.close()
    await rename(join(path, 'copy.db'), file)
    const { ledger, logged } = await open(path)
    expect(logged.join()).toMatch(
      /is as of .*Nothing is admitted.* \(its newest 3 rows are missing\)/,
    )
    expect(await collect(ledger.usage('acct'))).toHaveLength(2)
    expect(() => ledger.assertOpen()).toThrow(Unavailable)
    const topUp = { kind: 'top-up' as const, account: 'acct', amount: 1n, reference: 'more' }
    await expect(ledger.book(topUp)).rejects.toThrow(Unavailable)
    await ledger.close()
    const { ledger: again } = await open(path)
    expect(again.health()).toMatchObject({ ok: false, doubt: expect.stringContaining(path) })
    const { doubt, ...size } = await again.state()
    expect(size).toMatchObject({ engine: 'file', rows: 2, freeBytes: expect.any(Number) })
    expect(doubt).toMatchObject({ kind: 'older', known: { id: expect.stringMatching(/^ledger_/) } })
    const { id } = doubt!.known
    await expect(again.accept({ id, kind: 'foreign' })).rejects.toThrow('It is older now')
    await again.accept({ id, kind: 'older' })
    again.assertOpen()
    expect(await again.book(topUp)).toMatchObject({ state: 'charged' })
    await again.close()
    const { ledger: last } = await open(path)
    expect(last.health().ok).toBe(true)
  })

  it('takes no account, key or team, and no change of one', async () => {
    const { path, file } = await used()
    const first = await open(path)
    const accountsOf = (opened: Pick<Opened, 'ledger' | 'records'>) =>
      new Accounts({ ...opened, defaults: () => ({ limits: LIMITS }) })
    const { key } = await accountsOf(first)
      .createAccount({ id: 'one', name: 'One' })
      .then(({ id }) => accountsOf(first).createKey(id, { name: 'first' }))
    await first.ledger.close()
    await copyFile(file, join(path, 'copy.db'))
    const second = await open(path)
    await second.ledger.settle(settlement('late', 1n))
    await second.ledger.close()
    await rename(join(path, 'copy.db'), file)
    const { ledger, records } = await open(path)
    const accounts = accountsOf({ ledger, records })
    for (const write of [
      () => accounts.createAccount({ id: 'two', name: 'Two' }),
      () => accounts.createKey('one', { name: 'second' }),
      () => accounts.createTeam('one', { id: 'team', name: 'Team' }),
      () => accounts.changeKey(key.id, { disabled: true }),
    ]) {
      await expect(write()).rejects.toThrow(Unavailable)
    }
    expect(await records.list('accounts')).toEqual(['one'])
    expect(await records.list('keys:one')).toEqual([key.id])
    expect(await records.list('teams:one')).toEqual([])
    const { doubt } = await ledger.state()
    await ledger.accept({ id: doubt!.known.id, kind: doubt!.kind })
    expect((await accounts.createKey('one', { name: 'second' })).key.name).toBe('second')
  })

  it('is not what folding leaves', async () => {
    const { path } = await used(600 + 2)
    const { ledger } = await open(path, () => NOON + 30 * DAY_MS)
    expect(await ledger.fold(new Date(NOON + 20 * DAY_MS))).toBe(600 + 2)
    await ledger.close()
    const { ledger: again, logged } = await open(path)
    expect([again.health().ok, logged]).toEqual([true, []])
  })

  it('is taken without a word where nothing is known, as in an empty folder', async () => {
    const { path } = await used()
    await rm(join(path, 'owner.db'))
    const { ledger, logged } = await open(path)
    expect(await ledger.account('acct')).toMatchObject({ balance: 10n ** 13n - 40n })
    expect(logged).toEqual([])
  })
})

it('a damaged memory of the folder is refused in a sentence, and can be removed', async () => {
  const { path } = await used()
  const owner = join(path, 'owner.db')
  await writeFile(owner, 'not a database, whatever it says '.repeat(400))
  expect(await refusalOf(path)).toMatch(
    /owner\.db is damaged \(.*make sure.*then remove \S+owner\.db\.$/,
  )
  await rm(owner)
  expect((await open(path)).logged).toEqual([])
})

describe('ledger new', () => {
  it('begins a ledger where the former one is named, and keeps what is there', async () => {
    const { path, file } = await used()
    const { file: other } = await used()
    await copyFile(other, file)
    const identity = identityIn(await refusalOf(path))
    const run = (...args: string[]) => cli.call(['ledger', 'new', '--data', path, ...args])
    for (const args of [[], ['--discard', 'ledger_0']]) {
      const { code, err } = await run(...args)
      expect(err).toContain(`belongs to the ledger ${identity}, which has 1 account and was last`)
      expect(err).toContain(`add --discard ${identity}.`)
      expect(code).toBe(1)
    }
    const { code, out } = await run('--discard', identity)
    const [, fresh, kept] = /has the new ledger (\S+)\. The former one is (\S+)\.\n$/.exec(out)!
    expect([code, identity]).not.toContain(fresh)
    expect(code).toBe(0)
    const { ledger } = await open(path)
    expect(await ledger.account('acct')).toMatchObject({ balance: 0n })
    await ledger.close()
    const restored = await folder({})
    await copyFile(kept!, join(restored, 'ledger.db'))
    expect(await (await open(restored)).ledger.account('acct')).toMatchObject({ paid: true })
  })

  it('begins one in an empty folder, and none over a ledger', async () => {
    const path = await folder({})
    const { identity, kept } = beginLedger(path, undefined)
    expect([identity.length, kept]).toEqual([31, undefined])
    const { ledger } = await open(path)
    expect(() => beginLedger(path, identity)).toThrow('belongs to a process that is running')
    await ledger.close()
    await rm(join(path, 'owner.db'))
    expect(() => beginLedger(path, undefined)).toThrow('ledger.db is a ledger already')
  })

  it('is for files only', async () => {
    const cwd = await folder({ 'gateway.config.yaml': 'state: { driver: memory }\n' })
    expect(await cli.call(['ledger', 'new'], { cwd })).toEqual({
      code: 1,
      out: '',
      err: 'state.driver is "memory": only "file" has a ledger in a folder.\n',
    })
  })
})
