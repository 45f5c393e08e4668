/** What the holder of a key sees of its usage, and the labels that calls can have. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../../_setup.ts'
import { labelsOf } from '../../../src/pipeline/stages/request.ts'

const TOKEN = 'admin-token-of-the-test'
let gateway: TestGateway
beforeAll(async () => {
  gateway = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
})
afterAll(() => gateway.close())

const get = (key: string, path: string) => gateway.ask('GET', path, { key })
const post = (key: string, path: string, body: object, headers: Record<string, string> = {}) =>
  gateway.ask('POST', path, { key, body, headers })
const chat = (key: string, body: object = {}, headers: Record<string, string> = {}) =>
  post(key, '/v1/chat/completions', { ...hello, ...body }, headers)

describe('the usage of a key', () => {
  it('is what its calls have cost, and has nothing of other keys, vendors or accounts', async () => {
    const { id, secret } = await gateway.newKey()
    const other = await gateway.newKey()
    await chat(other.secret)
    const costs = [await chat(secret), await chat(secret)].map(({ json }) => json.usage.cost)
    const { json } = await get(secret, '/v1/key/usage?group=model&rollup=day')
    expect(json).toMatchObject({
      data: [{ group: { model: 'mock/echo' }, calls: 2 }],
      ledger: { agrees: true, differences: [] },
    })
    expect(json.totals.cost_usd).toBeCloseTo(costs[0] + costs[1], 12)
    expect(json.totals.cost_usd).toBe((await get(secret, '/v1/key')).json.data.spend_usd)
    for (const group of ['key', 'account', 'deployment', 'code']) {
      expect((await get(secret, `/v1/key/usage?group=${group}`)).status).toBe(400)
    }
    expect((await get(secret, `/v1/key/usage?key=${other.id}`)).status).toBe(400)
    const shown = (await get(secret, '/v1/key')).json.data
    expect(shown).toMatchObject({ tag: null, log_content: false })
    const [rate] = shown.limits
    expect(rate).toMatchObject({ limit: 'key.rpm', source: 'default' })
    // With the request that asks.
    expect(rate.used).toBeGreaterThanOrEqual(1)
    expect(rate.used + rate.left).toBe(rate.value)
    const { data, next } = (await get(secret, '/v1/key/requests?limit=1&status=2xx')).json
    expect(JSON.stringify(data)).not.toMatch(/deployment|attempts|account/)
    expect(data).toHaveLength(1)
    expect(id).not.toBe(other.id)
    expect(next).toMatch(/^req_/)
  })

  it('is hidden where the operator wants that', async () => {
    const hidden = await createTestGateway({ ...MOCK_CONFIG, log: { holders: false } })
    const { secret } = await hidden.newKey()
    for (const path of ['/v1/key/usage', '/v1/key/requests']) {
      const { status, json } = await hidden.ask('GET', path, { key: secret })
      expect([status, json.error.code]).toEqual([404, 'unknown_url'])
    }
    await hidden.close()
  })
})

describe('labels of calls', () => {
  it('are added up by tag and by user, to the sum of the key, on every endpoint', async () => {
    const { id, secret } = await gateway.newKey()
    await chat(secret, { user: 'ann' }, { 'x-service-tag': 'nightly' })
    await chat(secret, { metadata: { tag: 'nightly' }, safety_identifier: 'bob', user: 'ann' })
    await post(secret, '/v1/responses', {
      model: 'mock/echo',
      input: 'hi',
      metadata: { tag: 'day' },
    })
    await post(secret, '/v1/messages', {
      model: 'mock/echo',
      max_tokens: 9,
      messages: hello.messages,
      metadata: { user_id: 'carl' },
    })
    const sums = async (group: string) => {
      const { json } = await gateway.ask('GET', `/admin/usage?key=${id}&group=${group}`, {
        key: TOKEN,
      })
      expect(json.ledger.agrees).toBe(true)
      return json
    }
    const tags = await sums('tag')
    const users = await sums('user')
    const calls = (answer: any, name: string) =>
      Object.fromEntries(answer.data.map((one: any) => [one.group[name], one.calls]))
    expect(calls(tags, 'tag')).toEqual({ nightly: 2, day: 1, null: 1 })
    expect(calls(users, 'user')).toEqual({ ann: 1, bob: 1, carl: 1, null: 1 })
    const whole = await sums('model')
    expect(tags.totals.cost_usd).toBe(whole.totals.cost_usd)
    expect(users.totals.cost_usd).toBe(whole.totals.cost_usd)
    const { data } = (
      await gateway.ask('GET', `/admin/requests?key=${id}&tag=nightly&user=bob`, { key: TOKEN })
    ).json
    expect(data).toMatchObject([
      { tag: 'nightly', user: 'bob', gateway: expect.stringMatching(/^gw_/) },
    ])
  })

  it('that are malformed are refused in the header and ignored in the body', async () => {
    const { secret } = await gateway.newKey()
    const { status, json } = await chat(secret, {}, { 'x-service-tag': 'a tag' })
    expect([status, json.error.code, json.error.param]).toEqual([400, 'invalid_value', null])
    expect((await chat(secret, { metadata: { tag: 'a tag' } })).status).toBe(200)
  })

  it('are those of the key where it has a tag; users can be kept as hashes, or not at all', () => {
    expect(labelsOf({ user: 'u' }, 'a b', 'fixed', 'none')).toEqual({ tag: 'fixed' })
    expect(labelsOf({ user: 'ann' }, undefined, undefined, 'hash')).toEqual({
      user: expect.stringMatching(/^h:[0-9a-f]{16}$/),
    })
    const hashed = { user: expect.stringMatching(/^h:[0-9a-f]{16}$/) }
    for (const user of ['ä', 'x'.repeat(65), 'tab\there', 'h:0123456789abcdef']) {
      expect(labelsOf({ user }, undefined, undefined, 'plain')).toEqual(hashed)
    }
    expect(labelsOf({ user: '' }, undefined, undefined, 'plain')).toEqual({})
  })
})
