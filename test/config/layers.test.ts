/** Where providers, models and their members come from: the configuration, the models file, the starter. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadConfig, type LoadedConfig } from '../../src/config/config.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { folder } from '../_folder.ts'
import { runs } from '../_runs.ts'

/** An Ollama that does not answer: what runs on this machine is not part of the test. */
const OLLAMA_HOST = '127.0.0.1:1'
const ENV = { OPENAI_API_KEY: 'sk-openai', EXA_API_KEY: 'exa-key', OLLAMA_HOST }

const LLAMA = { pricing: { prompt: '0', completion: '0' } }
const HOUSE = { use: 'openai-compatible', options: { baseURL: 'http://127.0.0.1:1/v1' } }

async function load(config: unknown, env: object = ENV, files: Record<string, string> = {}) {
  const cwd = await folder({ ...files, 'gateway.config.json': JSON.stringify(config) })
  return loadConfig({ cwd, env: env as Record<string, string> })
}

async function issuesOf(config: unknown, env: object = ENV, files: Record<string, string> = {}) {
  const error = await load(config, env, files).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(ConfigError)
  return (error as ConfigError).issues
}

const idsOf = ({ config }: LoadedConfig) => Object.keys(config.models)

describe('extends: starter', () => {
  it('keeps the starter beside what the file has', async () => {
    const { config } = await load({
      extends: 'starter',
      server: { port: 9000 },
      providers: { house: HOUSE },
      models: { 'house/llama': LLAMA },
    })
    expect(config.server.port).toBe(9000)
    expect(Object.keys(config.providers)).toEqual(
      expect.arrayContaining(['mock', 'openai', 'house']),
    )
    expect(config.models).toMatchObject({
      'mock/echo': { pricing: { prompt: '0.0000001' } },
      'openai/gpt-6-sol': { deployments: [{ provider: 'openai', model: 'gpt-6-sol' }] },
      'house/llama': { deployments: [{ provider: 'house', model: 'llama' }] },
    })
    expect(config.providers.openai!.options.apiKey).toBe('sk-openai')
    expect(Object.keys(config.search.engines)).toEqual(['exa'])
  })

  it('hides the keys that it takes from the environment', async () => {
    const { secrets } = await load({ extends: 'starter' })
    expect(secrets).toContain('providers.openai.options.apiKey')
  })

  it('an own member of a model wins, the others stay', async () => {
    const own = { free_tier: true, pricing: { prompt: '1' } }
    const { config } = await load({ extends: 'starter', models: { 'openai/gpt-6-sol': own } })
    expect(config.models['openai/gpt-6-sol']).toMatchObject({
      free_tier: true,
      name: 'GPT-6 Sol',
      context_length: 922_000,
    })
    // A member is replaced as a whole: no price of the starter is left.
    expect(config.models['openai/gpt-6-sol']!.pricing).toEqual({ prompt: '1' })
  })

  it('an own provider or search engine of the same name replaces it whole', async () => {
    const { config } = await load({
      extends: 'starter',
      providers: { openai: HOUSE },
      search: { default: 'exa', engines: { exa: { use: 'exa', options: {}, price: '0.5' } } },
    })
    expect(config.providers.openai).toMatchObject(HOUSE)
    expect(config.providers.openai!.options).toEqual(HOUSE.options)
    expect(config.search).toMatchObject({ default: 'exa', engines: { exa: { price: '0.5' } } })
  })

  it('a model of the starter can be switched off', async () => {
    const { config } = await load({
      extends: 'starter',
      models: { 'mock/echo': { enabled: false } },
    })
    expect(config.models['mock/echo']!.enabled).toBe(false)
    expect(config.models['mock/tools']!.enabled).toBe(true)
  })

  it('without the variable of a vendor its models are gone, and nothing else', async () => {
    const all = idsOf(await load({ extends: 'starter', models: {} }))
    const less = idsOf(await load({ extends: 'starter', models: {} }, { OLLAMA_HOST }))
    const gone = all.filter((id) => !less.includes(id))
    expect(gone.length).toBeGreaterThan(3)
    expect(gone.every((id) => id.startsWith('openai/'))).toBe(true)
    expect(less).toContain('mock/echo')
  })

  it('without the variable, an own entry that had its deployment from the starter says what is missing', async () => {
    const models = { 'openai/gpt-6-sol': { free_tier: true } }
    expect(await issuesOf({ extends: 'starter', models }, { OLLAMA_HOST })).toEqual([
      {
        path: 'models.openai/gpt-6-sol.deployments',
        message: expect.stringContaining('or a provider with the name of the vendor'),
      },
    ])
  })

  it('can be overridden from the environment like the file', async () => {
    const env = { ...ENV, SLUICEGATE__MODELS__MOCK_ECHO__FREE_TIER: 'true' }
    const { config } = await load({ extends: 'starter' }, env)
    expect(config.models['mock/echo']!.free_tier).toBe(true)
  })

  it.each([
    [{ extends: 'startr' }, 'extends', 'expected "starter", found "startr"'],
    [{ extend: 'starter' }, 'extend', 'unknown key; did you mean "extends"?'],
    [{ extends: 'starter', models: 5 }, 'models', 'found the number 5'],
    [{ extends: 'starter', providers: 5 }, 'providers', 'found the number 5'],
    [{ extends: 'starter', models: { 'mock/echo': 5 } }, 'models.mock/echo', 'found the number 5'],
  ])('%j is refused', async (config, path, message) => {
    expect(await issuesOf(config)).toEqual([{ path, message: expect.stringContaining(message) }])
  })
})

describe('a models file', () => {
  const file = (text: string) => ({ 'models.yaml': text })
  const config = { providers: { house: HOUSE }, models: { 'house/a': { free_tier: true } } }

  it('beside the configuration is read without being named; members of the configuration win', async () => {
    const text =
      "house/a: { free_tier: false, name: A, pricing: { prompt: '0' } }\n" +
      "house/b: { pricing: { prompt: '1' } }"
    const { config: read } = await load(config, {}, file(text))
    expect(read.models).toMatchObject({
      'house/a': { free_tier: true, name: 'A', pricing: { prompt: '0' } },
      'house/b': { free_tier: false, pricing: { prompt: '1' } },
    })
  })

  it('wins over the starter', async () => {
    const text = 'mock/echo: { name: Mine }'
    const read = await load({ extends: 'starter' }, ENV, file(text))
    expect(read.config.models['mock/echo']).toMatchObject({
      name: 'Mine',
      pricing: { prompt: '0.0000001' },
    })
  })

  it('that is a list is refused', async () => {
    expect(await issuesOf(config, {}, file('- a/b'))).toEqual([
      { path: 'models', message: 'expected models by id, found a list' },
    ])
  })

  it('that appears, or goes, is noticed when the configuration is read again', async () => {
    const cwd = await folder({
      'gateway.config.json': JSON.stringify({ providers: config.providers }),
    })
    const ids = async () => idsOf(await loadConfig({ cwd, env: {} }))
    expect(await ids()).toEqual([])
    await writeFile(join(cwd, 'models.json'), JSON.stringify({ 'house/a': LLAMA }))
    expect(await ids()).toEqual(['house/a'])
    await rm(join(cwd, 'models.json'))
    expect(await ids()).toEqual([])
  })
})

describe('deployments that are left out', () => {
  it('are the provider with the name of the vendor, and the rest of the id', async () => {
    const { config } = await load({
      providers: { house: HOUSE },
      models: { 'house/meta/llama:8b': LLAMA },
    })
    expect(config.models['house/meta/llama:8b']!.deployments).toMatchObject([
      { provider: 'house', model: 'meta/llama:8b', weight: 1, priority: 0 },
    ])
  })

  it('are an error where no provider has that name', async () => {
    expect(
      await issuesOf({ providers: { house: HOUSE }, models: { 'home/llama': LLAMA } }),
    ).toEqual([
      {
        path: 'models.home/llama.deployments',
        message:
          'expected a list of deployments, or a provider with the name of the vendor, found nothing',
      },
    ])
  })
})

describe('the layer that is set up at run time', () => {
  const SECRET = 'what-must-not-be-read-by-any-entry-ever'
  const NAMES = ['a', 'b', 'c'] as const
  const words = fc.constantFrom('plain', '${SLUICEGATE_SECRET}', '$${X} and ${', 'a: b # c')
  /** Texts without references: in a file, `${` would begin one. */
  const plainWords = fc.constantFrom('plain', 'of the file', 'a: b # c')
  const named = <T>(entry: fc.Arbitrary<T>) =>
    fc.dictionary(fc.constantFrom(...NAMES), entry, { maxKeys: 3 })
  const layerOf = (text: fc.Arbitrary<string>) =>
    fc.record({
      providers: named(
        fc.record(
          {
            use: fc.constant('openai-compatible'),
            options: fc.record({ baseURL: fc.constant('http://127.0.0.1:1/v1'), apiKey: text }),
            timeout: fc.integer({ min: 1, max: 100 }),
          },
          { requiredKeys: ['use', 'options'] },
        ),
      ),
      models: named(
        fc.record(
          { name: text, description: text, context_length: fc.integer({ min: 1, max: 99 }) },
          { requiredKeys: [] },
        ),
      ),
      engines: named(
        fc.record({
          use: fc.constant('searxng'),
          options: fc.record({ baseURL: text }),
          price: fc.constantFrom('0.1', '0.2'),
        }),
      ),
      sinks: named(fc.record({ use: fc.constant('webhook'), options: fc.record({ url: text }) })),
    })
  const prefixed = (models: Record<string, object>) =>
    Object.fromEntries(Object.entries(models).map(([name, entry]) => [`acme/${name}`, entry]))
  /** What every model has to have. */
  const BASE = {
    pricing: { prompt: '0', completion: '0' },
    deployments: [{ provider: 'p', model: 'm' }],
  }
  const listed = (sinks: Record<string, object>) =>
    Object.entries(sinks).map(([name, sink]) => ({ ...sink, name }))

  it('lies below the files in every entry, and reads no variable', async () => {
    await fc.assert(
      fc.asyncProperty(
        layerOf(words),
        layerOf(plainWords),
        layerOf(plainWords).map(({ models }) => models),
        async (managed, own, beside) => {
          const house = {
            use: 'openai-compatible',
            options: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'k' },
          }
          const names = new Set([managed.models, own.models, beside].flatMap(Object.keys))
          const whole = (models: Record<string, object>) =>
            Object.fromEntries(
              Object.entries(models).map(([name, one]) => [name, { ...BASE, ...one }]),
            )
          const lowest = whole(managed.models)
          const file = {
            providers: { ...own.providers, p: house },
            models: prefixed(whole(own.models)),
            search: { engines: own.engines },
            sinks: listed(own.sinks),
          }
          const env = {
            SLUICEGATE_SECRET: SECRET,
            OLLAMA_HOST,
            SLUICEGATE__PROVIDERS__p__timeout: '77',
          }
          const loaded = await load(file, env, {
            'models.json': JSON.stringify(prefixed(whole(beside))),
          })
          const { config } = await loaded.withManaged!({
            revision: 1,
            sections: { ...managed, models: prefixed(lowest), sinks: managed.sinks },
            secrets: [],
          })
          const free = Object.entries(managed.sinks).filter(([name]) => !(name in own.sinks))
          expect(inspect(config, { depth: null })).not.toContain(SECRET)
          expect(config.providers).toMatchObject({
            ...managed.providers,
            ...own.providers,
            p: { ...house, timeout: 77 },
          })
          for (const [name, entry] of Object.entries(own.providers)) {
            // An entry is taken whole.
            if (!entry.timeout)
              expect(config.providers[name]!.timeout).not.toBe(managed.providers[name]?.timeout)
          }
          expect(config.search.engines).toMatchObject({ ...managed.engines, ...own.engines })
          expect(config.sinks.map(({ name }) => name)).toEqual([
            ...Object.keys(own.sinks),
            ...free.map(([name]) => name),
          ])
          for (const [name, sink] of free) {
            expect(config.sinks.find((one) => one.name === name)).toMatchObject(sink)
          }
          for (const name of names) {
            expect(config.models[`acme/${name}`]).toMatchObject({
              ...BASE,
              ...managed.models[name],
              ...beside[name],
              ...own.models[name],
            })
          }
        },
      ),
      { numRuns: runs(8) },
    )
  })
})
