import { readFileSync } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { hashSecret } from '../../src/accounts/secrets.ts'
import { ask, call, run, start, urlOf } from '../_cli.ts'
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
  VARIABLES,
} from './_litellm.ts'

const FILES = ['--config', 'config.yaml', '--keys', 'keys.csv', '--budgets', 'budgets.csv']
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
    'keys.csv': keysCsv(),
    'budgets.csv': BUDGETS,
  })
}

function expectNoSecret(text: string): void {
  for (const secret of [...SECRETS, ...HASHES, 'sk-litellm-key-number']) {
    expect(text).not.toContain(secret)
  }
}

describe('import litellm', () => {
  it('only tells what it would do, and lists what has no counterpart line by line', async () => {
    const cwd = await source()
    const { code, out, err } = await run(COMMANDS[0]!, { cwd })
    expect([code, err]).toEqual([
      3,
      '27 things were not imported as in the source; the list names each.\n',
    ])
    expect(out).toMatch(/^Accounts are on the free tier until they get credits/)
    expect(out).toContain('config.yaml: 20 models, 19 providers, 5 secrets for .env\n')
    expect(out).toContain('keys.csv: 50 keys, 9 accounts, 9 disabled\n')
    for (const path of UNMAPPED) expect(out).toContain(`\n  config.yaml  ${path}  `)
    for (const row of DISABLED.slice(1)) {
      expect(out).toMatch(
        new RegExp(`\\n  keys\\.csv  row ${row}: .+: the key is created disabled\\n`),
      )
    }
    expect(out).toMatch(/\nNothing was written\. /)
    expect(out).toContain(`needs: ${Object.keys(VARIABLES).join(', ')}\n`)
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

    const gateway = await start(['serve', '--port', '0'], { cwd: out, env: VARIABLES })
    const url = await urlOf(gateway)
    const token = /^SLUICEGATE_ADMIN_TOKEN=(.+)$/m.exec(env)![1]!
    const command = COMMANDS[2]!.map((word) => word.replace('http://127.0.0.1:8787', url))
    const where = { cwd, env: { SLUICEGATE_ADMIN_TOKEN: token } }
    const first = await call(command, where)
    expect(first.code).toBe(3)
    expect(first.out).toContain('Accounts: 9 created, 0 there already, 9 credited.')
    expect(first.out).toContain('Keys: 50 created, 0 there already, 0 refused.')
    expectNoSecret(first.out + first.err)

    const state = async () => {
      const accounts = (await ask(url, token, '/admin/accounts?limit=200')).json.data
      const keys = (await ask(url, token, '/admin/keys?limit=200')).json.data
      return { accounts, keys }
    }
    const before = await state()
    const again = await call(command, where)
    expect(again.out).toContain('Accounts: 0 created, 9 there already, 0 credited.')
    expect(again.out).toContain('Keys: 0 created, 50 there already, 0 refused.')
    expect(await state()).toEqual(before)
    const more = command.map((word) => (word === '25.00' ? '30.00' : word))
    expect((await call(more, where)).out).toContain('9 there already, 0 credited.')
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
    const { keys } = await state()
    const plain = keys.find((key: { name: string }) => key.name === 'Plain, "quoted" key')
    expect([plain.start, plain.account_id]).toEqual(['sk-...0001', 'litellm-user-default_user_id'])
  }, 120_000)

  it('has its output as JSON, without secrets', async () => {
    const cwd = await source()
    const { code, out } = await call(['import', 'litellm', ...FILES, '--json'], { cwd })
    expect(code).toBe(3)
    expectNoSecret(out)
    const { models, keys, accounts, variables, notes, written, applied } = JSON.parse(out)
    expect(Object.keys(models)).toHaveLength(20)
    expect(models['google/gemini-flash'].pricing.prompt).toBe('0.00000075')
    expect([keys.length, accounts.length, variables.length]).toEqual([50, 9, 5])
    expect(notes).toContainEqual({
      file: 'keys.csv',
      where: 'row 12: tpm_limit',
      message: 'keys here have no such restriction: the key is created disabled',
      restriction: 'disabled',
    })
    expect([written, applied]).toEqual([[], undefined])
  })

  it('creates keys without restrictions that are accepted by name', async () => {
    const cwd = await source()
    const accept = ['--accept', 'tpm_limit,metadata.model_rpm_limit']
    const { out } = await call(['import', 'litellm', ...FILES, ...accept, '--json'], { cwd })
    const disabled = JSON.parse(out).keys.filter((key: { disabled: boolean }) => key.disabled)
    expect(disabled.map(({ row }: { row: number }) => row)).toEqual(
      DISABLED.filter((row) => row !== 12 && row !== 19),
    )
    const note = JSON.parse(out).notes.find(
      (one: { where: string }) => one.where === 'row 12: tpm_limit',
    )
    expect(note.restriction).toBe('accepted')
  })

  it('keeps models without a price apart, so that the rest of the configuration is valid', async () => {
    const models = [
      ['kept', { model: 'openai/gpt-6-sol' }],
      ['own', { model: 'openai/own', api_base: 'http://127.0.0.1:9/v1', api_key: 'sk-literal' }],
      ['listless/*', { model: 'openai/*', api_base: 'http://127.0.0.1:9/v1' }],
    ].map(([model_name, litellm_params]) => ({ model_name, litellm_params }))
    const cwd = await folder({ 'c.yaml': JSON.stringify({ model_list: models }) })
    const { out, code } = await call(
      ['import', 'litellm', '--config', 'c.yaml', '--out', 'g', '--json'],
      { cwd },
    )
    const { models: priced, unpriced, notes, needs } = JSON.parse(out)
    expect([code, Object.keys(priced), unpriced.length]).toEqual([3, ['openai/kept'], 2])
    expect(notes.filter(({ message }: any) => message.includes('has no price'))).toHaveLength(2)
    const env = Object.fromEntries(needs.map((name: string) => [name, 'value']))
    const checked = await call(['check'], { cwd: join(cwd, 'g'), env })
    expect([checked.code, checked.err]).toEqual([0, ''])
    const apart = await readFile(join(cwd, 'g/models.unpriced.yaml'), 'utf8')
    for (const id of unpriced) expect(apart).toContain(`\n${id}:\n`)

    // With a price, an entry is one like the others.
    const entry = apart.split(/\n(?=\S)/).find((text) => text.startsWith('openai-compatible/own:'))!
    const file = join(cwd, 'g/models.yaml')
    const pricing = "  pricing: { prompt: '0.000001', completion: '0.000002' }\n"
    await writeFile(file, `${await readFile(file, 'utf8')}${entry.trimEnd()}\n${pricing}`)
    const again = await call(['check'], { cwd: join(cwd, 'g'), env })
    expect([again.code, again.err]).toEqual([0, ''])
    expect(again.out).toContain('2 models')
  })

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
    const gateway = await start(['serve', '--port', '0'], { cwd: join(cwd, 'g'), env })
    const url = await urlOf(gateway)
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
    expect(out).toContain('{"usd":"10.1","scope":"lifetime"}')
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
      [['--config', 'gone.yaml'], /gone\.yaml cannot be imported: ENOENT/],
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
      [['--config', 'config.yaml', '--apply'], /--keys <file>/],
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
