/** What clients may call a model: ids, aliases, names without a vendor, dated names, and what is none of them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, type TestGateway } from '../_setup.ts'

const model = {
  pricing: { prompt: '0.000001', completion: '0.000002' },
  deployments: [{ provider: 'mock', model: 'echo' }],
}
const MODELS = {
  'mock/one': { ...model, aliases: ['assistant', 'house/best', 'best-20250101'] },
  'mock/two': { ...model, aliases: ['three'] },
  'other/two': model,
  'other/three': model,
  'other/four:8b': model,
  'other/off': { ...model, enabled: false, aliases: ['gone'] },
}

let t: TestGateway
let strict: TestGateway
beforeAll(async () => {
  const config = { providers: { mock: { use: 'mock' } }, models: MODELS }
  t = await createTestGateway(config)
  strict = await createTestGateway({ ...config, names: { bare: false } })
})
afterAll(async () => {
  await t.close()
  await strict.close()
})

const ask = (name: string, gateway = t) => gateway.chat({ ...hello, model: name })

describe('a call for', () => {
  it.each([
    ['mock/one', 'mock/one'],
    ['assistant', 'mock/one'],
    ['house/best', 'mock/one'],
    ['one', 'mock/one'],
    ['one-20260101', 'mock/one'],
    ['assistant-20260101', 'mock/one'],
    ['best-20250101', 'mock/one'],
    ['four:8b', 'other/four:8b'],
    // Other spellings, and names with a version that no id has.
    ['Assistant', 'mock/one'],
    ['best', 'mock/one'],
    ['mock/one-20260101', 'mock/one'],
    ['mock/one:latest', 'mock/one'],
    ['one:nitro', 'mock/one'],
    // An alias comes before a name without its vendor.
    ['three', 'mock/two'],
  ])('%s is answered by %s, under its id', async (name, id) => {
    const { status, json } = await ask(name)
    expect([status, json.model]).toEqual([200, id])
  })

  it.each([
    ['one-2026', /There is no model "one-2026"/],
    ['gone', /There is no model "gone"/],
    ['off', /There is no model "off"/],
    [
      'one:free',
      /^There is no free model "one:free"\. "one" is charged: ask for it by that name\.$/,
    ],
    // The name is known; there is no engine to search with.
    ['assistant:online', /search/],
    ['two', /^Several models are called "two"\. Ask for one of mock\/two, other\/two\.$/],
    ['two-20260101', /Ask for one of mock\/two, other\/two\.$/],
    ['constructor', /There is no model "constructor"/],
    ['', /model/],
  ])('%s is refused with a sentence that helps', async (name, message) => {
    const { status, json } = await ask(name)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(json.error.message).toMatch(message)
  })

  it('a name without a vendor is refused where that is switched off; an alias is not', async () => {
    expect((await ask('one', strict)).json.error.message).toMatch(/Did you mean "mock\/one"/)
    expect((await ask('assistant', strict)).status).toBe(200)
  })
})

it('an allowlist holds for every name of a model', async () => {
  const { secret } = await t.newKey({ models: ['mock/two'] })
  const asked = (name: string) => t.chat({ ...hello, model: name }, { key: secret })
  expect((await asked('three')).status).toBe(200)
  expect((await asked('one')).json.error.code).toBe('model_not_allowed')
})

it('the ledger has the id', async () => {
  const { headers } = await ask('assistant')
  const rows = async () => {
    const found = []
    for await (const row of t.gateway.runtime.ledger.usage('acme')) found.push(row)
    return found.find(({ request }) => request === headers['x-request-id'])?.usage?.model
  }
  await expect.poll(rows).toBe('mock/one')
})

it('the list has each model once, with its aliases', async () => {
  const { json } = await t.ask('GET', '/v1/models')
  expect(json.data.map(({ id, aliases }: any) => [id, aliases])).toEqual([
    ['mock/one', ['assistant', 'house/best', 'best-20250101']],
    ['mock/two', ['three']],
    ['other/four:8b', undefined],
    ['other/three', undefined],
    ['other/two', undefined],
  ])
})

describe('a configuration', () => {
  const issuesOf = async (models: object) => {
    const config = JSON.stringify({ providers: { mock: { use: 'mock' } }, models })
    const cwd = await folder({ 'gateway.config.json': config })
    const error = await loadConfig({ cwd, env: {} }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(ConfigError)
    return (error as ConfigError).issues
  }
  const named = (...aliases: string[]) => ({ ...model, aliases })

  it.each([
    ['an id', { 'a/b': model, 'c/d': named('a/b') }, 'c/d', 'but "a/b" is the id of a model'],
    ['its own id', { 'a/b': named('a/b') }, 'a/b', 'but "a/b" is the id of a model'],
    [
      'another alias',
      { 'a/b': named('x'), 'c/d': named('x') },
      'c/d',
      'but "x" is an alias of a/b as well',
    ],
    ['itself', { 'a/b': named('x', 'x') }, 'a/b', 'but "x" is an alias of a/b as well'],
    [
      'an address',
      { 'a/b': named('user') },
      'a/b',
      'but "user" is the name of an address of the API',
    ],
    ['nothing', { 'a/b': named('') }, 'a/b', 'expected a name of 1 to 120 characters'],
    ['two words', { 'a/b': named('x y') }, 'a/b', 'without white space'],
    ['a search', { 'a/b': named('x:online') }, 'a/b', 'does not end in ":online"'],
    ['too long a name', { 'a/b': named('x'.repeat(121)) }, 'a/b', '1 to 120 characters'],
  ])('with an alias that is %s is refused', async (_, models, id, message) => {
    const [issue, ...others] = await issuesOf(models)
    expect(others).toEqual([])
    expect(issue!.path).toMatch(`models.${id}.aliases.`)
    expect(issue!.message).toContain(message)
  })

  it('with more than 16 aliases is refused', async () => {
    expect(
      await issuesOf({ 'a/b': named(...Array.from({ length: 17 }, (_, i) => `x${i}`)) }),
    ).toEqual([
      { path: 'models.a/b.aliases', message: expect.stringContaining('at most 16 aliases') },
    ])
  })
})
