/** A month of work of someone who sells access, by the command line alone. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

const TOKEN = 'admin-token-of-the-test'

let gateway: TestGateway
beforeAll(async () => {
  const closed = {
    use: 'openai-compatible',
    options: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'k' },
  }
  const { providers, models } = MOCK_CONFIG
  gateway = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    providers: { ...providers, closed },
    models: {
      ...models,
      'acme/closed': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'closed', model: 'm' }],
      },
    },
  })
})
afterAll(() => gateway.close())

async function command(text: string, ...more: string[]): Promise<string> {
  const args = [...text.split(' '), ...more, '--url', gateway.url, '--token', TOKEN]
  const { code, out, err } = await call(args)
  expect([code, err], text).toEqual([0, ''])
  return out
}

const json = async (text: string, ...more: string[]) =>
  JSON.parse(await command(`${text} --json`, ...more))

it('sells a month of access by commands alone', async () => {
  await command('accounts create', 'Shoe shop', '--id', 'shop')
  await command('credits add shop 20 --reference invoice-1')
  expect(await command('credits add shop 20 --reference invoice-1')).toContain('booked before')
  await command('accounts update shop --rpm 4 --cap 15/month --alert 5', '--note', 'pays monthly')
  const made = await json('keys create shop --name kiosk --tag desk --cap 3/day')
  const chat = async (key: string) => (await gateway.chat(hello, { key })).status
  expect(await chat(made.key)).toBe(200)

  // A link can be sent as it is printed.
  const invited = await command('members invite shop --name Ada')
  expect(invited).toContain(`\n  ${gateway.url}/me#invite=once.`)

  const limits = await command(`limits show key:${made.data.id}`)
  for (const name of ['key.cap.day', 'account.rpm', 'account.cap.month']) {
    expect(limits).toContain(name)
  }
  const rotated = await json(`keys rotate ${made.data.id} --overlap 7d`)
  expect(rotated.data.previous_secret.until).toMatch(/^\d{4}-/)
  expect([await chat(made.key), await chat(rotated.key)]).toEqual([200, 200])

  expect(await command('gateways')).toMatch(/gw_\w+ +\S+ +\S+ +0 +books/)
  expect(await command('guard --from 2026-01-01')).toMatch(/GUARD +RUNS +MODE +CIRCUIT/)

  await command('accounts disable shop')
  expect(await chat(rotated.key)).toBe(401)
  await command('accounts enable shop')
  expect(await chat(rotated.key)).toBe(200)
  expect(await chat(rotated.key)).toBe(429)
  await command('accounts update shop --rpm none')
  expect(await chat(rotated.key)).toBe(200)

  const path = await folder({})
  const [before, after] = ['before.json', 'after.json'].map((name) => join(path, name))
  writeFileSync(before!, JSON.stringify({ version: 1, maxOutputTokens: 400 }))
  writeFileSync(after!, JSON.stringify({ version: 1, maxOutputTokens: 500, deny: ['code'] }))
  const compared = await command('policy diff', before!, after!)
  expect(compared).toMatch(/deny +tighter/)
  expect(compared).toMatch(/maxOutputTokens +looser +400 +500/)
  await command(`keys update ${made.data.id} --policy`, after!)

  await command('credits adjust shop -1.50 --reason goodwill --yes')
  expect(await command('statement shop')).toContain('-1.5')
  expect(await command('usage --by key --account shop')).toContain(made.data.id)
  expect(await command('requests list --account shop --status 429')).toContain('429')
  const [last] = await json('requests list --account shop --limit 1')
  expect(await command(`requests show ${last.id}`)).toMatch(/^ledger\.seq +\d+$/m)
  const lines = (text: string) => text.trimEnd().split('\r\n')
  const calls = lines(await command('requests list --account shop --tag desk --csv'))
  expect(calls[0]).toMatch(/^id,at,method,/)
  expect(calls[1]).toContain(`,${made.data.id},kiosk,`)
  expect(calls.slice(1).filter((line) => line.includes(',200,'))).toHaveLength(5)
  expect(lines(await command('accounts list --csv'))[1]).toMatch(/^(acme|shop),/)
  expect(lines(await command('keys list --account shop --csv'))).toHaveLength(2)
  expect(lines(await command('usage --by outcome --outcome completed --csv')).length).toBe(2)
  expect(await command('config show')).toMatch(/admin\.token +set/)
  await command('ledger verify')

  expect(await command('audit list --object account:shop --csv')).toContain('account.credit')
  await command(`keys archive ${made.data.id} --yes`)
  expect(await chat(rotated.key)).toBe(401)
  const archived = await json('accounts archive shop --yes')
  expect(archived).toMatchObject({ id: 'shop', disabled: true })
  expect(await command('accounts list')).not.toContain('Shoe shop')
  const changes = await json('audit list --object account:shop --limit 200')
  expect(changes.map(({ action }: any) => action).toReversed()).toEqual([
    'account.create',
    'account.credit',
    'account.update',
    'account.update',
    'account.update',
    'account.update',
    'account.adjust',
    'account.archive',
  ])
})

it('shows why a call failed, and its limits', async () => {
  await command('accounts create', 'Book shop', '--id', 'books')
  await command('credits add books 20 --reference invoice-2')
  const { key } = await json('keys create books --name till --rpm 60 --cap 3/day')
  const failed = await gateway.chat({ ...hello, model: 'acme/closed' }, { key })
  expect(failed.status).toBe(502)
  const show = (id: unknown) => command(`requests show ${id}`)
  const shown = await show(failed.headers['x-request-id'])
  expect(shown).toMatch(/^attempts\.1 +\S+ \w+ after [\d.]+ ms/m)
  const answered = await gateway.chat(hello, { key })
  const limits = /^limits +limit rpm, value 60, used 2, left 58; limit key\.cap\.day, /m
  expect(await show(answered.headers['x-request-id'])).toMatch(limits)
  expect(shown).not.toContain('[object')
})
