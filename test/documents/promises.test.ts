/** Promises of README and of the page of trust: each names the test that holds it, `<!-- held=<file>: <words of its title> -->`. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { everyEndpointConfig, REQUESTS } from '../_every-endpoint.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'
import { filesBelow, page, pages, root, type Page } from './_markdown.ts'

const HELD = /<!-- held=(\S+?): ([^>]+?) -->/g
/** The titles of a file of tests. */
const TITLE = /(?:\b(?:it|describe)|\))\(\s*(['"`])(.*?)\1,/g
const HI = [{ role: 'user', content: 'Hi' }]
/** Words that are in each request or its answer. */
const POLICY = {
  version: 1,
  bannedPatterns: ['hello', 'once upon', 'a cat', 'turn left'],
  refusal: 'Not of this.',
} as const
const PROMISING = ['README.md', 'docs/trust.md']

it('are all held by tests that there are', () => {
  const missing = PROMISING.map(page).flatMap(({ path, text }) => [
    ...[...text.matchAll(HELD)]
      .filter(([, file, words]) => !titlesOf(file!).some((title) => title.includes(words!)))
      .map(([comment]) => `${path}: ${comment}`),
    ...(text.match(/<!-- held=[^>]*>/g) ?? []).filter((one) => !one.match(HELD)),
  ])
  expect(missing).toEqual([])
})

it('are on these pages alone', () => {
  const others = pages.filter(({ path, text }) => !PROMISING.includes(path) && HELD.test(text))
  expect(others.map(({ path }) => path)).toEqual([])
})

it.each([
  ['README.md', ['## What it does']],
  ['docs/trust.md', ['## What leaves your machine', '## What is kept', '## What protects it']],
])('have no row without one: %s', (path, headings) => {
  const rows = headings.flatMap((heading) => rowsBelow(page(path), heading))
  expect(rows.length).toBeGreaterThan(6)
  expect(rows.filter((row) => !row.includes('<!-- held='))).toEqual([])
})

it('opens connections to others in few places', () => {
  const opens = filesBelow('src', (name) => name.endsWith('.ts')).filter((path) =>
    /^import (?!type ).*from '(?:undici|node:https|node:tls)'|(?<![\w.])fetch\(/m.test(
      readFileSync(join(root, path), 'utf8').replaceAll(/^import type .*$/gm, ''),
    ),
  )
  // The first serve, ask this gateway, or run beside a plugin; sign-in asks the provider that is configured.
  const others = opens.filter((path) => !/^src\/(?:cli|console|server|testing)\//.test(path))
  expect(others.filter((path) => !/^src\/(?:upstream|config)\//.test(path))).toEqual([])
})

it('files of the data folder are for their user alone', async () => {
  const place = join(await folder({}), 'data')
  await using t = await createTestGateway({
    ...MOCK_CONFIG,
    state: { driver: 'file', path: place },
  })
  expect((await t.chat({ model: 'mock/echo', messages: HI })).status).toBe(200)
  const open = [place, ...readdirSync(place).map((name) => join(place, name))].filter(
    (path) => (statSync(path).mode & 0o077) !== 0,
  )
  expect([statSync(place).mode & 0o777, open]).toEqual([0o700, []])
})

it('names of end users are opaque for a vendor, and tags go to none', async () => {
  await using vendor = await startUpstream(json({}))
  await using t = await createTestGateway({
    providers: { acme: { use: 'openai', options: { baseURL: vendor.url, apiKey: 'sk-1' } } },
    models: {
      'acme/m': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'acme', model: 'm', options: { api: 'responses' } }],
      },
    },
  })
  const body = { model: 'acme/m', messages: HI, user: 'maria@example.com' }
  await t.chat(body, { headers: { 'x-service-tag': 'nightly' } })
  const [{ headers, body: sent }] = vendor.requests as [(typeof vendor.requests)[number]]
  expect(String(sent)).toContain('"safety_identifier"')
  expect(`${JSON.stringify(headers)}${String(sent)}`).not.toMatch(/maria|nightly/)
})

it('every endpoint has the same keys, prices and policies', async () => {
  const script = { ending: 'normal' as const, usage: undefined, gate: Promise.resolve() }
  await using t = await createTestGateway(everyEndpointConfig(script))
  const asKey = (key: string): TestGateway => ({
    ...t,
    ask: (method, path, options) => t.ask(method, path, { ...options, key }),
  })
  const poor = asKey((await t.newKey({ spendCap: { usd: '0', scope: 'lifetime' } })).secret)
  const bound = asKey((await t.newKey({ policy: POLICY })).secret)
  for (const { name, ask } of REQUESTS) {
    const before = await t.balance()
    expect((await ask(t)).status, name).toBe(200)
    await expect.poll(() => t.balance(), { message: name }).toBeLessThan(before)
    expect((await ask(poor)).json?.error?.code, name).toBe('key_limit_exceeded')
    expect((await ask(bound)).text, name).toContain(POLICY.refusal)
  }
})

function titlesOf(file: string): string[] {
  const source = readFileSync(join(root, file), 'utf8')
  return [...source.matchAll(TITLE)].map(([, , title]) => title!)
}

/** Rows of the table below a heading, without its head. */
function rowsBelow({ text }: Page, heading: string): string[] {
  const section = text.split(`\n${heading}\n`)[1]!.split('\n## ')[0]!
  return section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
}
