/** The console's files, as a browser gets them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

let gateway: TestGateway
let shell: string
beforeAll(async () => {
  gateway = await createTestGateway(MOCK_CONFIG)
  shell = (await get('/console')).text
})
afterAll(() => gateway.close())

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  gateway.ask(method, path, { key: null, headers })

describe('the page', () => {
  it('is one for all addresses of screens', async () => {
    for (const path of ['/console/keys/key_1/policy', '/console/', '/me', '/me/usage']) {
      const answer = await get(path)
      expect([answer.status, answer.text === shell], path).toEqual([200, true])
    }
  })

  it('allows nothing but itself', async () => {
    const { headers } = await get('/console')
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self' 'sha256-[\w+/]{43}='; style-src 'self'; /,
    )
    expect(headers['content-security-policy']).toContain("frame-ancestors 'none'")
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'no-cache',
    })
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
  })

  it('is not sent again while it is the same', async () => {
    const { headers } = await get('/console')
    const again = await get('/console', { 'if-none-match': headers.etag! })
    expect([again.status, again.text]).toEqual([304, ''])
  })

  it('names only files that there are, which may be kept for ever', async () => {
    const paths = [...shell.matchAll(/"(\/console\/a\/[^"]+)"/g)].map(([, path]) => path!)
    expect(paths.length).toBeGreaterThan(15)
    for (const path of new Set(paths)) {
      const { status, headers, text } = await get(path)
      expect([status, headers['cache-control']], path).toEqual([
        200,
        'public, max-age=31536000, immutable',
      ])
      expect(text).not.toContain('sourceMappingURL')
    }
  })

  it('comes with the licenses of its libraries', async () => {
    const [, base] = /"(\/console\/a\/\w+\/)app/.exec(shell)!
    const { status, headers, text } = await get(`${base}vendor/LICENSES.txt`)
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8'])
    for (const name of ['preact', '@preact/signals-core', '@preact/signals', 'htm', 'uplot'])
      expect(text).toMatch(new RegExp(`^${name}\n\n[^]{500}`, 'm'))
  })

  it('is compressed for who takes that, and has no body for HEAD', async () => {
    const { url } = gateway
    const response = await fetch(`${url}/console`, { headers: { 'accept-encoding': 'br' } })
    expect(response.headers.get('content-encoding')).toBe('br')
    const head = await get('/console', { 'accept-encoding': 'br' }, 'HEAD')
    expect([head.status, head.text, head.headers['content-encoding']]).toEqual([200, '', 'br'])
    const raw = await gateway.ask('GET', '/console', { key: null })
    expect(raw.text).toBe(await response.text())
  })

  it('is what a browser at the root is sent to, and programs are not', async () => {
    const browser = await get('/', { accept: 'text/html,application/xhtml+xml' })
    expect([browser.status, browser.headers.location]).toEqual([302, '/console'])
    expect((await get('/', { accept: '*/*' })).json.object).toBe('service')
    expect((await get('/', { accept: 'text/html' }, 'HEAD')).status).toBe(200)
  })

  it.each(['/console/a/0000000000000000/app.ts', '/console/app.ts', '/console/a.map', '/mentor'])(
    'is not at %s',
    async (path) => {
      expect((await get(path)).status).toBe(404)
    },
  )

  it('is small', async () => {
    const paths = new Set([...shell.matchAll(/"(\/console\/a\/[^"]+)"/g)].map(([, path]) => path!))
    const sizes = await Promise.all(
      [...paths]
        .filter((path) => !/uplot|markdown-it/.test(path))
        .map(async (path) => {
          const { headers } = await get(path, { 'accept-encoding': 'br' }, 'HEAD')
          return Number(headers['content-length'])
        }),
    )
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(60 * 1024)
  })
})

describe('without a console', () => {
  it('its addresses are unknown, and the root is what programs get', async () => {
    await using other = await createTestGateway({ ...MOCK_CONFIG, admin: { console: false } })
    for (const path of ['/console', '/console/requests', '/me']) {
      const answer = await other.ask('GET', path, { key: null })
      expect([answer.status, answer.json.error.code], path).toEqual([404, 'unknown_url'])
    }
    const root = await other.ask('GET', '/', { key: null, headers: { accept: 'text/html' } })
    expect(root.status).toBe(200)
  })
})
