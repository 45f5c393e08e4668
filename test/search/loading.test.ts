/** Search engines of the configuration: found, checked, set up, closed. */
import * as v from 'valibot'
import { describe, expect, it, vi } from 'vitest'
import { createGateway } from '../../src/gateway/gateway.ts'
import { defineSearch, type Host } from '../../src/plugin.ts'
import { loadConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { eventually } from '../_wait.ts'
import { createTestGateway, loaded, MOCK_CONFIG } from '../_setup.ts'
import { user } from '../sdk/_setup.ts'

const ASK = { model: 'mock/echo:online', messages: [user('It opened in 1932 [1].')] }

/** The issues of a configuration with these engines. */
async function issuesOf(engines: object, more: object = {}): Promise<string[]> {
  const config = { ...MOCK_CONFIG, log: { level: 'silent' as const }, search: { engines, ...more } }
  const error = await createGateway(loaded(config as typeof MOCK_CONFIG)).then(
    (gateway) => gateway.close(),
    (thrown) => thrown,
  )
  return (error?.issues ?? []).map(({ path, message }: any) => `${path}: ${message}`)
}

const engine = (close?: () => void) => {
  return defineSearch({
    name: 'own',
    options: v.strictObject({ site: v.string() }),
    setup: ({ site }, host: Host) => ({
      search: async (query) => ({
        results: [{ url: `https://${site}/${host.name}`, title: query.text(7), content: 'found' }],
      }),
      ...(close && { close }),
    }),
  })
}

describe('an engine of the configuration', () => {
  it('can be a plugin object, and is closed when it is no longer needed', async () => {
    const close = vi.fn<() => void>()
    const use = engine(close)
    const config = {
      ...MOCK_CONFIG,
      search: { engines: { mine: { use, options: { site: 'a.example' }, price: '0.001' } } },
    }
    await using t = await createTestGateway(config)
    const { json } = await t.chat(ASK)
    expect(json.choices[0].message.annotations[0].url_citation).toEqual({
      url: 'https://a.example/mine',
      title: 'It open',
      start_index: 18,
      end_index: 21,
      content: 'found',
    })
    expect(json.usage.cost_details.web_search_cost).toBe(0.001)
    await t.gateway.reload(loaded(MOCK_CONFIG))
    await eventually(() => expect(close).toHaveBeenCalledTimes(1))
    expect((await t.chat(ASK)).status).toBe(400)
    await t.gateway.reload(loaded(config))
    expect((await t.chat(ASK)).status).toBe(200)
  })

  it('can be a file next to the configuration', async () => {
    const cwd = await folder({
      'gateway.config.yaml': [
        'state: { driver: memory }',
        'search:',
        '  engines:',
        '    near: { use: ./near.mjs, options: { key: "${KEY}" }, price: "0.5" }',
      ].join('\n'),
      'near.mjs': `export default {
        kind: 'search', api: 1, name: 'near',
        options: { '~standard': { version: 1, vendor: 't', validate: (value) => ({ value }) } },
        setup: () => ({ search: async () => ({ results: [] }) }),
      }`,
    })
    const config = await loadConfig({ cwd, env: { KEY: 'secret' } })
    expect(config.secrets).toContain('search.engines.near.options.key')
    const gateway = await createGateway(config)
    expect(gateway.runtime.search).toBeDefined()
    await gateway.close()
  })

  it.each([
    [
      { a: { use: 'paralel', price: '1' } },
      /^search\.engines\.a\.use: .*did you mean "parallel"\?/,
    ],
    [{ a: { use: 'mock', price: '1' } }, /^search\.engines\.a\.use: there is no plugin "mock"/],
    [
      { a: { use: { kind: 'provider' }, price: '1' } },
      /^search\.engines\.a\.use: expected a search plugin, found kind "provider"$/,
    ],
    [{ a: { use: {}, price: '1' } }, /expected a default export made with defineSearch/],
    [
      { a: { use: 'exa', options: { apiKey: '' }, price: '1' } },
      /^search\.engines\.a\.options\.apiKey: /,
    ],
    [
      { a: { use: 'searxng', options: { baseURL: 'x' }, price: '0' } },
      /^search\.engines\.a\.options\.baseURL: /,
    ],
  ])('is looked at: %j', async (engines, expected) => {
    const issues = await issuesOf(engines)
    expect(issues).toHaveLength(1)
    expect(issues[0]).toMatch(expected)
  })

  it('that cannot be used is reported together with the others', async () => {
    const wrong = { use: 'nothing', price: '0' }
    expect(await issuesOf({ a: wrong, b: wrong })).toHaveLength(2)
  })
})

describe('the section', () => {
  const KEY = { apiKey: 'k' }
  it.each([
    [{ engines: { a: { use: 'exa' } } }, 'search.engines.a.price'],
    [{ engines: { a: { use: 'exa', price: 0.005 } } }, 'search.engines.a.price'],
    [{ engines: { a: { use: 'exa', price: '-1' } } }, 'search.engines.a.price'],
    [{ engines: { a: { use: 'exa', price: '1', timeout: 0 } } }, 'search.engines.a.timeout'],
    [{ engines: { 'a b': { use: 'exa', price: '1' } } }, 'search.engines.a b'],
    [{ default: 'b', engines: { a: { use: 'exa', options: KEY, price: '1' } } }, 'search.default'],
    [{ default: 'a' }, 'search.default'],
    [{ onError: 'panic' }, 'search.onError'],
    [{ engine: {} }, 'search.engine'],
  ])('with %j says what is wrong', async (search, path) => {
    const cwd = await folder({ 'gateway.config.json': JSON.stringify({ search }) })
    const error = await loadConfig({ cwd, env: {} }).catch((thrown) => thrown)
    expect(error.issues.map((issue: any) => issue.path)).toContain(path)
  })
})
