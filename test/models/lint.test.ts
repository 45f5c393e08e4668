/** What an operator is told about entries that are valid and probably not meant, and about prices that move. */
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { buildCatalog } from '../../src/models/catalog.ts'
import { modelsSchema } from '../../src/models/entry.ts'
import { lint, lintOfWritten } from '../../src/models/lint.ts'
import { priceChanges } from '../../src/models/price-changes.ts'
import { folder } from '../_folder.ts'

const deployments = [{ provider: 'p', model: 'm' }]
const GOOD = {
  pricing: { prompt: '0.000001', completion: '0.000002' },
  capabilities: ['STREAMING'],
  context_length: 1000,
}
const catalogOf = (models: Record<string, object>) =>
  buildCatalog(
    v.parse(
      modelsSchema,
      Object.fromEntries(
        Object.entries(models).map(([id, entry]) => [id, { deployments, ...entry }]),
      ),
    ),
  ).all()
const priced = (pricing: object, more: object = {}) =>
  lint(catalogOf({ 'a/b': { ...GOOD, ...more, pricing } })).map(
    ({ code, level, message }) => `${level} ${code}: ${message}`,
  )

describe('lint', () => {
  it('finds nothing in a good entry', () => {
    expect(lint(catalogOf({ 'a/b': GOOD }))).toEqual([])
  })

  it('finds nothing in what the package offers', async () => {
    const cwd = await folder({ 'gateway.config.json': '{"extends":"starter"}' })
    const names = ['OPENAI', 'GEMINI', 'MISTRAL', 'ANTHROPIC', 'OPENROUTER', 'GROQ']
    const keys = Object.fromEntries(names.map((name) => [`${name}_API_KEY`, 'key']))
    const { config } = await loadConfig({ cwd, env: { ...keys, OLLAMA_HOST: '127.0.0.1:1' } })
    const models = buildCatalog(config.models).all()
    expect(models.length).toBeGreaterThan(300)
    expect(lintOfWritten(models).filter(({ level }) => level === 'warning')).toEqual([])
    // Models that their vendors have given up are found where all are looked at.
    expect(lint(models).map(({ code }) => code)).toContain('deprecated')
  })

  it.each([
    [
      'a price per million',
      { prompt: '2.5', completion: '10' },
      [
        'warning price-high: prompt 2.5 is above 0.001 USD a token: is it a price per million?',
        'warning price-high: completion 10 is above 0.001 USD a token: is it a price per million?',
      ],
    ],
    ['the highest price that is none', { prompt: '0.001', completion: '0.001' }, []],
    [
      'nothing but zeros',
      { prompt: '0', completion: '0' },
      ['warning price-zero: all prices are 0, and the model is not on the free tier'],
    ],
    [
      'a free prompt',
      { prompt: '0', completion: '0.000001' },
      ['warning price-zero: prompt is 0, and the other is not'],
    ],
    [
      'a dear cache',
      { prompt: '0.000001', completion: '0.000001', input_cache_read: '0.000002' },
      ['warning price-order: input_cache_read is above prompt'],
    ],
    [
      'a cheap hour',
      {
        prompt: '0.000001',
        completion: '0.000001',
        input_cache_write: '0.000002',
        input_cache_write_1h: '0.0000019',
      },
      ['warning price-order: input_cache_write_1h is below input_cache_write'],
    ],
    [
      'swapped prices',
      { prompt: '0.000002', completion: '0.000001' },
      ['warning price-order: completion is below prompt'],
    ],
    [
      'a cheaper tier',
      {
        prompt: '0.000001',
        completion: '0.000002',
        overrides: [{ min_prompt_tokens: 9, completion: '0.0000015' }],
      },
      ['warning price-order: completion is lower for long prompts'],
    ],
    [
      'half a tier',
      {
        prompt: '0.000001',
        completion: '0.000002',
        overrides: [{ min_prompt_tokens: 9, prompt: '0.0000015' }],
      },
      ['warning price-order: prompt rises for long prompts, and completion does not'],
    ],
    [
      'a tier per million',
      {
        prompt: '0.000001',
        completion: '0.000002',
        overrides: [{ min_prompt_tokens: 9, prompt: '2', completion: '0.000003' }],
      },
      ['warning price-high: prompt 2 is above 0.001 USD a token: is it a price per million?'],
    ],
    [
      'more digits than an amount has',
      { prompt: '0.0000000000001', completion: '0.000002' },
      ['warning price-fine: prompt: more than 12 fractional digits, so that bills are rounded up'],
    ],
  ])('of %s', (_, pricing, findings) => {
    expect(priced(pricing)).toEqual(findings)
  })

  it('of sound and images without a price, of shadowed names, and of what is not said', () => {
    const { pricing } = GOOD
    expect(priced(pricing, { capabilities: ['AUDIO_INPUT'] })).toEqual([
      'warning modal-price: takes sound, and "audio" has no price: it costs as much as text',
    ])
    const image = { prompt: '0.000001', image_output: '0.000002' }
    expect(priced(image, { capabilities: ['REFERENCES'] })).toEqual([
      'warning modal-price: takes images, and "image_token" has no price: they cost as much as text',
    ])
    const notes = priced(pricing, { capabilities: undefined, context_length: undefined })
    expect(notes).toEqual([
      'note capabilities-unknown: everything is passed to the vendor',
      'note window-unknown: no context_length: clients are not told it',
    ])
    const models = { 'a/b': { ...GOOD, aliases: ['d'] }, 'c/d': GOOD }
    expect(lint(catalogOf(models))).toEqual([
      {
        model: 'c/d',
        code: 'shadowed',
        level: 'warning',
        message: '"d" means a/b, which has it as an alias',
      },
    ])
  })
})

describe('a price is refused', () => {
  it.each([
    [0.0000025, 'a decimal string such as "0.0000025"'],
    ['-1', 'a decimal string such as "0.0000025" with at most 18 fractional digits'],
    ['1e-19', 'with at most 18 fractional digits'],
    ['1000.01', 'at most 1000 USD for one unit; prices per million are divided by a million'],
    ['9e99', 'at most 1000 USD for one unit'],
  ])('that is %j', (prompt, message) => {
    const pricing = { prompt }
    const { issues } = v.safeParse(modelsSchema, { 'a/b': { pricing, deployments } })
    expect(issues).toHaveLength(1)
    expect(issues![0].message).toContain(message)
  })

  const issuesOf = async (pricing: object) => {
    const config = {
      providers: { mock: { use: 'mock' } },
      models: { 'a/b': { pricing, deployments: [{ provider: 'mock', model: 'echo' }] } },
    }
    const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
    const error = await loadConfig({ cwd, env: {} }).catch((reason: unknown) => reason)
    return (error as { issues: unknown[] }).issues
  }
  const from = (...borders: number[]) => ({
    prompt: '0.000001',
    overrides: borders.map((min_prompt_tokens) => ({ min_prompt_tokens, prompt: '0.000002' })),
  })
  it.each([
    [
      'overlap',
      from(10, 20, 20),
      '2.min_prompt_tokens',
      'more than the 20 tokens of the override before it, found 20',
    ],
    [
      'go back',
      from(20, 10),
      '1.min_prompt_tokens',
      'more than the 20 tokens of the override before it, found 10',
    ],
    ['begin at nothing', from(0), '0.min_prompt_tokens', 'a whole number of tokens above 0'],
    ['begin in a token', from(1.5), '0.min_prompt_tokens', 'a whole number of tokens above 0'],
    [
      'have no price',
      { prompt: '0', overrides: [{ min_prompt_tokens: 5 }] },
      '0',
      'at least one price',
    ],
    [
      'have a price of a page',
      { prompt: '0', overrides: [{ min_prompt_tokens: 5, page: '1' }] },
      '0.page',
      'unknown key',
    ],
  ])('in overrides that %s', async (_, pricing, place, message) => {
    expect(await issuesOf(pricing)).toEqual([
      { path: `models.a/b.pricing.overrides.${place}`, message: expect.stringContaining(message) },
    ])
  })

  it('in a ninth override', async () => {
    expect(await issuesOf(from(1, 2, 3, 4, 5, 6, 7, 8, 9))).toEqual([
      { path: 'models.a/b.pricing.overrides', message: expect.stringContaining('at most 8') },
    ])
  })
})

describe('changes of prices', () => {
  const changed = (before: object, after: object) =>
    priceChanges(
      catalogOf({ 'a/b': { pricing: before } }),
      catalogOf({ 'a/b': { pricing: after } }),
    )

  it('name the price, both values and the difference', () => {
    const tier = (completion: string) => ({
      prompt: '1e-6',
      completion: '0.00001',
      overrides: [{ min_prompt_tokens: 100, completion }],
    })
    expect(
      changed(
        { prompt: '1e-6', completion: '0.00001' },
        { prompt: '1e-6', completion: '0.000012' },
      ),
    ).toEqual([
      { model: 'a/b', text: 'a/b completion 0.00001 → 0.000012 (+20 %)', isSuspicious: false },
    ])
    expect(changed(tier('0.00002'), tier('0.000015'))).toEqual([
      {
        model: 'a/b',
        text: 'a/b completion from 100 tokens 0.00002 → 0.000015 (-25 %)',
        isSuspicious: false,
      },
    ])
    expect(changed(tier('0.00002'), tier('0.00002'))).toEqual([])
  })

  it.each([
    [{ prompt: '0.000001' }, { prompt: '0.000011' }, true],
    [{ prompt: '0.000001' }, { prompt: '0.00001' }, false],
    [{ prompt: '0.00001' }, { prompt: '0.0000009' }, true],
    [{ prompt: '0' }, { prompt: '0.000001' }, true],
    [{ prompt: '0.000001' }, { prompt: '0' }, true],
    [{ prompt: '0', completion: '1e-6' }, { prompt: '0' }, true],
    [{ prompt: '0' }, { prompt: '0', completion: '1e-6' }, false],
  ])('from %j to %j are suspicious: %s', (before, after, suspicious) => {
    expect(changed(before, after).map(({ isSuspicious }) => isSuspicious)).toEqual([suspicious])
  })

  it('are none where a model is new or gone', () => {
    expect(priceChanges([], catalogOf({ 'a/b': GOOD }))).toEqual([])
    expect(priceChanges(catalogOf({ 'a/b': GOOD }), [])).toEqual([])
  })
})
