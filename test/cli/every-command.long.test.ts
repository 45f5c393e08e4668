/**
 * Every command of the table, in every form of output, against one ledger with calls that ended in all ways: the example that is printed
 * succeeds, none crashes, none prints an object, and no line is wider than the terminal, but secrets, links and raw data.
 */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REMOTE } from '../../src/cli/asked.ts'
import { COMMANDS } from '../../src/cli/commands.ts'
import { loadConfig } from '../../src/config/config.ts'
import { newKey } from '../../src/server/admin/resources/key.ts'
import { call, start, TOKEN, type Said } from '../_cli.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'

/** Commands whose example needs what this ledger has not, and what is tried in its place: a failure that is printed as well. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  // They do not end.
  serve: 'serve --port none',
  'requests tail': 'requests tail --key',
  // Tests of plugins run these examples.
  'plugin new': 'plugin new provider Not-a-name!',
  'plugin test': 'plugin test ./none.ts',
  'plugin dev': 'plugin dev ./none.ts',
  'plugin record': 'plugin record ./none.ts',
  'provider test': 'provider test ./none.ts',
  // There is nothing to do for them here.
  'secret rotate': 'secret rotate',
  'ledger accept': 'ledger accept',
  'ledger unsent': 'ledger unsent',
  'ledger send': 'ledger send',
  // The id of an account stays taken.
  'accounts create': 'accounts create Another',
  // Months that are over, payments, quarantined settlements and lost ledgers have tests of their own.
  statement: 'statement acme',
  'statements issue': 'statements issue acme 2026-01',
  'statements show': 'statements show S-2026-00001',
  'statements page': 'statements page S-2026-00001',
  'statements void': 'statements void S-2026-00001 --reason test',
  'payments link': 'payments link acme 25',
  'payments check': 'payments check pay_0123456789abcdef01234567',
  'payments book': 'payments book pi_3Abc --account acme',
  'ledger book': 'ledger book req_01M836W9288QQ0XZ5GCMSVB8JC',
  'ledger drop': 'ledger drop req_01M836W9288QQ0XZ5GCMSVB8JC --reason test',
  'ledger verify': 'ledger verify --chain',
  'ledger new': 'ledger new',
  // A public list of prices, and a vendor.
  'models import': 'models import --from none.json',
  'models discover': 'models discover mock',
  // There is no such session, alert or deployment.
  'sessions end': 'sessions end ses_none',
  'alerts mute': 'alerts mute al_none --for 1h',
  'deployments cooldown': 'deployments cooldown mock/echo --for 30m',
  'deployments resume': 'deployments resume mock/echo',
}
/** Commands over names that a terminal must not obey, after their examples. */
const NAMED: Readonly<Record<string, string>> = {
  'accounts show': 'accounts show 中文公司',
  'accounts disable': 'accounts disable شركة',
  'accounts enable': 'accounts enable شركة',
}
/** They start a process, or a gateway anew, for each form; a sentence is the same in all widths. */
const TWICE =
  /^(?:plugin (?:test|dev)|provider test|(?:models|providers|engines|sinks) (?:add|update|remove)|ledger compact)$/
/** What is printed for programs, and pages of the manual. */
const RAW =
  /^(?:completion|docs|config export|ledger missing|ledger export|ledger unsent|plugin show)/
const WHOLE = /sk-|sat-|:\/\/|once\.|req_/
/** Addresses of examples, all of which are the vendor of this test. */
const ADDRESS = /https:\/\/[a-z.]+\.example(?:\.com)?/g

const FILES: Readonly<Record<string, string>> = {
  'gateway.config.yaml': `
state: { driver: file, path: ledger }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.1', completion: '0.2' }
    deployments: [{ provider: mock, model: echo }]
`,
  key: 'key-of-an-engine',
  'policy.json': '{"version":1,"maxOutputTokens":50}',
  'prices.json': '{"format":1,"generated_at":"2026-11-28T00:00:00Z","sources":[],"models":{}}',
  'config.yaml': 'model_list: [{ model_name: a, litellm_params: { model: openai/gpt-4.1-mini } }]',
  'config.json': '{"providers":{"openai":{"keys":[{"value":"env.OPENAI_API_KEY"}]}}}',
  'keys.csv': `token,key_alias,models\n${'ab'.repeat(32)},laptop,{}\n`,
  'tables/channels.csv':
    'id,type,key,name,models,status,priority\n1,1,sk-key,openai,gpt-4.1-mini,1,0\n',
}

let t: TestGateway
let place: string
let base: string
let secret: { readonly key: string }
let request: string
const leaving = new AbortController()
const staying = new AbortController()
const vendor = createServer(({ url = '' }, response) => {
  if (url.includes('/broken/'))
    return void response
      .writeHead(500)
      .end('{"error":{"message":"参数错误 \\u001b[31m für Müller"}}')
  if (url.includes('/cut/')) {
    response.writeHead(200).write('data: {"id":"1",')
    return void setTimeout(() => response.destroy(), 20)
  }
  const answer = url.includes('/models')
    ? { data: [{ id: 'swift-1' }] }
    : url.includes('/search')
      ? { results: [{ title: 'A page', url: 'https://example.com', content: 'text' }] }
      : {
          id: 'c1',
          object: 'chat.completion',
          created: 1,
          model: 'swift-1',
          choices: [
            { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'hi' } },
          ],
          usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
        }
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
})

beforeAll(async () => {
  await once(vendor.listen(0, '127.0.0.1'), 'listening')
  base = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
  const of = (baseURL: string) => ({
    use: 'openai-compatible',
    options: { baseURL, apiKey: 'key-of-the-test' },
  })
  const model = (...providers: string[]) => ({
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING' as const],
    deployments: providers.map((provider) => ({ provider, model: 'echo' })),
  })
  const config = {
    ...MOCK_CONFIG,
    state: { driver: 'memory' },
    log: { level: 'error', access: false },
    admin: { token: TOKEN },
    providers: {
      ...MOCK_CONFIG.providers,
      broken: of(`${base}/broken/v1`),
      cut: of(`${base}/cut/v1`),
      down: of('http://127.0.0.1:1/v1'),
    },
    models: {
      ...MOCK_CONFIG.models,
      'vendor-with-a-long-name/broken': model('broken'),
      'vendor-with-a-long-name/cut': model('cut'),
      'vendor-with-a-long-name/down': model('down'),
      'vendor-with-a-long-name/twice': model('down', 'mock'),
      'mock/slow': {
        ...model(),
        deployments: [{ provider: 'mock', model: 'echo', options: { paceMs: 2000 } }],
      },
    },
  }
  place = await mkdtemp(join(tmpdir(), 'commands-'))
  await mkdir(join(place, 'tables'))
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(place, name), text)
  await mkdir(join(place, 'gateway-of-the-test'))
  const directory = join(place, 'gateway-of-the-test')
  await writeFile(join(directory, 'gateway.config.json'), JSON.stringify(config))
  const env = { SLUICEGATE_SECRET: 'secret-of-a-gateway-without-a-folder' }
  t = await createTestGateway(await loadConfig({ cwd: directory, env }), directory)
  const { accounts } = t.gateway.runtime
  for (const [id, name] of [
    ['chinese', '中文公司'],
    ['arabic', 'شركة'],
    ['escaped', 'Escape \u001b[31mred\u202e name'],
    ['closed-one', 'archived before'],
  ] as const) {
    await accounts.createAccount({ id, name })
  }
  await accounts.archiveAccount('closed-one', { expected: undefined, by: 'test', replaced() {} })
  await t.newKey({ name: 'expired one', expiresAt: 1 })
  secret = { key: (await t.newKey({ name: 'Schlüssel für Müller' })).secret }
  const ask = (name: string, more = {}, key = secret) =>
    t.ask('POST', '/v1/chat/completions', { ...key, body: { ...hello, model: name, ...more } })
  const completed = await ask('mock/echo')
  request = completed.headers['x-service-request-id'] as string
  const ofPolicy = await t.newKey({ policy: { version: 1, bannedPatterns: ['Hello'] } as never })
  await ask('mock/echo', {}, { key: ofPolicy.secret })
  const limited = { key: (await t.newKey({ rpm: 1 })).secret }
  for (let n = 0; n < 2; n++) await ask('mock/echo', {}, limited)
  await ask('no/such-model')
  for (const name of ['broken', 'cut', 'down', 'twice']) {
    await ask(`vendor-with-a-long-name/${name}`, { stream: name === 'cut' })
  }
  await begin(leaving.signal)
  leaving.abort()
  await prepare('')
  expect(await run('accounts create Acme --id acme --data ledger', [])).toMatchObject({ code: 0 })
  expect(await run('ledger export --out ledger.jsonl', [])).toMatchObject({ code: 0 })
})
afterAll(async () => {
  staying.abort()
  vendor.close().closeAllConnections()
  await t?.close()
  await rm(place, { recursive: true, force: true })
})

/** Begins a call that runs until its client leaves. */
async function begin(signal: AbortSignal): Promise<void> {
  await fetch(`${t.baseURL}/chat/completions`, {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${secret.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...hello, model: 'mock/slow', stream: true }),
  }).catch(() => undefined)
}

/** A call that runs, by its id. */
async function running(): Promise<string> {
  void begin(staying.signal)
  return eventually(async () => {
    const { json } = await t.ask('GET', '/admin/requests', { key: TOKEN })
    return json.data.find((one: any) => one.running).id as string
  })
}

const admin = async (method: string, path: string, body?: object) => {
  const { json, status, text } = await t.ask(method, `/admin${path}`, { key: TOKEN, body })
  expect(status, `${method} ${path}: ${text}`).toBeLessThan(300)
  return json
}

/** The objects of the examples, each once, whatever another form of the command did; what it creates is not there. */
async function prepare(name: string): Promise<void> {
  const only = async (list: string, called: string, path: string, body: object) => {
    const { data } = await admin('GET', list)
    const isLive = (one: any) => one.name === called && (one.archived_at ?? null) === null
    const [first, ...others] = data.filter(isLive)
    const isMade = name.endsWith(' create') && name.startsWith(list.slice(1))
    for (const { id } of isMade && first ? [first, ...others] : others) {
      await admin('DELETE', `${list}/${id}`)
    }
    if (!first && !isMade) return (await admin('POST', path, { name: called, ...body })).data
    return first
  }
  await only('/accounts', 'trial', '/accounts', {})
  const laptop = await only('/keys', 'laptop', '/accounts/acme/keys', {})
  const limits = [{ unit: 'usd', window: 'week', value: '5.00' }]
  if (name.startsWith('limits ')) await admin('PATCH', `/keys/${laptop.id}`, { limits })
  await only('/teams', 'research', '/accounts/acme/teams', {})
  await only('/members', 'Ada', '/members', { account: 'acme' })
  await only('/tokens', 'ci', '/tokens', { role: 'viewer' })
  const entries = [
    ['providers', 'groq', { use: 'openai-compatible', options: { baseURL: `${base}/v1` } }],
    ['models', 'groq/llama-4', { pricing: { prompt: '0.1', completion: '0.1' } }],
    ['engines', 'exa', { use: 'searxng', price: '0.1', options: { baseURL: base } }],
    ['sinks', 'bills', { use: 'webhook', options: { url: `${base}/calls` } }],
  ] as const
  const changes = entries.map(([section, called, value]) => ({
    section,
    name: called,
    value: name === `${section} add` ? null : value,
  }))
  // A model of this vendor goes with it.
  if (name === 'providers add' || name === 'providers remove') changes[1]!.value = null
  const { data } = await admin('GET', '/managed')
  const has = ({ section, name: called }: (typeof changes)[number]) =>
    data.entries.some((one: any) => one.section === section && one.name === called)
  const needed = changes.filter((one) => (one.value === null) === has(one))
  if (needed.length > 0) await admin('POST', '/managed', { changes: needed })
  await rm(join(place, 'gateway'), { recursive: true, force: true })
  if (name === 'ledger export') await rm(join(place, 'ledger.jsonl'), { force: true })
  if (name === 'init') await rm(join(place, 'gateway.config.yaml'), { force: true })
  else await writeFile(join(place, 'gateway.config.yaml'), FILES['gateway.config.yaml']!)
}

async function run(line: string, options: readonly string[], columns?: number): Promise<Said> {
  const id = line.startsWith('requests end') ? await running() : request
  const { revision } = (await admin('GET', '/managed')).data
  const words = line
    .replace(/req_\w+/, id)
    .replace('revert 1', `revert ${revision - 1}`)
    .replaceAll(ADDRESS, base)
    .match(/"[^"]*"|\S+/g)!
    .map((word) => word.replaceAll('"', ''))
  const [out, err] = [process.stdout, process.stderr]
  const before = [out, err].map((one) => [one.isTTY, one.columns] as const)
  for (const one of [out, err]) Object.assign(one, { isTTY: columns !== undefined, columns })
  try {
    return await call([...words, ...options], { cwd: place })
  } finally {
    for (const [at, one] of [out, err].entries()) {
      Object.assign(one, { isTTY: before[at]![0], columns: before[at]![1] })
    }
  }
}

const FORMS: readonly (readonly [name: string, options: readonly string[], columns?: number])[] = [
  ['60 columns', [], 60],
  ['80 columns', [], 80],
  ['200 columns', [], 200],
  // A terminal wraps no JSON.
  ['JSON', ['--json'], 60],
  ['CSV', ['--csv']],
]

describe.each(COMMANDS.map((one) => [one.name, one] as const))('%s', (name, command) => {
  const { options = {}, example } = command
  const yes = 'yes' in options ? ['--yes'] : []

  it('prints what it has to say in every form', async () => {
    const token = 'token' in options ? ['--token', TOKEN] : []
    const address = 'url' in options ? ['--url', t.url, ...token] : []
    const isElsewhere = Object.hasOwn(ELSEWHERE, name)
    const printed = isElsewhere ? ELSEWHERE[name]! : (example ?? name)
    const lines = [printed, NAMED[name] ?? []].flat()
    const forms = TWICE.test(name) ? [FORMS[0]!, FORMS[3]!] : FORMS
    for (const [form, more, columns] of forms) {
      const [option] = more
      if (option !== undefined && !(option.slice(2) in options)) continue
      if (option === '--json' && printed.includes('--csv')) continue
      for (const line of lines) {
        await prepare(name)
        const { code, out, err } = await run(line, [...more, ...address, ...yes], columns)
        const text = out + err
        const where = `${line}, ${form}: ${text}`
        const statuses = isElsewhere ? [0, 1, 2, 3] : name.startsWith('import ') ? [0, 3] : [0]
        expect(statuses, where).toContain(code)
        expect(text, where).not.toMatch(/\[object|undefined|NaN|LOG__LEVEL=debug/)
        if (option === '--json' && code === 0) expect(() => JSON.parse(out), where).not.toThrow()
        // The control characters of names are shown, not obeyed.
        if (columns !== undefined) {
          const plain = stripVTControlCharacters(out)
          expect([plain.includes('\u001b'), plain.includes('\u202e')], where).toEqual([
            false,
            false,
          ])
        }
        if (columns === undefined || RAW.test(line) || option === '--json') continue
        const wide = text.split('\n').filter((one) => widthOf(one) > columns && !WHOLE.test(one))
        expect(wide, where).toEqual([])
      }
    }
  })
})

/** Wide characters count twice. */
function widthOf(line: string): number {
  const plain = stripVTControlCharacters(line)
  return plain.length + (plain.match(/[\u4e00-\u9fff]/g)?.length ?? 0)
}

it('shows ids that can be pasted', async () => {
  const at = ['--url', t.url, '--token', TOKEN]
  const { out } = await run('keys list', at, 60)
  const shown = out.match(/^key_\w+/gm)!
  expect(shown.length).toBeGreaterThan(3)
  expect(new Set(shown).size).toBe(shown.length)
  for (const id of shown) expect((await run(`keys show ${id}`, at)).code, id).toBe(0)
})

it('names a model and its deployment once on a terminal, and both in each line elsewhere', async () => {
  const at = ['--url', t.url, '--token', TOKEN]
  const shown = stripVTControlCharacters((await run('models', at, 80)).out).split('\n')
  const plain = (await run('models', at)).out.trim().split('\n').slice(1)
  for (const line of shown) {
    const words = line.trim().split(/ {2,}/)
    expect(new Set(words).size, line).toBe(words.length)
  }
  expect(shown.join('\n')).toMatch(/^vendor-with-a-long-name\/twice\b.*\n {20,}mock\//m)
  for (const line of plain) expect(line).toMatch(/^\S+\/\S+ +chat +\S+\/\S+ /)
})

it('ends quietly when the reader of a table leaves before its end', async () => {
  for (let n = 0; n < 150; n++) await t.newKey({ name: `key ${n} ${'of a long name '.repeat(8)}` })
  const { child, ended } = await start(['keys', 'list', '--csv', '--url', t.url, '--token', TOKEN])
  child.stdout!.destroy()
  expect(await ended).toMatchObject({ code: 0, err: '' })
})

it('has the same words for the end of a call in every list', async () => {
  const at = ['--url', t.url, '--token', TOKEN]
  const { out } = await run('requests list --all', at)
  for (const end of ['completed', 'blocked', 'limited key.rpm', 'rejected', 'failed', 'left']) {
    expect(out).toContain(`  ${end}`)
  }
})

it('has an option for every setting of a key', () => {
  const exceptions = ['limits', 'disabled']
  const { options = {} } = COMMANDS.find(({ name }) => name === 'keys create')!
  const names = Object.keys(options).map((name) => name.replaceAll('-', '_'))
  const missing = Object.keys(newKey.entries).filter((member) => {
    const short = { rpm_limit: 'rpm', concurrency_limit: 'concurrency', spend_cap: 'cap' }
    const option = { ...short, expires_at: 'expires', team_id: 'team' }[member] ?? member
    return !exceptions.includes(member) && !names.includes(option)
  })
  expect(missing).toEqual([])
})

describe('examples', () => {
  it('are of every command with an argument, or with an option of its own that has a value', () => {
    const missing = COMMANDS.filter(({ arguments: names, options = {}, example }) => {
      const own = Object.entries(options).filter(([option]) => !(option in REMOTE))
      return example === undefined && (names ?? own.find(([, { value }]) => value))
    })
    expect(missing.map(({ name }) => name)).toEqual([])
  })

  it('are of their command, and no terminal of 80 columns breaks them', () => {
    for (const { name, example } of COMMANDS) {
      if (example === undefined) continue
      expect(`${example} `).toMatch(new RegExp(`^${name} `))
      expect(example.length, example).toBeLessThanOrEqual(67)
    }
  })

  it('and all options of a command are on one screen of its help', async () => {
    for (const { name } of COMMANDS) {
      const { out } = await run(`${name} --help`, [], 80)
      expect(out.trimEnd().split('\n').length, out).toBeLessThanOrEqual(39)
      if (out.includes('\nExample:')) expect(out).toMatch(/\nExample:\n {2}sluicegate .+\nMore: /)
    }
  })

  it.each(
    COMMANDS.filter(({ name, example, options = {} }) => {
      return name in ELSEWHERE && example !== undefined && 'url' in options
    }).map(({ name, example }) => [name, example!] as const),
  )('that this ledger cannot have are no wrong use: %s', async (name, example) => {
    const { options = {} } = COMMANDS.find((one) => one.name === name)!
    const yes = 'yes' in options ? ['--yes'] : []
    const { code, err } = await run(example, [
      ...yes,
      '--url',
      'http://127.0.0.1:1',
      '--token',
      'x',
    ])
    expect([code, err]).toEqual([1, expect.stringContaining('127.0.0.1:1')])
  })
})
