/** Vendors and models that are set up at run time: stored, sealed, served, checked, left out, exported. */
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import {
  configuration,
  kept,
  managing,
  model,
  PLANTED,
  provider,
  TOKEN,
  vendor,
} from './_managed.ts'
import { runs } from '../_runs.ts'

const CHAT = { model: 'acme/one', messages: [{ role: 'user', content: 'hi' }] }

describe('a vendor and its models', () => {
  it('serve from an empty folder, without a file and without a restart, and after one', async () => {
    const upstream = await vendor()
    const gateway = await kept()
    expect((await gateway.chat(CHAT)).status).toBe(404)
    const added = await gateway.change(provider(upstream.url), model(), model('acme/two'))
    expect(added).toMatchObject({
      status: 200,
      data: {
        revision: 1,
        applied: true,
        models: { added: ['acme/one', 'acme/two'], removed: [], changed: [] },
        warnings: [],
      },
    })
    expect(added.data.entries[0].value.options.apiKey).toEqual({ set: true })
    expect((await gateway.chat(CHAT)).json.choices[0].message.content).toBe('hello')
    expect((await readdir(gateway.directory)).toSorted()).toEqual(['data', 'gateway.config.json'])
    const { key, directory } = gateway
    await gateway.close()
    const again = await kept({ directory })
    const answer = await again.chat(CHAT, { key: key.secret })
    expect(answer.json.choices[0].message.content).toBe('hello')
  })

  it('are changed and removed, each change a revision with entries of the audit log', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    const pricing = { prompt: '0.000005', completion: '0.000002' }
    const dearer = await gateway.change(model('acme/one', { pricing }))
    expect(dearer.data).toMatchObject({
      revision: 2,
      models: { added: [], removed: [], changed: ['acme/one'] },
    })
    expect(dearer.data.prices).toHaveLength(1)
    const used = await gateway.change({ section: 'providers', name: 'acme', value: null })
    expect(used).toMatchObject({ status: 400, error: { code: 'invalid_config' } })
    expect(used.issues).toEqual([
      {
        path: 'providers.acme',
        message: 'is used by acme/one: remove or move them in the same change',
      },
    ])
    const gone = [
      { section: 'providers', name: 'acme', value: null },
      { section: 'models', name: 'acme/one', value: null },
    ]
    expect((await gateway.change(...gone)).data.models.removed).toEqual(['acme/one'])
    expect((await gateway.chat(CHAT)).status).toBe(404)
    const { data } = await gateway.admin('GET', '/managed/history')
    expect(data.map(({ revision }: any) => revision)).toEqual([3, 2, 1])
    const { data: audit } = await gateway.admin('GET', '/audit')
    expect(audit.map(({ action, object }: any) => `${action} ${object}`).toSorted()).toEqual([
      'model.create model:acme/one',
      'model.remove model:acme/one',
      'model.update model:acme/one',
      'provider.create provider:acme',
      'provider.remove provider:acme',
    ])
    const back = await gateway.admin('POST', '/managed/revert', { to: 1 })
    expect(back.data).toMatchObject({ revision: 4, models: { added: ['acme/one'] } })
    expect((await gateway.chat(CHAT)).status).toBe(200)
  })

  it('have one change taken back alone, unless its entries were changed since', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    const undo = (revision: number) => gateway.admin('POST', '/managed/undo', { revision })
    const entries = async () =>
      Object.fromEntries(
        (await gateway.admin('GET', '/managed')).data.entries.map((one: any) => [
          one.name,
          one.value.aliases ?? [],
        ]),
      )
    await gateway.change(provider(upstream.url), model())
    await gateway.change(model('acme/one', { aliases: ['fast'] }))
    await gateway.change(model('acme/two'))
    const undone = await undo(2)
    expect(undone.data).toMatchObject({ revision: 4, models: { changed: ['acme/one'] } })
    expect(await entries()).toEqual({ 'acme/one': [], 'acme/two': [], acme: [] })
    const refused = await undo(1)
    expect(refused).toMatchObject({ status: 412, error: { code: 'revision_changed' } })
    expect(refused.error.message).toMatch(
      /^It cannot be taken back: since then the model acme\/one was changed by file:admin\.$/,
    )
    expect(refused.data.map(({ name }: any) => name)).toEqual(['acme/one'])
    expect((await undo(3)).data).toMatchObject({ revision: 5, models: { removed: ['acme/two'] } })
    expect((await undo(3)).error.message).toMatch(/the model acme\/two was removed\.$/)
    expect(await entries()).toEqual({ 'acme/one': [], acme: [] })
    expect((await undo(99)).status).toBe(404)
    expect((await gateway.chat(CHAT)).status).toBe(200)
  })

  it('have their first change taken back', async () => {
    const gateway = await managing()
    await gateway.change(provider('http://127.0.0.1:9'), model())
    expect((await gateway.admin('POST', '/managed/undo', { revision: 1 })).status).toBe(200)
    expect((await gateway.admin('GET', '/managed')).data.entries).toEqual([])
  })

  it('are changed beside models whose vendor has a price in a list', async () => {
    const value = { use: 'openai', options: { apiKey: 'sk-another-secret-1' } }
    const gateway = await managing()
    const listed = { section: 'models', name: 'openai/*', value: {} }
    await gateway.change({ section: 'providers', name: 'openai', value }, listed)
    const again = await gateway.change(provider('http://127.0.0.1:9'), model())
    expect(again.data.models).toEqual({ added: ['acme/one'], removed: [], changed: [] })
  })

  it('are refused with every issue, and a dry run changes nothing', async () => {
    const gateway = await managing()
    const wrong = await gateway.change(
      { section: 'providers', name: 'acme', value: { use: './own.ts', egress: {} } },
      model('lost/one', { deployments: [{ provider: 'nowhere', model: 'x' }] }),
    )
    expect(wrong.status).toBe(400)
    expect(wrong.issues.map(({ path }: any) => path)).toEqual([
      'providers.acme.egress',
      'providers.acme.use',
    ])
    const body = { changes: [provider('http://127.0.0.1:9'), model()], dry_run: true }
    const dry = await gateway.admin('POST', '/managed', body)
    expect(dry.data).toMatchObject({ applied: false, revision: 0, models: { added: ['acme/one'] } })
    expect((await gateway.admin('GET', '/managed')).data).toMatchObject({
      revision: 0,
      entries: [],
    })
    const unknown = await gateway.change(
      model('lost/one', { deployments: [{ provider: 'no', model: 'x' }] }),
    )
    expect(unknown.issues[0]).toMatchObject({ path: 'models.lost/one.deployments.0.provider' })
    const unpriced = await gateway.change(provider('http://127.0.0.1:9'), {
      section: 'models',
      name: 'acme/one',
      value: {},
    })
    expect(unpriced.issues).toEqual([
      { path: 'models.acme/one.pricing', message: 'is needed: no price list has this model' },
    ])
  })

  it('are changed only at the revision that the client knows', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    const stale = await gateway.change({ ...model(), revision: 7 })
    expect(stale).toMatchObject({ status: 412, data: [{ name: 'acme/one', revision: 1 }] })
    const body = { changes: [model()] }
    const late = await gateway.admin('POST', '/managed', body, { 'if-match': '"9"' })
    expect(late.status).toBe(412)
    const known = await gateway.admin('POST', '/managed', body, { 'if-match': '"1"' })
    expect(known.data.revision).toBe(2)
  })
})

describe('a secret', () => {
  it('is in no byte of answers, log, export and audit log, and in the folder sealed alone', async () => {
    const upstream = await vendor()
    const gateway = await kept()
    const answers = [
      await gateway.change(provider(upstream.url), model()),
      await gateway.change({
        ...provider(upstream.url, {}),
        value: {
          use: 'openai-compatible',
          options: { baseURL: `${upstream.url}/v1`, apiKey: { set: true } },
        },
      }),
      await gateway.admin('GET', '/managed'),
      await gateway.admin('GET', '/managed/export'),
      await gateway.admin('GET', '/managed/history'),
      await gateway.admin('GET', '/audit'),
      await gateway.admin('GET', '/config'),
      await gateway.admin('GET', '/secret'),
      await gateway.admin('GET', '/gateways'),
    ]
    expect((await gateway.chat(CHAT)).status).toBe(200)
    const { data } = await gateway.admin('GET', '/secret')
    expect(data).toMatchObject({ source: 'file', sealed: 1, others: 0 })
    const said = JSON.stringify(answers) + gateway.logged.join('\n')
    expect(said).not.toContain(PLANTED)
    expect(said).toContain('${ACME_API_KEY}')
    const { directory } = gateway
    await gateway.close()
    const files = await readdir(directory, { recursive: true, withFileTypes: true })
    for (const file of files.filter((one) => one.isFile())) {
      const bytes = await readFile(join(file.parentPath, file.name))
      expect(bytes.includes(PLANTED), file.name).toBe(false)
    }
    expect((await stat(join(directory, 'data', 'secret'))).mode & 0o777).toBe(0o600)
  })

  it('belongs to its address: another one needs the key again, and the other server never gets it', async () => {
    const [upstream, thief] = [await vendor(), await vendor('another key')]
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    for (const options of [{}, { apiKey: { set: true } }]) {
      expect(await gateway.change(provider(thief.url, options))).toMatchObject({
        status: 400,
        error: {
          code: 'secret_required',
          param: 'providers.acme.options.apiKey',
          message: 'The address has changed, so the key has to be given again.',
        },
      })
    }
    const draft = { name: 'acme', options: { baseURL: `${thief.url}/v1` } }
    await gateway.admin('POST', '/providers/test', draft)
    await gateway.chat(CHAT)
    for (const { headers } of thief.requests) expect(JSON.stringify(headers)).not.toContain(PLANTED)
    expect((await gateway.change(provider(thief.url, { apiKey: 'another key' }))).status).toBe(200)
  })

  it('is sealed anew by a rotation, with its history', async () => {
    const upstream = await vendor()
    const gateway = await kept()
    await gateway.change(provider(upstream.url), model())
    await gateway.change(model('acme/two'))
    const before = (await gateway.admin('GET', '/secret')).data
    const { data } = await gateway.admin('POST', '/secret/rotate')
    expect(data).toMatchObject({ source: 'file', sealed: 1, others: 0 })
    expect(data.kid).not.toBe(before.kid)
    expect((await gateway.chat(CHAT)).status).toBe(200)
    expect((await gateway.admin('POST', '/managed/revert', { to: 1 })).status).toBe(200)
    expect((await gateway.chat(CHAT)).status).toBe(200)
  })

  it('of the environment is rotated by a restart with both', async () => {
    const upstream = await vendor()
    const one = { SLUICEGATE_SECRET: 'a'.repeat(40) }
    const gateway = await kept({ env: one })
    const { directory, key } = gateway
    await gateway.change(provider(upstream.url), model())
    await gateway.close()
    const other = { SLUICEGATE_SECRET: 'b'.repeat(40) }
    const lost = await kept({ directory, env: other })
    const { data } = await lost.admin('GET', '/managed')
    expect(data.entries[0].left_out).toMatch(
      /^The key of provider "acme" was sealed with another secret \([0-9a-f]{8}\): set SLUICEGATE_SECRET_PREVIOUS/,
    )
    expect((await lost.chat(CHAT, { key: key.secret })).status).toBe(404)
    await lost.close()
    const env = { ...other, SLUICEGATE_SECRET_PREVIOUS: one.SLUICEGATE_SECRET }
    const both = await kept({ directory, env })
    expect((await both.chat(CHAT, { key: key.secret })).status).toBe(200)
    expect((await both.admin('GET', '/secret')).data).toMatchObject({ sealed: 1, others: 0 })
    await both.close()
    const later = await kept({ directory, env: other })
    expect((await later.chat(CHAT, { key: key.secret })).status).toBe(200)
  })

  it('that is too short is refused at the start', async () => {
    const load = managing({ env: { SLUICEGATE_SECRET: 'short' } })
    await expect(load).rejects.toThrow('SLUICEGATE_SECRET  expected at least 32 characters')
  })
})

describe('an entry', () => {
  it.each([
    [{ baseURL: 'http://169.254.169.254/v1' }, 'baseURL'],
    [{ baseURL: 'http://0xa9fea9fe/v1' }, 'baseURL'],
    [{ baseURL: 'http://[::ffff:169.254.169.254]/v1' }, 'baseURL'],
    [{ baseURL: 'http://user:pass@acme.com/v1' }, 'baseURL'],
    [{ baseURL: 'https://acme.com/v1?key=x' }, 'baseURL'],
    [{ baseURL: 'file:///etc/passwd' }, 'baseURL'],
    [{ headers: { authorization: 'x' } }, 'headers'],
    [{ vertex: { project: 'p', location: 'l', credentials: '/etc/passwd' } }, 'vertex'],
    [{ quirks: 'nonsense' }, 'quirks'],
  ])('with the options %j is refused at %s', async (options, member) => {
    const gateway = await managing()
    const refused = await gateway.change(provider('http://127.0.0.1:9', options))
    expect(refused.status).toBe(400)
    expect(refused.issues[0].path).toBe(`providers.acme.options.${member}`)
  })

  it('does not read the environment', async () => {
    const upstream = await vendor('${SLUICEGATE_SECRET}')
    const env = { SLUICEGATE_SECRET: 's'.repeat(32), GROQ_API_KEY: 'key-of-the-environment' }
    const gateway = await managing({ env })
    await gateway.change(provider(upstream.url, { apiKey: '${SLUICEGATE_SECRET}' }), model())
    expect((await gateway.chat(CHAT)).status).toBe(200)
    const keyless = { section: 'providers', name: 'groq', value: { use: 'groq' } }
    expect((await gateway.change(keyless)).issues).toEqual([
      { path: 'providers.groq.options.apiKey', message: 'is needed' },
    ])
  })

  it('of the file wins, and the views name the file', async () => {
    const upstream = await vendor('key of the file')
    const providers = {
      acme: {
        use: 'openai-compatible',
        options: { baseURL: `${upstream.url}/v1`, apiKey: 'key of the file' },
      },
    }
    const config = configuration({ providers })
    const files = { 'gateway.config.json': JSON.stringify(config) }
    const gateway = await managing({ files })
    const changed = await gateway.change(provider('http://127.0.0.1:9'), model())
    expect(changed.data.entries[0]).toMatchObject({
      shadowed_by: 'gateway.config.json',
      warnings: [{ code: 'managed.shadowed', object: 'provider:acme' }],
    })
    expect((await gateway.chat(CHAT)).status).toBe(200)
    const { data } = await gateway.admin('GET', '/config')
    const origin = (path: string) => data.find((one: any) => one.path === path).origin
    expect(origin('providers.acme.use').from).toBe('configuration')
    expect(origin('models.acme/one.pricing.prompt')).toEqual({ from: 'managed', revision: 1 })
  })

  it('that is broken in the store does not stop a start, and is told', async () => {
    const upstream = await vendor()
    const gateway = await kept()
    const { directory, key } = gateway
    await gateway.change(
      provider(upstream.url),
      model(),
      provider(upstream.url, {}, 'bare'),
      model('bare/one'),
    )
    const { records } = gateway.gateway.runtime
    const head: any = await records.get('managed:head')
    const stored: any = await records.get(`managed:doc:${head.doc}`)
    stored.sections.providers.acme.value.options.baseURL = 7
    stored.sections.engines.lost = {
      value: { use: 'nothing' },
      revision: 1,
      changed: { at: 1, by: 'x' },
    }
    stored.sections.sinks.lost = {
      value: { use: 'webhook', options: {} },
      revision: 1,
      changed: { at: 1, by: 'x' },
    }
    await records.put(`managed:doc:${head.doc}`, stored)
    await gateway.close()
    const again = await kept({ directory })
    const { data } = await again.admin('GET', '/managed')
    const out = data.entries.filter((one: any) => one.left_out !== null)
    expect(out.map(({ section, name }: any) => `${section}/${name}`)).toEqual([
      'providers/acme',
      'models/acme/one',
      'engines/lost',
      'sinks/lost',
    ])
    expect(again.logged.filter((line) => line.includes('is left out'))).toHaveLength(4)
    const bare = await again.chat({ ...CHAT, model: 'bare/one' }, { key: key.secret })
    expect(bare.status).not.toBe(404)
    await expect
      .poll(async () => (await again.admin('GET', '/alerts')).data.map((one: any) => one.object))
      .toEqual(
        expect.arrayContaining(['providers/acme', 'models/acme/one', 'engines/lost', 'sinks/lost']),
      )
    // One that is broken does not block changes of others.
    expect((await again.change(model('bare/two'))).status).toBe(200)
    expect((await again.change(provider(upstream.url))).status).toBe(200)
    expect((await again.chat(CHAT, { key: key.secret })).status).toBe(200)
  })
})

describe('an export', () => {
  it('is a file with the same models', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    const added = await gateway.change(
      provider(upstream.url),
      model('acme/two', { description: 'costs ${NOTHING}', aliases: ['second'] }),
      model(),
      {
        section: 'providers',
        name: 'openai',
        value: { use: 'openai', options: { apiKey: 'sk-another-secret-1' } },
      },
      { section: 'models', name: 'openai/*', value: {} },
      {
        section: 'engines',
        name: 'web',
        value: { use: 'searxng', options: { baseURL: 'http://127.0.0.1:9' }, price: '0.001' },
      },
      {
        section: 'sinks',
        name: 'hook',
        value: {
          use: 'webhook',
          options: { url: 'http://127.0.0.1:9/x', secret: 'a long enough secret' },
        },
      },
    )
    expect(added.issues).toBeUndefined()
    const models = (await gateway.ask('GET', '/v1/models')).text
    const { text } = await gateway.admin('GET', '/managed/export')
    const variables = [...text.matchAll(/^# set (\w+)$/gm)].map(([, name]) => name!)
    expect(variables).toEqual(['ACME_API_KEY', 'OPENAI_API_KEY', 'HOOK_SECRET'])
    const env = {
      ACME_API_KEY: PLANTED,
      OPENAI_API_KEY: 'sk-another-secret-1',
      HOOK_SECRET: 'a long enough secret',
    }
    const base = JSON.stringify({ admin: { token: 'token-of-the-first-admin' } })
    const cwd = await folder({ 'gateway.config.yaml': `${text}\nadmin: ${base.slice(9, -1)}\n` })
    expect((await loadConfig({ cwd, env })).config.sinks).toHaveLength(1)
    const other = await kept({ directory: cwd, env })
    const { accounts } = other.gateway.runtime
    await accounts.createAccount({ id: 'acme', name: 'acme' })
    const key = await other.newKey()
    const same = await other.ask('GET', '/v1/models', { key: key.secret })
    expect(JSON.parse(models).data.length).toBeGreaterThan(10)
    expect(same.text).toBe(models)
  })

  it('gives the same entries, whatever their texts are', async () => {
    const gateway = await managing()
    const words = fc.oneof(
      fc.constantFrom(
        '${NOTHING}',
        '$${X}',
        'a: b # c',
        '- x',
        'yes',
        '0123',
        ' two\nlines ',
        '"\'',
        'Größe 👋',
        '~',
      ),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
    )
    const secrets = fc.stringMatching(/^[!-~]{16,40}$/)
    const named = <T>(names: readonly string[], value: fc.Arbitrary<T>) =>
      fc.dictionary(fc.constantFrom(...names), value, { size: 'max', maxKeys: names.length })
    const entries = fc.record({
      providers: named(['acme', 'big-co', '2nd'], secrets),
      models: named(
        Array.from({ length: 20 }, (_, i) => `acme/m${i}.x`),
        fc.record({ description: words, name: words }, { requiredKeys: [] }),
      ),
      engines: named(['web', 'no'], fc.constantFrom('0.1', '0.001')),
      sinks: named(['hook', 'true'], secrets),
    })
    const url = 'http://127.0.0.1:9'
    let present: (readonly [section: string, name: string])[] = []
    await fc.assert(
      fc.asyncProperty(entries, async ({ providers, models, engines, sinks }) => {
        const deployments = [{ provider: 'acme', model: 'm' }]
        // Models need their provider.
        const keys = { acme: 'the-key-of-the-provider', ...providers }
        const values: [section: string, name: string, value: object][] = [
          ...Object.entries(keys).map(([name, apiKey]) => {
            const value = { use: 'openai-compatible', options: { baseURL: `${url}/v1`, apiKey } }
            return ['providers', name, value] as [string, string, object]
          }),
          ...Object.entries(models).map(([name, one]) => {
            const pricing = { prompt: '0.000001', completion: '0.000002' }
            return ['models', name, { pricing, deployments, ...one }] as [string, string, object]
          }),
          ...Object.entries(engines).map(([name, price]) => {
            return ['engines', name, { use: 'searxng', options: { baseURL: url }, price }] as [
              string,
              string,
              object,
            ]
          }),
          ...Object.entries(sinks).map(([name, secret]) => {
            return ['sinks', name, { use: 'webhook', options: { url, secret } }] as [
              string,
              string,
              object,
            ]
          }),
        ]
        const gone = present.filter(
          ([section, name]) => !values.some((one) => one[0] === section && one[1] === name),
        )
        const changes = [
          ...gone.map(([section, name]) => [section, name, null] as const),
          ...values,
        ]
        const changed = await gateway.change(
          ...changes.map(([section, name, value]) => ({ section, name, value })),
        )
        expect(changed.status, changed.text).toBe(200)
        present = values.map(([section, name]) => [section, name])
        const { text } = await gateway.admin('GET', '/managed/export')
        const variables = [...text.matchAll(/^# set (\w+)$/gm)].map(([, name]) => name!)
        const planted = [keys, sinks].flatMap((all) =>
          Object.entries(all)
            .toSorted(([one], [next]) => (one < next ? -1 : 1))
            .map(([, secret]) => secret),
        )
        expect(variables).toHaveLength(planted.length)
        const env = Object.fromEntries(variables.map((name, i) => [name, planted[i]!]))
        const admin = JSON.stringify({ token: TOKEN })
        const cwd = await folder({ 'gateway.config.yaml': `${text}\nadmin: ${admin}\n` })
        const loaded = await loadConfig({ cwd, env })
        const { config } = gateway.gateway.runtime
        for (const part of ['providers', 'models', 'search'] as const) {
          expect(loaded.config[part]).toEqual(config[part])
        }
        expect(Object.keys(loaded.config.models)).toEqual(Object.keys(config.models))
        const byName = ({ sinks: all }: typeof config) =>
          all.toSorted((one, next) => (one.name! < next.name! ? -1 : 1))
        expect(byName(loaded.config)).toEqual(byName(config))
      }),
      { numRuns: runs(2), endOnFailure: true },
    )
  })
})
