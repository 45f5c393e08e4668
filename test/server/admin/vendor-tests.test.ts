/** Tests of vendors, engines, sinks and models: by draft and by name, with right and wrong keys, against a scripted other side. */
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { builtInPlugins } from '../../../src/gateway/plugin-code.ts'
import { manageablePlugins } from '../../../src/gateway/manageable.ts'
import { folder } from '../../_folder.ts'
import { freePort } from '../../_ports.ts'
import { eventually } from '../../_wait.ts'
import { json, startUpstream } from '../../upstream.ts'
import {
  configuration,
  managing,
  model,
  PLANTED,
  provider,
  vendor,
} from '../../gateway/_managed.ts'

const test = (options: object, use = 'openai-compatible') => ({ use, options })

describe('a vendor', () => {
  it('is tested as a draft, by name, and as a draft over an entry', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    const baseURL = `${upstream.url}/v1`
    const ask = (body: object) => gateway.admin('POST', '/providers/test', body)
    const good = await ask(test({ baseURL, apiKey: PLANTED }))
    expect(good.data).toMatchObject({ ok: true, models: ['one', 'two'], cause: null })
    const wrong = await ask(test({ baseURL, apiKey: 'wrong-key-of-acme' }))
    expect(wrong.data).toMatchObject({ ok: false, class: 'upstream_auth' })
    expect(wrong.text).not.toContain('wrong-key-of-acme')
    await gateway.change(provider(upstream.url), model())
    expect((await ask({ name: 'acme' })).data.ok).toBe(true)
    expect((await ask({ name: 'acme', options: {} })).data.ok).toBe(true)
    expect((await ask({ name: 'acme', options: { apiKey: 'wrong' } })).data.ok).toBe(false)
    expect((await ask({ name: 'nobody' })).status).toBe(404)
    const local = await ask(test({ baseURL: 'http://169.254.169.254/v1', apiKey: PLANTED }))
    expect(local).toMatchObject({
      status: 400,
      error: { param: 'providers.openai-compatible.options.baseURL' },
    })
  })

  it('is listed with its address, its key and who has set it up', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    const { data, text } = await gateway.admin('GET', '/providers')
    expect(data.find(({ name }: { name: string }) => name === 'acme')).toMatchObject({
      use: 'openai-compatible',
      address: `${upstream.url}/v1`,
      from: 'managed',
      models: 1,
      key: 'set',
      last_success: null,
      left_out: null,
      changed: { by: 'file:admin' },
    })
    expect(text).not.toContain(PLANTED)
  })

  it('that does not answer is told with the cause', async () => {
    const port = await freePort()
    const html = await startUpstream({
      pieces: ['<html>'],
      headers: { 'content-type': 'text/html' },
    })
    onTestFinished(() => html.close())
    const gateway = await managing()
    const ask = async (url: string) =>
      (await gateway.admin('POST', '/providers/test', test({ baseURL: url, apiKey: PLANTED }))).data
    expect(await ask(`http://127.0.0.1:${port}/v1`)).toMatchObject({
      ok: false,
      cause: `ECONNREFUSED 127.0.0.1:${port}: nothing listens there`,
    })
    expect(await ask(`${html.url}/v1`)).toMatchObject({ ok: false, cause: null })
  })

  it('offers models with their prices, and says which are served', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    const { data, listed } = await gateway.admin('POST', '/providers/offers', { name: 'acme' })
    expect(listed).toBe(true)
    expect(data).toEqual([
      expect.objectContaining({
        id: 'acme/one',
        model: 'one',
        pricing: null,
        served_as: ['acme/one'],
      }),
      expect.objectContaining({ id: 'acme/two', model: 'two', served_as: [] }),
    ])
  })
})

describe('a model', () => {
  it('is among the running calls while it is tested, and the overview is shown', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    let release = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    upstream.answer(async () => {
      await held
      return json({ error: { message: 'no' } }, 500)
    })
    const tested = gateway.admin('POST', `/models/${encodeURIComponent('acme/one')}/test`, {})
    const running = async () => (await gateway.admin('GET', '/status')).data?.running
    await eventually(async () => expect(await running()).toBe(1))
    expect((await gateway.admin('GET', '/overview')).status).toBe(200)
    const { data } = await gateway.admin('GET', '/requests?running=true')
    expect(data).toMatchObject([{ model: 'acme/one', key_id: null, running: true }])
    release()
    expect((await tested).data.ok).toBe(false)
  })

  it('is tested by one smallest call, which no account pays', async () => {
    const upstream = await vendor()
    const gateway = await managing()
    await gateway.change(provider(upstream.url), model())
    const before = await gateway.balance()
    const { data } = await gateway.admin(
      'POST',
      `/models/${encodeURIComponent('acme/one')}/test`,
      {},
    )
    expect(data).toMatchObject({ ok: true, deployment: 'acme/one', cost_usd: '0.000005' })
    expect(upstream.requests.at(-1)!.body.toString()).toMatch(/_tokens":64/)
    expect(await gateway.balance()).toBe(before)
    upstream.answer(json({ error: { message: 'no' } }, 500))
    const failed = await gateway.admin('POST', `/models/${encodeURIComponent('acme/one')}/test`, {})
    expect(failed.data).toMatchObject({ ok: false })
    await eventually(async () => {
      const { data: rows } = await gateway.admin('GET', '/requests?origin=test')
      expect(rows).toMatchObject([
        { origin: 'test', account_id: null, model: 'acme/one', status: 502, outcome: 'failed' },
        {
          origin: 'test',
          account_id: null,
          deployment: 'acme/one',
          status: 200,
          cost_usd: 0.000005,
        },
      ])
    })
    const metrics = gateway.gateway.runtime.metrics.text()
    expect(metrics).toContain('sluicegate_operator_calls_total{result="ok"} 1')
  })
})

describe('engines and sinks', () => {
  it('of the configuration without a name are found by the name of their plugin and by what they use', async () => {
    const text = `export default { kind: 'sink', api: 1, name: 'pager', options: { '~standard': { version: 1, vendor: 'own', validate: (value) => ({ value: value ?? {} }) } }, setup: () => ({ takes: ['alert'], send: async () => {} }) }`
    const lines = {
      use: 'file',
      name: 'lines',
      options: { path: join(await folder({}), 'lines.jsonl') },
    }
    const config = JSON.stringify(configuration({ sinks: [{ use: './paging.js' }, lines] }))
    const gateway = await managing({
      files: { 'paging.js': text, 'gateway.config.json': config },
    })
    for (const name of ['pager', './paging.js', 'lines']) {
      const { data } = await gateway.admin('POST', '/sinks/test', { name })
      expect([name, data]).toEqual([name, expect.objectContaining({ ok: true })])
    }
    expect((await gateway.admin('POST', '/sinks/test', { name: 'file' })).status).toBe(404)
  })

  it('are tested by one search and by one event', async () => {
    const upstream = await startUpstream()
    onTestFinished(() => upstream.close())
    upstream.answer(({ path }) =>
      path.startsWith('/search')
        ? json({ results: [{ url: 'https://a.example', title: 'A', content: 'sun' }] })
        : json({}),
    )
    const gateway = await managing()
    const engine = test({ baseURL: upstream.url }, 'searxng')
    expect((await gateway.admin('POST', '/engines/test', engine)).data).toMatchObject({ ok: true })
    const sink = test({ url: `${upstream.url}/hook` }, 'webhook')
    expect((await gateway.admin('POST', '/sinks/test', sink)).data).toMatchObject({ ok: true })
    expect(upstream.requests.at(-1)!.json).toMatchObject({ event: 'alert', data: { kind: 'test' } })
    upstream.answer(json({}, 500))
    expect((await gateway.admin('POST', '/sinks/test', sink)).data).toMatchObject({ ok: false })
    const { data } = await gateway.admin('GET', '/audit')
    expect(data.map(({ object }: any) => object)).toEqual([
      'sink:webhook',
      'sink:webhook',
      'engine:searxng',
    ])
  })
})

describe('what can be set up', () => {
  it('is every plugin whose options are known, and every vendor', async () => {
    const plugins = await manageablePlugins()
    const names = (kind: string) =>
      plugins.filter((one) => one.kind === kind).map(({ name }) => name)
    expect(names('search')).toEqual(['exa', 'parallel', 'perplexity', 'searxng'])
    expect(names('sink')).toEqual(['langfuse', 'otlp', 'slack', 'webhook'])
    expect(names('provider')).toEqual(
      expect.arrayContaining([
        'openai',
        'anthropic',
        'azure',
        'bedrock',
        'mock',
        'groq',
        'ollama',
        'vllm',
      ]),
    )
    const built = await builtInPlugins()
    // A guard is set up by policies, and payments by the file alone.
    const managed = built.filter(([kind]) => kind !== 'guard' && kind !== 'payments')
    const without = managed
      .filter(([, name]) => !plugins.some((one) => one.name === name))
      .map(([, name]) => name)
    expect(without.toSorted()).toEqual(['espeak', 'file', 'tesseract'])
    const groq = plugins.find(({ name }) => name === 'groq')!
    expect(groq.fields.map(({ name }) => name)).toEqual(['apiKey'])
  })
})
