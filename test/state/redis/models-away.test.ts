/** `GET /v1/models` with a key while the store cannot be asked. */
import { expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG } from '../../_setup.ts'
import { folder } from '../../_folder.ts'
import { needRedis, serverForTest } from './_engine.ts'

needRedis()

it('the list of models is that of a known key while Redis is away, and else the public one', async () => {
  const server = await serverForTest()
  await using gateway = await createTestGateway({
    ...MOCK_CONFIG,
    state: { driver: 'redis', url: server.url, outbox: await folder({}) },
  })
  const narrow = { models: ['mock/echo'] }
  const known = await gateway.newKey(narrow)
  const unseen = await gateway.newKey(narrow)
  const list = async (key?: string) => {
    const { status, json } = await gateway.ask(
      'GET',
      '/v1/models',
      key === undefined ? {} : { key },
    )
    return [status, json.data.length]
  }
  const [, all] = await list()
  expect(all).toBeGreaterThan(1)
  expect(await list(known.secret)).toEqual([200, 1])
  await server.kill()
  const began = performance.now()
  expect(await list(known.secret)).toEqual([200, 1])
  expect(await list('sk-sluice-nobody-knows-this-one')).toEqual([200, all])
  expect(await list()).toEqual([200, all])
  // A key that this gateway has not seen yet.
  expect(await list(unseen.secret)).toEqual([200, all])
  // Each looks for 250 ms at most.
  expect(performance.now() - began).toBeLessThan(5000)
  await server.start()
})
