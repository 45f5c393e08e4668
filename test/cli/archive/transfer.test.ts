import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Credentials } from '../../../src/access/credentials.ts'
import { Members } from '../../../src/access/members.ts'
import { Accounts } from '../../../src/accounts/accounts.ts'
import { hashSecret } from '../../../src/accounts/secrets.ts'
import { exportLines, importLines } from '../../../src/cli/archive/archive.ts'
import { allStatements, storeStatement } from '../../../src/server/admin/statements.ts'
import { packageVersion } from '../../../src/gateway/version.ts'
import { parsePico } from '../../../src/money/money.ts'
import { folder } from '../../_folder.ts'
import {
  collect,
  KEY,
  LIMITS,
  NOON,
  open,
  openInMemory,
  settlement,
} from '../../state/sqlite/_engine.ts'
import { holdOf } from '../../state/_hold.ts'

type State = Parameters<typeof exportLines>[0]

const DAYS_MS = 86_400_000
const SHA256 = 'a'.repeat(64)

/** State in memory, at noon of a day in 2026. */
function fresh(now = () => NOON): State & { readonly accounts: Accounts } {
  const state = openInMemory({ now })
  const defaults = () => ({ limits: LIMITS })
  return { ...state, accounts: new Accounts({ ...state, defaults, now }) }
}

/** An account with a key, and one of every kind of row. */
async function lived() {
  let now = NOON
  const state = fresh(() => now)
  const { ledger, accounts } = state
  await accounts.createAccount({ id: 'acct', name: 'Acme' })
  const { secret } = await accounts.createKey('acct', {
    id: 'key',
    name: 'Laptop',
    spendCap: { usd: '7.5', scope: 'day' },
    expiresAt: NOON + 100 * DAYS_MS,
  })
  const usd = 10n ** 12n
  await ledger.book({
    kind: 'top-up',
    account: 'acct',
    amount: 3_999_999n * usd + 1n,
    reference: 'r',
    note: 'n',
  })
  await ledger.settle(settlement('req_1', 2_500_000n))
  await ledger.fold(new Date(NOON))
  now += 5 * DAYS_MS
  await ledger.fold(new Date(now))
  await ledger.settle(settlement('req_2', 1n, '20260520'))
  const entry = { ...KEY, request: 'req_3', at: now, ...holdOf(0n), free: false }
  ledger.enter({
    ...entry,
    revision: Number.MAX_SAFE_INTEGER,
    freeTier: { rpm: 1, concurrency: 1 },
  })
  ledger.hold(entry)
  now += 60_000
  await ledger.account('acct')
  const adjustment = {
    kind: 'adjust' as const,
    account: 'acct',
    reference: 'ticket',
    note: 'paid twice',
  }
  await ledger.book({ ...adjustment, amount: -2n })
  await ledger.book({ ...adjustment, amount: 5n, reference: 'another' })
  return { ...state, secret }
}

async function linesOf(state: State): Promise<string[]> {
  return (await collect(exportLines(state))).map((line) => line.slice(0, -1))
}

function take(state: State, lines: readonly string[]) {
  return importLines(state, async function* () {
    yield* lines
  })
}

const parsed = (lines: readonly string[]) => lines.map((line) => JSON.parse(line))
/** The lines of an export without its header, which contains the time. */
const contentOf = async (state: State) => parsed((await linesOf(state)).slice(1))

it('tokens and members move, with all that they are found by; sessions, links and invitations do not', async () => {
  const peopleIn = ({ records, accounts }: ReturnType<typeof fresh>) => {
    const credentials = new Credentials(records, () => NOON)
    return { credentials, members: new Members(records, accounts, credentials, () => NOON) }
  }
  const from = fresh()
  const before = peopleIn(from)
  await from.accounts.createAccount({ id: 'acct', name: 'Acme' })
  const ada = { name: 'Ada', email: 'ada@example.com' }
  const member = await before.members.create({ account: 'acct' }, ada, 'file:admin')
  await from.accounts.createKey('acct', { id: 'own', name: 'Own', owner: member.id })
  const { secret } = await before.credentials.createToken({ name: 'ci', role: 'viewer' }, 'x', [])
  const invitation = await before.members.invite(member)
  const play = await before.credentials.playToken({ key: 'own', revision: 1, by: 'x' })
  const session = {
    side: 'member',
    subject: { member: member.id },
    actor: 'x',
    name: 'Ada',
    how: 'invitation',
    secure: false,
    keep: true,
    address: '',
    agent: '',
  } as const
  const limits = { idle: 3600, lifetime: 3600 }
  const begun = await before.credentials.beginSession(session, limits)

  const lines = await collect(exportLines(from))
  const all = lines.join('')
  for (const one of [secret, invitation.secret, play.secret, begun.secret]) {
    expect(all).not.toContain(one)
  }
  expect(all).not.toMatch(/session:|ticket:|play:|invitation/)
  const to = fresh()
  const read = async function* () {
    yield* lines
  }
  expect((await importLines(to, read)).added).toBeGreaterThan(0)
  expect((await importLines(to, read)).added).toBe(0)
  const after = peopleIn(to)
  expect(await after.credentials.tokenOf(secret, false)).toMatchObject({ name: 'ci' })
  expect(await after.credentials.tokens()).toHaveLength(1)
  expect(await after.members.list({ account: 'acct' })).toEqual([member])
  expect((await after.members.keysOf(member)).map(({ id }) => id)).toEqual(['own'])
  expect(await after.credentials.use(invitation.secret, 'invitation')).toBeUndefined()
  expect(await after.credentials.session(begun.secret, 'member', limits, false)).toBeUndefined()
  const claims = { iss: 'https://idp.example', sub: 'ada-1', email: ada.email }
  expect((await after.members.ofPerson('idp', claims, [])).members).toMatchObject([
    { id: member.id },
  ])
  // An earlier form has none of them, and a release that does not know such lines leaves them out.
  expect((await collect(exportLines(from, 1))).join('')).not.toMatch(/"(?:token|member)"/)
  const optional = lines.map((line) => JSON.parse(line)).filter((one) => one.optional)
  expect(optional.map(({ kind }) => kind)).toEqual(['token', 'member'])
})

describe('an export', () => {
  it('has a header, records, the ledger and an end, amounts as decimal text', async () => {
    const state = await lived()
    const lines = await collect(exportLines(state))
    expect(lines.every((line) => line.endsWith('}\n') && !line.slice(0, -1).includes('\n'))).toBe(
      true,
    )
    const [header, ...rest] = parsed(lines)
    expect(header).toEqual({
      kind: 'export',
      version: 2,
      at: expect.any(Number),
      ledger: expect.stringMatching(/^ledger_/),
      release: packageVersion(),
    })
    expect(rest.pop()).toEqual({ kind: 'end', lines: lines.length })
    const [records, items] = [rest.slice(0, 5), rest.slice(5)]
    expect(records.map(({ kind, key }) => [kind, key.replace(/[0-9a-f]{64}/, '…')])).toEqual([
      ['record', 'index:accounts'],
      ['record', 'account:acct'],
      ['record', 'index:keys:acct'],
      ['record', 'hash:…'],
      ['record', 'key:key'],
    ])
    expect(items).toMatchObject([
      { kind: 'account', account: 'acct', paid: true },
      { kind: 'limits', key: 'key', limits: { counted: [{ id: 'cap.day', value: '7.5' }] } },
      { kind: 'total', key: 'key', day: '20260515', rows: 1, cost: '0.0000025' },
      { kind: 'top-up', request: 'r', at: NOON, cost: '-3999999.000000000001', note: 'n' },
      { kind: 'base', n: 2, optional: true },
      { kind: 'usage', request: 'req_2', day: '20260520', cost: '0.000000000001' },
      { kind: 'orphan', request: 'req_3', key: 'key', cost: '0' },
      { kind: 'adjust', request: 'ticket', cost: '0.000000000002', note: 'paid twice' },
      { kind: 'adjust', request: 'another', cost: '-0.000000000005', note: 'paid twice' },
    ])
    expect(lines.join('')).not.toContain(state.secret)
  })

  it('of an empty state has a header and an end', async () => {
    const lines = await linesOf(fresh())
    expect(parsed(lines).map(({ kind }) => kind)).toEqual(['export', 'end'])
    expect(await take(fresh(), lines)).toEqual({ lines: 2, added: 0 })
  })
})

describe('an import', () => {
  it('brings accounts, keys and money to another engine and back, once', async () => {
    const source = await lived()
    const lines = await linesOf(source)
    const file = await open()
    const back = fresh()
    for (const [from, to] of [
      [source, file],
      [file, back],
    ] as const) {
      const lines = await linesOf(from)
      expect(await take(to, lines)).toEqual({ lines: lines.length, added: lines.length - 2 })
      expect(await take(to, lines)).toEqual({ lines: lines.length, added: 0 })
      expect(await to.ledger.verify()).toEqual([])
    }
    expect(await contentOf(back)).toEqual(parsed(lines.slice(1)))
    expect(await back.accounts.listKeys()).toEqual(await source.accounts.listKeys())
    expect(await back.accounts.listAccounts()).toEqual(await source.accounts.listAccounts())
  })

  it('gives an empty ledger the identity of the exported one, and no other ledger', async () => {
    const source = await lived()
    const { id } = await source.ledger.state()
    const path = await folder({})
    const file = await open(path)
    const lines = await linesOf(source)
    await take(file, lines)
    expect((await file.ledger.state()).id).toBe(id)
    await file.ledger.close()
    const again = await open(path)
    expect(await again.ledger.state()).toMatchObject({ id })
    expect((await again.ledger.state()).doubt).toBeUndefined()
    const other = await lived()
    const before = (await other.ledger.state()).id
    await take(again, await linesOf(other)).catch(() => undefined)
    expect((await again.ledger.state()).id).toBe(id)
    expect(before).not.toBe(id)
  })

  it('makes the keys work in the new state', async () => {
    const source = await lived()
    const target = fresh()
    await take(target, await linesOf(source))
    const known = await target.accounts.find(hashSecret(source.secret))
    expect(known).toMatchObject({ key: { id: 'key', name: 'Laptop' }, account: { id: 'acct' } })
    expect(await target.ledger.account('acct')).toEqual(await source.ledger.account('acct'))
  })

  it('leaves newer keys and other accounts as they are', async () => {
    const source = await lived()
    const target = fresh()
    await target.accounts.createAccount({ id: 'other', name: 'Other' })
    await take(target, await linesOf(source))
    await target.accounts.changeKey('key', { name: 'Renamed' })
    await take(target, await linesOf(source))
    expect(await target.accounts.key('key')).toMatchObject({ name: 'Renamed' })
    const accounts = await target.accounts.listAccounts()
    expect(accounts.map(({ id }) => id)).toEqual(['other', 'acct'])
    expect(await target.accounts.listKeys('acct')).toHaveLength(1)
  })

  it('keeps the newer one of two versions of a key', async () => {
    const source = await lived()
    const target = fresh()
    await take(target, await linesOf(source))
    await source.accounts.changeKey('key', { disabled: true })
    expect(await take(target, await linesOf(source))).toMatchObject({ added: 2 })
    expect(await target.accounts.key('key')).toMatchObject({ disabled: true })
    const [limits] = parsed(await linesOf(target)).filter(({ kind }) => kind === 'limits')
    expect(limits).toMatchObject({ limits: { disabled: true } })
  })

  it('continues after one that was interrupted', async () => {
    const lines = await linesOf(await lived())
    const target = fresh()
    let left = lines.length + lines.length - 3
    const torn = importLines(target, async function* () {
      for (const line of lines) {
        if (left-- === 0) throw new Error('torn')
        yield line
      }
    })
    await expect(torn).rejects.toThrow('torn')
    expect(await target.accounts.listKeys()).toHaveLength(1)
    await take(target, lines)
    expect(await contentOf(target)).toEqual(parsed(lines.slice(1)))
    expect(await target.ledger.verify()).toEqual([])
  })

  it('takes a team that is there already, and the newer one of two', async () => {
    const source = fresh()
    await source.accounts.createAccount({ id: 'acct', name: 'Acme' })
    await source.accounts.createTeam('acct', { id: 'red', name: 'Red', rpm: 5 })
    const target = fresh()
    await take(target, await linesOf(source))
    expect(await take(target, await linesOf(source))).toMatchObject({ added: 0 })
    await source.accounts.changeTeam('red', { rpm: 6 })
    await take(target, await linesOf(source))
    expect(await target.accounts.team('red')).toEqual(await source.accounts.team('red'))
  })

  it('imports several batches', async () => {
    const source = fresh()
    for (let i = 0; i < 1200; i++) await source.ledger.settle(settlement(`req_${i}`, BigInt(i)))
    const target = await open()
    const lines = await linesOf(source)
    const { commits } = target.ledger
    expect(await take(target, lines)).toEqual({ lines: 1203, added: 1200 })
    expect(target.ledger.commits - commits).toBe(3)
    expect(await target.ledger.account('acct')).toMatchObject({ balance: -719_400n })
    expect(await collect(target.ledger.orphans())).toEqual([])
    expect(await target.ledger.verify()).toEqual([])
  })

  it('takes what the release before wrote, and writes what it reads', async () => {
    const source = await lived()
    const lines = (await collect(exportLines(source, 1))).map((line) => line.slice(0, -1))
    expect(parsed(lines)[0]).toEqual({ kind: 'export', version: 1, at: expect.any(Number) })
    const written = parsed(lines).find((line) => String(line.key).startsWith('key:'))!.value
    expect(written).toMatchObject({ spendCap: { usd: '7.5', scope: 'day' } })
    expect(written).not.toHaveProperty('limits')
    const target = fresh()
    await take(target, lines)
    const { length } = await contentOf(source)
    const folded = (await contentOf(source)).filter(({ kind }) => kind !== 'base')
    expect(await contentOf(target)).toEqual([
      ...folded.slice(0, -1),
      { kind: 'end', lines: length },
    ])
    const { ledger } = fresh(() => NOON + 10 * DAYS_MS)
    const usage = { at: NOON, endpoint: 'e', model: 'm', outcome: 'completed', lines: [] } as const
    for (const request of ['req_1', 'req_2']) {
      const cost = parsePico('3999999')
      await ledger.settle({ account: 'rich', key: 'key', request, day: '20260515', cost, usage })
    }
    await ledger.fold(new Date(NOON + 5 * DAYS_MS))
    const rich = { ...fresh(), ledger }
    await expect(collect(exportLines(rich, 1))).rejects.toThrow('only version 2 has it')
    const into = fresh()
    await take(into, await linesOf(rich))
    expect(await into.ledger.key('rich', 'key')).toMatchObject({ lifetime: parsePico('7999998') })
    expect(await into.ledger.verify()).toEqual([])
  })

  it('writes bookings of newer kinds as corrections for the release before, and refuses a credit limit', async () => {
    const source = fresh()
    const { ledger } = source
    await source.accounts.createAccount({ id: 'acct', name: 'Acme' })
    const base = { account: 'acct', reference: 'r' }
    await ledger.book({ ...base, kind: 'top-up', amount: 10n, expiresAt: NOON + DAYS_MS })
    await ledger.book({ ...base, kind: 'promo', amount: 7n, note: 'spring' })
    await ledger.settle(settlement('req_1', 2n))
    await ledger.book({ ...base, kind: 'refund', amount: 2n, reference: 'req_1', note: 'cut off' })
    await ledger.book({ ...base, kind: 'expire', amount: 0n, reference: 'top-up:r' })
    const lines = (await collect(exportLines(source, 1))).map((line) => line.slice(0, -1))
    const booked = parsed(lines).filter(({ kind }) => kind === 'adjust' || kind === 'top-up')
    expect(booked).toEqual([
      { kind: 'top-up', account: 'acct', request: 'r', at: NOON, cost: '-0.00000000001' },
      {
        kind: 'adjust',
        account: 'acct',
        request: 'promo:r',
        at: NOON,
        cost: '-0.000000000007',
        note: 'spring',
      },
      {
        kind: 'adjust',
        account: 'acct',
        request: 'refund:req_1',
        at: NOON,
        cost: '-0.000000000002',
        note: 'cut off',
      },
      {
        kind: 'adjust',
        account: 'acct',
        request: 'expire:top-up:r',
        at: NOON,
        cost: '0.000000000008',
        note: 'expire',
      },
    ])
    const target = fresh()
    await take(target, lines)
    expect(await target.ledger.account('acct')).toMatchObject({ balance: 9n })
    expect(await target.ledger.verify()).toEqual([])

    await source.accounts.changeAccount('acct', { creditLimit: '5' })
    await expect(collect(exportLines(source, 1))).rejects.toThrow('only version 2 has it')
    const other = fresh()
    await take(other, await linesOf(source))
    expect((await contentOf(other)).find(({ kind }) => kind === 'limits')).toMatchObject({
      limits: { credit: '5' },
    })
    expect(await contentOf(other)).toEqual(await contentOf(source))
  })

  it('brings statements along, so that numbers go on after those of the ledger that was moved', async () => {
    const source = fresh()
    const numbered = (n: number, month: string, state: string) => ({
      number: `S-2026-0000${n}`,
      state,
      void_reason: state === 'void' ? 'the wrong name' : null,
      account_id: 'acct',
      month,
      closing_usd: '1',
    })
    const stored = [
      numbered(1, '2026-09', 'issued'),
      numbered(2, '2026-10', 'void'),
      numbered(3, '2026-10', 'issued'),
    ]
    for (const one of stored) await storeStatement(source.records, one as never)
    const lines = await linesOf(source)
    const moved = parsed(lines).filter(({ kind }) => kind === 'statement')
    expect(moved.map(({ value }) => value)).toEqual(stored)
    const target = fresh()
    const { added } = await take(target, lines)
    expect(added).toBe(stored.length)
    expect((await take(target, lines)).added).toBe(0)
    expect(await collect(allStatements(target.records))).toEqual(stored)
    expect(await target.records.get('statement-newest:S-2026')).toMatchObject({
      number: 'S-2026-00003',
    })
    expect(await target.records.get('statement-of:acct:2026-10')).toMatchObject({
      number: 'S-2026-00003',
    })
    // A number of another statement is not taken over.
    const foreign = fresh()
    await storeStatement(foreign.records, { ...stored[0]!, account_id: 'other' } as never)
    await expect(take(foreign, lines)).rejects.toThrow('another statement S-2026-00001 exists')
    expect((await collect(exportLines(source, 1))).join('')).not.toContain('"statement"')
  })

  it('leaves out what a newer release marks as optional, and nothing else', async () => {
    const lines = await linesOf(await lived())
    const total = parsed(lines).findIndex(({ kind }) => kind === 'total')
    const changed = (change: object) =>
      lines.with(total, JSON.stringify({ ...JSON.parse(lines[total]!), ...change }))
    const more = (line: object) => [
      ...lines.slice(0, -1),
      JSON.stringify(line),
      JSON.stringify({ kind: 'end', lines: lines.length + 1 }),
    ]
    await take(fresh(), more({ kind: 'seal', account: 'acct', n: 3, optional: true }))
    await take(fresh(), changed({ colour: 'red', optional: ['colour'] }))
    await expect(take(fresh(), more({ kind: 'seal', account: 'acct' }))).rejects.toThrow('kind')
    await expect(take(fresh(), changed({ colour: 'red' }))).rejects.toThrow('colour: unknown key')
  })

  it('refuses an incomplete export, and imports nothing of it', async () => {
    const lines = await linesOf(await lived())
    const at = (kind: string) => parsed(lines).findIndex((line) => line.kind === kind)
    const usage = at('usage')
    const changed = (index: number, change: object) =>
      lines.with(index, JSON.stringify({ ...JSON.parse(lines[index]!), ...change }))
    const inside = (index: number, member: string, change: object) =>
      changed(index, { [member]: { ...JSON.parse(lines[index]!)[member], ...change } })
    for (const [wrong, message] of [
      [[], 'line 1: the export ends early, its last lines are missing'],
      [['hello'], 'line 1: this is not an export: its first line is not a header'],
      [lines.slice(1), 'line 1: this is not an export: its first line is not a header'],
      [
        changed(0, { version: 3 }),
        'line 1: the export has version 3; this gateway reads version 1 and 2',
      ],
      [
        lines.slice(0, -1),
        `line ${lines.length}: the export ends early, its last lines are missing`,
      ],
      [
        lines.toSpliced(usage, 1),
        `line ${lines.length - 1}: the export had ${lines.length} lines, some are missing`,
      ],
      [[...lines, lines[1]!], `line ${lines.length + 1}: the export ended on the line before`],
      [lines.with(usage, lines[usage]!.slice(0, -9)), `line ${usage + 1}: expected a JSON object`],
      [
        [...lines.slice(0, usage), lines[usage]!.slice(0, -9)],
        `line ${usage + 1}: the file is cut within this line, what follows is missing`,
      ],
      [lines.with(usage, '[]'), `line ${usage + 1}: expected a JSON object`],
      [changed(usage, { kind: 'gift' }), /kind: expected .*"usage".*, found "gift"$/],
      [changed(usage, { tip: 1 }), /tip: unknown key/],
      [
        changed(usage, { cost: 5 }),
        /cost: expected an amount of USD such as "0\.0025", .*found the/,
      ],
      [
        changed(usage, { cost: '-5' }),
        /cost: expected an amount of USD such as "0\.0025", .*found "-5"/,
      ],
      [changed(usage, { cost: '0.0000000000001' }), /cost: expected an amount of USD/],
      [changed(usage, { day: '20260230' }), /day: expected a day such as "20270131", found "2026/],
      [changed(usage, { at: 0.5 }), /at: expected a moment in ms since 1970/],
      [changed(usage, { request: undefined }), /request: expected a text, found nothing/],
      [inside(usage, 'usage', { outcome: 'fine' }), /usage\.outcome: expected /],
      [inside(usage, 'usage', { lines: {} }), /usage\.lines: expected a list/],
      [changed(at('top-up'), { cost: '1' }), /cost: expected an amount of USD below zero/],
      [
        changed(at('top-up'), { cost: '-4000000.1' }),
        /cost: expected .*, at least -4000000, found/,
      ],
      [changed(at('total'), { cost: '-1' }), /cost: expected a sum of USD .*, found "-1"/],
      [changed(at('orphan'), { cost: '1' }), /cost: expected "0"/],
      [changed(at('adjust'), { cost: '-4000000.1' }), /cost: expected .* either way, found/],
      [changed(at('adjust'), { note: undefined }), /note: expected a text, found nothing/],
      [changed(at('total'), { rows: 0 }), /rows: expected a whole number of at least 1/],
      [inside(at('limits'), 'limits', { rpm: 0 }), /limits\.rpm: expected a whole number of at/],
      [
        changed(1, { key: 'index:other' }),
        /key: expected the key of an account, key, hash, prices or/,
      ],
      [changed(1, { key: 'pin:acct' }), /key: expected the key of an account/],
      [inside(1, 'value', { ids: ['a/b'] }), /value\.ids\.0: expected 1 to 64 lower-case/],
      [changed(2, { key: 'account:other' }), /value\.id: expected the id that is in the key/],
      [
        inside(5, 'value', { sha256: 'x' }),
        /value\.sha256: expected 64 hex digits, found \[secret\]/,
      ],
    ] as const) {
      const target = fresh()
      const error = await take(target, wrong).then(
        () => expect.unreachable(`took ${wrong.join('\n')}`),
        (error: Error) => error,
      )
      expect(error.message).toMatch(message)
      expect(error.message).toMatch(/^line \d+: /)
      expect(parsed(await linesOf(target)).map(({ kind }) => kind)).toEqual(['export', 'end'])
    }
  })

  it('names the line that contradicts the state', async () => {
    const lines = await linesOf(await lived())
    const usage = parsed(lines).findIndex(({ kind }) => kind === 'usage')
    const target = fresh()
    await take(target, lines)
    const forged = lines.with(usage, lines[usage]!.replace('0.000000000001', '0.000000000002'))
    await expect(take(target, forged)).rejects.toThrow(
      `line ${usage + 1}: request "req_2" of account acct is stored already, with another amount`,
    )
    expect(await contentOf(target)).toEqual(parsed(lines.slice(1)))
  })

  it('refuses a key of another account', async () => {
    const source = await lived()
    const lines = await linesOf(source)
    const other = fresh()
    await other.accounts.createAccount({ id: 'acct', name: 'Acme' })
    await other.accounts.createKey('acct', { id: 'key', name: 'Another', sha256: SHA256 })
    await expect(take(other, lines)).rejects.toThrow('line 6: another key with the same id exists')

    const hash = JSON.parse(lines[4]!).key
    const twin = fresh()
    await twin.records.put(hash, { account: 'acct', key: 'twin' })
    await expect(take(twin, lines)).rejects.toThrow('line 5: another hash with the same id exists')
  })
})

it('an export of a ledger in use is as of one moment', async () => {
  const { ledger } = await open()
  const settled = Array.from({ length: 300 }, (_, i) => ledger.settle(settlement(`req_${i}`, 1n)))
  await Promise.all(settled)
  const items = ledger.export()
  expect((await items.next()).value).toEqual({ kind: 'account', account: 'acct', paid: false })
  await ledger.settle(settlement('req_late', 1n))
  expect(await collect(items)).toHaveLength(300)
  expect(await collect(ledger.export())).toHaveLength(302)
})

it('an export survives a file', async () => {
  const source = await lived()
  const file = join(await folder({}), 'export.jsonl')
  await writeFile(file, '')
  for await (const line of exportLines(source)) await appendFile(file, line)
  const target = fresh()
  await take(target, (await readFile(file, 'utf8')).split('\n').slice(0, -1))
  expect(await contentOf(target)).toEqual(await contentOf(source))
})
