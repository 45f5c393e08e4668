/** A gateway below a path: behind a real nginx that keeps the path, and behind one that strips it. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { tidyUrl } from '../../src/server/front.ts'
import { hasNginx, NO_NGINX, startNginx } from '../_nginx.ts'
import { freePort } from '../_ports.ts'
import { createTestGateway, hello, MOCK_CONFIG, send } from '../_setup.ts'

const TOKEN = 'token-of-the-first-admin'
const BASE = '/ai/llm'
const PAGE = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }

it('a target loses the path once, at the border of a segment', () => {
  const tidy = (url: string) => tidyUrl(url, BASE)
  expect(tidy('/ai/llm/v1/models?a=1')).toBe('/v1/models?a=1')
  expect(tidy('http://host/ai/llm/v1/models')).toBe('/v1/models')
  expect([tidy('/ai/llm'), tidy('/ai/llm/'), tidy('/ai/llm?x')]).toEqual(['/', '/', '/?x'])
  expect(tidy('/v1/models')).toBe('/v1/models')
  expect(tidy('/ai/llmx/v1')).toBe('/ai/llmx/v1')
  expect(tidy('/ai/llm/ai/llm/v1')).toBe('/ai/llm/v1')
})

describe.each(['keeps', 'strips'])('behind nginx that %s the path', (way) => {
  it('clients, the admin API, the pages and the probes work', async (context) => {
    if (!hasNginx) context.skip(NO_NGINX)
    const port = await freePort()
    const publicUrl = `http://127.0.0.1:${port}${BASE}`
    const gateway = await createTestGateway({
      ...MOCK_CONFIG,
      server: { publicUrl, trustedProxies: ['127.0.0.1'] },
      admin: { token: TOKEN },
    })
    onTestFinished(() => gateway.close())
    const to = way === 'keeps' ? gateway.url : `${gateway.url}/`
    const forwarded = 'proxy_set_header X-Forwarded-For "203.0.113.9, $remote_addr";'
    const place = `location ${BASE}/ { proxy_pass ${to}; ${forwarded} }`
    const nginx = await startNginx(port!, place)
    onTestFinished(() => nginx[Symbol.asyncDispose]())
    const ask = (method: string, path: string, headers = {}, body?: object) =>
      send(`${publicUrl}${path}`, method, body && JSON.stringify(body), headers)

    const key = {
      authorization: `Bearer ${gateway.key.secret}`,
      'content-type': 'application/json',
    }
    expect((await ask('POST', '/v1/chat/completions', key, hello)).status).toBe(200)
    const streamed = await ask('POST', '/v1/chat/completions', key, { ...hello, stream: true })
    expect(streamed.text).toContain('data: [DONE]')
    expect((await ask('GET', '/v1/models')).status).toBe(200)
    expect((await ask('GET', '/livez')).status).toBe(200)
    expect((await gateway.ask('GET', '/readyz')).status).toBe(200)
    expect((await ask('GET', '/metrics', { authorization: `Bearer ${TOKEN}` })).status).toBe(200)

    const bare = await ask('GET', '/', { accept: 'text/html' })
    expect([bare.status, bare.headers.location]).toEqual([302, `${BASE}/console`])
    const page = await ask('GET', '/console/usage')
    expect(page.text).toContain(`<meta name="base" content="${BASE}" />`)
    const links = [...page.text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, link]) => link!)
    expect(links.length).toBeGreaterThan(5)
    expect(links.filter((link) => !link.startsWith(`${BASE}/console/`))).toEqual([])
    for (const link of links) {
      expect((await send(`${nginx.url}${link}`, 'GET', undefined, {})).status, link).toBe(200)
    }

    const made = await ask('POST', '/admin/session', PAGE, { token: TOKEN })
    const set = made.headers['set-cookie']![0]!
    expect(set).toContain(`; Path=${BASE}/admin`)
    const own = { ...PAGE, cookie: set.split(';')[0]! }
    expect((await ask('GET', '/admin/session', own)).json.data.base).toBe(BASE)
    expect((await ask('GET', '/admin/audit?format=csv', own)).text).toContain('session.create')
    const [session] = (await ask('GET', '/admin/sessions', own)).json.data
    expect(session.address).toBe('203.0.113.9')
    const once = await ask('POST', '/admin/session/once', { authorization: `Bearer ${TOKEN}` })
    expect(once.json.data.public_url).toBe(publicUrl)
    const log = await gateway.ask('GET', '/admin/requests', { key: TOKEN })
    const endpoints = log.json.data.map((one: any) => one.endpoint)
    expect(endpoints).toContain('/v1/chat/completions')
    expect(endpoints.filter((one: string) => one.includes('llm'))).toEqual([])
  })
})
