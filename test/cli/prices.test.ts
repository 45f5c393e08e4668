/** Prices as the operator sees them: what `check` says, and what a running gateway logs when they change. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { call, start, urlOf } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { send } from '../_setup.ts'

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

  it('shows tiers, aliases and whether capabilities are known', async () => {
    const overrides = [{ min_prompt_tokens: 1001, prompt: '0.000002', completion: '0.00002' }]
    const { code, out } = await check(
      configOf({ ...FINE, overrides }, { aliases: ['assistant'] }),
      '--strict',
    )
    expect(code).toBe(0)
    expect(out).toMatch(
      /mock\/echo +chat +paid +list +assistant +mock\/echo +own +prompt 0\.000001, completion 0\.00001, from 1001 tokens: prompt 0\.000002, completion 0\.00002\n$/,
    )
    const unknown = await check(configOf(FINE, { capabilities: undefined }))
    expect(unknown.out).toMatch(/mock\/echo +chat +paid +unknown/)
    expect(unknown.out).toContain('\n1 model with unknown capabilities: everything is passed')
    expect((await check(configOf(FINE, { capabilities: [] }))).out).toMatch(/paid +none +-/)
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
    expect(JSON.parse(json.out).findings).toContainEqual(
      expect.objectContaining({ model: 'mock/echo', code: 'price-high', level: 'warning' }),
    )
  })
})

it('a running gateway logs each price that changes, and keeps its prices when the new ones are wrong', async () => {
  const cwd = await folder({ 'gateway.config.json': configOf(FINE) })
  const gateway = await start(['serve', '--port', '0'], { cwd })
  const url = await urlOf(gateway)
  const pricing = async () => {
    const { json } = await send(`${url}/v1/models`, 'GET', undefined, {})
    return json.data[0].pricing
  }
  const change = (config: string) => writeFile(join(cwd, 'gateway.config.json'), config)
  expect(await pricing()).toEqual(FINE)

  await change(configOf({ ...FINE, completion: '0.000012' }))
  await expect.poll(gateway.said).toContain('mock/echo completion 0.00001 → 0.000012 (+20 %)')
  expect(await pricing()).toEqual({ ...FINE, completion: '0.000012' })

  await change(configOf({ ...FINE, completion: 0.00002 }))
  await expect
    .poll(gateway.said)
    .toContain('models.mock/echo.pricing.completion  expected a decimal string')
  expect(await pricing()).toEqual({ ...FINE, completion: '0.000012' })

  await change(configOf({ ...FINE, completion: '0.00012001' }))
  await expect
    .poll(gateway.said)
    .toContain('price-moved: mock/echo completion 0.000012 → 0.00012001')
  expect(await pricing()).toEqual({ ...FINE, completion: '0.00012001' })
})
