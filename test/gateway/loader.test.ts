import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import * as v from 'valibot'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { buildCatalog } from '../../src/models/catalog.ts'
import { modelsSchema } from '../../src/models/entry.ts'
import { listOf } from '../../src/models/listing.ts'
import type { Config } from '../../src/config/config.ts'
import { ConfigError, type ConfigIssue } from '../../src/errors/errors.ts'
import {
  checkDeployments,
  loadProvider,
  type LoadedProvider,
  type PluginSource,
} from '../../src/gateway/loader.ts'
import {
  defineProvider,
  type Host,
  type Provider,
  type ProviderPlugin,
  type Schema,
} from '../../src/plugin.ts'
import { folder } from '../_folder.ts'
import { eventually } from '../_wait.ts'

type Settings = Config['providers'][string]

const ANYTHING = "{ '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } }"
/** The text of a plugin's module. */
const plugin = (name: string) =>
  `export default { kind: 'provider', api: 1, name: '${name}', options: ${ANYTHING}, setup: () => ({ name: '${name}' }) }`

describe('a plugin', () => {
  it('may be an object', async () => {
    const chat = vi.fn<NonNullable<Provider['chat']>>()
    const host = { name: 'mine' } as Host
    const setup = vi.fn((_options: { url: string }, _host: Host): Provider => ({ chat }))
    const use = defineProvider({ name: 'own', options: v.object({ url: v.string() }), setup })
    const loaded = await load({ use, options: { url: 'u', other: 1 } }, { createHost: () => host })
    expect(loaded).toEqual({ plugin: use, provider: { chat }, isBuiltIn: false })
    expect(setup).toHaveBeenCalledExactlyOnceWith({ url: 'u' }, host)
  })

  it('may be a file beside the configuration', async () => {
    const directory = await folder({ 'plugins/near.ts': plugin('near'), 'up.mjs': plugin('up') })
    const uses = [
      './plugins/near.ts',
      join(directory, 'plugins/near.ts'),
      pathToFileURL(join(directory, 'plugins/near.ts')).href,
    ]
    for (const use of uses) expect(await nameOf({ use }, directory)).toBe('near')
    expect(await nameOf({ use: '../up.mjs' }, join(directory, 'plugins'))).toBe('up')
  })

  it('may be built in', async () => {
    const { plugin, provider, isBuiltIn } = await load({ use: 'mock' })
    expect(plugin.name).toBe('mock')
    expect(isBuiltIn).toBe(true)
    expect(provider.chat).toBeTypeOf('function')
  })

  it.each([
    [{ name: 'x', type: 'module', exports: './lib.js' }, 'lib.js'],
    [{ name: 'x', exports: { '.': { types: './x.d.ts', import: './dist/x.mjs' } } }, 'dist/x.mjs'],
    [{ name: 'x', type: 'module', exports: { node: { default: './n.js' } } }, 'n.js'],
    [{ name: 'x', type: 'module', main: 'm.js' }, 'm.js'],
    [{ name: 'x', type: 'module' }, 'index.js'],
  ])('may be a package with %j', async (manifest, entry) => {
    const directory = await folder({
      'node_modules/x/package.json': JSON.stringify(manifest),
      [`node_modules/x/${entry}`]: plugin('from-package'),
      'etc/deep/config.yaml': '',
    })
    expect(await nameOf({ use: 'x' }, join(directory, 'etc/deep'))).toBe('from-package')
  })

  it('may be a package that was compiled to CommonJS', async () => {
    const directory = await folder({
      'node_modules/@acme/x/package.json': '{"name": "@acme/x", "main": "x.cjs"}',
      'node_modules/@acme/x/x.cjs': plugin('old').replace(
        'export default',
        'exports.__esModule = true; exports.default =',
      ),
    })
    expect(await nameOf({ use: '@acme/x' }, directory)).toBe('old')
  })

  it('imports the gateway and valibot by name, wherever it lies', async () => {
    const directory = await folder({
      'x.ts': `
        import * as v from 'valibot'
        import { defineProvider, type Provider } from 'sluicegate'
        import { json } from 'sluicegate/testing'
        const chat: Provider['chat'] = async () => ({ choices: [] })
        export default defineProvider({
          name: json('found').pieces[0],
          options: v.strictObject({}),
          setup: () => ({ chat }),
        })`,
    })
    const loader = pathToFileURL(join(import.meta.dirname, '../../src/gateway/loader.ts')).href
    const script = `
      import { loadProvider } from ${JSON.stringify(loader)}
      const from = { directory: ${JSON.stringify(directory)}, createHost: () => ({}) }
      const { plugin } = await loadProvider('mine', { use: './x.ts', options: {} }, from)
      console.log(plugin.name, plugin.api)`
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--input-type=module',
      '-e',
      script,
    ])
    expect(stdout).toBe('"found" 1\n')
  })

  it('is looked for under its own name first, then with the prefix', async () => {
    const files = {
      'node_modules/sluicegate-provider-x/package.json': '{"type": "module"}',
      'node_modules/sluicegate-provider-x/index.js': plugin('prefixed'),
    }
    expect(await nameOf({ use: 'x' }, await folder(files))).toBe('prefixed')
    const both = {
      ...files,
      'node_modules/x/package.json': '{"type": "module"}',
      'node_modules/x/index.js': plugin('plain'),
    }
    expect(await nameOf({ use: 'x' }, await folder(both))).toBe('plain')
  })

  it('may speak any dialect of Standard Schema, also later', async () => {
    const options: Schema<{ upper: string }> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) => ({
          value: { upper: String((value as any).word).toUpperCase() },
        }),
      },
    }
    const setup = vi.fn(async () => ({}))
    await load({
      use: { kind: 'provider', api: 1, name: 'x', options, setup },
      options: { word: 'hi' },
    })
    expect(setup).toHaveBeenCalledWith({ upper: 'HI' }, expect.anything())
  })
})

describe('what is wrong with a plugin', () => {
  it('is told with everything that would have matched', async () => {
    const directory = await folder({})
    const [issue, ...others] = await failure(load({ use: 'moc' }, { directory }))
    expect(others).toEqual([])
    expect(issue!.path).toBe('providers.mine.use')
    expect(issue!.message).toContain('did you mean "mock"?')
    expect(issue!.message).toContain(`no package moc or sluicegate-provider-moc for ${directory}`)
    expect(issue!.message).toContain('"./moc.ts"')
    const [far] = await failure(load({ use: 'wholly-different' }, { directory }))
    expect(far!.message).toMatch(/expected one of .*mock.*openai-compatible/)
  })

  it.each(['./gone.ts', '/nowhere/gone.ts', 'file:///nowhere/gone.ts'])(
    'is that there is no %s',
    async (use) => {
      expect(await failure(load({ use }))).toEqual([
        {
          path: 'providers.mine.use',
          message: expect.stringMatching(/^there is no file \/.*gone\.ts$/),
        },
      ])
    },
  )

  it.each(['../errors', 'a/../../src/errors', '', '%', 'mock/'])('is the name %j', async (use) => {
    const [issue] = await failure(load({ use }, { directory: await folder({}) }))
    expect(issue!.path).toBe('providers.mine.use')
  })

  it.each([
    ['export const a = 1', 'default export made with defineProvider, found nothing'],
    ['export default 5', 'found the number 5'],
    ['export default () => {}', 'found a function'],
    ["export default { kind: 'guard', api: 1 }", 'expected a provider plugin, found kind "guard"'],
    [
      plugin('new').replace('api: 1', 'api: 2'),
      '"new" is written for interface version 2; this gateway knows version 1',
    ],
    [
      "export default { kind: 'provider', api: 1, name: 'x', options: {}, setup() {} }",
      'a Standard Schema',
    ],
    [plugin('x').replace('setup:', 'start:'), '"setup"'],
    ["import 'not-installed'", 'could not be loaded'],
    ["throw new Error('my own trouble')", 'could not be loaded: my own trouble'],
  ])('is %j', async (text, message) => {
    const directory = await folder({ 'x.mjs': text })
    expect(await failure(load({ use: './x.mjs' }, { directory }))).toEqual([
      { path: 'providers.mine.use', message: expect.stringContaining(message) },
    ])
  })

  it('is that it is TypeScript in a package', async () => {
    const directory = await folder({
      'node_modules/x/package.json': '{"type": "module", "exports": "./x.ts"}',
      'node_modules/x/x.ts': plugin('x'),
    })
    // The plugin is loaded in a process of its own, because the test runner transforms TypeScript wherever it is.
    const loader = pathToFileURL(join(import.meta.dirname, '../../src/gateway/loader.ts')).href
    const script = `
      import { loadProvider } from ${JSON.stringify(loader)}
      const from = { directory: ${JSON.stringify(directory)}, createHost: () => ({}) }
      await loadProvider('mine', { use: 'x', options: {} }, from).catch((error) => {
        console.log(JSON.stringify(error.issues))
      })`
    const run = promisify(execFile)
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script])
    expect(JSON.parse(stdout)).toEqual([
      {
        path: 'providers.mine.use',
        message: expect.stringMatching(/x\.ts is TypeScript.* has to ship JavaScript$/),
      },
    ])
  })

  it('is a package whose manifest is broken', async () => {
    const directory = await folder({ 'node_modules/x/package.json': '{"exports": "./lib.js"}' })
    const [issue] = await failure(load({ use: 'x' }, { directory }))
    expect(issue!.message).toMatch(/lib\.js could not be loaded/)
  })
})

describe('options', () => {
  const strict = defineProvider({
    name: 'strict',
    options: v.strictObject({
      baseURL: v.pipe(v.string(), v.url()),
      apiKey: v.pipe(v.string(), v.startsWith('sk-')),
      quirks: v.optional(v.picklist(['groq', 'xai'])),
      retries: v.optional(v.number()),
    }),
    setup: () => ({}),
  })

  it('are told member by member', async () => {
    const options = { baseURL: 'nonsense', apikey: 'x', quirks: 'grok', retries: '3' }
    const issues = await failure(load({ use: strict, options }, { secrets: new Set() }))
    expect(issues).toEqual([
      { path: 'providers.mine.options.baseURL', message: 'expected a valid url, found "nonsense"' },
      { path: 'providers.mine.options.apiKey', message: 'expected a text, found nothing' },
      { path: 'providers.mine.options.quirks', message: 'expected "groq" or "xai", found "grok"' },
      { path: 'providers.mine.options.retries', message: 'expected a number, found "3"' },
      { path: 'providers.mine.options.apikey', message: 'unknown key; did you mean "apiKey"?' },
    ])
  })

  it('never show a secret: one by its name, one by where it comes from, any where that is unknown', async () => {
    const options = { baseURL: 'hidden-host', apiKey: 'hidden-key', quirks: 'grok' }
    const secrets = new Set(['providers.mine.options.baseURL'])
    const known = await failure(load({ use: strict, options }, { secrets }))
    expect(JSON.stringify(known)).not.toContain('hidden')
    expect(JSON.stringify(known)).toContain('grok')
    expect(JSON.stringify(await failure(load({ use: strict, options })))).not.toContain('grok')
  })

  it('never show a secret that a foreign validator or the plugin itself quotes', async () => {
    const use: ProviderPlugin = {
      kind: 'provider',
      api: 1,
      name: 'leaky',
      options: {
        '~standard': {
          version: 1,
          vendor: 'leaky',
          validate: (value: any) =>
            value.strict
              ? {
                  issues: [
                    { message: `bad key ${value.auth.apiKey}`, path: ['auth', { key: 'apiKey' }] },
                  ],
                }
              : { value },
        },
      },
      setup: (options: any) => {
        throw new Error(`cannot log in with ${options.auth.apiKey} at ${options.url}`)
      },
    }
    const options = { auth: { apiKey: 'sk-hidden' }, url: 'plain' }
    const origin = { secrets: new Set<string>() }
    expect(await failure(load({ use, options: { ...options, strict: true } }, origin))).toEqual([
      { path: 'providers.mine.options.auth.apiKey', message: 'bad key [secret]' },
    ])
    expect(await failure(load({ use, options }, origin))).toEqual([
      {
        path: 'providers.mine.use',
        message: 'the plugin "leaky" could not be set up: cannot log in with [secret] at plain',
      },
    ])
  })
})

describe('setting up', () => {
  it('has to end in ten seconds, and a provider that comes later is closed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const started = Promise.withResolvers<void>()
    const ready = Promise.withResolvers<Provider>()
    const use = lazy(() => {
      started.resolve()
      return ready.promise
    })
    const loading = failure(load({ use }))
    await started.promise
    await vi.advanceTimersByTimeAsync(10_000)
    expect(await loading).toEqual([
      { path: 'providers.mine.use', message: expect.stringContaining('more than 10 seconds') },
    ])
    const close = vi.fn()
    ready.resolve({ close })
    await eventually(() => expect(close).toHaveBeenCalledOnce())
  })

  it.each([
    [() => undefined, 'expected a provider, found nothing'],
    [() => Promise.reject(new Error('no route')), 'no route'],
    [
      () => {
        throw new Error('at once')
      },
      'at once',
    ],
  ])('may fail: %s', async (setup, message) => {
    expect(await failure(load({ use: lazy(setup) }))).toEqual([
      { path: 'providers.mine.use', message: expect.stringContaining(message) },
    ])
  })
})

describe('options of deployments', () => {
  const plain = defineProvider({ name: 'plain', options: v.any(), setup: () => ({}) })
  const tagged = defineProvider({
    name: 'tagged',
    options: v.any(),
    deploymentOptions: v.strictObject({ tags: v.optional(v.boolean(), false) }),
    setup: () => ({}),
  })
  const plugins = new Map<string, ProviderPlugin>([
    ['p', plain],
    ['t', tagged],
  ])

  it('are what the plugin makes of them', async () => {
    const catalog = catalogOf(
      { provider: 'p' },
      { provider: 't' },
      { provider: 't', options: { tags: true } },
    )
    const checked = await checkDeployments(catalog, plugins)
    const options = checked.get('a/b')!.deployments.map((deployment) => deployment.options)
    expect(options).toEqual([{}, { tags: false }, { tags: true }])
    expect(listOf(checked.all())).toBe(listOf(catalog.all()))
  })

  it('follow from the options of the instance where the provider says so', async () => {
    const use = defineProvider({
      name: 'narrow',
      options: v.object({ none: v.boolean() }),
      deploymentOptions: v.strictObject({ tags: v.optional(v.boolean(), false) }),
      setup: ({ none }) => (none ? { deploymentOptions: v.strictObject({}) } : {}),
    })
    const catalog = catalogOf({ provider: 'n', options: { tags: true } })
    const checked = async (none: boolean) => {
      const { plugin } = await load({ use, options: { none } })
      return checkDeployments(catalog, new Map([['n', plugin]]), new Set())
    }
    expect((await checked(false)).get('a/b')!.deployments[0]!.options).toEqual({ tags: true })
    const [issue] = await failure(checked(true))
    expect(issue).toMatchObject({ path: 'models.a/b.deployments.0.options.tags' })
  })

  it('are told when they are wrong', async () => {
    const catalog = catalogOf(
      { provider: 'p', options: { tags: true } },
      { provider: 't', options: { tags: 'yes' } },
      { provider: 't', options: { tag: true } },
    )
    expect(await failure(checkDeployments(catalog, plugins, new Set()))).toEqual([
      {
        path: 'models.a/b.deployments.0.options.tags',
        message: 'unknown key; the plugin "plain" takes no options for a deployment',
      },
      {
        path: 'models.a/b.deployments.1.options.tags',
        message: 'expected true or false, found "yes"',
      },
      {
        path: 'models.a/b.deployments.2.options.tag',
        message: 'unknown key; did you mean "tags"?',
      },
    ])
  })
})

function lazy(setup: () => unknown): ProviderPlugin {
  return {
    kind: 'provider',
    api: 1,
    name: 'lazy',
    options: v.any(),
    setup: setup as ProviderPlugin['setup'],
  }
}

function catalogOf(...given: { provider: string; options?: object }[]) {
  const deployments = given.map((deployment, i) => ({ ...deployment, model: `m${i}` }))
  return buildCatalog(v.parse(modelsSchema, { 'a/b': { pricing: { prompt: '1' }, deployments } }))
}

function load(
  settings: Partial<Settings>,
  origin: Partial<PluginSource> = {},
): Promise<LoadedProvider> {
  const { use = 'mock', options = {} } = settings
  const limits = { timeout: 1, firstPartTimeout: 1, idleTimeout: 1, connections: 1 }
  const from: PluginSource = {
    directory: import.meta.dirname,
    createHost: (name) => ({ name }) as Host,
    ...origin,
  }
  return loadProvider('mine', { use, options, ...limits }, from)
}

/** The name of a plugin that is not built in. */
async function nameOf(settings: Partial<Settings>, directory: string): Promise<string> {
  const { plugin, isBuiltIn } = await load(settings, { directory })
  expect(isBuiltIn).toBe(false)
  return plugin.name
}

async function failure(loading: Promise<unknown>): Promise<readonly ConfigIssue[]> {
  const error = await loading.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ConfigError)
  return (error as ConfigError).issues
}
