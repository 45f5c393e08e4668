/** Errors that belong to no call, in a process that serves streams. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { call } from '../_cli.ts'
import { send } from '../_setup.ts'
import {
  complete,
  configOf,
  post,
  ROOT,
  serveWith,
  spentAt,
  startStreams,
  TOKEN,
  type Gateway,
} from './_streams.ts'

/** Kinds of errors of the plugin, and what they say. */
const KINDS = {
  timer: /uncaughtException plugin:stray: TypeError: thrown in a timer, by \[secret\] at/,
  rejection: /unhandledRejection plugin:stray: Error: a promise that is not awaited at/,
  later: /unhandledRejection plugin:stray: Error: a promise of later at/,
  emitter: /uncaughtException plugin:stray: Error: an event at/,
  callback: /uncaughtException plugin:stray: Error: a late callback at/,
  microtask: /uncaughtException plugin:stray: Error: a microtask at/,
  listener: /uncaughtException plugin:stray: Error: an abort listener at \S+stray\.ts:\d+:\d+/,
}
const MODELS = [...Object.keys(KINDS), 'flood'].map(
  (kind) => `
  stray/${kind}:
    pricing: { prompt: '0', completion: '0' }
    deployments: [{ provider: stray, model: ${kind} }]`,
)
const WITH_STRAY = configOf(MODELS.join(''), { paceMs: 100 })

const authorized = { authorization: `Bearer ${TOKEN}` }

/** Asks a model of the plugin, and leaves. */
async function provoke({ url, said }: Gateway, kind: string): Promise<void> {
  const leave = new AbortController()
  const asked = post(url, { model: `stray/${kind}` }, leave.signal).catch(() => {})
  await expect.poll(said).toContain(`asked for ${kind}`)
  leave.abort()
  await asked
}

describe('errors of a plugin that no call receives', () => {
  it('do not disturb 20 streams, and are counted and blamed', async () => {
    const gateway = await serveWith(WITH_STRAY)
    const { url, said, child, ended } = gateway
    const streams = await startStreams(url)
    for (const [kind, message] of Object.entries(KINDS)) {
      await provoke(gateway, kind)
      await expect.poll(said).toMatch(message)
    }
    const cost = await complete(streams)
    expect(cost).toBeGreaterThan(0)
    expect(await spentAt(url)).toBeCloseTo(cost, 9)
    expect(said()).not.toContain('sk-live-0123456789')

    const metrics = (await send(`${url}/metrics`, 'GET', undefined, authorized)).text
    const count = (kind: string) => `sluicegate_faults_total{kind="${kind}",origin="plugin:stray"}`
    expect(metrics).toContain(`${count('uncaughtException')} 5\n`)
    expect(metrics).toContain(`${count('unhandledRejection')} 2\n`)
    const { data } = (await send(`${url}/admin/models`, 'GET', undefined, authorized)).json
    const model = data.find(({ id }: { id: string }) => id === 'stray/timer')
    expect(model.deployments[0].health.state).toBe('cooldown')
    expect((await send(`${url}/readyz`, 'GET', undefined, {})).status).toBe(200)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0, signal: null })
  })
})

/** Throws on SIGUSR2, in code that seems to be this file. */
function thrower(file: string, error = `new Error('thrown on purpose')`): string {
  const code = JSON.stringify(`() => { throw ${error} }`)
  const text = `import { runInThisContext } from 'node:vm'
    const fault = runInThisContext(${code}, { filename: ${JSON.stringify(file)} })
    process.on('SIGUSR2', () => setImmediate(fault))`
  return `data:text/javascript,${encodeURIComponent(text)}`
}

describe('an error of the gateway itself', () => {
  it.each([
    ['core', join(ROOT, 'src/gateway/gateway.ts')],
    ['unknown', 'elsewhere.js'],
  ])('ends the process once 20 streams are complete: %s', async (origin, file) => {
    const gateway = await serveWith(configOf(), {}, ['--import', thrower(file)])
    const streams = await startStreams(gateway.url)
    gateway.child.kill('SIGUSR2')
    await expect
      .poll(gateway.said)
      .toContain(`uncaughtException ${origin}: Error: thrown on purpose`)
    const ready = await fetch(`${gateway.url}/readyz`).catch(() => 'refused')
    if (ready instanceof Response) expect(ready.status).toBe(503)
    const cost = await complete(streams)
    const { code, err } = await gateway.ended
    expect(code).toBe(70)
    expect(err).toContain('Ended by a fault of the program.')

    const { cwd } = gateway
    const again = await serveWith('', { cwd })
    expect(await spentAt(again.url)).toBeCloseTo(cost, 9)
    const verified = await call(['ledger', 'verify', '--url', again.url, '--token', TOKEN], { cwd })
    expect(verified).toMatchObject({ code: 0 })
    again.child.kill('SIGTERM')
    expect(await again.ended).toMatchObject({ code: 0 })
  })

  it('is assumed after ten of a plugin within a minute', async () => {
    const gateway = await serveWith(WITH_STRAY)
    const streams = await startStreams(gateway.url)
    await provoke(gateway, 'flood')
    await complete(streams)
    expect(await gateway.ended).toMatchObject({ code: 70 })
  })

  it('is not what breaks a connection', async () => {
    const error = `Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })`
    const gateway = await serveWith(configOf(), {}, ['--import', thrower('elsewhere.js', error)])
    const streams = await startStreams(gateway.url)
    gateway.child.kill('SIGUSR2')
    await expect.poll(gateway.said).toContain('uncaughtException unknown: Error: read ECONNRESET')
    await complete(streams)
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
    gateway.child.kill('SIGTERM')
    expect(await gateway.ended).toMatchObject({ code: 0 })
  })
})

describe('an error while a plugin is closed', () => {
  it('does not keep the gateway from ending well', async () => {
    const gateway = await serveWith(configOf())
    const streams = await startStreams(gateway.url)
    gateway.child.kill('SIGTERM')
    const cost = await complete(streams)
    const { code, err } = await gateway.ended
    expect(err).toContain('thrown in close')
    expect(code).toBe(0)
    expect(cost).toBeGreaterThan(0)
  })
})

describe('a wall clock that jumps', () => {
  it.each([86_400_000, -86_400_000])('ends no stream: by %i ms', async (jumpMs) => {
    const text = `const { now } = Date
      let jump = 0
      Date.now = () => now() + jump
      process.on('SIGUSR2', () => { jump += ${jumpMs}; process.stdout.write('the clock has jumped\\n') })`
    const preload = `data:text/javascript,${encodeURIComponent(text)}`
    const gateway = await serveWith(configOf('', { paceMs: 50 }), {}, ['--import', preload])
    const streams = await startStreams(gateway.url)
    gateway.child.kill('SIGUSR2')
    await expect.poll(gateway.said).toContain('the clock has jumped')
    const cost = await complete(streams)
    expect(await spentAt(gateway.url)).toBeCloseTo(cost, 9)
    gateway.child.kill('SIGTERM')
    expect(await gateway.ended).toMatchObject({ code: 0 })
  })
})
