import { once } from 'node:events'
import { spawn, type ChildProcess } from 'node:child_process'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { folder } from './_folder.ts'
import { hello, send } from './_setup.ts'

const CLI = resolve(import.meta.dirname, '../src/cli.ts')
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
/** On a busy machine a process takes its time to start. */
const PATIENT = { timeout: 15_000 }
const SLOW = CONFIG.replace('paceMs: 50', 'paceMs: 60000')

interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly out: string
  readonly err: string
}

interface Running {
  readonly child: ChildProcess
  /** What it has printed so far. */
  readonly said: () => string
  readonly ended: Promise<Ended>
}

interface Where {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Options of Node itself. */
  readonly node?: readonly string[]
}

/** Starts the command line; it is killed with the test. */
async function start(
  args: readonly string[],
  { cwd, env, node = [] }: Where = {},
): Promise<Running> {
  const child = spawn(process.execPath, [...node, CLI, ...args], {
    cwd: cwd ?? (await folder({})),
    // The configuration that ships keeps its state in the package; no test may.
    env: { PATH: process.env.PATH, SLUICEGATE__STATE: '{"driver":"memory"}', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.on('data', (text: Buffer) => (out += text))
  child.stderr.on('data', (text: Buffer) => (err += text))
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, out, err }))
  return { child, said: () => out + err, ended }
}

async function run(args: readonly string[], where?: Where): Promise<Ended> {
  return (await start(args, where)).ended
}

interface Served extends Running {
  readonly url: string
  readonly cwd: string
  /** Runs a command against this gateway. */
  readonly command: (...args: string[]) => Promise<Ended>
}

/** A gateway on a free port, with a configuration of its own. */
async function serve(config = CONFIG): Promise<Served> {
  const cwd = await folder({ 'gateway.config.yaml': config })
  const running = await start(['serve'], { cwd })
  const url = await urlOf(running)
  const command = (...args: string[]) => run([...args, '--url', url], { cwd })
  return { ...running, url, cwd, command }
}

async function urlOf({ said }: Running): Promise<string> {
  await expect.poll(said, PATIENT).toMatch(/Base URL +\S+\n[^]*\nModels: \S+\n/)
  return /Base URL +(\S+)\/v1\n/.exec(said())![1]!
}

function keyIn(text: string): string {
  return /sk-sluice-\w+/.exec(text)![0]
}

function ask(url: string, secret: string, body: object) {
  return send(`${url}/v1/chat/completions`, 'POST', JSON.stringify(body), {
    authorization: `Bearer ${secret}`,
    'content-type': 'application/json',
  })
}

/** How many calls run, as the gateway says itself. */
async function callsAt(url: string): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const answer = await send(`${url}/admin/status`, 'GET', undefined, headers)
  return answer.json.data.running
}

describe('being called wrongly', () => {
  it.each([
    [[], /Usage: .* serve /s],
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
  ])('%j ends with status 2 and says what is wrong', async (args, message) => {
    const { code, out, err } = await run(args)
    expect(err).toMatch(message)
    expect([code, out]).toEqual([2, ''])
  })

  it('in what only a gateway would see is noticed as well', async () => {
    const options = ['--url', 'http://127.0.0.1:9', '--token', 'x']
    for (const [args, message] of [
      [['keys', 'create', 'acme'], /--name <text>/],
      [['keys', 'update', 'key'], /Nothing to change/],
      [['keys', 'update', 'key', '--rpm', 'many'], /--rpm takes a whole number or "none"/],
      [['keys', 'update', 'key', '--policy', 'no.json'], /policy cannot be read from no.json/],
    ] as const) {
      const { code, err } = await run([...args, ...options])
      expect(err).toMatch(message)
      expect(code).toBe(2)
    }
  })
})

describe('help', () => {
  it('lists the commands', async () => {
    for (const args of [['--help'], ['help'], ['-h']]) {
      const { code, out, err } = await run(args)
      expect([code, err]).toEqual([0, ''])
      for (const word of ['serve', 'check', 'init', 'keys create <account>', 'ledger verify']) {
        expect(out).toContain(word)
      }
    }
  })

  it('says what a command takes, or a family of them', async () => {
    const command = await run(['keys', 'create', '--help'])
    expect(command.out).toMatch(/keys create <account> \[options\][^]*--cap <usd/)
    const family = await run(['keys', '--help'])
    expect(family.out).toContain('keys disable <key>')
    expect(family.out).not.toContain('serve')
    expect([command.code, family.code]).toEqual([0, 0])
  })
})

describe('an old Node', () => {
  it('is told so in a sentence', async () => {
    const pretend =
      'data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"22.1.0"}})'
    const { code, out, err } = await run(['serve'], { node: ['--import', pretend] })
    expect(err).toMatch(/^Node\.js 24 or newer is needed, this is 22\.1\.0\./)
    expect([code, out]).toEqual([1, ''])
  })
})

describe('serve', () => {
  it('works in an empty folder: prints a URL and a key that answers', async () => {
    const running = await start(['serve', '--port', '0'])
    const url = await urlOf(running)
    await expect
      .poll(running.said, PATIENT)
      .toContain('The admin API is off: set SLUICEGATE_ADMIN_TOKEN')
    const said = running.said()
    const body = JSON.parse(/-d '(.*)'\n/.exec(said)![1]!)
    const answer = await ask(url, keyIn(said), body)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.json.choices[0].message.content).toContain('Hello')
    running.child.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ code: 0, signal: null })
  })

  it('says which port is taken and what to do', async () => {
    const other = createServer()
    await once(other.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void other.close())
    const { port } = other.address() as AddressInfo
    const { code, err } = await run(['serve', '--port', String(port)])
    expect(err).toContain(`Cannot listen on 127.0.0.1, port ${port}: something else listens there`)
    expect(err).toContain('--port')
    expect(code).toBe(1)
  })

  it('says what is wrong with the configuration', async () => {
    const cwd = await folder({ 'gateway.config.yaml': 'sever: {}\n' })
    const { code, err } = await run(['serve'], { cwd })
    expect(err).toMatch(
      /gateway\.config\.yaml is not valid:\n +sever +unknown key; did you mean "server"/,
    )
    expect(err).not.toContain('    at ')
    expect(code).toBe(1)
  })

  it('takes a change of the configuration over while it runs, but not a broken one', async () => {
    const { url, cwd, said } = await serve()
    const file = join(cwd, 'gateway.config.yaml')
    const ids = async () => {
      const { json } = await send(`${url}/v1/models`, 'GET', undefined, {})
      return json.data.map(({ id }: { id: string }) => id)
    }
    expect(await ids()).toEqual(['mock/echo'])
    await writeFile(file, CONFIG.replace('mock/echo', 'mock/other'))
    await expect.poll(ids, PATIENT).toEqual(['mock/other'])
    await writeFile(file, 'models: 7\n')
    await expect.poll(said, PATIENT).toContain('the old one stays in force')
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
    // The head is there, most of the answer is not.
    child.kill(signal)
    expect(await response.text()).toContain('data: [DONE]')
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })

  it('ends at once on the second signal', async () => {
    const { url, child, said, ended } = await serve(SLOW)
    const answer = ask(url, keyIn(said()), { ...hello, stream: true }).catch(() => 'cut off')
    await expect.poll(() => callsAt(url), PATIENT).toBe(1)
    child.kill('SIGTERM')
    await expect.poll(said, PATIENT).toContain('waiting for running calls')
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 1 })
    expect(await answer).toBe('cut off')
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
      /^gateway\.config\.yaml is valid: 1 model\.\n[^]*mock\/echo +chat +paid/,
    )
    expect(check.out).not.toContain(token)
    const json = await run(['check', '--json'], { cwd })
    expect(JSON.parse(json.out).models).toMatchObject([{ id: 'mock/echo', modality: 'chat' }])

    const gateway = await start(['serve', '--port', '0'], { cwd })
    const url = await urlOf(gateway)
    const accounts = await run(['accounts', 'list', '--url', url], { cwd })
    expect(accounts.out).toMatch(/^ID +NAME[^]*\nlocal +Local +10 +paid +1\n$/)
  })

  it('overwrite nothing unless told to, and never a token', async () => {
    const cwd = await folder({ 'gateway.config.yaml': '# mine\n', '.env': 'OTHER=1' })
    const refused = await run(['init'], { cwd })
    expect(refused.err).toMatch(/gateway\.config\.yaml is there already; --force overwrites it/)
    expect(refused.code).toBe(1)
    expect(await readFile(join(cwd, 'gateway.config.yaml'), 'utf8')).toBe('# mine\n')
    expect((await run(['init', '--force'], { cwd })).code).toBe(0)
    const env = await readFile(join(cwd, '.env'), 'utf8')
    expect(env).toMatch(/^OTHER=1\nSLUICEGATE_ADMIN_TOKEN=\S+\n$/)
    expect((await run(['init', '--force', '--json'], { cwd })).out).toContain(
      '"token_added": false',
    )
    expect(await readFile(join(cwd, '.env'), 'utf8')).toBe(env)
  })

  it('find everything that is wrong', async () => {
    const broken = CONFIG.replace("'0.000001'", '0.000001').replace('use: mock', 'use: mokc')
    const cwd = await folder({ 'gateway.config.yaml': broken })
    const { code, err } = await run(['check'], { cwd })
    expect(err).toMatch(/models\.mock\/echo\.pricing\.prompt +expected a decimal string/)
    expect(code).toBe(1)
    const plugin = CONFIG.replace('use: mock', 'use: mokc')
    const second = await run(['check'], { cwd: await folder({ 'gateway.config.yaml': plugin }) })
    expect(second.err).toMatch(/providers\.mock\.use .*mokc/)
    expect(second.code).toBe(1)
  })

  it('name a configuration that is not there', async () => {
    const { code, err } = await run(['check', '--config', 'no.yaml'])
    expect([code, err]).toEqual([1, expect.stringContaining('no.yaml')])
  })
})

describe('a gateway whose output nobody reads any more', () => {
  it('goes on serving', PATIENT, async () => {
    const { child, url } = await serve(CONFIG.replace('access: false', 'access: true'))
    child.stdout!.destroy()
    child.stderr!.destroy()
    // Access lines are written when there are 64 KiB of them: this is twice as much.
    for (let round = 0; round < 20; round++) {
      const models = () => send(`${url}/v1/models`, 'GET', undefined, {})
      const answers = await Promise.all(Array.from({ length: 100 }, models))
      expect(answers.every(({ status }) => status === 200)).toBe(true)
    }
  })
})

describe('a gateway that keeps its state in a file', () => {
  it(
    'knows accounts, keys and money again after it was killed, and shows the key once',
    PATIENT,
    async () => {
      const cwd = await folder({
        'gateway.config.yaml': CONFIG.replace('driver: memory', 'driver: file'),
      })
      const env = { SLUICEGATE__STATE: '{"driver":"file","path":"./data"}' }
      const first = await start(['serve'], { cwd, env })
      await expect.poll(first.said, PATIENT).toMatch(/sk-sluice-/)
      const [secret] = /sk-sluice-\w+/.exec(first.said())!
      const ask = async (running: Running, path: string, body?: object) => {
        await expect.poll(running.said, PATIENT).toMatch(/Base URL/)
        const [, base] = /Base URL\s+(\S+)/.exec(running.said())!
        const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
        const text = body && JSON.stringify(body)
        return send(base + path, text ? 'POST' : 'GET', text, headers)
      }
      const { usage } = (await ask(first, '/chat/completions', hello)).json
      expect(usage.cost).toBeGreaterThan(0)
      const credits = (await ask(first, '/credits')).text
      first.child.kill('SIGKILL')
      await first.ended

      const second = await start(['serve'], { cwd, env })
      expect((await ask(second, '/credits')).text).toBe(credits)
      expect((await ask(second, '/key')).json.data.spend_usd).toBe(usage.cost)
      expect(second.said()).not.toContain('sk-sluice-')
      const third = await run(['serve', '--port', '0'], { cwd, env })
      expect(third.code).toBe(1)
      expect(third.err).toMatch(/one process/i)
    },
  )
})

describe('commands of a running gateway', () => {
  it('make an account, pay it, make a key, and follow what it does', async () => {
    const { url, command, cwd } = await serve()
    const account = await command('accounts', 'create', 'Acme Ltd', '--id', 'acme')
    expect([account.code, account.err]).toEqual([0, ''])
    expect(account.out).toMatch(/^id +acme\nname +Acme Ltd\n/)

    const paid = await command('credits', 'add', 'acme', '12.50', '--reference', 'invoice 1')
    expect(paid.out).toMatch(/balance_usd +12\.5\n/)
    const twice = await command('credits', 'add', 'acme', '12.50', '--reference', 'invoice 1')
    expect(twice.out).toMatch(/booked before; nothing was added[^]*balance_usd +12\.5\n/)

    await writeFile(join(cwd, 'policy.json'), '{"version":1,"maxOutputTokens":50}')
    const settings = ['--rpm', '60', '--cap', '5/month', '--models', 'mock/echo, mock/nothing']
    const policy = ['--policy', 'policy.json', '--expires', '2099-01-31']
    const made = await command('keys', 'create', 'acme', '--name', 'Laptop', ...settings, ...policy)
    expect(made.err).toBe('')
    expect(made.out).toMatch(/cap +5 USD, month\n/)
    expect(made.out).toContain('warning: the catalog has no model "mock/nothing"')
    expect(made.out).toContain('This is the only time it is shown')
    const secret = keyIn(made.out.slice(made.out.indexOf('only time')))
    const id = /^id +(\S+)$/m.exec(made.out)![1]!
    const answer = await ask(url, secret, hello)
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
    const list = await command('keys', 'list', '--account', 'acme')
    expect(list.out).toMatch(/Laptop +sk-sluice-\S+ +active/)
    expect(list.out).not.toContain(secret)

    const changed = await command('keys', 'update', id, '--models', 'none', '--cap', 'none')
    expect(changed.out).toMatch(/models +all\n[^]*cap +-\n/)
    await command('keys', 'disable', id)
    expect((await ask(url, secret, hello)).status).toBe(401)
    expect((await command('keys', 'list')).out).toMatch(/Laptop .* disabled/)
    await command('keys', 'enable', id)
    expect((await ask(url, secret, hello)).status).toBe(200)

    const credits = await command('credits', 'show', 'acme')
    expect(credits.out).toMatch(/top-up +12\.5 .* invoice 1\n/)
    expect(credits.out).toContain(answer.headers['x-service-request-id'])
    expect((await command('models')).out).toMatch(/mock\/echo +chat +mock\/echo +well/)
    expect((await command('ledger', 'verify')).out).toBe('Every sum equals its rows.\n')
  })

  it('print large amounts to the last digit', async () => {
    const { command } = await serve()
    await command('accounts', 'create', 'Rich', '--id', 'rich')
    await command('credits', 'add', 'rich', '3999999.000000000001')
    for (const options of [['--json'], []]) {
      const { out } = await command('accounts', 'show', 'rich', ...options)
      expect(out).toContain('3999999.000000000001')
    }
  })

  it('pass on what the gateway says', async () => {
    const { command } = await serve()
    const unknown = await command('accounts', 'show', 'nobody')
    expect([unknown.code, unknown.out]).toEqual([1, ''])
    expect(unknown.err).toBe('There is no account "nobody".\n')
    const wrong = await command('credits', 'add', 'local', 'ten')
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
    const { code, out, err } = await run(['ledger', 'verify', '--url', url, '--token', 'x'])
    expect(out).toMatch(/\nacme +balance +1 +2\n/)
    expect([code, err]).toEqual([1, 'The ledger does not add up.\n'])
  })

  it('say that nobody answers, or not a gateway', async () => {
    const other = createHttpServer((_, response) => void response.end('hi'))
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const options = ['--url', url, '--token', 'x']
    const stranger = await run(['models', ...options])
    expect(stranger.err).toMatch(/no gateway/)
    other.close().closeAllConnections()
    await once(other, 'close')
    const nobody = await run(['models', ...options])
    expect(nobody.err).toBe(
      `No gateway answers at ${url}; start one with "npm start", or name it with --url.\n`,
    )
    expect([stranger.code, nobody.code]).toEqual([1, 1])
  })

  it('say how to get an admin API where there is none', async () => {
    const { url } = await serve(CONFIG.replace(/admin:.*\n/, ''))
    const { code, err } = await run(['models', '--url', url, '--token', 'x'])
    expect(err).toMatch(/has no admin API: set SLUICEGATE_ADMIN_TOKEN/)
    expect(code).toBe(1)
    const without = await run(['models', '--url', url])
    expect(without.err).toMatch(/There is no admin token: set SLUICEGATE_ADMIN_TOKEN/)
    const environment = { env: { SLUICEGATE_ADMIN_TOKEN: 'x' } }
    expect((await run(['models', '--url', url], environment)).err).toMatch(/has no admin API/)
  })
})
