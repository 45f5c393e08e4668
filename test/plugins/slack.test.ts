/** The sink of chats: one line for each event, at most one post a second, and no address in an error. */
import { createConsola } from 'consola'
import { expect, it } from 'vitest'
import slack from '../../plugins/sinks/slack.ts'
import type { GatewayEvent, SinkHost } from '../../src/plugin.ts'
import { sampleEvent } from '../../src/testing/sink-cases.ts'
import { createHost } from '../../src/upstream/host.ts'
import { json, startUpstream } from '../upstream.ts'

it('posts lines of text with a link into the console, and tells nobody its address', async () => {
  await using chat = await startUpstream(json({}))
  const limits = { timeoutMs: 60_000, firstPartTimeoutMs: 60_000, idleTimeoutMs: 60_000 }
  const masked: string[] = []
  const made = createHost('slack', { ...limits, connections: 1 }, createConsola({ level: 0 }), {
    mask: (secrets) => void masked.push(...secrets),
  })
  const url = `${chat.url}/services/T0/B0/planted-secret`
  const options = await slack.options['~standard'].validate({
    url,
    console: 'https://gate/console/',
  })
  const host = { ...made.host } as Partial<SinkHost> as SinkHost
  const sink = await slack.setup((options as { value: never }).value, host)
  expect([sink.takes, masked]).toEqual([['alert'], [url]])
  const data = {
    id: 'al_1',
    kind: 'model.down',
    object: 'a/m',
    state: 'raised',
    message: 'every deployment <of> a/m is in cooldown',
  }
  const alert = { ...sampleEvent('alert'), gateway: 'gw_1', data } as GatewayEvent
  const { signal } = new AbortController()
  await sink.send([alert, sampleEvent('guard.blocked')], signal)
  const [alertLine, blocked] = chat.requests[0]!.json.text.split('\n')
  expect(alertLine).toBe(
    'model.down is raised (gw_1): every deployment &lt;of&gt; a/m is in cooldown https://gate/console/settings/alerts',
  )
  expect(blocked).toContain('deny:code')
  chat.answer(() => json({}, 500))
  const before = performance.now()
  const error = await Promise.resolve(sink.send([alert], signal)).catch((thrown: Error) => thrown)
  expect(performance.now() - before).toBeGreaterThan(500)
  expect(error).toMatchObject({ failure: 'upstream_error' })
  expect(`${(error as Error).stack}${JSON.stringify(error)}`).not.toContain('planted-secret')
  await made.close()
})
