/** `models import`, `models lint` and `models price`, as an operator calls them. */
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { litellmList, modelsDevList, openrouterList } from './_lists.ts'

const COUNT = 200
const A = 'openai/model-0'
/** A price list without what tells when and of what it was made. */
const undated = (text: string) =>
  text.replace(/"(?:generated_at|fetched_at|checked_at|sha256)":"[^"]*"/g, '')

async function place(list: string, more: Record<string, string> = {}) {
  const cwd = await folder({ 'list.json': list, ...more })
  const run = (...options: string[]) =>
    call(['models', 'import', '--from', 'list.json', ...options], { cwd })
  return {
    cwd,
    run,
    prices: () => readFile(join(cwd, 'prices.json'), 'utf8'),
    change: (text: string) => writeFile(join(cwd, 'list.json'), text),
  }
}

/** A list of two models, with other members for the first one. */
const two = (members: Record<string, string> = {}) => litellmList(2, { 'model-0': members })

describe('prices of the configuration itself', () => {
  const own = { pricing: { prompt: '0.0000002', completion: '0.000001' } }
  const models = {
    'house/assistant': { price_of: A, ...own },
    [A]: { aliases: ['listed'] },
    'house/else': own,
  }
  const config = (entries: object) =>
    JSON.stringify({
      providers: { house: { use: 'mock' }, openai: { use: 'mock' } },
      models: entries,
    })

  it('that differ from the list are told, and stay', async () => {
    const deployed = Object.fromEntries(
      Object.entries(models).map(([id, entry]) => [
        id,
        { deployments: [{ provider: 'house', model: 'echo' }], ...entry },
      ]),
    )
    const { cwd, run } = await place(two())
    await run('--write')
    await writeFile(join(cwd, 'gateway.config.json'), config(deployed))
    const { code, out } = await run('--only', '*')
    expect(code).toBe(0)
    expect(out).toMatch(/house\/assistant +prompt +0\.0000001 +0\.0000002 +\+100 %\n/)
    expect(out).not.toMatch(/house\/assistant +completion +/)
    expect(out).not.toMatch(/^(openai\/model-0|house\/else) /m)
    const { own_prices: told } = JSON.parse((await run('--json')).out)
    expect(told).toContainEqual({
      model: 'house/assistant',
      price: 'prompt',
      from: '0.0000001',
      to: '0.0000002',
      move: '+100 %',
    })
  })

  it('are left out where it is not valid, as it is before its first list', async () => {
    const { run } = await place(two(), {
      'gateway.config.json': config({ 'house/new': { pricing: 5 } }),
    })
    const { code, out } = await run()
    expect(code).toBe(0)
    expect(out).toContain('\nOwn prices were not compared: gateway.config.json is not valid:\n')
  })
})

describe('a complete list', () => {
  it.each([
    ['litellm', litellmList],
    ['models.dev', modelsDevList],
    ['openrouter', openrouterList],
  ] as const)('of %s is imported, and a second time changes nothing', async (name, make) => {
    const { cwd, run, prices } = await place(make(COUNT))
    const first = await run('--write', '--json')
    expect([first.code, first.err]).toEqual([0, ''])
    const { sources, added } = JSON.parse(first.out)
    expect(sources[0]).toMatchObject({ name, rows: COUNT })
    expect(added.length).toBe(sources[0].models)
    const before = await prices()

    const second = JSON.parse((await run('--write', '--json')).out)
    expect(second).toMatchObject({
      added: [],
      changed: [],
      held: [],
      removed: [],
      same: added.length,
    })
    expect(undated(await prices())).toBe(undated(before))
    // A start reads it.
    await writeFile(join(cwd, 'gateway.config.json'), '{}')
    await loadConfig({ cwd, env: {} })
  })

  it('with one price twenty times as high holds exactly that one back', async () => {
    const { run, prices, change } = await place(litellmList(COUNT))
    await run('--write')
    const before = undated(await prices())
    await change(litellmList(COUNT, { 'model-0': { output_cost_per_token: '20e-6' } }))
    const { code, out, err } = await run('--write', '--json')
    expect([code, err]).toEqual([
      3,
      expect.stringContaining('1 change is held back; --accept takes one over.'),
    ])
    const { held, changed, same } = JSON.parse(out)
    expect(held).toEqual([
      {
        model: A,
        price: 'completion',
        from: '0.000001',
        to: '0.00002',
        move: '×20',
        reason: 'ten times as much or as little',
        accept: `${A}:completion`,
      },
    ])
    expect([changed, same]).toEqual([[], (COUNT / 5) * 4 - 1])
    expect(undated(await prices())).toBe(before)
    const accepted = await run('--write', '--accept', `${A}:completion`)
    expect(accepted.code).toBe(0)
    expect(undated(await prices())).toBe(
      before.replace('"completion":"0.000001"', '"completion":"0.00002"'),
    )
  })
})

describe('without --write', () => {
  it('it tells what would change, and writes nothing', async () => {
    const { cwd, run, change } = await place(two())
    await run('--write')
    const before = await readFile(join(cwd, 'prices.json'), 'utf8')
    await change(two({ output_cost_per_token: '12e-7', input_cost_per_token: '0' }))
    const { code, out } = await run()
    expect(code).toBe(3)
    expect(out).toMatch(/openai\/model-0 +completion +0\.000001 +→ +0\.0000012 +\+20 %\n/)
    expect(out).toMatch(
      /openai\/model-0 +prompt +0\.0000001 +→ +0 +.*to 0: --accept openai\/model-0:prompt\n/,
    )
    expect(out).toContain('not mapped: input_cost_per_token_batches (2)')
    expect(out).toMatch(/Nothing was written\. Repeat with --write\.\n$/)
    expect(await readFile(join(cwd, 'prices.json'), 'utf8')).toBe(before)
  })
})

describe('what is held back', () => {
  it.each([
    ['a tenth of the price', { output_cost_per_token: '1e-7' }, 'completion', 'ten times'],
    ['a price of 0', { output_cost_per_token: '0.0' }, 'completion', 'to 0'],
    [
      'a price that is gone',
      { cache_read_input_token_cost: 'null' },
      'input_cache_read',
      'is gone',
    ],
    [
      'a tier that is gone',
      { input_cost_per_token_above_200k_tokens: 'null' },
      'prompt@200001',
      'is gone',
    ],
    [
      'a price per million',
      { output_cost_per_reasoning_token: '3' },
      'reasoning',
      'price per million',
    ],
    [
      'digits that no price has',
      { output_cost_per_token: '1.0500000000000002e-06' },
      'completion',
      'more digits',
    ],
    ['a negative price', { output_cost_per_token: '-1' }, 'completion', 'at least 0'],
    ['a text', { output_cost_per_token: '"much"' }, 'completion', 'at least 0'],
    ['an absurd price', { output_cost_per_token: '5000' }, 'completion', 'above 1000 USD'],
  ])('%s', async (_, members, price, reason) => {
    const { run, change, prices } = await place(two())
    await run('--write')
    const before = await prices()
    await change(two(members))
    const { code, out } = await run('--write', '--json')
    expect(code).toBe(3)
    expect(JSON.parse(out).held).toEqual([
      expect.objectContaining({ model: A, price, reason: expect.stringContaining(reason) }),
    ])
    // The old value stays, with its old date.
    const lineOf = (text: string) => text.split('\n').find((line) => line.includes(`"${A}"`))
    expect(lineOf(await prices())).toBe(lineOf(before))
  })

  it('a model that is gone, and one that the list has twice', async () => {
    const { run, change, prices } = await place(two())
    await run('--write')
    await change(litellmList(1))
    expect(JSON.parse((await run('--write', '--json')).out).held).toMatchObject([
      { model: 'anthropic/model-1', to: 'gone', accept: 'anthropic/model-1' },
    ])
    expect(await prices()).toContain('anthropic/model-1')
    expect((await run('--write', '--accept', 'anthropic/model-1')).code).toBe(0)
    expect(await prices()).not.toContain('anthropic/model-1')
    const twice = two().replace(
      /^\{/,
      '{"openai/model-0":{"litellm_provider":"openai","input_cost_per_token":1e-6},',
    )
    await change(twice)
    expect(JSON.parse((await run('--json')).out).held).toMatchObject([
      { model: A, reason: 'the list has it twice, with different prices' },
    ])
  })

  it('a new model with a doubtful price, or none above 0', async () => {
    const list = (price: string) =>
      two({ input_cost_per_token: price, output_cost_per_token: price })
    const zero = `{"m":{"litellm_provider":"openai","input_cost_per_token":0}}`
    expect((await (await place(zero)).run()).out).toContain(
      'all its prices are 0: --accept openai/m\n',
    )
    const { run, prices } = await place(list('2'))
    expect((await run('--write')).code).toBe(3)
    expect(await prices()).not.toContain(A)
  })
})

describe('several lists', () => {
  it('the first one gives the prices; the report tells where another differs', async () => {
    const { cwd } = await place(two(), { 'other.json': modelsDevList(2) })
    const { out, code } = await call(
      ['models', 'import', '--from', 'other.json', '--from', 'list.json', '--write', '--json'],
      { cwd },
    )
    expect(code).toBe(0)
    expect(JSON.parse(out).disagreements).toEqual([])
    await writeFile(join(cwd, 'list.json'), two({ input_cost_per_token: '102e-9' }))
    const { out: again } = await call(
      ['models', 'import', '--from', 'other.json', '--from', 'list.json', '--json'],
      { cwd },
    )
    expect(JSON.parse(again).disagreements).toMatchObject([
      { model: A, price: 'prompt', source: 'models.dev', other: 'litellm', move: '+2 %' },
    ])
  })

  it('only those that are wanted', async () => {
    const { run } = await place(litellmList(10))
    const added = async (...options: string[]) =>
      JSON.parse((await run('--json', ...options)).out).added
    expect(await added('--only', 'openai/*')).toEqual(['openai/model-0', 'openai/model-5'])
    expect(await added('--only', '*-0', '--only', 'groq/model-3')).toEqual([A, 'groq/model-3'])
  })
})

describe('a list that cannot be read', () => {
  it.each([
    [
      'cut off',
      litellmList(5).slice(0, -40),
      'it ends in the middle, so it was cut off. Nothing was changed.',
    ],
    ['not JSON', '<html></html>', 'is not valid JSON'],
    ['empty', '', 'is not valid JSON: it ends in the middle'],
    [
      'of no known form',
      '{"a":1}',
      'is none of these price lists: genai-prices, litellm, models.dev, openrouter, list',
    ],
    [
      'our own with a mistake',
      '{"format":1,"generated_at":"","sources":[],"models":{"a/b":{"pricing":{"prompt":1},"source":"x","checked_at":"2026-01-01T00:00Z"}}}',
      'expected a decimal string',
    ],
  ])('%s: one sentence, status 1, and nothing is written', async (_, list, message) => {
    const { cwd, run } = await place(list)
    const { code, err, out } = await run('--write')
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain(message)
    expect(await readdir(cwd)).toEqual(['list.json'])
  })

  it('of 100 MB: one sentence, before it is read', async () => {
    const { cwd, run } = await place('')
    await truncate(join(cwd, 'list.json'), 100 * 1024 * 1024)
    const { code, err, out } = await run('--write')
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain('is too large for a list of prices: it has 100 MiB')
    expect(await readdir(cwd)).toEqual(['list.json'])
  })

  it('nor one at an address that is not https, or not there', async () => {
    const { cwd } = await place('{}')
    const from = (name: string) => call(['models', 'import', '--from', name], { cwd })
    expect((await from('http://127.0.0.1:1/prices')).err).toContain('expected an https address')
    expect((await from('litelm')).err).toContain('did you mean "litellm"?')
  })
})
