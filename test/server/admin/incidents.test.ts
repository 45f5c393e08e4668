/** Incidents of the overview: what needs an operator, with its true cause, its calls and what mends it. */
import { expect, it, vi } from 'vitest'
import type { UserConfig } from '../../../src/config/config.ts'
import { folder } from '../../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { guardPlugin, wordGuard } from '../../guard/_doubles.ts'
import { guarded } from '../../guard/_setup.ts'
import { json, startUpstream } from '../../upstream.ts'

const TOKEN = 'admin-token-of-the-test'
const PRICES = { pricing: { prompt: '0.000001', completion: '0.000002' } }
const ANSWER = {
  id: 'c1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi.' } }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
}
/** A port that is closed. */
const DEAD = 'http://127.0.0.1:9'

async function configuration(vendor: string): Promise<UserConfig> {
  const compatible = (baseURL: string) => ({
    use: 'openai-compatible',
    options: { baseURL: `${baseURL}/v1`, apiKey: 'key-of-the-vendor' },
  })
  const path = await folder({})
  return {
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    state: { driver: 'file', path },
    log: { path: `${path}/log` },
    providers: { ...MOCK_CONFIG.providers, dead: compatible(DEAD), vendor: compatible(vendor) },
    models: {
      ...MOCK_CONFIG.models,
      'x/dead': { ...PRICES, deployments: [{ provider: 'dead', model: 'm' }] },
      'x/refused': { ...PRICES, deployments: [{ provider: 'vendor', model: 'm' }] },
    },
  }
}

const ask = async (t: TestGateway, method: string, path: string, body?: object) =>
  (await t.ask(method, `/admin${path}`, { key: TOKEN, body })).json

/** The lines of the overview, asked until the condition holds: answers are shared for two seconds. */
async function linesOf(
  t: TestGateway,
  isRight: (lines: any[]) => boolean | Promise<boolean>,
): Promise<any[]> {
  let lines: any[] = []
  const look = async () => {
    lines = (await ask(t, 'GET', '/overview')).data.incidents
    const told = lines.map(({ kind, object, calls }) => `${kind} ${object.id} ${calls?.value}`)
    return (await isRight(lines)) || told
  }
  await expect.poll(look, { timeout: 80_000, interval: 250 }).toBe(true)
  return lines
}

/** Follows a figure to its list. */
async function countOf(t: TestGateway, { where }: { where: Record<string, string | string[]> }) {
  const query = new URLSearchParams({ limit: '200' })
  for (const [name, values] of Object.entries(where))
    for (const value of [values].flat()) query.append(name, value)
  return (await ask(t, 'GET', `/requests?${query}`)).data.length
}

it('a dead port, a refused key, an empty balance and a reached cap are one line each, also after a restart, until they are mended', async () => {
  await using vendor = await startUpstream(json({ error: { message: 'The key is disabled' } }, 403))
  const config = await configuration(vendor.url)
  const first = await createTestGateway(config)
  const call = (t: TestGateway, model: string, key?: string) =>
    t.chat({ ...hello, model }, key === undefined ? {} : { key })
  await first.newAccount('poor', '0.000004')
  const poor = await first.newKey({ account: 'poor', name: 'Poor' })
  const capped = await first.newKey({
    name: 'Capped',
    spendCap: { usd: '0.000001', scope: 'month' },
  })
  for (let i = 0; i < 3; i++) await call(first, 'x/dead')
  for (let i = 0; i < 2; i++) await call(first, 'x/refused')
  for (let i = 0; i < 3; i++) await call(first, 'mock/echo', poor.secret)
  for (let i = 0; i < 3; i++) await call(first, 'mock/echo', capped.secret)
  await call(first, 'mock/echo')

  const check = async (t: TestGateway) => {
    // A line may be there before the last of its calls is in the log.
    const lines = await linesOf(t, async (all) => {
      const errors = all.filter(({ harm }) => harm === 'errors')
      const calls = new Map(errors.map(({ object, calls: { value } }) => [object.id, value]))
      const isWhole = calls.get('x/dead') === 3 && calls.get('x/refused') === 2
      if (!isWhole || !calls.get('poor') || !calls.get(capped.id)) return false
      const counts = await Promise.all(errors.map((one) => countOf(t, one.calls)))
      return errors.every((one, i) => counts[i] === one.calls.value)
    })
    const line = (id: string) => lines.filter(({ object }) => object.id === id)
    expect(line('x/dead')).toMatchObject([
      {
        kind: 'model.down',
        cause: expect.stringMatching(/^ECONNREFUSED 127\.0\.0\.1:9/),
        calls: { value: 3, of: 3 },
        parts: [{ deployment: 'dead/m', calls: 3, act: 'test' }],
        act: 'test',
      },
    ])
    expect(line('x/refused')).toMatchObject([
      {
        kind: 'model.down',
        cause: '403 The key is disabled',
        class: 'upstream_auth',
        calls: { value: 2, of: 2 },
        act: 'show_where',
      },
    ])
    expect(line('poor')).toMatchObject([
      { kind: 'balance.empty', object: { kind: 'account', name: 'poor' }, act: 'top_up' },
    ])
    expect(line(capped.id)).toMatchObject([
      { kind: 'cap.100', object: { kind: 'key', name: 'Capped', account: 'acme' }, act: 'raise' },
    ])
    expect(line('mock/echo')).toEqual([])
    return lines
  }
  await check(first)
  await first.close()

  await using second = await createTestGateway(config, undefined, { withAccount: false })
  await check(second)
  vendor.answer(() => json(ANSWER))
  await ask(second, 'POST', `/models/${encodeURIComponent('x/refused')}/test`, {})
  await ask(second, 'POST', '/accounts/poor/credits', { usd: '5' })
  await ask(second, 'PATCH', `/keys/${capped.id}`, { spend_cap: { usd: '1', scope: 'month' } })
  const left = await linesOf(second, (lines) => lines.length === 1)
  expect(left).toMatchObject([{ object: { id: 'x/dead' } }])
}, 240_000)

it('one failed call is no line, and a fifth of the last calls is a degraded one', async () => {
  await using vendor = await startUpstream(json({ error: { message: 'Broken' } }, 500))
  await using gateway = await createTestGateway(await configuration(vendor.url))
  const call = async () => (await gateway.chat({ ...hello, model: 'x/refused' })).status
  expect(await call()).toBe(502)
  await linesOf(gateway, (lines) => lines.length === 0)
  vendor.answer(() => json(ANSWER))
  for (let i = 0; i < 4; i++) expect(await call()).toBe(200)
  vendor.answer(() => json({ error: { message: 'Broken' } }, 500))
  expect(await call()).toBe(502)
  const [line] = await linesOf(gateway, (lines) => lines.length === 1)
  expect(line).toMatchObject({ harm: 'degraded', cause: '500 Broken', calls: { value: 2, of: 6 } })
}, 200_000)

it('a guard that is not asked is an error of clients only where their policy does not let them pass', async () => {
  const path = await folder({})
  const broken = wordGuard('anything', {
    checkInput: () => {
      throw new Error('no answer')
    },
  })
  const more = { admin: { token: TOKEN }, state: { driver: 'file' as const, path } }
  await using g = await guarded([guardPlugin('words', broken)], {}, { ...more, log: { path } })
  const alert = { kind: 'guard.open', object: 'words key', message: 'the guard words is not asked' }
  const active = [{ ...alert, raisedAt: Date.now() }]
  vi.spyOn(g.t.gateway.runtime.alerts, 'active', 'get').mockReturnValue(active as never)
  const deny = ['code' as const]
  g.vendor.answer(json(ANSWER))
  expect((await g.ask({ deny, guard: { onError: 'allow' } })).status).toBe(200)
  const isOf = (harm: string) => (lines: any[]) => lines.length === 1 && lines[0].harm === harm
  const [line] = await linesOf(g.t, isOf('degraded'))
  expect(line).toMatchObject({ kind: 'guard.open', calls: null })
  const refused = await g.ask({ deny, guard: { onError: 'block' } })
  expect(refused.json.guard).toMatchObject({ outcome: 'error' })
  const [worse] = await linesOf(g.t, isOf('errors'))
  expect(worse.calls.value).toBe(1)
  expect(await countOf(g.t, worse.calls)).toBe(1)
}, 200_000)
