import { readFileSync } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { hashSecret } from '../../src/accounts/secrets.ts'
import { ask, call, inMemory } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream, type FakeUpstream } from '../upstream.ts'
import {
  BUDGETS,
  configurationOf,
  DISABLED,
  keysCsv,
  secretOf,
  SECRETS,
  UNMAPPED,
  USERS,
  VARIABLES,
} from './_litellm.ts'

const FILES = ['--config', 'config.yaml', '--tables', 'tables']
/** The commands of the page for users, in their order. */
const PAGE = readFileSync(join(import.meta.dirname, '../../docs/migrate/from-litellm.md'), 'utf8')
const COMMANDS = PAGE.replaceAll('\\\n', ' ')
  .split('\n')
  .flatMap((line) => /^(?:\$ )?sluicegate (import .*)$/.exec(line)?.[1] ?? [])
  .map((line) => line.split(/\s+/))
const HASHES = Array.from({ length: 50 }, (_, index) => hashSecret(secretOf(index + 1)))

/** A vendor that answers every chat. */
async function vendor(): Promise<FakeUpstream> {
  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  upstream.answer(() =>
    json({
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 },
    }),
  )
  return upstream
}

function source(upstream = 'http://127.0.0.1:9/v1'): Promise<string> {
  return folder({
    'config.yaml': configurationOf(upstream),
    'tables/keys.csv': keysCsv(),
    'tables/budgets.csv': BUDGETS,
    'tables/users.csv': USERS,
  })
}

function expectNoSecret(text: string): void {
  for (const secret of [...SECRETS, ...HASHES, 'sk-litellm-key-number']) {
    expect(text).not.toContain(secret)
  }
}

describe('import litellm', () => {
  it('only tells what it would do: the counts first, then what is not as in the source', async () => {
    const cwd = await source()
    const { code, out, err } = await call(COMMANDS[0]!, { cwd })
    expect(code).toBe(3)
    expect(err).toMatch(/^\d+ things are not as in LiteLLM; the list names each\.\n$/)
    const [first] = out.split('\n')
    expect(first).toBe('20 of 21 models served, 1 not (disabled); 50 keys: 34 active, 16 disabled')
    const count = Number(/^\d+/.exec(err)![0])
    const headings = [...out.matchAll(/^[A-Z][^\n]* \((\d+)\):$/gm)]
    expect(headings.reduce((sum, [, number]) => sum + Number(number), 0)).toBe(count)
    expect(headings.map(([line]) => line.replace(/ \(.+/, ''))).toEqual([
      'Models that are not served',
      'Keys that are created disabled, or left out',
      'Served in another way than in the source',
      'Set in another place here',
      'Without a counterpart here',
    ])
    for (const path of UNMAPPED) expect(out).toContain(path)
    const all = await call([...COMMANDS[0]!, '--all'], { cwd })
    expect(all.out).toContain('keys: metadata')
    expect(out).toMatch(/\nNothing was written\. /)
    expect(out).toContain('needs: ')
    for (const name of Object.keys(VARIABLES)) expect(out).toContain(name)
    expect(out.split('\n').length).toBeLessThan(150)
    expectNoSecret(out + err)
    await expect(stat(join(cwd, 'gateway.config.yaml'))).rejects.toThrow('ENOENT')
  })

  it('moves an installation to a gateway, whose clients keep their keys', async () => {
    const upstream = await vendor()
    const cwd = await source(`${upstream.url}/v1`)
    const written = await call(COMMANDS[1]!, { cwd })
    expect(written.code).toBe(3)
    const out = join(cwd, 'gateway')
    const env = await readFile(join(out, '.env'), 'utf8')
    expect((await stat(join(out, '.env'))).mode & 0o777).toBe(0o600)
    for (const secret of SECRETS.slice(0, 5)) expect(env).toContain(secret)
    expectNoSecret(await readFile(join(out, 'gateway.config.yaml'), 'utf8'))
    expectNoSecret(await readFile(join(out, 'models.yaml'), 'utf8'))

    const url = await inMemory.served({ cwd: out, env: VARIABLES })
    const token = /^SLUICEGATE_ADMIN_TOKEN=(.+)$/m.exec(env)![1]!
    const command = COMMANDS[2]!.map((word) => word.replace('http://127.0.0.1:8787', url))
    const where = { cwd, env: { SLUICEGATE_ADMIN_TOKEN: token } }
    const first = await call(command, where)
    expect(first.code).toBe(3)
    expect(first.out).toContain('Accounts: 3 created, 0 there already, 3 credited.')
    expect(first.out).toContain('Keys: 50 created, 0 there already, 0 refused.')
    expectNoSecret(first.out + first.err)

    const state = async () => {
      const accounts = (await ask(url, token, '/admin/accounts?limit=200')).json.data
      const keys = (await ask(url, token, '/admin/keys?limit=200')).json.data
      return { accounts, keys }
    }
    const before = await state()
    const again = await call(command, where)
    expect(again.out).toContain('Accounts: 0 created, 3 there already, 0 credited.')
    expect(again.out).toContain('Keys: 0 created, 50 there already, 0 refused.')
    expect(await state()).toEqual(before)
    const more = command.map((word) => (word === '25.00' ? '30.00' : word))
    expect((await call(more, where)).out).toContain('3 there already, 0 credited.')
    expect(await state()).toEqual(before)

    // Every raw key is known, by its hash alone.
    for (let row = 1; row <= 50; row++) {
      const { status, text } = await ask(url, secretOf(row), '/v1/key')
      const refused = DISABLED.includes(row) ? 'disabled' : row === 9 ? 'expired' : undefined
      expect([row, status], text).toEqual([row, refused ? 401 : 200])
      if (refused) expect(text).toContain(refused)
    }
    expect((await ask(url, 'sk-litellm-key-number-51', '/v1/key')).status).toBe(401)
    const chat = (row: number, model: string) =>
      ask(url, secretOf(row), '/v1/chat/completions', {
        model,
        messages: [{ role: 'user', content: 'Hello' }],
      })
    // Clients keep the names of models, and pay the prices of the source.
    for (const name of ['gpt-4o', 'gpt-4', 'local-llama', 'house-vllm']) {
      const { status, text } = await chat(1, name)
      expect([name, status], text).toEqual([name, 200])
    }
    expect((await chat(1, 'gpt-4')).json.usage.cost).toBe(0.0035)
    expect(upstream.requests[0]!.headers.authorization).toBe('Bearer sk-upstream')
    const house = upstream.requests.find(({ json: body }) => body.model === 'house')
    expect(house!.headers['x-token']).toBe(SECRETS[4])

    // Limits hold.
    expect((await chat(2, 'gpt-4o')).status).toBe(200)
    expect((await chat(2, 'house-vllm')).json.error.code).toBe('model_not_allowed')
    expect((await ask(url, secretOf(4), '/v1/key')).json.data.rpm_limit).toBe(2)
    expect((await ask(url, secretOf(4), '/v1/key')).status).toBe(429)
    const limits = async (row: number) => (await ask(url, secretOf(row), '/v1/key')).json.data
    expect((await limits(5)).concurrency_limit).toBe(1)
    expect(await limits(6)).toMatchObject({
      spend_cap_usd: 7.499999999999,
      spend_cap_scope: 'lifetime',
    })
    expect(await limits(7)).toMatchObject({ spend_cap_usd: 0.5, spend_cap_scope: 'month' })
    expect(await limits(8)).toMatchObject({ spend_cap_usd: 1.5, spend_cap_scope: 'day' })
    expect(await limits(10)).toMatchObject({ expires_at: '2999-01-31T10:00:00.000Z' })
    expect(await limits(17)).toMatchObject({ spend_cap_usd: 3.25, rpm_limit: 7 })
    const named = async (row: number) =>
      (await limits(row)).limits.map((one: { limit: string; value: unknown }) => [
        one.limit.replace(/\.[0-9a-f]{8}$/, '.models'),
        one.value,
      ])
    expect(await named(12)).toContainEqual(['key.tokens.minute', 100_000])
    expect(await named(13)).toContainEqual(['key.cap.week', '1'])
    expect(await named(19)).toContainEqual(['key.rpm.models', 1])
    const { keys } = await state()
    const plain = keys.find((key: { name: string }) => key.name === 'Plain, "quoted" key')
    expect([plain.start, plain.account_id]).toEqual(['sk-...0001', 'litellm-user-default_user_id'])
  }, 120_000)

  it('has its output as JSON, without secrets', async () => {
    const cwd = await source()
    const { code, out } = await call(['import', 'litellm', ...FILES, '--json'], { cwd })
    expect(code).toBe(3)
    expectNoSecret(out)
    const report = JSON.parse(out)
    const { models, keys, accounts, variables, notes, written, applied } = report
    expect(report.summary).toMatch(/^20 of 21 models served/)
    expect(Object.keys(models)).toHaveLength(21)
    expect(models['google/gemini-flash'].pricing.prompt).toBe('0.00000075')
    expect([keys.length, accounts.length, variables.length]).toEqual([50, 3, 6])
    expect(notes).toContainEqual({
      harm: 'locked',
      where: 'keys row 20: permissions',
      message: 'keys here have no such restriction: the key is created disabled',
      remedy: 'decide, then "keys enable"; or repeat with --accept permissions',
    })
    expect([written, applied]).toEqual([[], undefined])
  })

  it('creates keys without restrictions that are accepted by name', async () => {
    const cwd = await source()
    const accept = ['--accept', 'permissions,budget_id']
    const { out } = await call(['import', 'litellm', ...FILES, ...accept, '--json'], { cwd })
    const disabled = JSON.parse(out).keys.filter((key: { disabled: boolean }) => key.disabled)
    expect(disabled.map(({ row }: { row: number }) => row)).toEqual(
      DISABLED.filter((row) => row !== 18 && row !== 20),
    )
    const note = JSON.parse(out).notes.find(
      (one: { where: string }) => one.where === 'keys row 20: permissions',
    )
    expect(note.harm).toBe('wider')
  })

  it('leaves models without a price in the file: the check names them first, the rest is served', async () => {
    const models = [
      ['kept', { model: 'openai/gpt-6-sol' }],
      ['own', { model: 'openai/own', api_base: 'http://127.0.0.1:9/v1', api_key: 'sk-literal' }],
      ['listless/*', { model: 'openai/*', api_base: 'http://127.0.0.1:9/v1' }],
      ['strange', { model: 'petals/bloom' }],
    ].map(([model_name, litellm_params]) => ({ model_name, litellm_params }))
    const cwd = await folder({ 'c.yaml': JSON.stringify({ model_list: models }) })
    const command = ['import', 'litellm', '--config', 'c.yaml']
    const { out, code } = await call([...command, '--out', 'g', '--json'], { cwd })
    const { summary, unserved, needs } = JSON.parse(out)
    expect([code, summary]).toEqual([3, '1 of 4 models served, 3 not (2 no price, 1 disabled)'])
    expect(unserved).toEqual({
      'listless/*': 'no price',
      'openai-compatible/own': 'no price',
      'petals/strange': 'disabled',
    })
    const env = Object.fromEntries(needs.map((name: string) => [name, 'value']))
    const g = join(cwd, 'g')
    const checked = await call(['check'], { cwd: g, env })
    expect(checked.code).toBe(1)
    const lines = checked.out.split('\n')
    expect(lines[0]).toBe(summary)
    expect(lines.slice(1, 3).join('\n')).toContain('listless/*')
    expect(lines.slice(1, 3).join('\n')).toContain('openai-compatible/own')
    const url = await inMemory.served({ cwd: g, env })
    const { json: list } = await ask(url, '', '/v1/models')
    expect(list.data.map(({ id }: { id: string }) => id)).toEqual(['openai/kept'])

    // With a price, an entry is served like the others.
    const file = join(g, 'models.yaml')
    const text = await readFile(file, 'utf8')
    const priced = text.replace(/^openai-compatible\/own:\n/m, (line) => {
      return `${line}  pricing: { prompt: '0.000001', completion: '0.000002' }\n`
    })
    await writeFile(file, priced)
    const again = await call(['check'], { cwd: g, env })
    expect(again.out.split('\n')[0]).toBe('2 of 4 models served, 2 not (1 no price, 1 disabled)')
  }, 60_000)

  it('makes a configuration that the gateway takes', async () => {
    const price = { input_cost_per_token: 1e-6 }
    const models = [
      ['openai/*', { model: 'openai/*' }],
      ['nova', { model: 'bedrock/nova', aws_region_name: 'us-east-1', ...price }],
      ['role', { model: 'bedrock/x', aws_role_name: 'arn:aws:iam::1:role/r', ...price }],
      ['vertex', { model: 'vertex_ai/claude-x', vertex_credentials: '/gone.json', ...price }],
      ['scribe', { model: 'elevenlabs/scribe', input_cost_per_second: 1e-4 }],
      ['azure', { model: 'azure/d', api_base: 'https://x.openai.azure.com', ...price }],
      ['other', { model: 'azure_ai/d', api_base: 'https://x.services.ai.azure.com', ...price }],
      ['free', { model: 'lm_studio/x', api_base: 'http://127.0.0.1:9/v1', ...price }],
    ].map(([model_name, litellm_params]) => ({ model_name, litellm_params }))
    const cwd = await folder({ 'c.yaml': JSON.stringify({ model_list: models }) })
    const { out, code } = await call(
      ['import', 'litellm', '--config', 'c.yaml', '--out', 'g', '--json'],
      {
        cwd,
      },
    )
    expect([code, JSON.parse(out).notes]).toEqual([0, []])
    const env = Object.fromEntries(JSON.parse(out).needs.map((name: string) => [name, 'us-east-1']))
    const url = await inMemory.served({ cwd: join(cwd, 'g'), env })
    const { json } = await ask(url, '', '/v1/models')
    const ids = json.data.map(({ id }: { id: string }) => id)
    expect(ids).toEqual(
      expect.arrayContaining(['azure/azure', 'bedrock/nova', 'openai/gpt-6-sol', 'lmstudio/free']),
    )
  }, 60_000)

  it('ends with 0 when everything was mapped', async () => {
    const cwd = await folder({
      'c.json': JSON.stringify({
        model_list: [
          {
            model_name: 'gpt',
            litellm_params: { model: 'openai/gpt-4o', input_cost_per_token: 1e-6 },
          },
        ],
      }),
      'k.jsonl': `{"token":"${HASHES[0]}","max_budget":10.10,"models":["gpt"]}\n`,
    })
    const command = ['import', 'litellm', '--config', 'c.json', '--keys', 'k.jsonl']
    const { code, out, err } = await call(command, { cwd })
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('\nEverything was mapped.\n')
    expect(out).toContain('spend_cap usd 10.1, scope lifetime')
  })

  it('says once what holds for the budgets of several models of a key', async () => {
    const model = (name: string) => ({
      model_name: name,
      litellm_params: { model: `openai/${name}`, input_cost_per_token: 1e-6 },
    })
    const budget = { budget_limit: 1, time_period: '30d' }
    const key = { token: HASHES[0], spend: 0, model_max_budget: { a: budget, b: budget } }
    const cwd = await folder({
      'c.json': JSON.stringify({ model_list: [model('a'), model('b')] }),
      'k.jsonl': `${JSON.stringify(key)}\n`,
    })
    const command = ['import', 'litellm', '--config', 'c.json', '--keys', 'k.jsonl', '--json']
    const { notes } = JSON.parse((await call(command, { cwd })).out)
    const of = notes.filter(({ where }: any) => where.endsWith('model_max_budget'))
    expect(of).toHaveLength(1)
  })

  it('overwrites nothing, and leaves nothing half written', async () => {
    const cwd = await source()
    await call(['import', 'litellm', ...FILES, '--out', 'out'], { cwd })
    const before = await readFile(join(cwd, 'out/.env'), 'utf8')
    const again = await call(['import', 'litellm', ...FILES, '--out', 'out'], { cwd })
    expect([again.code, again.err]).toEqual([
      1,
      'Nothing was written: out/.env exists already; choose another folder.\n',
    ])
    expect(await readFile(join(cwd, 'out/.env'), 'utf8')).toBe(before)
    const other = await folder({ 'gateway.config.yaml': '' })
    const half = await call(['import', 'litellm', ...FILES, '--out', other], { cwd })
    expect(half.code).toBe(1)
    await expect(stat(join(other, '.env'))).rejects.toThrow('ENOENT')
    await expect(stat(join(other, 'models.yaml'))).rejects.toThrow('ENOENT')
  })

  it('says what is wrong with a file, and shows nothing of it', async () => {
    const cwd = await source()
    const bad = {
      'x.yaml': 'model_list:\n  - api_key: "sk-secret-0123456789\n',
      'list.yaml': '- sk-secret-0123456789\n',
      'empty.yaml': '',
      'quote.csv': 'token,models\nsk-secret-0123456789,"a"b\n',
      'short.csv': 'token,models\nsk-secret-0123456789\n',
      'twice.csv': 'token,token\na,b\n',
      'other.csv': 'name\nx\n',
      'empty.csv': '',
      'rows.json': '{"token":"sk-secret-0123456789"}',
      'broken.jsonl': '{"token":"sk-secret-0123456789",\n',
      'keys.txt': 'token\n',
    }
    for (const [name, text] of Object.entries(bad)) await writeFile(join(cwd, name), text)
    const cases: [string[], RegExp][] = [
      [['--config', 'x.yaml'], /x\.yaml cannot be imported: it is not YAML: .+ \(line \d\)/],
      [['--config', 'list.yaml'], /list\.yaml cannot be imported: it is no LiteLLM configuration/],
      [['--config', 'empty.yaml'], /it is no LiteLLM configuration/],
      [['--config', 'gone.yaml'], /gone\.yaml cannot be imported: there is no such file/],
      [['--keys', 'quote.csv'], /record 2 has a quote out of place/],
      [['--keys', 'short.csv'], /row 1 has 1 fields, and the first line names 2 columns/],
      [['--keys', 'twice.csv'], /names a column twice/],
      [['--keys', 'other.csv'], /no column "token"/],
      [['--keys', 'empty.csv'], /it is empty/],
      [['--keys', 'rows.json'], /not a list of rows/],
      [['--keys', 'broken.jsonl'], /it is not JSON/],
      [['--keys', 'keys.txt'], /has to end in \.csv, \.json or \.jsonl/],
    ]
    for (const [options, message] of cases) {
      const config = options[0] === '--keys' ? ['--config', 'config.yaml'] : []
      const { code, out, err } = await call(
        ['import', 'litellm', ...config, ...options, '--out', 'no'],
        { cwd },
      )
      expect([code, out], options.join(' ')).toEqual([1, ''])
      expect(err).toMatch(message)
      expect(err).not.toContain('sk-secret')
    }
    await expect(stat(join(cwd, 'no'))).rejects.toThrow('ENOENT')
  })

  it('says which options belong together', async () => {
    const cwd = await source()
    for (const [options, message] of [
      [[], /--config <file>/],
      [['--config', 'config.yaml', '--apply'], /--tables <folder>/],
      [[...FILES, '--credits', '5'], /--credits needs --apply/],
      [[...FILES, '--apply', '--credits', 'five'], /an amount of USD/],
      [[...FILES, '--apply', '--credits', '0'], /an amount of USD/],
    ] as const) {
      const { code, err } = await call(['import', 'litellm', ...options], { cwd })
      expect(code, err).toBe(2)
      expect(err).toMatch(message)
    }
  })
})
