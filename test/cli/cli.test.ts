import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import {
  ask,
  call as callOf,
  keyIn,
  run as runOf,
  start as startOf,
  urlOf,
  type Running,
  type Where,
} from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, send, type TestGateway } from '../_setup.ts'

const TOKEN = 'admin-token-of-the-test'
const CONFIG = `
server: { port: 0, shutdownGrace: 20 }
state: { driver: memory }
admin: { token: '${TOKEN}' }
log: { access: false }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    capabilities: [STREAMING]
    deployments: [{ provider: mock, model: echo, options: { paceMs: 50 } }]
`
const SOME = expect.stringMatching(/./)
const SYSTEM = `${process.platform} with ${process.arch}`
const LARGE_PAGES = SYSTEM === 'linux with x64'
const SLOW = CONFIG.replace('paceMs: 50', 'paceMs: 60000')

/** State that is forgotten, unless a test is about its folder. */
const inMemory = ({ cwd, env }: Where = {}): Where => ({
  ...(cwd !== undefined && { cwd }),
  env: { SLUICEGATE__STATE: '{"driver":"memory"}', ...env },
})
const start = (args: readonly string[], where?: Where, node?: readonly string[]) =>
  startOf(args, inMemory(where), node)
const run = (args: readonly string[], where?: Where, node?: readonly string[]) =>
  runOf(args, inMemory(where), node)
const call = (args: readonly string[], where?: Where) => callOf(args, inMemory(where))

interface Served extends Running {
  readonly url: string
  readonly cwd: string
}

/** A gateway on a free port, with its own configuration. */
async function serve(config = CONFIG): Promise<Served> {
  const cwd = await folder({ 'gateway.config.yaml': config })
  const running = await start(['serve', '--print-key'], { cwd })
  return { ...running, url: await urlOf(running), cwd }
}

const CHAT = '/v1/chat/completions'

/** Number of running calls, from the metrics of the gateway. */
async function callsAt(url: string): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const answer = await send(`${url}/admin/status`, 'GET', undefined, headers)
  return answer.json.data.running
}

describe('a mistake in the arguments', () => {
  it.each([
    [['srve'], /no command "srve"; did you mean "serve"\?/],
    [['xyzzy'], /no command "xyzzy"; .*--help/],
    [['keys'], /"keys" needs a command; it has list, create/],
    [['keys', 'lst'], /did you mean "keys list"\?/],
    [['accounts', 'show'], /Missing <account>.*Usage: .* accounts show <account>/s],
    [['credits', 'add'], /Missing <account> and <usd>/],
    [['keys', 'show', 'a', 'b'], /"b" is one argument too many/],
    [['keys', 'create', 'a', '--nam', 'x'], /no option --nam; did you mean --name\?/],
    [['models', '--token'], /--token needs a value: --token <token>/],
    [['models', '--token', '--json'], /--token needs a value/],
    [['models', '--json=1'], /--json takes no value/],
    [['serve', '--port', 'http'], /--port takes a number from 0 to 65535, not "http"/],
    [['serve', '--port', '65536'], /--port takes a number/],
  ])('%j ends with status 2 and a message', async (args, message) => {
    const { code, out, err } = await call(args)
    expect(err).toMatch(message)
    expect([code, out]).toEqual([2, ''])
  })

  it('is the status of the process', async () => {
    const { code, out, err } = await run(['srve'])
    expect([code, out, err]).toEqual([2, '', expect.stringContaining('did you mean "serve"?')])
  })

  it('of a command for a running gateway is found before a request', async () => {
    const options = ['--url', 'http://127.0.0.1:9', '--token', 'x']
    for (const [args, message] of [
      [['keys', 'create', 'acme'], /--name <text>/],
      [['keys', 'update', 'key'], /Nothing to change/],
      [['keys', 'update', 'key', '--rpm', 'many'], /--rpm takes a whole number or "none"/],
      [['keys', 'update', 'key', '--policy', 'no.json'], /policy cannot be read from no.json/],
    ] as const) {
      const { code, err } = await call([...args, ...options])
      expect(err).toMatch(message)
      expect(code).toBe(2)
    }
  })
})

describe('help', () => {
  it('lists the commands', async () => {
    const answers = [await run(['--help']), await call(['help']), await call(['-h'])]
    for (const { code, out, err } of answers) {
      expect([code, err]).toEqual([0, ''])
      for (const word of ['serve', 'check', 'init', 'keys create <account>', 'ledger verify']) {
        expect(out).toContain(word)
      }
    }
  })

  it('lists the options of a command, or the commands of a family', async () => {
    const command = await call(['keys', 'create', '--help'])
    expect(command.out).toMatch(/keys create <account> \[options\][^]*--cap <usd/)
    const family = await call(['keys', '--help'])
    expect(family.out).toContain('keys disable <key>')
    expect(family.out).not.toContain('serve')
    expect([command.code, family.code]).toEqual([0, 0])
  })
})

describe('version', () => {
  it('tells what runs', async () => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8'))
    const { out } = await run(['--version'])
    expect(out).toMatch(
      new RegExp(`^sluicegate ${version} \\(node 2\\d\\.\\S+, sqlite 3\\.\\S+\\)\\n$`),
    )
    expect(JSON.parse((await call(['-v', '--json'])).out)).toMatchObject({ version })
  })
})

describe('an old Node', () => {
  it('is reported in a sentence', async () => {
    const pretend =
      'data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"22.1.0"}})'
    const { code, out, err } = await run(['serve'], {}, ['--import', pretend])
    expect(err).toMatch(/^Sluicegate needs Node\.js 24 or newer, this is 22\.1\.0\./)
    expect([code, out]).toEqual([1, ''])
  })
})

describe('serve', () => {
  it('works in an empty folder: prints a URL and a key that answers', async () => {
    const running = await start(['--port', '0', '--print-key'])
    const url = await urlOf(running)
    const said = running.said()
    expect(said).toMatch(/shown only now; account "local", 10 USD\n/)
    expect(said).toMatch(/Models +\w+\/\w+, .*;\n +set .*ANTHROPIC_API_KEY.* for more\n/)
    const body = JSON.parse(/-d '(.*)'\n/.exec(said)![1]!)
    const answer = await ask(url, keyIn(said), CHAT, body)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.json.choices[0].message.content).toContain('Hello')
    running.child.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ code: 0, signal: null })
  })

  describe.runIf(LARGE_PAGES)(`in large pages, on linux with x64 (here: ${SYSTEM})`, () => {
    const optionOf = async (env = {}, ...node: string[]) => {
      const cwd = await folder({ 'gateway.config.yaml': CONFIG })
      const running = await start(['serve'], { cwd, env }, node)
      await urlOf(running)
      const words = await readFile(`/proc/${running.child.pid}/cmdline`, 'utf8')
      return { words: words.split('\0').filter((word) => word.startsWith('--')), ...running }
    }

    it('stays the process that was started, with its options', async () => {
      const { words, child, ended } = await optionOf({}, '--stack-trace-limit=20')
      expect(words).toEqual([
        '--use-largepages=silent',
        '--disable-sigusr1',
        '--max-semi-space-size=16',
        '--stack-trace-limit=20',
      ])
      const variables = await readFile(`/proc/${child.pid}/environ`, 'utf8')
      expect(variables.split('\0')).toContain('MALLOC_ARENA_MAX=2')
      child.kill('SIGTERM')
      expect(await ended).toMatchObject({ code: 0, signal: null })
    })

    it('obeys options that are given', async () => {
      const young = await optionOf({ NODE_OPTIONS: '--max-semi-space-size=64' })
      expect(young.words).toEqual(['--use-largepages=silent', '--disable-sigusr1'])
      const { words } = await optionOf({}, '--use-largepages=off')
      expect(words).toEqual(['--use-largepages=off'])
      expect(await optionOf({ NODE_OPTIONS: '--use-largepages=off' })).toMatchObject({ words: [] })
    })
  })

  it('refuses a first key that is none, by the name of its variable', async () => {
    const env = { SLUICEGATE_FIRST_KEY: 'short' }
    const { code, err } = await call(['serve', '--port', '0'], { env })
    expect(err).toMatch(/SLUICEGATE_FIRST_KEY[^]*8 to 512 visible/)
    expect(code).toBe(1)
  })

  it('says everything as lines of JSON with log.format json', async () => {
    const providers = `{ use: mock },
  away: { use: openai-compatible, options: { baseURL: 'http://127.0.0.1:1/v1', apiKey: vendor-key } }`
    const config = CONFIG.replace('log: { access: false }', 'log: { format: json }')
      .replace('{ use: mock }', providers)
      .concat('  mock/away: { pricing: { prompt: "0", completion: "0" }, ')
      .concat('deployments: [{ provider: away, model: m }] }\n')
    const cwd = await folder({ 'gateway.config.yaml': config })
    const running = await start(['serve', '--print-key'], { cwd })
    const lines = () =>
      running
        .said()
        .trimEnd()
        .split('\n')
        .filter((line) => line !== '')
    const events = () => lines().map((line) => JSON.parse(line).event)
    await expect.poll(events).toContain('started')
    const began = JSON.parse(lines().find((line) => line.includes('"started"'))!)
    expect(began).toMatchObject({
      level: 'info',
      state: 'memory',
      url: expect.stringMatching(/^http:/),
    })
    const authorization = `Bearer ${began.key}`
    const post = (path: string, headers: Record<string, string>, model = 'mock/echo') =>
      send(began.url + path, 'POST', JSON.stringify({ ...hello, model }), {
        'content-type': 'application/json',
        ...headers,
      })
    expect((await post('/v1/chat/completions', { authorization })).status).toBe(200)
    expect((await post('/v1/chat/completions', { authorization }, 'mock/away')).status).toBe(502)
    expect((await post('/v1/chat/completions', {})).status).toBe(401)
    expect((await post('/v1/nothing', { authorization })).status).toBe(404)
    await writeFile(join(cwd, 'gateway.config.yaml'), 'sever: {}')
    await expect.poll(events).toContain('config.refused')
    await writeFile(join(cwd, 'gateway.config.yaml'), `${config}routing: { cooldown: 7 }\n`)
    await expect.poll(events).toContain('config.reloaded')
    running.child.kill('SIGTERM')
    const { code, out, err } = await running.ended
    expect(code).toBe(0)
    const all = `${out}${err}`.trimEnd().split('\n')
    const said = all.map((line) => JSON.parse(line))
    for (const one of said) {
      expect(one).toMatchObject({ at: SOME, level: SOME, event: SOME, message: SOME })
    }
    const members = (event: string) => said.find((one) => one.event === event)
    expect(members('request')).toMatchObject({ status: 200, model: 'mock/echo' })
    expect(members('upstream.failed')).toMatchObject({
      provider: 'away',
      deployment: 'away/m',
      attempt: 1,
      url: 'http://127.0.0.1:1/v1/chat/completions',
      method: 'POST',
      class: 'upstream_error',
    })
    expect(members('auth.failed')).toMatchObject({ why: 'none' })
    expect(members('route.unknown')).toMatchObject({ method: 'POST', path: '/v1/nothing' })
    expect(members('config.refused')).toMatchObject({ paths: ['sever'] })
    expect(members('config.reloaded')).toMatchObject({ changed: ['routing.cooldown'] })
    expect(members('stopping')).toMatchObject({ why: 'SIGTERM' })
    expect(out + err).not.toContain('vendor-key')
  })

  it('says with log.format json why it cannot start, as a line of JSON', async () => {
    const cwd = await folder({ 'gateway.config.yaml': 'sever: {}\n' })
    const env = { SLUICEGATE__LOG__FORMAT: 'json' }
    const { code, err } = await call(['serve'], { cwd, env })
    expect(JSON.parse(err)).toMatchObject({
      level: 'fatal',
      event: 'fatal',
      message: expect.stringContaining('is not valid'),
      issues: [{ path: 'sever' }],
    })
    expect(code).toBe(1)
  })

  it('names a port that is in use, and the remedy', async () => {
    const other = createServer()
    await once(other.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void other.close())
    const { port } = other.address() as AddressInfo
    const cwd = await folder({ 'gateway.config.yaml': CONFIG })
    const { code, err } = await call(['serve', '--port', String(port)], { cwd })
    expect(err).toContain(
      `Cannot listen on 127.0.0.1, port ${port}: another process uses this port`,
    )
    expect(err).toContain('--port')
    expect(code).toBe(1)
  })

  it('reports mistakes in the configuration', async () => {
    const cwd = await folder({ 'gateway.config.yaml': 'sever: {}\n' })
    const { code, err } = await run(['serve'], { cwd })
    expect(err).toMatch(
      /gateway\.config\.yaml is not valid:\n +sever +unknown key; did you mean "server"/,
    )
    expect(err).not.toContain('    at ')
    expect(code).toBe(1)
  })

  it('applies a change of the configuration while it runs, unless it is invalid', async () => {
    const { url, cwd, said } = await serve()
    const file = join(cwd, 'gateway.config.yaml')
    const ids = async () => {
      const { json } = await send(`${url}/v1/models`, 'GET', undefined, {})
      return json.data.map(({ id }: { id: string }) => id)
    }
    expect(await ids()).toEqual(['mock/echo'])
    await writeFile(file, CONFIG.replace('mock/echo', 'mock/other'))
    await expect.poll(ids).toEqual(['mock/other'])
    await writeFile(file, 'models: 7\n')
    await expect.poll(said).toContain('the previous one stays in use')
    expect(await ids()).toEqual(['mock/other'])
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('lets a running call end after %s', async (signal) => {
    const { url, child, said, ended } = await serve()
    const messages = [{ role: 'user', content: 'one two three four five six seven eight nine ten' }]
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keyIn(said())}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'mock/echo', messages, stream: true }),
    })
    // The head has arrived, most of the answer has not.
    child.kill(signal)
    expect(await response.text()).toContain('data: [DONE]')
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })

  it('ends running calls on the second signal', async () => {
    const { url, child, said, ended } = await serve(SLOW)
    const answer = ask(url, keyIn(said()), CHAT, { ...hello, stream: true }).catch(() => 'cut off')
    await expect.poll(() => callsAt(url)).toBe(1)
    // Signals within a second are one, because npm and terminals send a signal twice.
    const isOver = () => child.kill('SIGTERM') === false || child.exitCode !== null
    await expect.poll(isOver, { interval: 400 }).toBe(true)
    expect(await ended).toMatchObject({ code: 1 })
    expect(await answer).toMatchObject({ text: expect.stringContaining('service_unavailable') })
  })
})

describe('init and check', () => {
  it('write a configuration that serves, with an admin token that works', async () => {
    const cwd = await folder({})
    const { code, out } = await run(['init'], { cwd })
    expect([code, out]).toEqual([0, expect.stringContaining('gateway.config.yaml')])
    const env = await readFile(join(cwd, '.env'), 'utf8')
    const token = /^SLUICEGATE_ADMIN_TOKEN=([\w-]{32})\n$/.exec(env)![1]!
    expect((await stat(join(cwd, '.env'))).mode & 0o077).toBe(0)
    expect(out).not.toContain(token)

    const check = await run(['check'], { cwd })
    expect(check.out).toMatch(
      /^gateway\.config\.yaml is valid: \d+ models\.\n[^]*mock\/echo +chat +paid/,
    )
    expect(check.out).not.toContain(token)
    const json = await call(['check', '--json'], { cwd })
    expect(JSON.parse(json.out).models).toContainEqual(
      expect.objectContaining({ id: 'mock/echo', modality: 'chat' }),
    )

    const gateway = await start(['serve', '--port', '0', '--print-key'], { cwd })
    const url = await urlOf(gateway)
    const accounts = await run(['accounts', 'list', '--url', url], { cwd })
    expect(accounts.out).toMatch(/^ID +NAME[^]*\nlocal +Local +10 +paid +1\n$/)
  })

  it('overwrite files only with --force, and never a token', async () => {
    const cwd = await folder({ 'gateway.config.yaml': '# mine\n', '.env': 'OTHER=1' })
    const refused = await call(['init'], { cwd })
    expect(refused.err).toMatch(/gateway\.config\.yaml exists already; --force overwrites it/)
    expect(refused.code).toBe(1)
    expect(await readFile(join(cwd, 'gateway.config.yaml'), 'utf8')).toBe('# mine\n')
    expect((await call(['init', '--force'], { cwd })).code).toBe(0)
    const env = await readFile(join(cwd, '.env'), 'utf8')
    expect(env).toMatch(/^OTHER=1\nSLUICEGATE_ADMIN_TOKEN=\S+\n$/)
    expect((await call(['init', '--force', '--json'], { cwd })).out).toContain(
      '"token_added": false',
    )
    expect(await readFile(join(cwd, '.env'), 'utf8')).toBe(env)
  })

  it('find all mistakes', async () => {
    const broken = CONFIG.replace("'0.000001'", '0.000001').replace('use: mock', 'use: mokc')
    const cwd = await folder({ 'gateway.config.yaml': broken })
    const { code, err } = await call(['check'], { cwd })
    expect(err).toMatch(/models\.mock\/echo\.pricing\.prompt +expected a decimal string/)
    expect(code).toBe(1)
    const plugin = CONFIG.replace('use: mock', 'use: mokc')
    const second = await call(['check'], { cwd: await folder({ 'gateway.config.yaml': plugin }) })
    expect(second.err).toMatch(/providers\.mock\.use .*mokc/)
    expect(second.code).toBe(1)
  })

  it('name a configuration that does not exist', async () => {
    const { code, err } = await call(['check', '--config', 'no.yaml'])
    expect([code, err]).toEqual([1, expect.stringContaining('no.yaml')])
  })
})

describe('a gateway whose output is closed', () => {
  it('continues to serve', async () => {
    const { child, url } = await serve(
      CONFIG.replace('access: false', 'access: true, format: json'),
    )
    child.stdout!.destroy()
    child.stderr!.destroy()
    // Access lines are written in batches of 64 KiB; this is twice as much.
    for (let round = 0; round < 10; round++) {
      const models = () => send(`${url}/v1/models`, 'GET', undefined, {})
      const answers = await Promise.all(Array.from({ length: 100 }, models))
      expect(answers.every(({ status }) => status === 200)).toBe(true)
    }
  })
})

describe('a gateway whose output is not read', () => {
  it('continues to serve, and ends', async () => {
    const config = CONFIG.replace('access: false', 'access: true, format: json')
    const { child, url, ended } = await serve(config)
    child.stdout!.pause()
    for (let round = 0; round < 10; round++) {
      const models = () => send(`${url}/v1/models`, 'GET', undefined, {})
      const answers = await Promise.all(Array.from({ length: 100 }, models))
      expect(answers.every(({ status }) => status === 200)).toBe(true)
    }
    child.kill('SIGTERM')
    await once(child, 'exit')
    child.stdout!.resume()
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })
})

describe('a gateway with its state in a file', () => {
  it('knows accounts, keys and money again after it was killed, and shows the key once', async () => {
    const cwd = await folder({
      'gateway.config.yaml': CONFIG.replace('driver: memory', 'driver: file'),
    })
    const env = { SLUICEGATE__STATE: '{"driver":"file","path":"./data"}' }
    const first = await start(['serve', '--print-key'], { cwd, env })
    await expect.poll(first.said).toMatch(/sk-sluice-/)
    const secret = keyIn(first.said())
    const of = async (running: Running, path: string, body?: object) =>
      ask(await urlOf(running), secret, path, body)
    const { usage } = (await of(first, CHAT, hello)).json
    expect(usage.cost).toBeGreaterThan(0)
    const credits = (await of(first, '/v1/credits')).text
    first.child.kill('SIGKILL')
    await first.ended

    const second = await start(['serve'], { cwd, env })
    expect((await of(second, '/v1/credits')).text).toBe(credits)
    expect((await of(second, '/v1/key')).json.data.spend_usd).toBe(usage.cost)
    expect(second.said()).not.toContain('sk-sluice-')
    const third = await call(['serve', '--port', '0'], { cwd, env })
    expect(third.code).toBe(1)
    expect(third.err).toMatch(/one process/i)
  })
})

describe('a first start', () => {
  it('prints no key where no person reads it, and makes an admin token that commands find', async () => {
    const cwd = await folder({})
    const first = await startOf(['serve', '--port', '0'], { cwd })
    const url = await urlOf(first)
    expect(first.said()).not.toContain('sk-sluice-')
    expect(first.said()).toMatch(/API key +none yet: "sluicegate keys create local --name first"/)
    expect(first.said()).toContain(`Data       ${join(cwd, 'data')}\n`)
    const file = join(cwd, 'data/admin-token')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const token = (await readFile(file, 'utf8')).trim()
    expect(token).toMatch(/^[A-Za-z0-9]{40}$/)
    expect(first.said()).toContain(`token in ${file}\n`)
    expect(first.said()).not.toContain(token)
    const accounts = await callOf(['accounts', 'list', '--url', url], { cwd })
    expect(accounts.out, accounts.err).toContain('local')
    first.child.kill('SIGTERM')
    await first.ended

    // The operator's own key is booked where the account still has none.
    const env = { SLUICEGATE_FIRST_KEY: 'my-own-secret-1' }
    const second = await startOf(['serve', '--port', '0'], { cwd, env })
    const answer = await ask(await urlOf(second), 'my-own-secret-1', CHAT, hello)
    expect(answer.status, answer.text).toBe(200)
    expect(second.said()).not.toContain('my-own-secret')
    expect((await readFile(file, 'utf8')).trim()).toBe(token)
  })
})

describe('the data folder of a gateway', () => {
  const FILE = CONFIG.replace('{ driver: memory }', '{ driver: file, path: ./old }')
  const inFolder = async (cwd: string, args: readonly string[] = [], env = {}) => {
    const running = await startOf(['serve', ...args], { cwd, env })
    await urlOf(running)
    running.child.kill('SIGTERM')
    return running.ended
  }

  it('is printed, and belongs to its user alone', async () => {
    const cwd = await folder({ 'gateway.config.yaml': FILE })
    const { out } = await inFolder(cwd, ['--data', 'there'])
    expect(out).toMatch(new RegExp(`^  Data +${cwd}/there$`, 'm'))
    expect((await stat(join(cwd, 'there'))).mode & 0o777).toBe(0o700)
    expect((await stat(join(cwd, 'there/ledger.db'))).mode & 0o777).toBe(0o600)
  })

  it('holds compiled code, unless others could have written it', async () => {
    const cwd = await folder({ 'gateway.config.yaml': FILE, 'tmp/empty': '' })
    const env = { TMPDIR: join(cwd, 'tmp'), SLUICEGATE_DATA: 'there', NODE_COMPILE_CACHE: '' }
    const cache = join(cwd, 'there/cache')
    await inFolder(cwd, [], env)
    await inFolder(cwd, [], env)
    expect((await stat(cache)).mode & 0o777).toBe(0o700)
    const compiled = await readdir(cache)
    expect(compiled).not.toEqual([])

    await rm(cache, { recursive: true })
    await mkdir(cache)
    await chmod(cache, 0o777)
    await inFolder(cwd, [], env)
    expect(await readdir(cache)).toEqual([])
    expect(await readdir(join(cwd, 'tmp'))).toEqual(['empty'])
  })

  it('is not changed by accident: a ledger in another place is named', async () => {
    const cwd = await folder({ 'gateway.config.yaml': FILE })
    await inFolder(cwd)
    const env = { SLUICEGATE_DATA: 'new' }
    const { code, err } = await callOf(['serve'], { cwd, env })
    expect(err).toContain(`there is no ledger in ${cwd}/new, but one in ${cwd}/old`)
    expect(err).toContain(`--data ${cwd}/old`)
    expect(code).toBe(1)
    expect(await inFolder(cwd, ['--data', 'new'])).toMatchObject({ code: 0 })
    // Now there is one in both, and the settings decide.
    expect(await inFolder(cwd, [], env)).toMatchObject({ code: 0 })
  })
})

describe('a configuration without models', () => {
  it('is served with a warning', async () => {
    const running = await serve(CONFIG.slice(0, CONFIG.indexOf('models:')))
    await expect.poll(running.said).toMatch(/has no models.*docs\/models-and-prices\.md/)
  })
})

describe('commands of a running gateway', () => {
  let t: TestGateway
  beforeAll(async () => {
    t = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
  })
  afterAll(() => t.close())

  const at = () => ['--url', t.url, '--token', TOKEN]

  it('create an account, add credits, create a key, and show its calls', async () => {
    const { url } = t
    const cwd = await folder({ 'policy.json': '{"version":1,"maxOutputTokens":50}' })
    const command = (...args: string[]) => run([...args, ...at()], { cwd })
    const again = (...args: string[]) => call([...args, ...at()])
    const account = await command('accounts', 'create', 'Acme Ltd', '--id', 'corp')
    expect([account.code, account.err]).toEqual([0, ''])
    expect(account.out).toMatch(/^id +corp\nname +Acme Ltd\n/)
    expect(account.out).toMatch(/^spend +day 0, month 0, lifetime 0$/m)

    const paid = await command('credits', 'add', 'corp', '12.50', '--reference', 'invoice 1')
    expect(paid.out).toMatch(/balance_usd +12\.5\n/)
    const twice = await again('credits', 'add', 'corp', '12.50', '--reference', 'invoice 1')
    expect(twice.out).toMatch(/booked before; nothing was added[^]*balance_usd +12\.5\n/)

    const settings = ['--rpm', '60', '--cap', '5/month', '--models', 'mock/echo, mock/nothing']
    const policy = ['--policy', 'policy.json', '--expires', '2099-01-31']
    const made = await command('keys', 'create', 'corp', '--name', 'Laptop', ...settings, ...policy)
    expect(made.err).toBe('')
    expect(made.out).toMatch(/cap +5 USD, month\n/)
    expect(made.out).toContain('warning: the catalog has no model "mock/nothing"')
    expect(made.out).toContain('The secret is shown only now')
    const secret = keyIn(made.out.slice(made.out.indexOf('only now')))
    const id = /^id +(\S+)$/m.exec(made.out)![1]!
    const answer = await ask(url, secret, CHAT, hello)
    expect(answer.status, answer.text).toBe(200)

    const shown = JSON.parse((await command('keys', 'show', id, '--json')).out)
    expect(shown).toMatchObject({
      rpm_limit: 60,
      spend_cap: { usd: '5', scope: 'month' },
      models: ['mock/echo', 'mock/nothing'],
      policy: { version: 1, maxOutputTokens: 50 },
      expires_at: '2099-01-31T00:00:00.000Z',
      spend_usd: answer.json.usage.cost,
    })
    const list = await command('keys', 'list', '--account', 'corp')
    expect(list.out).toMatch(/Laptop +sk-sluice-\S+ +active/)
    expect(list.out).not.toContain(secret)

    const changed = await command('keys', 'update', id, '--models', 'none', '--cap', 'none')
    expect(changed.out).toMatch(/models +all\n[^]*cap +-\n/)
    await command('keys', 'disable', id)
    expect((await ask(url, secret, CHAT, hello)).status).toBe(401)
    expect((await again('keys', 'list')).out).toMatch(/Laptop .* disabled/)
    await command('keys', 'enable', id)
    expect((await ask(url, secret, CHAT, hello)).status).toBe(200)

    const credits = await command('credits', 'show', 'corp')
    expect(credits.out).toMatch(/top-up +12\.5 .* invoice 1\n/)
    expect(credits.out).toContain(answer.headers['x-service-request-id'])
    expect((await command('models')).out).toMatch(/mock\/echo +chat +mock\/echo +healthy/)
    expect((await command('ledger', 'verify')).out).toBe('Every sum equals its rows.\n')
  })

  it('correct a balance either way, once per reference', async () => {
    await call(['accounts', 'create', 'Corrected', '--id', 'corrected', ...at()])
    const adjust = (...args: string[]) => call(['credits', 'adjust', ...args, ...at()])
    const reason = ['--reason', 'charged twice']
    const taken = await adjust('corrected', '-2.50', ...reason, '--reference', '-4')
    expect([taken.code, taken.err]).toEqual([0, ''])
    expect(taken.out).toMatch(/amount_usd +-2\.5\nbalance_usd +-2\.5\n/)
    const again = await adjust(...reason, '--reference', '-4', 'corrected', '-2.50')
    expect(again.out).toMatch(/booked before; nothing was changed[^]*balance_usd +-2\.5\n/)
    expect((await adjust('corrected', '3', ...reason)).out).toMatch(/balance_usd +0\.5\n/)
    const shown = await call(['credits', 'show', 'corrected', ...at()])
    expect(shown.out).toMatch(/adjust +-2\.5 +charged twice +-4\n/)
    const changes = await call(['audit', 'list', '--object', 'account:corrected', ...at()])
    expect(changes.out).toMatch(/admin +account\.adjust +account:corrected +usd +- +-2\.5\n/)
    const none = await call(['audit', 'list', '--action', 'nothing', ...at()])
    expect(none.out).toBe('There are none.\n')
    const missing = await adjust('corrected', '-1')
    expect([missing.code, missing.err]).toEqual([2, expect.stringMatching(/^--reason is required/)])
    const option = await adjust('corrected', '-x', ...reason)
    expect([option.code, option.err]).toEqual([2, expect.stringMatching(/^There is no option -x/)])
  })

  it('print large amounts to the last digit', async () => {
    await call(['accounts', 'create', 'Rich', '--id', 'rich', ...at()])
    await call(['credits', 'add', 'rich', '3999999.000000000001', ...at()])
    const show = ['accounts', 'show', 'rich', ...at()]
    for (const { out } of [await run([...show, '--json']), await call(show)]) {
      expect(out).toContain('3999999.000000000001')
    }
  })

  it('print errors of the gateway', async () => {
    // By default the token of the configuration is used.
    const cwd = await folder({ 'gateway.config.yaml': CONFIG })
    const command = (...args: string[]) => call([...args, '--url', t.url], { cwd })
    const unknown = await command('accounts', 'show', 'nobody')
    expect([unknown.code, unknown.out]).toEqual([1, ''])
    expect(unknown.err).toBe('There is no account "nobody".\n')
    const wrong = await command('credits', 'add', 'acme', 'ten')
    expect(wrong.err).toMatch(/'usd': expected a decimal string/)
    const token = await command('models', '--token', 'not-the-token')
    expect(token.err).toBe('The admin token is wrong.\n')
  })

  it('end with status 1 when the ledger does not add up', async () => {
    const wrong = { account_id: 'acme', what: 'balance', stored: 1, recomputed: 2 }
    const other = createHttpServer((_, response) => {
      response.end(JSON.stringify({ data: { ok: false, discrepancies: [wrong] } }))
    })
    await once(other.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void other.close())
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const { code, out, err } = await call(['ledger', 'verify', '--url', url, '--token', 'x'])
    expect(out).toMatch(/\nacme +balance +1 +2\n/)
    expect([code, err]).toEqual([1, 'The ledger does not add up.\n'])
  })

  it('report an address without a server, or without a gateway', async () => {
    const other = createHttpServer((_, response) => void response.end('hi'))
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const options = ['--url', url, '--token', 'x']
    const stranger = await call(['models', ...options])
    expect(stranger.err).toMatch(/is not a gateway \(status 200\)/)
    other.close().closeAllConnections()
    await once(other, 'close')
    const absent = await call(['models', ...options])
    expect(absent.err).toBe(
      `No gateway answers at ${url}; start one with "sluicegate", or name it with --url.\n`,
    )
    expect([stranger.code, absent.code]).toEqual([1, 1])
  })

  it('explain how to enable the admin API', async () => {
    await using other = await createTestGateway()
    const { url } = other
    const { code, err } = await call(['models', '--url', url, '--token', 'x'])
    expect(err).toMatch(/has no admin API: set SLUICEGATE_ADMIN_TOKEN/)
    expect(code).toBe(1)
    const without = await call(['models', '--url', url])
    expect(without.err).toMatch(/There is no admin token: set SLUICEGATE_ADMIN_TOKEN/)
    const environment = { env: { SLUICEGATE_ADMIN_TOKEN: 'x' } }
    expect((await call(['models', '--url', url], environment)).err).toMatch(/has no admin API/)
  })
})
