/** The webhook: an event that its receiver refuses or cannot take yet keeps no other one back. */
import { createConsola } from 'consola'
import { expect, it } from 'vitest'
import webhook from '../../plugins/sinks/webhook.ts'
import type { GatewayEvent, SinkHost } from '../../src/plugin.ts'
import { createHost } from '../../src/upstream/host.ts'
import { json, startUpstream } from '../upstream.ts'

const eventsOf = (ids: readonly string[]) =>
  ids.map(
    (id) => ({ id, event: 'alert', at: '', gateway: 'gw_1', data: {} }) as never as GatewayEvent,
  )

it('posts the other events of a batch where some are refused, and no event twice', async () => {
  await using receiver = await startUpstream(json({}))
  const tried = new Map<string, number>()
  receiver.answer(({ headers }) => {
    const id = String(headers['x-sluicegate-id'])
    tried.set(id, (tried.get(id) ?? 0) + 1)
    if (id === 'refused') return json({}, 400)
    return json({}, id === 'later' && tried.get(id) === 1 ? 503 : 200)
  })
  const limits = { timeoutMs: 60_000, firstPartTimeoutMs: 60_000, idleTimeoutMs: 60_000 }
  const log = createConsola({ level: 0 })
  const made = createHost('webhook', { ...limits, connections: 16 }, log)
  const options = {
    url: receiver.url,
    secret: 'secret-of-the-webhook',
    headers: {},
    events: ['alert'],
  }
  const sink = await webhook.setup(
    options as never,
    { ...made.host } as Partial<SinkHost> as SinkHost,
  )
  const ids = ['refused', 'later', ...Array.from({ length: 20 }, (_, i) => `evt_${i}`)]
  const batch = eventsOf(ids)
  const { signal } = new AbortController()
  await expect(sink.send(batch, signal)).rejects.toMatchObject({ failure: 'overloaded' })
  expect(await sink.send(batch, signal)).toEqual({ refused: 1 })
  expect([...tried.keys()].toSorted()).toEqual(ids.toSorted())
  expect(Object.fromEntries([...tried].filter(([, times]) => times > 1))).toEqual({ later: 2 })
  await expect(sink.send(eventsOf(['refused']), signal)).rejects.toMatchObject({
    failure: 'bad_request',
  })
  await made.close()
})
