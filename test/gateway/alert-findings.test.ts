/** A vendor that refuses is down until something works: the end of a cooldown proves nothing. */
import { expect, it } from 'vitest'
import { join } from 'node:path'
import { AlertFindings } from '../../src/gateway/alert-findings.ts'
import { createTestGateway, hello } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'
import { eventually } from '../_wait.ts'
import { folder } from '../_folder.ts'
import { hasRedis, RedisServer } from '../state/redis/_redis.ts'

it('of a model are between while a cooldown is over, and well after an answer', async () => {
  await using vendor = await startUpstream(json({ error: { message: 'no such key' } }, 403))
  await using t = await createTestGateway({
    // Longer than it takes to look at what was found.
    routing: { cooldown: 1 },
    providers: {
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1`, apiKey: 'sk' } },
    },
    models: {
      'mock/echo': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'vendor', model: 'm' }],
      },
    },
  })
  const { runtime } = t.gateway
  const findings = new AlertFindings()
  const states = () =>
    findings.of(runtime).flatMap(({ kind, state, message }) => {
      if (!kind.endsWith('.down') || kind === 'ledger.down') return []
      if (state === 'wrong') expect(message).toMatch(/upstream_auth.*no such key.*succeeded since/)
      return [`${kind} ${state}`]
    })
  const all = (state: string) => [`deployment.down ${state}`, `model.down ${state}`]
  // Nothing was asked yet, as after a restart.
  expect(states()).toEqual(all('between'))
  for (let calls = 0; calls < 2; calls++) {
    expect((await t.chat(hello)).status).toBe(502)
    expect(states()).toEqual(all('wrong'))
    await eventually(() => expect(states()).toEqual(all('between')))
  }
  const message = { role: 'assistant', content: 'hello' }
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  vendor.answer(() => json({ id: 'c', object: 'chat.completion', choices, usage }))
  expect((await t.chat(hello)).status).toBe(200)
  expect(states()).toEqual(all('well'))
})

it.skipIf(!hasRedis())('say that Redis has used most of its memory', async () => {
  await using server = await RedisServer.start()
  await server.ask(async (client) => {
    await client.setrange('other', 40_000_000, '.')
    await client.config('SET', 'maxmemory', '50mb')
  })
  const outbox = join(await folder({}), 'outbox')
  await using t = await createTestGateway({ state: { driver: 'redis', url: server.url, outbox } })
  const findings = new AlertFindings()
  await eventually(() => {
    const full = findings.of(t.gateway.runtime).find(({ kind }) => kind === 'store.full')
    expect(full).toMatchObject({ state: 'wrong' })
    expect(full!.message).toMatch(/^Redis uses [89]\d % of its maxmemory/)
  })
})
