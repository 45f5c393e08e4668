/** A name that means no model: what the client is told, and what the operator reads. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { Unserved } from '../../src/models/unserved.ts'
import { call } from '../_cli.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

async function gateway(more: object = {}): Promise<TestGateway> {
  const t = await createTestGateway({ ...MOCK_CONFIG, ...more })
  onTestFinished(() => t.close())
  return t
}
const ofUnserved = (t: TestGateway) => t.logged.filter((line) => line.includes('is not served'))

describe('a name that no list has', () => {
  it('gives the operator one line with a command, and the client none of it', async () => {
    const t = await gateway({ providers: { ...MOCK_CONFIG.providers, openai: { use: 'mock' } } })
    for (let i = 0; i < 3; i++) {
      const { status, json } = await t.chat({ ...hello, model: 'openai/gpt-9' })
      expect([status, json.error.message]).toEqual([
        404,
        'There is no model "openai/gpt-9". GET /v1/models lists them.',
      ])
    }
    const [line, ...others] = ofUnserved(t)
    expect(others).toEqual([])
    expect(line).toContain(
      '"openai/gpt-9" was asked for once and is not served: no price list has it.',
    )
    expect(line).toContain('sluicegate models import --only openai/gpt-9 --write')
    expect(t.gateway.runtime.unserved.list()).toMatchObject([
      { name: 'openai/gpt-9', reason: 'no_price', asked: 3, accounts: ['acme'] },
    ])
  })

  it('is in the admin API and in the output of a command', async () => {
    const admin = 'admin-token-of-the-test'
    const t = await gateway({ admin: { token: admin } })
    await t.chat({ ...hello, model: 'openai/gpt-9' })
    const { json } = await t.ask('GET', '/admin/models/unserved', { key: admin })
    expect(json.data).toEqual([
      {
        name: 'openai/gpt-9',
        reason: 'unknown',
        asked: 1,
        accounts: ['acme'],
        first_at: expect.any(String),
        last_at: expect.any(String),
        remedy: expect.stringContaining('sluicegate vendors'),
      },
    ])
    const options = ['--url', t.baseURL.replace(/\/v1$/, ''), '--token', admin]
    const { code, out } = await call(['models', 'unserved', ...options])
    expect(code).toBe(0)
    expect(out).toMatch(
      /^NAME .*\nopenai\/gpt-9 +unknown +1 +acme .*\n\nopenai\/gpt-9:\n {2}sluicegate vendors .*\n {2}or: an alias/,
    )
  })

  it('names the model that a misspelt one is near, to the operator as to the client', async () => {
    const t = await gateway()
    await t.chat({ ...hello, model: 'mock/ehco' })
    expect(ofUnserved(t)).toEqual([
      expect.stringMatching(/the client may mean "mock\/echo" +or: sluicegate models import /),
    ])
  })

  it('is refused alike with and without its vendor', async () => {
    const with_ = await gateway({
      providers: { ...MOCK_CONFIG.providers, openai: { use: 'mock' } },
    })
    const without = await gateway()
    const ask = (t: TestGateway) => t.chat({ ...hello, model: 'openai/gpt-9' })
    expect((await ask(with_)).json).toEqual((await ask(without)).json)
    expect(ofUnserved(without)[0]).toContain('sluicegate vendors')
  })

  it('that is several is told with the setting that chooses', async () => {
    const one = { pricing: { prompt: '0' }, deployments: [{ provider: 'mock', model: 'echo' }] }
    const t = await gateway({
      models: { 'a/twin': one, 'b/twin': one, 'c/off': { ...one, enabled: false } },
    })
    await t.chat({ ...hello, model: 'twin' })
    await t.chat({ ...hello, model: 'c/off' })
    expect(ofUnserved(t)[0]).toContain('names: { prefer: [<vendor>] }')
    expect(ofUnserved(t)[1]).toContain('enabled: true')
  })
})

describe('the tables of several processes', () => {
  it('are one: counts are added, the last one comes first', async () => {
    const [own, other, silent] = [new Unserved(), new Unserved(), new Unserved()]
    own.note('openai/gpt-9', 'no_price', 'acme', 1000)
    own.note('twin', 'ambiguous', 'acme', 2000)
    other.note('openai/gpt-9', 'no_price', 'bravo', 3000)
    own.join(async () => [other.list(), silent.list()])
    const names = await own.all()
    expect(names).toMatchObject([
      { name: 'openai/gpt-9', asked: 2, accounts: ['bravo', 'acme'], firstAt: 1000, lastAt: 3000 },
      { name: 'twin', asked: 1, accounts: ['acme'] },
    ])
  })
})

describe('the table', () => {
  it('keeps 200 names of 100 letters without control characters, and tells 20 an hour', () => {
    const table = new Unserved()
    const lines = Array.from({ length: 300 }, (_, i) =>
      table.note(`name-${i}\n\u0007"${'x'.repeat(200)}`, 'unknown', 'acme', i),
    )
    expect(lines.filter((line) => line !== undefined)).toHaveLength(20)
    const names = table.list().map(({ name }) => name)
    expect(names).toHaveLength(200)
    expect(names.every((name) => name.length === 100 && !/[\p{Cc}"]/u.test(name))).toBe(true)
    expect(table.note('again', 'unknown', 'acme', 3_600_000)).toContain('again')
    expect(table.note('again', 'unknown', 'acme', 3_600_001)).toBeUndefined()
    expect(table.note('again', 'unknown', 'acme', 7_200_001)).toContain('3 times')
  })
})
