import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestGateway, type TestGateway } from '../../_setup.ts'

const body = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hi' }] }

describe('the headers of a key', () => {
  let gateway: TestGateway
  beforeAll(async () => {
    gateway = await createTestGateway()
  })
  afterAll(() => gateway.close())

  const statusOf = async (headers: Record<string, string>) =>
    (await gateway.chat(body, { key: null, headers })).status

  it('may be x-api-key, on every route', async () => {
    const headers = { 'x-api-key': ` ${gateway.key.secret} ` }
    expect(await statusOf(headers)).toBe(200)
    const { status } = await gateway.ask('GET', '/v1/key', { key: null, headers })
    expect(status).toBe(200)
  })

  it('lets a bearer token win, unless only the other one has the form of our keys', async () => {
    const { secret } = gateway.key
    const other = await gateway.newKey()
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
    expect(await statusOf({ ...bearer(secret), 'x-api-key': 'placeholder' })).toBe(200)
    expect(await statusOf({ ...bearer('placeholder'), 'x-api-key': secret })).toBe(200)
    expect(await statusOf({ authorization: 'Basic eDp5', 'x-api-key': secret })).toBe(200)
    expect(await statusOf({ ...bearer('placeholder'), 'x-api-key': 'another' })).toBe(401)
    const headers = { ...bearer(secret), 'x-api-key': other.secret }
    const { json } = await gateway.ask('GET', '/v1/key', { key: null, headers })
    expect(json.data.key_id).toBe(gateway.key.id)
  })

  it('says what is wrong with them', async () => {
    const refusal = async (headers: Record<string, string>) =>
      (await gateway.chat(body, { key: null, headers })).json.error.message
    expect(await refusal({})).toContain('No API key provided')
    expect(await refusal({ authorization: 'Basic eDp5' })).toContain('must have the form')
    expect(await refusal({ 'x-api-key': 'sk-sluice-abc' })).toContain('incomplete')
  })
})
