/** How a gateway ends: its probes, its signals, its statuses, with real processes. */
import { Agent, get } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { call, run, startWithNpm, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { send } from '../_setup.ts'
import {
  complete,
  configOf,
  post,
  ROOT,
  SECRET,
  serveWith,
  spentAt,
  startStreams,
  STRAY,
  type Gateway,
} from './_streams.ts'

const PLAIN = configOf().replace(', options: { throwsInClose: true }', '')
const withServer = (settings: string, config = PLAIN) =>
  config.replace('shutdownGrace: 60', settings)

interface Answer {
  readonly status: number
  readonly connection: string | undefined
  readonly retryAfter: string | undefined
  readonly body: string
}

/** A request on a connection that stays open where the gateway lets it. */
function ask(agent: Agent, url: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    get(url, { agent, headers: { authorization: `Bearer ${SECRET}` } }, (response) => {
      let body = ''
      response.on('data', (text) => (body += text))
      response.on('end', () => {
        const { connection, 'retry-after': retryAfter } = response.headers
        resolve({ status: response.statusCode!, connection, retryAfter, body })
      })
    }).on('error', reject)
  })
}

function keepAlive(): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  return agent
}

describe('probes', () => {
  it('answer GET and HEAD without a key', async () => {
    const { url } = await serveWith(PLAIN)
    for (const path of ['/livez', '/readyz', '/startupz', '/health']) {
      const got = await send(`${url}${path}?from=test`, 'GET', undefined, {})
      expect([path, got.status, got.json]).toEqual([path, 200, { status: 'ok', reasons: [] }])
      expect((await send(url + path, 'HEAD', undefined, {})).status).toBe(200)
      expect((await send(url + path, 'POST', '{}', {})).status).toBe(404)
    }
  })
})

describe('the command health', () => {
  it('says whether a gateway is ready', async () => {
    const { url, child, ended } = await serveWith(PLAIN)
    const ready = await run(['health', '--url', url])
    expect(ready).toMatchObject({
      code: 0,
      out: expect.stringContaining('/readyz 200 {"status":"ok"'),
    })
    const env = { SLUICEGATE__SERVER__PORT: new URL(url).port }
    expect(await call(['health', '--live'], { env })).toMatchObject({ code: 0 })
    child.kill('SIGTERM')
    await ended
    const gone = await run(['health', '--url', url])
    expect(gone).toMatchObject({ code: 1, out: '' })
    expect(gone.err).toContain(`${url}/readyz cannot be reached: ECONNREFUSED\n`)
    expect((await call(['health'], { env })).err).toContain(
      '/readyz cannot be reached: ECONNREFUSED; --url names another address\n',
    )
    expect(await call(['health', '--timeout', 'soon'])).toMatchObject({ code: 2 })
  })

  it('loads no package, so that asking costs little', async () => {
    const text = `import { registerHooks } from 'node:module'
      registerHooks({ resolve(name, context, next) {
        const found = next(name, context)
        process._rawDebug('loaded ' + found.url)
        return found
      } })`
    const listed = ['--import', `data:text/javascript,${encodeURIComponent(text)}`]
    const { err } = await run(['health', '--url', 'http://127.0.0.1:9'], {}, listed)
    expect(err).toContain('loaded node:http')
    expect(err).toContain('health.ts')
    expect(err).not.toContain('node_modules')
  })
})

describe('the end of a gateway', () => {
  it('begins with a delay in which new requests are served', async () => {
    const { url, child, said, ended } = await serveWith(withServer('shutdownDelay: 600'))
    const streams = await startStreams(url, 2)
    child.kill('SIGTERM')
    await expect.poll(said).toContain('SIGTERM: waiting')
    const ready = await ask(keepAlive(), `${url}/readyz`)
    expect(ready).toMatchObject({ status: 503, connection: 'close' })
    expect(JSON.parse(ready.body)).toEqual({ status: 'unavailable', reasons: ['draining'] })
    expect(await ask(keepAlive(), `${url}/livez`)).toMatchObject({ status: 200 })
    const served = await ask(keepAlive(), `${url}/v1/key`)
    expect(served).toMatchObject({ status: 200, connection: 'close' })
    await complete(streams)
    // A second signal ends the delay too.
    await expect
      .poll(() => child.kill('SIGTERM') === false || child.exitCode !== null, { interval: 400 })
      .toBe(true)
    expect(await ended).toMatchObject({ code: 1 })
  })

  it('refuses a request on an open connection, and lets streams finish', async () => {
    const { url, child, ended } = await serveWith(PLAIN)
    const streams = await startStreams(url)
    const agent = keepAlive()
    // A connection with a request under way is not closed with the idle ones.
    const waiting = post(url, { model: 'mock/echo' })
    await ask(agent, `${url}/v1/key`)
    child.kill('SIGTERM')
    const answers: (Answer | string)[] = []
    const refused = async () => {
      answers.push(await ask(agent, `${url}/v1/key`).catch((error) => error.code))
      return answers.at(-1)
    }
    await expect.poll(refused).not.toMatchObject({ status: 200 })
    const last = answers.at(-1)!
    if (typeof last !== 'string') {
      expect(last).toMatchObject({ status: 503, retryAfter: '1', connection: 'close' })
      expect(last.body).toContain('service_unavailable')
    }
    const cost = await complete(streams)
    expect(cost).toBeGreaterThan(0)
    expect((await waiting).status).toBe(200)
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })

  it('cuts streams after the grace, and charges what they produced', async () => {
    const slow = withServer('shutdownGrace: 0', configOf('', { paceMs: 300 })).replace(
      ', options: { throwsInClose: true }',
      '',
    )
    const { url, child, cwd, ended } = await serveWith(slow)
    const streams = await startStreams(url)
    child.kill('SIGTERM')
    for (const stream of streams) expect(await stream.text()).toContain('"service_unavailable"')
    expect(await ended).toMatchObject({ code: 0 })
    const again = await serveWith('', { cwd })
    expect(await spentAt(again.url)).toBeGreaterThan(0)
  })

  it('has a limit, 12 s after the grace, whatever hangs', async () => {
    // The ledger is never told to end; only a timer of exactly this limit is made shorter.
    const text = `import { Worker } from 'node:worker_threads'
      const { postMessage } = Worker.prototype
      Worker.prototype.postMessage = function (message, ...more) {
        if (!message.close) postMessage.call(this, message, ...more)
      }
      const { setTimeout } = globalThis
      globalThis.setTimeout = (then, ms, ...more) => setTimeout(then, ms === 13000 ? 300 : ms, ...more)`
    const hangs = ['--import', `data:text/javascript,${encodeURIComponent(text)}`]
    const { url, child, ended } = await serveWith(withServer('shutdownGrace: 1'), {}, hangs)
    await complete(await startStreams(url, 2))
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({
      code: 70,
      err: expect.stringContaining('could not be ended in time'),
    })
  })

  it('is asked for once by signals within a second', async () => {
    const { url, child, ended } = await serveWith(PLAIN)
    const streams = await startStreams(url)
    child.kill('SIGINT')
    child.kill('SIGINT')
    child.kill('SIGTERM')
    await complete(streams)
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })
})

describe.runIf(process.platform === 'linux')('connections above the limit of open files', () => {
  it('are closed, and disturb no stream', async () => {
    const gateway = await serveWith(PLAIN, {}, [], 300)
    const { url, said, child, ended } = gateway
    const streams = await startStreams(url)
    const { port } = new URL(url)
    const sockets = Array.from({ length: 400 }, () => connect(Number(port), '127.0.0.1'))
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
    for (const socket of sockets) socket.on('error', () => {})
    await expect.poll(said).toMatch(/connections above \d+ are closed: .*ulimit -n/)
    const cost = await complete(streams)
    for (const socket of sockets) socket.destroy()
    const answers = async () => (await fetch(`${url}/readyz`).catch(() => undefined))?.status
    await expect.poll(answers).toBe(200)
    expect(await spentAt(url)).toBeCloseTo(cost, 9)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })
})

describe('other signals', () => {
  it('reload the configuration, also an unchanged one, or do nothing', async () => {
    const { url, child, said, ended } = await serveWith(PLAIN)
    const streams = await startStreams(url)
    child.kill('SIGHUP')
    await expect.poll(said).toContain('the configuration was reloaded')
    child.kill('SIGUSR1')
    child.kill('SIGPIPE')
    await complete(streams)
    expect(said()).not.toContain('Debugger listening')
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })
})

describe('a gateway below npm', () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)('ends when npm ends by %s', async (signal) => {
    const gateway = await npmStart()
    const streams = await startStreams(gateway.url, 3)
    gateway.child.kill(signal)
    await complete(streams)
    // Its output is closed once the last process below npm has ended.
    expect((await gateway.ended).out).toContain('npm has ended: waiting')
  })

  it('ends by the key of a terminal, which signals all of them', async () => {
    const gateway = await npmStart()
    const streams = await startStreams(gateway.url, 3)
    process.kill(-gateway.child.pid!, 'SIGINT')
    await complete(streams)
    expect((await gateway.ended).out).toContain('SIGINT: waiting')
  })
})

/** `npm start` in a project whose script is one command. */
async function npmStart(): Promise<Gateway> {
  const cli = join(ROOT, 'src/cli.ts')
  const project = { name: 'project', private: true, scripts: { start: `node ${cli} serve` } }
  const cwd = await folder({
    'package.json': JSON.stringify(project),
    'gateway.config.yaml': PLAIN,
    'stray.ts': STRAY,
  })
  const running = startWithNpm('npm', ['start'], cwd)
  return { ...running, url: await urlOf(running), cwd }
}
