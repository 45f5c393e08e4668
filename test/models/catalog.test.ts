import { Ajv2020 } from 'ajv/dist/2020.js'
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { buildCatalog } from '../../src/models/catalog.ts'
import { missingPrices, modalityOf, modelsSchema, type ModelEntry } from '../../src/models/entry.ts'
import { listOf } from '../../src/models/listing.ts'

const deployments = [{ provider: 'p', model: 'm' }]
const chat = { pricing: { prompt: '0.000001' }, deployments }

/** Members that OpenRouter's clients need and that say nothing here. */
const OTHERS = {
  per_request_limits: null,
  default_parameters: null,
  supported_voices: null,
  expiration_date: null,
}

function catalogOf(models: Record<string, unknown>) {
  return buildCatalog(v.parse(modelsSchema, models))
}

function listingOf(models: Record<string, unknown>): string {
  return listOf(catalogOf(models).all())
}

describe('the listing', () => {
  const schema = JSON.parse(
    readFileSync(new URL('../wire/schemas/models-list.json', import.meta.url), 'utf8'),
  )
  const validate = new Ajv2020().compile(schema)

  it('is what GET /v1/models answers, sorted by id', () => {
    const text = listingOf({
      'zeta/one': {
        ...chat,
        free_tier: true,
        pricing: { completion: '2.50e-6', prompt: '01.0' },
        capabilities: ['TOOLS', 'CHOICES', 'TOOLS'],
        context_length: 128000,
        max_output_tokens: 4096,
        name: 'One',
        description: 'The first.',
        created: 1780000000,
      },
      'acme/ocr:v2': { pricing: { page: '0.001' }, deployments },
    })
    const listing = JSON.parse(text)
    expect(validate(listing), JSON.stringify(validate.errors)).toBe(true)
    expect(listing.data).toEqual([
      {
        id: 'acme/ocr:v2',
        object: 'model',
        created: 0,
        owned_by: 'acme',
        modality: 'ocr',
        free_tier: false,
        pricing: { page: '0.001' },
        capabilities: [],
        type: 'model',
        display_name: 'acme/ocr:v2',
        created_at: '1970-01-01T00:00:00Z',
        name: 'acme/ocr:v2',
        context_length: null,
        ...OTHERS,
        canonical_slug: 'acme/ocr:v2',
        architecture: {
          modality: 'file+image->text',
          input_modalities: ['file', 'image'],
          output_modalities: ['text'],
          tokenizer: 'Other',
          instruct_type: null,
        },
        top_provider: { context_length: null, max_completion_tokens: null, is_moderated: false },
        supported_parameters: [],
        links: { details: '/v1/models/acme/ocr:v2' },
      },
      {
        id: 'zeta/one',
        object: 'model',
        created: 1780000000,
        owned_by: 'zeta',
        modality: 'chat',
        free_tier: true,
        pricing: { prompt: '1', completion: '0.0000025' },
        capabilities: ['TOOLS', 'CHOICES'],
        name: 'One',
        description: 'The first.',
        context_length: 128000,
        max_output_tokens: 4096,
        type: 'model',
        display_name: 'One',
        created_at: '2026-05-28T20:26:40Z',
        max_input_tokens: 128000,
        max_tokens: 4096,
        ...OTHERS,
        canonical_slug: 'zeta/one',
        architecture: {
          modality: 'text->text',
          input_modalities: ['text'],
          output_modalities: ['text'],
          tokenizer: 'Other',
          instruct_type: null,
        },
        top_provider: {
          context_length: 128000,
          max_completion_tokens: 4096,
          is_moderated: false,
        },
        supported_parameters: expect.arrayContaining(['tools', 'temperature', 'max_tokens']),
        links: { details: '/v1/models/zeta/one' },
      },
    ])
    const { has_more, first_id, last_id } = listing
    expect([has_more, first_id, last_id]).toEqual([false, 'acme/ocr:v2', 'zeta/one'])
  })

  it('is an empty list without models', () => {
    expect(JSON.parse(listingOf({}))).toEqual({
      object: 'list',
      data: [],
      has_more: false,
      first_id: null,
      last_id: null,
      links: { next: null },
      total_count: 0,
    })
  })

  it('does not show deployments', () => {
    const models = {
      'a/b': { ...chat, deployments: [{ provider: 'hidden', model: 'upstream-name' }] },
    }
    expect(listingOf(models)).not.toMatch(/hidden|upstream-name|deployment/)
  })
})

describe('a model', () => {
  it('has compiled prices and deployments with defaults', () => {
    const model = catalogOf({
      'a/b': {
        ...chat,
        max_output_tokens: 10,
        deployments: [
          { provider: 'p', model: 'x', weight: 3, priority: 1, options: { tags: true } },
          { provider: 'q', model: 'x/y' },
        ],
      },
    }).get('a/b')!
    expect(model).toMatchObject({
      vendor: 'a',
      modality: 'chat',
      freeTier: false,
      maxOutputTokens: 10,
    })
    expect(model.prices).toMatchObject({ prompt: 1_000_000_000_000n })
    expect(model.prices.completion).toBeUndefined()
    expect(model.contextLength).toBeUndefined()
    expect(model.deployments).toEqual([
      { id: 'p/x', provider: 'p', model: 'x', weight: 3, priority: 1, options: { tags: true } },
      { id: 'q/x/y', provider: 'q', model: 'x/y', weight: 1, priority: 0, options: {} },
    ])
  })

  it('is left out when it is disabled', () => {
    const catalog = catalogOf({
      'a/b': { ...chat, enabled: false },
      'a/c': { ...chat, enabled: true },
    })
    expect(catalog.get('a/b')).toBeUndefined()
    expect(catalog.all().map(({ id }) => id)).toEqual(['a/c'])
    expect(catalog.suggest('a/b')).toBe('a/c')
  })

  it('may be on the free tier', () => {
    const catalog = catalogOf({
      'b/f': { ...chat, free_tier: true },
      'a/b': chat,
      'a/f': { ...chat, free_tier: true },
    })
    expect(catalog.freeTier().map(({ id }) => id)).toEqual(['a/f', 'b/f'])
  })

  it.each<[ModelEntry['pricing'], string]>([
    [{ prompt: '1', completion: '1' }, 'chat'],
    [{ request: '1' }, 'chat'],
    [{ page: '1' }, 'ocr'],
    [{ character: '1' }, 'speech'],
    [{ second: '1' }, 'transcription'],
    [{ image: '1' }, 'image'],
    [{ prompt: '1', image_token: '1', image_output: '1' }, 'image'],
  ])('priced by %j is for %s', (pricing, modality) => {
    expect(modalityOf({ modality: undefined, pricing })).toBe(modality)
    expect(missingPrices({ modality: undefined, pricing })).toEqual([])
  })

  it('has the modality of its entry, also where its prices imply another', () => {
    const entry = { modality: 'transcription', pricing: { audio: '1', completion: '1' } } as const
    expect(modalityOf(entry)).toBe('transcription')
    expect(missingPrices(entry)).toEqual([])
    expect(missingPrices({ modality: 'speech', pricing: { prompt: '1' } })).toEqual(['character'])
    expect(missingPrices({ modality: undefined, pricing: { web_search: '1' } })).toContain('prompt')
  })
})

describe('an entry of the configuration', () => {
  it.each([2.5e-6, '-1', '1,5', '', 'free', '0.' + '0'.repeat(18) + '1', '0x1'])(
    'has no price %j',
    (price) => {
      expect(problems({ 'a/b': { ...chat, pricing: { prompt: price } } })).toEqual([
        expect.stringContaining('a decimal string such as "0.0000025"'),
      ])
    },
  )

  it.each(['gpt', 'a b/c', 'a:b/c', '/c', 'a/', 'a/b c', 'a/b:online'])('has no id %j', (id) => {
    expect(problems({ [id]: chat })).toEqual([expect.stringContaining('a model id')])
  })

  it('needs a price, a deployment and known capabilities', () => {
    expect(problems({ 'a/b': { pricing: {}, deployments } })).toEqual(['at least one price'])
    expect(problems({ 'a/b': { ...chat, deployments: [] } })).toEqual(['at least one deployment'])
    expect(problems({ 'a/b': { ...chat, capabilities: ['tools'] } })).toHaveLength(1)
    expect(
      problems({ 'a/b': { ...chat, deployments: [{ ...deployments[0], weight: 0 }] } }),
    ).toEqual(['a number above 0'])
  })
})

describe('suggestions', () => {
  const catalog = catalogOf({
    'openai/gpt-4.1-mini': chat,
    'openai/gpt-4.1': chat,
    'anthropic/claude-sonnet': chat,
    'mirror/claude-sonnet': chat,
    'qwen/Qwen3': chat,
  })

  it.each([
    ['openai/gpt-4.1-mni', 'openai/gpt-4.1-mini'],
    ['openia/gpt-4.1', 'openai/gpt-4.1'],
    ['OpenAI/GPT-4.1', 'openai/gpt-4.1'],
    ['gpt-4.1-mini', 'openai/gpt-4.1-mini'],
    ['azure/gpt-4.1', 'openai/gpt-4.1'],
    ['openrouter/openai/gpt-4.1', 'openai/gpt-4.1'],
    ['claude-sonnet', 'anthropic/claude-sonnet'],
    ['mirror/Claude-Sonnet', 'mirror/claude-sonnet'],
    ['qwen3', 'qwen/Qwen3'],
  ])('%s means %s', (typed, meant) => {
    expect(catalog.suggest(typed)).toBe(meant)
  })

  it.each(['', '/', 'llama', 'constructor', '__proto__', 'openai/whisper'])(
    '%j means nothing',
    (id) => {
      expect(catalog.suggest(id)).toBeUndefined()
    },
  )

  it('are not searched for ids of absurd length', () => {
    expect(catalog.suggest('openai/gpt-4.1'.padEnd(100_000, 'x'))).toBeUndefined()
    expect(catalog.suggest('/'.repeat(100_000))).toBeUndefined()
  })

  it('are found after any one edit', () => {
    const ids = catalog.all().map(({ id }) => id)
    const edit = fc.record({ at: fc.nat(), letter: fc.constantFrom('x', '7'), cut: fc.nat(1) })
    fc.assert(
      fc.property(fc.constantFrom(...ids), edit, (id, { at, letter, cut }) => {
        const place = at % id.length
        const typed = id.slice(0, place) + letter + id.slice(place + cut)
        expect(catalog.suggest(typed)).toBeDefined()
      }),
    )
  })
})

describe('limits of a deployment', () => {
  const entry = (limits: object) => ({
    'acme/swift': {
      pricing: { prompt: '1' },
      deployments: [{ provider: 'p', model: 'm', ...limits }],
    },
  })
  const deploymentOf = (limits: object) =>
    buildCatalog(v.parse(modelsSchema, entry(limits))).get('acme/swift')!.deployments[0]!

  it('are present where the entry sets them', () => {
    expect(deploymentOf({})).not.toHaveProperty('limits')
    expect(deploymentOf({ firstPartTimeout: 2.5, idleTimeout: 20 }).limits).toEqual({
      firstPartTimeout: 2.5,
      idleTimeout: 20,
    })
  })

  it.each([{ timeout: 0 }, { firstPartTimeout: '20' }, { idleTimeout: 1e9 }])(
    'are seconds: not %o',
    (limits) => {
      expect(problems(entry(limits))).toEqual(['a number of seconds above 0 and at most 1000000'])
    },
  )
})

function problems(models: unknown): string[] {
  const { issues = [] } = v.safeParse(modelsSchema, models)
  return issues.map(({ message }) => message)
}
