/** Contents of calls: kept where configuration and key allow it, and nowhere else. */
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { call } from '../../_cli.ts'
import { folder } from '../../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'

const TOKEN = 'admin-token-of-the-test'
const MARKER = 'heliotrope-4711'
const logs = mkdtempSync(join(tmpdir(), 'contents-'))
let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({
    ...MOCK_CONFIG,
    log: { path: logs, content: { enabled: true } },
    admin: { token: TOKEN },
  })
})
afterAll(async () => {
  await gateway.close()
  rmSync(logs, { recursive: true, force: true })
})

const ask = (method: string, path: string) => gateway.ask(method, `/admin${path}`, { key: TOKEN })
const say = (content: unknown, more: object = {}) => ({
  ...hello,
  messages: [{ role: 'user', content }],
  ...more,
})
/** Sends a chat request, and answers its id. */
async function chat(key: string, body: object): Promise<string> {
  const { status, headers } = await gateway.chat(body, { key })
  expect(status).toBe(200)
  return String(headers['x-request-id'])
}
const contentOf = async (id: string) => (await ask('GET', `/requests/${id}/content`)).json.data

it('keeps request and answer of a key that wants it, whole and streamed, with notes in the place of files', async () => {
  const { id: key, secret } = await gateway.newKey({ logContent: true })
  expect((await gateway.ask('GET', '/v1/key', { key: secret })).json.data.log_content).toBe(true)
  const bytes = Buffer.from('not really a picture')
  const url = `data:image/png;base64,${bytes.toString('base64')}`
  const parts = [
    { type: 'text', text: `What is ${MARKER}?` },
    { type: 'image_url', image_url: { url } },
  ]
  const whole = await chat(secret, say(parts))
  const note = {
    type: 'image/png',
    bytes: 20,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  }
  const content = await contentOf(whole)
  expect(content).toMatchObject({
    id: whole,
    account_id: 'acme',
    key_id: key,
    endpoint: '/v1/chat/completions',
    model: 'mock/echo',
    input: { messages: [{ role: 'user', content: [parts[0], { image_url: { url: note } }] }] },
    cut: false,
  })
  expect(content.output).toEqual([
    { choice: 0, channel: 'content', text: expect.stringContaining(MARKER) },
  ])
  const streamed = await chat(secret, say(MARKER.repeat(3), { stream: true }))
  expect((await contentOf(streamed)).output[0].text).toContain(MARKER.repeat(3))
  expect((await ask('GET', `/requests/${streamed}`)).json.data.content).toBe('kept')
  const { data } = (await ask('GET', '/audit?action=request.content')).json
  expect(data.map(({ object }: any) => object)).toEqual([`request:${streamed}`, `request:${whole}`])
})

it('keeps tool calls as they are joined, and what clients got where a policy blocks', async () => {
  const policy = { version: 1 as const, bannedPatterns: ['heliotrope'], guard: { input: false } }
  const { secret } = await gateway.newKey({ logContent: true, policy })
  const tools = [{ type: 'function', function: { name: 'look_up', parameters: {} } }]
  const called = await chat(secret, { ...say('Look'), model: 'mock/tools', tools, stream: true })
  expect((await contentOf(called)).output).toContainEqual({
    choice: 0,
    channel: 'tool_call',
    text: expect.stringMatching(/^look_up\n./),
  })
  const blocked = await contentOf(await chat(secret, say(`Tell of ${MARKER}`, { stream: true })))
  expect(JSON.stringify(blocked.input)).toContain(MARKER)
  expect(JSON.stringify(blocked.output)).not.toContain(MARKER)
  expect(blocked.output.at(-1).text).not.toBe('')
})

it('bounds what it keeps, and says so', async () => {
  const { secret } = await gateway.newKey({ logContent: true })
  const content = await contentOf(await chat(secret, say('long '.repeat(60_000))))
  expect(content.cut).toBe(true)
  expect(content.input.messages[0].content.length).toBeLessThanOrEqual(262_144)
  expect(content.output[0].text.length).toBeLessThanOrEqual(262_144)
})

/** All files in a folder and those in it. */
function filesIn(path: string): string[] {
  const names = readdirSync(path, { recursive: true }).map(String)
  return names.filter((name) => statSync(join(path, name)).isFile())
}

it('keeps nothing of other keys, and nothing anywhere else', async () => {
  const { secret } = await gateway.newKey()
  expect((await gateway.ask('GET', '/v1/key', { key: secret })).json.data.log_content).toBe(false)
  const id = await chat(secret, say(MARKER))
  const missing = await ask('GET', `/requests/${id}/content`)
  expect([missing.status, missing.json.error.message]).toEqual([
    404,
    expect.stringContaining('of keys with log_content'),
  ])
  expect((await ask('GET', `/requests/${id}`)).json.data.content).toBe('not kept')
  const others = filesIn(logs).filter((name) => !name.includes('contents.db'))
  expect(others.length).toBeGreaterThan(0)
  for (const name of others)
    expect(readFileSync(join(logs, name)).includes(MARKER), name).toBe(false)
  expect(gateway.logged.join('\n')).not.toContain(MARKER)
})

it('says what another policy would have done to calls that were kept', async () => {
  const policy = { version: 1 as const, bannedPatterns: ['osprey'] }
  const { id: key, secret } = await gateway.newKey({ logContent: true, policy })
  const refused = await chat(secret, say('An osprey'))
  const first = await chat(secret, say('A heron'))
  const other = await chat(secret, say('A wren'))
  const replay = (body: object) =>
    gateway.ask('POST', '/admin/policies/replay', { key: TOKEN, body: { key, ...body } })
  const { status, json } = await replay({ policy: { version: 1, bannedPatterns: ['her[oO]n'] } })
  expect(status).toBe(200)
  const of = { key_id: key, model: 'mock/echo', side: 'input', rules: ['bannedPatterns'] }
  expect(json.data).toEqual({
    contents: 3,
    calls: 3,
    unreadable: 0,
    cut: 0,
    blocked: { before: 1, after: 1 },
    changed: [
      { id: first, ...of, from: 'pass', to: 'block' },
      { id: refused, ...of, from: 'block', to: 'pass' },
    ],
    failed_guards: [],
  })
  const output = { version: 1, bannedPatterns: ['wren'], guard: { input: false, mode: 'monitor' } }
  const seen = (await replay({ policy: output, limit: 1 })).json.data
  expect(seen).toMatchObject({
    calls: 1,
    changed: [{ id: other, side: 'output', from: 'pass', to: 'monitor' }],
  })
  const path = await folder({ 'policy.json': '{"version":1,"bannedPatterns":["heron"]}' })
  const command = async (...args: string[]) => {
    const { out, err } = await call([...args, '--url', gateway.url, '--token', TOKEN])
    expect(err).toBe('')
    return out
  }
  await expect
    .poll(() => command('guard', '--key', key), { timeout: 60_000 })
    .toMatch(/bannedPatterns +input +block +blocked +1\n/)
  const args = ['policy', 'replay', join(path, 'policy.json'), '--key', key]
  expect(await command(...args)).toContain(
    '3 calls with content, 2 with another verdict; 1 were blocked, 1 would be.',
  )
  const wrong = await replay({ policy, limit: 201 })
  expect([wrong.status, wrong.json.error.param]).toEqual([400, 'limit'])
  expect((await replay({ policy: { version: 2 } })).json.error.param).toBe('policy.version')
})

it('removes contents for good, by key, by end user and by age', async () => {
  const { id: key, secret } = await gateway.newKey({ logContent: true })
  const other = await gateway.newKey({ logContent: true })
  const first = await chat(secret, say('one', { user: 'u_1' }))
  const second = await chat(secret, say('two', { user: 'u_2' }))
  const kept = await chat(other.secret, say('three'))
  expect((await ask('DELETE', '/requests/content')).json.error).toMatchObject({
    code: 'missing_required_parameter',
    param: 'key',
  })
  expect((await ask('DELETE', '/requests/content?user=u_1')).json.data).toEqual({ removed: 1 })
  expect((await ask('GET', `/requests/${first}/content`)).status).toBe(404)
  expect((await contentOf(second)).user).toBe('u_2')
  expect((await ask('DELETE', `/requests/content?key=${key}`)).json.data).toEqual({ removed: 1 })
  await contentOf(kept)
  const files = filesIn(logs).filter((name) => name.includes('contents.db'))
  const left = files.map((name) => readFileSync(join(logs, name)).toString('latin1')).join()
  expect(left).toContain(kept.slice(4))
  for (const id of [first, second]) expect(left).not.toContain(id.slice(4))
  const { removed } = (await ask('DELETE', '/requests/content?before=2100-01-01')).json.data
  expect(removed).toBeGreaterThan(0)
  expect((await ask('GET', `/requests/${kept}/content`)).status).toBe(404)
  const { data } = (await ask('GET', '/audit?action=request.content.remove')).json
  expect(data).toHaveLength(3)
  expect(JSON.stringify(data)).not.toContain('u_1')
})
