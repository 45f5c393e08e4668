/** AF2: what `check`, loads and managed changes refuse in lists of fallbacks, and where. */
import { expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { folder } from '../_folder.ts'

const priced = { pricing: { prompt: '0.000001', completion: '0.000001' } }
const model = (provider: string, more: object = {}) => ({
  ...priced,
  deployments: [{ provider, model: 'm' }],
  ...more,
})

/** The issues of a configuration, as `path: message`. */
async function issuesOf(fallbacks: unknown, routing: object = {}): Promise<string[]> {
  const config = {
    state: { driver: 'memory' },
    prices: { packaged: false },
    providers: { one: { use: 'mock' }, two: { use: 'mock' } },
    routing,
    models: {
      'one/a': model('one', { fallbacks, aliases: ['fast'] }),
      'one/b': model('one', { fallbacks: ['one/a'] }),
      'two/b': model('two'),
      'two/c': model('two'),
      'two/pic': { pricing: { image: '0.01' }, deployments: [{ provider: 'two', model: 'pic' }] },
      'two/off': model('two', { enabled: false }),
      'one/*': { ...priced, fallbacks: ['two/*'] },
    },
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  try {
    await loadConfig({ cwd, env: {} })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.issues.map(({ path, message }) => `${path}: ${message}`)
  }
}

it.each<[unknown, string | undefined]>([
  [undefined, undefined],
  [[], undefined],
  [['two/c'], undefined],
  // Two that name each other.
  [['one/b'], undefined],
  [['c'], undefined],
  [['two/*'], undefined],
  [[{ model: 'two/c', when: ['down', 'context', 'filter'] }], undefined],
  [
    [
      { model: 'two/c', when: ['down'] },
      { model: 'two/c', when: ['context'] },
    ],
    undefined,
  ],
  [
    ['two/c', 'two/c'],
    '.1: expected each model once for a condition, but two/c stands twice for "down"',
  ],
  [['two/c', { model: 'c', when: ['context', 'down'] }], '.1: expected each model once'],
  [['one/a'], '.0: expected another model, but "one/a" is one/a itself'],
  [['fast'], '.0: expected another model, but "fast" is one/a itself'],
  [['two/nothing'], '.0: expected the name of a model that is served, found "two/nothing"'],
  [['two/off'], '.0: expected the name of a model that is served'],
  [['two/pic'], '.0: expected a model of the kind chat, but two/pic is of the kind image'],
  [['b'], '.0: expected one model, but "b" may mean one/b or two/b'],
  [['three/*'], '.0: expected models below "three/*", found none'],
  ['two/c', ': expected a list of at most 8 names'],
  [[''], '.0: expected the name of a model'],
  [[{ model: 'two/c', when: [] }], ''],
  [[{ model: 'two/c', when: ['later'] }], ''],
  [[{ model: 'two/c' }], ''],
  [Array.from({ length: 9 }, (_, i) => `two/${i}`), ': expected a list of at most 8 names'],
])('%j: %s', async (fallbacks, issue) => {
  const issues = await issuesOf(fallbacks)
  if (issue === undefined) expect(issues).toEqual([])
  else expect(issues.join('\n')).toContain(`models.one/a.fallbacks${issue}`)
})

it('the list of all models may name any model, and refuses what none has', async () => {
  expect(await issuesOf(undefined, { fallbacks: ['two/pic', 'one/a', 'two/c'] })).toEqual([])
  expect((await issuesOf(undefined, { fallbacks: ['two/c', 'x/y'] })).join()).toContain(
    'routing.fallbacks.1: expected the name of a model',
  )
})
