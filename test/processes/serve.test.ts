/** What `serve` does as a process: its output, signals and files. */
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  ask,
  call as callOf,
  inMemory,
  keyIn,
  start as startOf,
  PACED_CONFIG as CONFIG,
  TOKEN,
  urlOf,
  type Running,
} from '../_cli.ts'
import { folder } from '../_folder.ts'
import { hello, send } from '../_setup.ts'

const SOME = expect.stringMatching(/./)
const SLOW = CONFIG.replace('paceMs: 50', 'paceMs: 60000')

const { start, run, call } = inMemory
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
    expect(said).toMatch(
      /Models +\d+: \w+\/\w+, .*;\n +OPENAI_API_KEY or ANTHROPIC_API_KEY in \.env brings more:\n +sluicegate docs tasks\/first-vendor\n/,
    )
    const body = JSON.parse(/-d '(.*)'\n/.exec(said)![1]!)
    const answer = await ask(url, keyIn(said), CHAT, body)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.json.choices[0].message.content).toContain('Hello')
    running.child.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ code: 0, signal: null })
  })

  it('says everything as lines of JSON with log.format json', async () => {
    const providers = `{ use: mock },
  away: { use: openai-compatible, options: { baseURL: 'http://127.0.0.1:1/v1', apiKey: vendor-key } }`
    const config = CONFIG.replace(
      'log: { access: false }',
      'log: { format: json, address: truncated }',
    )
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
    expect(members('auth.failed')).toMatchObject({
      scope: 'api',
      why: 'none',
      address: '127.0.0.0/24',
    })
    expect(members('route.unknown')).toMatchObject({
      method: 'POST',
      path: '/v1/nothing',
      address: '127.0.0.0/24',
    })
    expect(members('config.refused')).toMatchObject({ paths: ['sever'] })
    expect(members('config.reloaded')).toMatchObject({ changed: ['routing.cooldown'] })
    expect(members('stopping')).toMatchObject({ why: 'SIGTERM' })
    expect(members('stopped')).toMatchObject({ ended: 0, cut: 0 })
    expect(out + err).not.toContain('vendor-key')
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
    const lines = said().split('\n')
    const from = lines.findIndex((line) => line.includes(`${signal}: waiting for running calls`))
    const last = lines.slice(from).filter((line) => line !== '')
    for (const line of last) expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} \S/)
    expect(last.at(-1)).toMatch(/ stopped: 1 calls ended, 0 cut, \d+\.\d s$/)
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
    expect(third.err).toMatch(/^A gateway runs here already: http/)
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

  it('is not one with files of something else, which stays as it is', async () => {
    const cwd = await folder({ 'gateway.config.yaml': FILE, 'home/novel.txt': '' })
    const args = ['serve', '--data', 'home']
    const { code, err } = await callOf(args, { cwd, env: { NODE_COMPILE_CACHE: '' } })
    expect(err).toContain('holds files of something else, such as novel.txt')
    expect(code).toBe(1)
    expect(await readdir(join(cwd, 'home'))).toEqual(['novel.txt'])
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
