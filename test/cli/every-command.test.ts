/**
 * Every command of the table, in every form of output, against one ledger with calls that ended in all ways: none crashes, none prints an
 * object, and no line is wider than the terminal, but secrets, links and raw data.
 */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/commands.ts'
import { newKey } from '../../src/server/admin/resources/key.ts'
import { call, TOKEN, type Said } from '../_cli.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { eventually } from '../_wait.ts'

/** Command lines of commands with arguments, where their example is none for this ledger. */
const LINES: Readonly<Record<string, string>> = {
  serve: 'serve --port none',
  health: 'health --url URL',
  'accounts create': 'accounts create Another',
  'accounts show': 'accounts show 中文公司',
  'accounts disable': 'accounts disable شركة',
  'accounts enable': 'accounts enable شركة',
  'accounts archive': 'accounts archive closed --yes',
  'teams create': 'teams create acme --name Further',
  'teams show': 'teams show research',
  'teams update': 'teams update research --note text',
  'teams disable': 'teams disable research',
  'teams enable': 'teams enable research',
  'teams archive': 'teams archive research --yes',
  'credits adjust': 'credits adjust acme 2.50 --reason goodwill',
  'credits show': 'credits show acme',
  statement: 'statement acme',
  'statements issue': 'statements issue acme 2026-01',
  'statements show': 'statements show S-2026-00001',
  'statements page': 'statements page S-2026-00001',
  'statements void': 'statements void S-2026-00001 --reason test --yes',
  'ledger journal': 'ledger journal --from 2026-01-01 --to 2027-01-01',
  'keys enable': 'keys enable laptop',
  'keys archive': 'keys archive laptop --yes',
  'limits show': 'limits show account:acme',
  'limits set': 'limits set key:laptop cap.week 5.00',
  'limits clear': 'limits clear key:laptop cap.week',
  'limits raise': 'limits raise laptop cap.week 9.00 --until 6h',
  'limits reset': 'limits reset key:laptop cap.week --reason test',
  'requests list': 'requests list --all',
  'requests show': 'requests show REQUEST',
  'requests tail': 'requests tail --key',
  'requests end': 'requests end RUNNING',
  'requests forget': 'requests forget --user none --yes',
  'deployments cooldown': 'deployments cooldown mock/echo',
  'deployments resume': 'deployments resume mock/echo',
  usage: 'usage --by key,model --from 30d',
  'models show': 'models show mock/echo',
  'models discover': 'models discover mock',
  'models price': 'models price mock/echo --prompt 10',
  'models import': 'models import --from none.json',
  'policy test': 'policy test policy.json --input secret',
  'policy replay': 'policy replay policy.json',
  'tokens update': 'tokens update nobody --role viewer',
  'tokens end': 'tokens end nobody --yes',
  'sessions end': 'sessions end --all',
  'alerts mute': 'alerts mute al_none --for 1h',
  'config revert': 'config revert 1',
  'ledger accept': 'ledger accept --yes',
  'ledger book': 'ledger book REQUEST',
  'ledger drop': 'ledger drop REQUEST --reason test --yes',
  'ledger import': 'ledger import none.jsonl',
  'import litellm': 'import litellm --config none.yaml',
  'import bifrost': 'import bifrost --config none.json',
  'import new-api': 'import new-api --tables none',
  'plugin new': 'plugin new provider Not-a-name!',
  'plugin test': 'plugin test ./none.ts',
  'plugin dev': 'plugin dev ./none.ts',
  'plugin record': 'plugin record ./none.ts',
  'plugin show': 'plugin show mock',
  'provider test': 'provider test ./none.ts',
  completion: 'completion bash',
  docs: 'docs guard',
}
/** Commands of one noun whose argument is an entry: none is set up. */
const ENTRY = /^(?:providers|engines|sinks|models) (?:show|add|update|remove|test|offers)$/
/** They start a process for each form; one form shows what they print. */
const ONCE = /^(?:plugin (?:test|dev)|provider test)$/
/** What is printed for programs, and pages of the manual. */
const RAW =
  /^(?:completion|docs|config export|ledger missing|ledger export|ledger unsent|plugin show)/
const WHOLE = /sk-|sat-|:\/\/|once\.|req_/

const CONFIG = `
state: { driver: memory }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.1', completion: '0.2' }
    deployments: [{ provider: mock, model: echo }]
`

let t: TestGateway
let place: string
let ids: { request: string; running: string }
let release: () => void
const vendor = createServer((request, response) => {
  if (request.url!.includes('/cut/')) response.writeHead(200).write('data: {"id":"1",')
  if (request.url!.includes('/cut/')) return void setTimeout(() => response.destroy(), 20)
  response.writeHead(500).end('{"error":{"message":"参数错误 \\u001b[31m für Müller"}}')
})

beforeAll(async () => {
  await once(vendor.listen(0, '127.0.0.1'), 'listening')
  const base = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
  const of = (baseURL: string) => ({
    use: 'openai-compatible',
    options: { baseURL, apiKey: 'key-of-the-test' },
  })
  const model = (...providers: string[]) => ({
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING' as const],
    deployments: providers.map((provider) => ({ provider, model: 'echo' })),
  })
  t = await createTestGateway({
    ...MOCK_CONFIG,
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
  })
  place = await mkdtemp(join(tmpdir(), 'commands-'))
  await writeFile(join(place, 'policy.json'), '{"version":1,"maxOutputTokens":50}')
  await writeFile(join(place, 'gateway.config.yaml'), CONFIG)
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
  const secret = { key: (await t.newKey({ name: 'Schlüssel für Müller' })).secret }
  const ask = (name: string, more = {}, key = secret) =>
    t.ask('POST', '/v1/chat/completions', { ...key, body: { ...hello, model: name, ...more } })
  const completed = await ask('mock/echo')
  const ofPolicy = await t.newKey({ policy: { version: 1, bannedPatterns: ['Hello'] } as never })
  await ask('mock/echo', {}, { key: ofPolicy.secret })
  const limited = { key: (await t.newKey({ rpm: 1 })).secret }
  for (let n = 0; n < 2; n++) await ask('mock/echo', {}, limited)
  await ask('no/such-model')
  for (const name of ['broken', 'cut', 'down', 'twice']) {
    await ask(`vendor-with-a-long-name/${name}`, { stream: name === 'cut' })
  }
  const leaving = new AbortController()
  const begin = (signal: AbortSignal) =>
    fetch(`${t.baseURL}/chat/completions`, {
      method: 'POST',
      signal,
      headers: { authorization: `Bearer ${secret.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...hello, model: 'mock/slow', stream: true }),
    }).catch(() => undefined)
  await begin(leaving.signal)
  leaving.abort()
  const staying = new AbortController()
  await begin(staying.signal)
  release = () => staying.abort()
  const running = await eventually(async () => {
    const { json } = await t.ask('GET', '/admin/requests', { key: TOKEN })
    const { id } = json.data.find((one: any) => one.running)
    return id as string
  })
  await prepare()
  ids = { request: completed.headers['x-service-request-id'] as string, running }
})
afterAll(async () => {
  release?.()
  vendor.close().closeAllConnections()
  await t?.close()
  await rm(place, { recursive: true, force: true })
})

/** What the command is about is there, whatever another form of it did. */
async function prepare(): Promise<void> {
  const put = (path: string, body: object) => t.ask('POST', `/admin${path}`, { key: TOKEN, body })
  for (const id of ['acme', 'closed']) {
    const { json } = await t.ask('GET', `/admin/accounts/${id}`, { key: TOKEN })
    if (json.data?.archived_at !== null) await put('/accounts', { name: 'closed' })
  }
  const live = async (path: string, name: string) => {
    const { json } = await t.ask('GET', path, { key: TOKEN })
    return json.data.some((one: any) => one.name === name && one.archived_at === null)
  }
  if (!(await live('/admin/keys', 'laptop'))) await put('/accounts/acme/keys', { name: 'laptop' })
  if (!(await live('/admin/teams', 'research'))) {
    await put('/accounts/acme/teams', { name: 'research' })
  }
}

async function run(line: string, options: readonly string[], columns?: number): Promise<Said> {
  const words = line
    .replace('URL', t.url)
    .replace('REQUEST', ids.request)
    .replace('RUNNING', ids.running)
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
  it('prints what it has to say in every form', async () => {
    const options = command.options ?? {}
    const address = 'token' in options ? ['--url', t.url, '--token', TOKEN] : []
    const line = LINES[name] ?? (ENTRY.test(name) ? `${name} none` : (command.example ?? name))
    const forms = ONCE.test(name) ? FORMS.slice(0, 1) : FORMS
    for (const [form, more, columns] of forms) {
      const [option] = more
      if (option !== undefined && !(option.slice(2) in options)) continue
      if (name.endsWith(' archive')) await prepare()
      const { code, out, err } = await run(line, [...more, ...address], columns)
      const text = out + err
      const where = `${line}, ${form}: ${text}`
      expect([0, 1, 2, 3], where).toContain(code)
      expect(text, where).not.toMatch(/\[object|undefined|NaN|LOG__LEVEL=debug/)
      if (option === '--json' && code === 0) expect(() => JSON.parse(out), where).not.toThrow()
      // The control characters of names are shown, not obeyed.
      if (columns !== undefined) {
        const plain = stripVTControlCharacters(out)
        expect([plain.includes('\u001b'), plain.includes('\u202e')], where).toEqual([false, false])
      }
      if (columns === undefined || RAW.test(line) || option === '--json') continue
      const wide = text.split('\n').filter((one) => widthOf(one) > columns && !WHOLE.test(one))
      expect(wide, where).toEqual([])
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
