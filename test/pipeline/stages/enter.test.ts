import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
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

describe('clients that leave while the ledger is asked to admit them', () => {
  it.each([
    ['before it has answered', true],
    ['while its answer is on the way', false],
  ])('leave no lease: %s', async (_when, waitsFirst) => {
    await using t = await createTestGateway()
    const { ledger } = t.gateway.runtime
    const { id, secret } = await t.newKey({ concurrency: 3 })
    const gate = Promise.withResolvers<void>()
    const enter = ledger.enter.bind(ledger)
    let asked = 0
    const entering = vi.spyOn(ledger, 'enter').mockImplementation(async (call) => {
      asked++
      if (waitsFirst) await gate.promise
      const admitted = await enter(call)
      await gate.promise
      return admitted
    })
    const leaving = Array.from({ length: 3 }, () => {
      const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
      const url = `${t.baseURL}/chat/completions`
      const client = httpRequest(url, { method: 'POST', agent: false, headers })
      client.on('error', () => {}).end(JSON.stringify(body))
      return client
    })
    await expect.poll(() => asked).toBe(3)
    const inFlight = async () => (await ledger.key('acme', id)).inFlight
    await expect.poll(inFlight).toBe(waitsFirst ? 0 : 3)
    for (const client of leaving) {
      const gone = new Promise((resolve) => client.once('close', resolve))
      client.destroy()
      await gone
    }
    await expect.poll(() => [...t.gateway.running].every((call) => call.aborted)).toBe(true)
    gate.resolve()
    entering.mockRestore()
    await expect.poll(inFlight).toBe(0)
    await expect.poll(() => t.gateway.running.size).toBe(0)
    const answers = await Promise.all([1, 2, 3].map(() => t.chat(body, { key: secret })))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await inFlight()).toBe(0)
    const { balance, available } = await ledger.account('acme')
    expect(available).toBe(balance)
    expect(await ledger.verify('acme')).toEqual([])
  })
})
