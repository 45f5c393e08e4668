/** The readers of public price lists, on lists of hundreds of models. */
import { describe, expect, it } from 'vitest'
import genaiPrices from '../../plugins/import/genai-prices.ts'
import litellm from '../../plugins/import/litellm-prices.ts'
import modelsDev from '../../plugins/import/models-dev.ts'
import openrouter from '../../plugins/import/openrouter.ts'
import { modelsOf, pricingOf } from '../../src/import/rows.ts'
import { readJson } from '../../src/import/source.ts'
import type { PriceSource } from '../../src/plugin.ts'
import { litellmList, modelsDevList, openrouterList } from './_lists.ts'

const COUNT = 500
const read = (source: PriceSource, text: string) => modelsOf(source, readJson(text))

/** 10^-digits of a whole number as a price is printed. */
function plain(value: number, digits: number): string {
  const text = String(value).padStart(digits + 1, '0')
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`.replace(/\.?0+$/, '')
}

describe.each([
  ['litellm', litellm, litellmList, ['openai', 'anthropic', 'google', 'groq']],
  ['models.dev', modelsDev, modelsDevList, ['openai', 'anthropic', 'google', 'groq']],
  ['openrouter', openrouter, openrouterList, undefined],
] as const)('a complete list of %s', (name, source, make, vendors) => {
  const text = make(COUNT)
  const { models, rows, skipped } = read(source, text)

  it('is recognised by its form alone', () => {
    const file = readJson(text)
    expect([litellm, modelsDev, openrouter].filter((one) => one.matches(file))).toEqual([source])
    expect(source.name).toBe(name)
  })

  it('gives each price with the digits that stand in it', () => {
    expect(rows).toBe(COUNT)
    expect(models.size).toBe(vendors ? (COUNT / 5) * 4 : COUNT)
    if (vendors) expect([...skipped.values()]).toEqual([COUNT / 5])
    for (let i = 0; i < COUNT; i++) {
      const vendor = vendors?.[i % 5]
      if (vendors && vendor === undefined) continue
      const model = models.get(vendor ? `${vendor}/model-${i}` : `openrouter/vendor/model-${i}`)!
      const { overrides, ...base } = pricingOf(model.prices)
      expect(base).toMatchObject({
        prompt: plain(100 + i, 9),
        completion: plain(1000 + 2 * i, 9),
        input_cache_read: plain(10 + i, 9),
      })
      expect(overrides).toEqual([
        {
          min_prompt_tokens: source === openrouter ? 200_000 : 200_001,
          prompt: plain(200 + 2 * i, 9),
          completion: plain(1500 + 4 * i, 9),
        },
      ])
      expect(model.doubts.size).toBe(0)
      expect(model.entry).toMatchObject({ modality: 'chat', context_length: 400_000 })
    }
  })
})

describe('genai-prices', () => {
  const rowOf = (model: object, vendor = 'openrouter') => {
    const { models, skipped } = read(
      genaiPrices,
      JSON.stringify([{ id: vendor, name: 'A vendor', models: [model] }]),
    )
    const [one] = models.values()
    return one ? { id: one.id, ...pricingOf(one.prices) } : [...skipped.keys()]
  }
  const MODEL = { id: 'lab/model', match: { equals: 'lab/model' }, context_window: 1000 }
  const PRICES = { input_mtok: 2, output_mtok: 10 }

  it('is recognised by its form alone', () => {
    const file = readJson(JSON.stringify([{ id: 'openai', models: [] }]))
    expect(
      [litellm, modelsDev, openrouter, genaiPrices].filter((one) => one.matches(file)),
    ).toEqual([genaiPrices])
  })

  it('has the prices in force, with those of long prompts', () => {
    const tiers = (base: number, price: number) => ({ base, tiers: [{ start: 200_000, price }] })
    expect(
      rowOf({
        ...MODEL,
        prices: [
          { prices: PRICES },
          {
            constraint: { start_date: '2026-10-07' },
            prices: {
              input_mtok: tiers(1, 2),
              output_mtok: tiers(5, 7.5),
              cache_read_mtok: 0.05,
              web_searches_kcount: 10,
            },
          },
          { constraint: { start_date: '2999-01-01' }, prices: PRICES },
        ],
      }),
    ).toEqual({
      id: 'openrouter/lab/model',
      prompt: '0.000001',
      completion: '0.000005',
      input_cache_read: '0.00000005',
      web_search: '0.01',
      overrides: [{ min_prompt_tokens: 200_001, prompt: '0.000002', completion: '0.0000075' }],
    })
  })

  it('leaves out what it cannot say for certain', () => {
    const byHour = { constraint: { start_time: '00:00', end_time: '08:00' }, prices: PRICES }
    const left: (readonly [object, string?])[] = [
      [{ ...MODEL, match: { starts_with: 'lab/' }, prices: PRICES }],
      [{ id: 'model', match: { equals: 'model' }, prices: PRICES }],
      [{ id: 'lab/m:batch', match: { equals: 'lab/m:batch' }, prices: PRICES }],
      [{ ...MODEL, prices: [{ prices: PRICES }, byHour] }],
      [{ ...MODEL, prices: { input_mtok: 1 } }],
      [{ ...MODEL, prices: { ...PRICES, output_video_mtok: 3 } }],
      [{ ...MODEL, prices: PRICES }, 'a-vendor-without-a-line'],
    ]
    expect(left.map(([model, vendor]) => rowOf(model, vendor))).toEqual([
      ['under a name that the vendor does not have'],
      ['under a name that the vendor does not have'],
      ['that answer in batches alone'],
      ['with prices by the time of day'],
      ['without prices of both prompt and completion'],
      ['that answer with more than text, images and sound'],
      ['of the vendor a-vendor-without-a-line'],
    ])
  })
})

describe('litellm', () => {
  const one = (members: Record<string, unknown>, key = 'm') => {
    const text = JSON.stringify({ [key]: { litellm_provider: 'openai', ...members } })
    return read(litellm, text)
  }
  const pricing = (members: Record<string, unknown>) => {
    const [model] = one(members).models.values()
    return model && pricingOf(model.prices)
  }

  it('has a price for each kind of model', () => {
    expect(pricing({ mode: 'image_generation', output_cost_per_image: 0.04 })).toEqual({
      image: '0.04',
    })
    expect(pricing({ mode: 'ocr', ocr_cost_per_page: 0.002 })).toEqual({ page: '0.002' })
    expect(pricing({ mode: 'audio_speech', input_cost_per_character: 1.5e-5 })).toEqual({
      character: '0.000015',
    })
    expect(pricing({ mode: 'audio_transcription', input_cost_per_second: 0.0001 })).toEqual({
      second: '0.0001',
    })
  })

  it('has one price where the list has it in two units', () => {
    const tokens = {
      input_cost_per_token: 1e-6,
      output_cost_per_token: 2e-6,
      input_cost_per_audio_token: 3e-6,
    }
    const read = { prompt: '0.000001', completion: '0.000002', audio: '0.000003' }
    const mode = 'audio_transcription'
    expect(pricing({ mode, ...tokens, input_cost_per_second: 0.0001 })).toEqual(read)
    const image = {
      mode: 'image_generation',
      output_cost_per_image_token: 3e-5,
      output_cost_per_image: 0.04,
    }
    expect(pricing(image)).toEqual({ image_output: '0.00003' })
    const search = { search_context_cost_per_query: { low: 0.005, high: 0.012 } }
    const fee = { input_cost_per_request: 0.012 }
    expect(pricing({ ...tokens, ...fee, ...search })).toEqual({ ...read, request: '0.012' })
    expect(
      pricing({ mode: 'rerank', input_cost_per_token: 0, input_cost_per_query: 0.002 }),
    ).toEqual({ prompt: '0', search_unit: '0.002' })
  })

  it('takes the dearest search, and ranges of the prompt', () => {
    expect(
      pricing({
        search_context_cost_per_query: { low: 0.03, high: 0.05, medium: 0.035 },
        tiered_pricing: [
          { range: [0, 32_000], input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 },
          { range: [32_000, 128_000], input_cost_per_token: 2e-6, output_cost_per_token: 4e-6 },
        ],
      }),
    ).toEqual({
      web_search: '0.05',
      prompt: '0.000001',
      completion: '0.000002',
      overrides: [{ min_prompt_tokens: 32_001, prompt: '0.000002', completion: '0.000004' }],
    })
  })

  it('lists what has no counterpart, and leaves out what cannot be served', () => {
    const { models, unmapped } = one({
      input_cost_per_token: 1e-6,
      output_cost_per_token_batches: 1,
    })
    expect(models.size).toBe(1)
    expect(Object.fromEntries(unmapped)).toEqual({ output_cost_per_token_batches: 1 })
    const left = [
      one({ mode: 'video_generation', input_cost_per_token: 1e-6 }),
      one({ mode: 'chat', output_cost_per_token_batches: 1 }),
      one({ mode: 'image_generation', input_cost_per_pixel: 1 }, '512-x-512/painter'),
    ]
    expect(left.map(({ skipped }) => [...skipped.keys()])).toEqual([
      ['of the kind video_generation'],
      ['without a price that they need'],
      ['with prices by the size of images'],
    ])
  })

  it('doubts images with two prices', () => {
    const both = { mode: 'image_edit', input_cost_per_image: 0.01, output_cost_per_image: 0.04 }
    const [model] = one(both).models.values()
    expect(model!.doubts.get('')).toContain('going in')
    expect(model!.entry.capabilities).toContain('REFERENCES')
  })
})

it('openrouter: prices by the time of day are not mapped, and a price that is not fixed is doubted', () => {
  const row = (pricing: object) => ({
    id: 'a/b',
    architecture: { output_modalities: ['text'] },
    pricing: { prompt: '0.000001', completion: '0.000002', ...pricing },
  })
  const overrides = [{ min_prompt_tokens: 10, from_hour: '8', prompt: '1' }]
  const dated = read(openrouter, JSON.stringify({ data: [row({ overrides })] }))
  expect([...dated.unmapped.keys()]).toEqual(['overrides'])
  const auto = read(openrouter, JSON.stringify({ data: [row({ completion: '-1' })] }))
  expect(auto.models.get('openrouter/a/b')!.doubts.get('completion')).toContain('at least 0')
})
