/** Prices of a public list that are taken over by the admin API. */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { litellmList } from '../../import/_lists.ts'
import { createTestGateway, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'

const TOKEN = 'admin-token-of-the-test'
const files = mkdtempSync(join(tmpdir(), 'import-'))
const file = join(files, 'prices.json')
let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } }, files)
})
afterAll(async () => {
  await gateway.close()
  rmSync(files, { recursive: true, force: true })
})

const importing = (body: object) =>
  gateway.ask('POST', '/admin/models/import', { key: TOKEN, body })
const list = { from: 'costs.json', text: litellmList(5) }

it('says what would change and writes nothing, then writes what is chosen', async () => {
  const { status, json } = await importing(list)
  expect(status).toBe(200)
  expect(json.data).toMatchObject({
    sources: [{ name: 'litellm', rows: 5 }],
    changed: [],
    removed: [],
    own_prices: [],
    writable: true,
    written: false,
  })
  const [first, second] = json.data.added as string[]
  expect([typeof first, typeof second, existsSync(file)]).toEqual(['string', 'string', false])
  const written = (await importing({ ...list, only: [first], write: true })).json.data
  expect([written.added, written.written]).toEqual([[first], true])
  expect(Object.keys(JSON.parse(readFileSync(file, 'utf8')).models)).toEqual([first])
  const again = (await importing(list)).json.data
  expect([again.added.includes(first), again.same]).toEqual([false, 1])
  const audit = await gateway.ask('GET', '/admin/audit?action=models.import', { key: TOKEN })
  const [{ object, changes }] = audit.json.data
  expect(object).toBe('file:prices.json')
  expect(changes).toContainEqual({ member: 'added', before: null, after: 1 })
})

it('holds back what is far from the price before, until it is accepted', async () => {
  await importing({ ...list, write: true })
  const [model] = Object.keys(JSON.parse(readFileSync(file, 'utf8')).models)
  const name = model!.split('/').at(-1)!
  const change = { [name]: { input_cost_per_token: '0.5' } }
  const dear = { ...list, text: litellmList(5, change) }
  const { held } = (await importing(dear)).json.data
  expect(held).toMatchObject([{ model, price: 'prompt', to: expect.stringContaining('0.5') }])
  const before = readFileSync(file, 'utf8')
  await importing({ ...dear, only: [model], accept: [held[0].accept], write: true })
  expect(readFileSync(file, 'utf8')).not.toBe(before)
  expect((await importing(dear)).json.data.held).toEqual([])
})

it('writes one import after the other, and loses none', async () => {
  const { added } = (await importing({ ...list, text: litellmList(8) })).json.data
  const many = { ...list, text: litellmList(8), write: true }
  await Promise.all(added.map((id: string) => importing({ ...many, only: [id] })))
  const { models } = JSON.parse(readFileSync(file, 'utf8'))
  expect(Object.keys(models)).toEqual(expect.arrayContaining(added))
})

it.each([
  ['another name', { from: 'https://127.0.0.1/prices.json' }, 'from', 'There is no list'],
  ['a file of the gateway', { from: '/etc/passwd' }, 'from', 'There is no list'],
  ['no JSON', { from: 'x.json', text: '{"models":' }, 'text', 'not valid JSON'],
  ['no known form', { from: 'x.json', text: '{"a":1}' }, 'text', 'none of these price lists'],
  ['a member too many', { ...list, force: true }, 'force', ''],
])('refuses %s', async (_, body, param, message) => {
  const { status, json } = await importing(body)
  expect([status, json.error.param]).toEqual([400, param])
  expect(json.error.message).toContain(message)
})

it('says that the file cannot be written', async () => {
  renameSync(files, `${files}.away`)
  try {
    expect((await importing(list)).json.data.writable).toBe(false)
    const { status, json } = await importing({ ...list, write: true })
    expect([status, json.error.code]).toEqual([409, 'read_only'])
    expect(json.error.message).toContain('prices.json could not be written')
  } finally {
    renameSync(`${files}.away`, files)
  }
})
