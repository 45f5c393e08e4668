/** Prices as the operator sees them: what `check` says, and what a running gateway logs when they change. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { ask, call, start, upToDate, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, send } from '../_setup.ts'

const configOf = (pricing: object, more: object = {}) =>
  JSON.stringify({
    providers: { mock: { use: 'mock' } },
    models: { 'mock/echo': { pricing, capabilities: ['STREAMING'], ...more } },
  })
const FINE = { prompt: '0.000001', completion: '0.00001' }
const PER_MILLION = { prompt: '1', completion: '10' }

describe('check', () => {
  const check = async (config: string, ...options: string[]) =>
    call(['check', ...options], { cwd: await folder({ 'gateway.config.json': config }) })

  it('shows what a model can, its prices for a million tokens, and where they are from', async () => {
    const overrides = [{ min_prompt_tokens: 1001, prompt: '0.000002', completion: '0.00002' }]
    const { code, out } = await check(
      configOf({ ...FINE, overrides }, { aliases: ['assistant'] }),
      '--strict',
    )
    expect(code).toBe(0)
    expect(out).toMatch(
      /mock\/echo +streaming[ \w]* +prompt 1\/M, completion 10\/M, from 1001 tokens: prompt 2\/M, completion 20\/M +own, gateway\.config\.json\n/,
    )
    expect(out).toMatch(
      /\nSETTING +VALUE +FROM\nproviders\.mock\.use +mock +gateway\.config\.json\n$/,
    )
    const unknown = await check(configOf(FINE, { capabilities: undefined }))
    expect(unknown.out).toMatch(/mock\/echo +all, not listed +prompt/)
    expect(unknown.out).toContain('\n1 model with unknown capabilities: everything is passed')
    expect((await check(configOf(FINE, { capabilities: [] }))).out).toMatch(
      /mock\/echo +text alone +prompt/,
    )
  })

  it('warns, and fails because of it only with --strict', async () => {
    const { code, out } = await check(configOf(PER_MILLION))
    expect(out).toContain(
      '\nwarning: mock/echo: prompt 1 is above 0.001 USD a token: is it a price per million? (price-high)\n',
    )
    expect(code).toBe(0)
    const strict = await check(configOf(PER_MILLION), '--strict')
    expect([strict.code, strict.err]).toEqual([
      1,
      expect.stringContaining('2 warnings with --strict'),
    ])
    const json = await check(configOf(PER_MILLION), '--strict', '--json')
    expect(json.code).toBe(1)
    const { findings, models, settings } = JSON.parse(json.out)
    expect(findings).toContainEqual(
      expect.objectContaining({ model: 'mock/echo', code: 'price-high', level: 'warning' }),
    )
    const file = { from: 'configuration', file: 'gateway.config.json' }
    expect(models[0].origins).toMatchObject({ pricing: [file] })
    expect(settings).toContainEqual({ path: 'providers.mock.use', value: 'mock', origin: file })
    expect(settings).toContainEqual({
      path: 'server.port',
      value: 8787,
      origin: { from: 'default' },
    })
  })
})

it('a running gateway logs each price that changes, and keeps its prices when the new ones are wrong', async () => {
  const cwd = await folder({ 'gateway.config.json': configOf(FINE) })
  const { url, said } = await upToDate({ cwd })
  const pricing = async () => {
    const { json } = await send(`${url}/v1/models`, 'GET', undefined, {})
    return json.data[0].pricing
  }
  const change = (config: string) => writeFile(join(cwd, 'gateway.config.json'), config)
  expect(await pricing()).toEqual(FINE)

  await change(configOf({ ...FINE, completion: '0.000012' }))
  await expect.poll(said).toContain('mock/echo completion 0.00001 → 0.000012 (+20 %)')
  expect(await pricing()).toEqual({ ...FINE, completion: '0.000012' })

  await change(configOf({ ...FINE, completion: 0.00002 }))
  await expect
    .poll(said)
    .toContain('models.mock/echo.pricing.completion  expected a decimal string')
  expect(await pricing()).toEqual({ ...FINE, completion: '0.000012' })

  await change(configOf({ ...FINE, completion: '0.00012001' }))
  await expect.poll(said).toContain('price-moved: mock/echo completion 0.000012 → 0.00012001')
  expect(await pricing()).toEqual({ ...FINE, completion: '0.00012001' })
})

it('entries are priced again after changed prices, a kill and a start', async () => {
  const config = (pricing: object) =>
    JSON.stringify({
      ...JSON.parse(configOf(pricing)),
      admin: { token: 'admin-token' },
      state: { driver: 'file', path: './data' },
      seed: { accounts: [{ id: 'acme', name: 'Acme', credits: '10' }] },
    })
  const cwd = await folder({ 'gateway.config.json': config(FINE) })
  const admin = { authorization: 'Bearer admin-token', 'content-type': 'application/json' }
  const first = await start(['serve', '--port', '0'], { cwd })
  const firstUrl = await urlOf(first)
  const made = await send(
    `${firstUrl}/admin/accounts/acme/keys`,
    'POST',
    JSON.stringify({ name: 'test' }),
    admin,
  )
  expect(made.status).toBe(201)
  const { key } = made.json
  const asked = (url: string) => ask(url, key, '/v1/chat/completions', hello)
  expect((await asked(firstUrl)).status).toBe(200)
  await writeFile(
    join(cwd, 'gateway.config.json'),
    config({ ...FINE, overrides: [{ min_prompt_tokens: 1, prompt: '0.00002' }] }),
  )
  await expect.poll(first.said).toContain('the configuration was reloaded')
  expect((await asked(firstUrl)).status).toBe(200)
  first.child.kill('SIGKILL')
  await first.ended
  await writeFile(join(cwd, 'gateway.config.json'), config({ ...FINE, completion: '0.000012' }))

  const second = await upToDate({ cwd })
  // An upgrade may bring other prices: the start says so.
  const told = second.said()
  expect(told).toContain('price: mock/echo completion 0.00001 → 0.000012 (+20 %)')
  expect(told).toContain('price-moved: mock/echo prompt from 1 tokens 0.00002 → none')
  expect((await asked(second.url)).status).toBe(200)
  const verified = await call(
    ['ledger', 'verify', '--prices', '--url', second.url, '--token', 'admin-token'],
    { cwd },
  )
  expect(verified.out).toBe(
    'Every sum equals its rows, and 3 rows their quantities at their prices.\n',
  )
})

it('names the built-in configuration where a folder has none', async () => {
  const { out } = await call(['check'], { cwd: await folder({}) })
  expect(out).toMatch(/^The built-in configuration is valid: \d+ models\.\n/)
})

it('an empty folder, one key of a vendor and a model of its own: all of them are served', async () => {
  const cwd = await folder({
    'gateway.config.yaml':
      "extends: starter\nmodels:\n  house/own: { pricing: { prompt: '0', completion: '0' }, free_tier: true, deployments: [{ provider: mock, model: echo }] }\n",
  })
  const env = { OPENAI_API_KEY: 'sk-nothing', OLLAMA_HOST: '127.0.0.1:1' }
  await using gateway = await createTestGateway(await loadConfig({ cwd, env }))
  const { json } = await gateway.ask('GET', '/v1/models', { key: null })
  const byId = new Map(json.data.map((model: { id: string }) => [model.id, model]))
  expect(byId.get('openai/gpt-6-sol')).toMatchObject({
    name: 'GPT-6 Sol',
    pricing: {
      prompt: '0.000002',
      overrides: [{ min_prompt_tokens: 272_001, prompt: '0.000004' }],
    },
  })
  expect(byId.has('anthropic/claude-haiku-5.5')).toBe(false)
  for (const model of ['mock/echo', 'house/own']) {
    const answer = await gateway.chat({ ...hello, model })
    expect([model, answer.status]).toEqual([model, 200])
  }
})

describe('a gateway with a price list and models of whole vendors', () => {
  const AT = '2026-11-21T00:00:00Z'
  const listOf = (request: string) =>
    JSON.stringify({
      format: 1,
      generated_at: AT,
      sources: [],
      models: { 'acme/echo': { pricing: { request }, source: 'test', checked_at: AT } },
    })
  const CONFIG = JSON.stringify({
    providers: { acme: { use: 'mock' }, house: { use: 'mock' } },
    models: { 'acme/*': {}, 'house/*': { pricing: { request: '0.005' } } },
    prices: { packaged: false },
    admin: { token: 'admin-token' },
    state: { driver: 'memory' },
    seed: { accounts: [{ id: 'acme', name: 'Acme', credits: '10' }] },
  })
  const place = () => folder({ 'gateway.config.json': CONFIG, 'prices.json': listOf('0.001') })
  const open = async () => createTestGateway(await loadConfig({ cwd: await place(), env: {} }))
  const clientOf = (url: string) => {
    const newKey = async (models: string[] | null) => {
      const body = JSON.stringify({ name: 'test', models })
      const headers = { authorization: 'Bearer admin-token', 'content-type': 'application/json' }
      const { json } = await send(`${url}/admin/accounts/acme/keys`, 'POST', body, headers)
      expect(json.data.warnings).toEqual([])
      return json.key as string
    }
    const asked = (key: string, model: string) =>
      ask(url, key, '/v1/chat/completions', { ...hello, model })
    return { newKey, asked }
  }

  it('serves listed models and names that no list has, and counts these as one', async () => {
    await using gateway = await open()
    const { url } = gateway
    const { newKey, asked } = clientOf(url)
    const key = await newKey(null)
    expect((await asked(key, 'acme/echo')).json).toMatchObject({
      model: 'acme/echo',
      usage: { cost: 0.001 },
    })
    // The name of a model of one vendor alone, which the list has.
    expect((await asked(key, 'echo')).json.model).toBe('acme/echo')
    expect((await asked(key, 'house/echo')).json.usage.cost).toBe(0.005)
    expect((await asked(key, 'acme/other')).json.error.code).toBe('model_not_found')
    for (const model of ['acme/echo:online', 'echo:online', 'house/echo:online']) {
      // The names are known; there is no engine to search with.
      expect((await asked(key, model)).json.error.message).toMatch(/search/)
    }
    const { json } = await send(`${url}/v1/models`, 'GET', undefined, {})
    expect(json.data.map(({ id }: { id: string }) => id)).toEqual(['acme/echo'])
    const bearer = { authorization: 'Bearer admin-token' }
    const metrics = await send(`${url}/metrics`, 'GET', undefined, bearer)
    expect(metrics.text).toContain('model="house/*",outcome="completed"')
    expect(metrics.text).not.toContain('model="house/echo"')
  })

  it('has allowlists of vendors, which hold for names that no list has', async () => {
    await using gateway = await open()
    const { newKey, asked } = clientOf(gateway.url)
    const acme = await newKey(['acme/*'])
    expect((await asked(acme, 'acme/echo')).status).toBe(200)
    expect((await asked(acme, 'house/echo')).json.error.code).toBe('model_not_allowed')
    const house = await newKey(['house/*'])
    expect((await asked(house, 'house/echo')).status).toBe(200)
    expect((await asked(house, 'acme/echo')).json.error.code).toBe('model_not_allowed')
    expect((await asked(await newKey(['house/echo']), 'house/echo')).status).toBe(200)
  })

  it('takes changed prices over while it runs, and none of a file that is wrong', async () => {
    const cwd = await place()
    const { url, said } = await upToDate({ cwd })
    const { newKey, asked } = clientOf(url)
    const key = await newKey(null)
    const cost = async () => (await asked(key, 'acme/echo')).json.usage.cost
    const write = (text: string) => writeFile(join(cwd, 'prices.json'), text)
    // Models of which no call was made are counted by vendor.
    await write(listOf('0.0005'))
    await expect.poll(said).toContain('price: acme/*: 1 model has other prices')
    await write(listOf('0.001'))
    await expect.poll(cost).toBe(0.001)
    await write(listOf('0.002'))
    await expect.poll(said).toContain('acme/echo request 0.001 → 0.002 (+100 %)')
    expect(await cost()).toBe(0.002)
    for (const [text, message] of [
      [listOf('0.003').slice(0, -10), 'is not valid JSON: it ends in the middle'],
      [listOf('-1'), 'models.acme/echo.pricing.request  expected a decimal string'],
    ] as const) {
      await write(text)
      await expect.poll(said).toContain(message)
      expect(await cost()).toBe(0.002)
    }
    await write(listOf('0.004'))
    await expect.poll(said).toContain('acme/echo request 0.002 → 0.004 (+100 %)')
    expect(await cost()).toBe(0.004)
  })
})
