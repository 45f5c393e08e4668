/** What gateways of one state show of each other's calls. */
import { expect, it } from 'vitest'
import { Peers } from '../../src/gateway/sharing.ts'
import { LiveEvents, type LiveEvent } from '../../src/observe/live-events.ts'
import { callView } from '../../src/server/admin/requests.ts'
import type { Announcements, Topic } from '../../src/state/announcements.ts'
import { callAt } from '../observe/_calls.ts'
import { EARLIER_RUNNING, EARLIER_VIEW } from '../observe/log/_earlier.ts'
import { eventually } from '../_wait.ts'

const NOON = Date.UTC(2026, 10, 23, 12)

/** Announcements in memory, and records by key. */
function sharedState() {
  const topics = new Map<Topic, string[]>()
  const announcements: Announcements = {
    async tell(topic, message) {
      topics.set(topic, [...(topics.get(topic) ?? []), message])
    },
    async hear(topic, cursor) {
      const all = topics.get(topic) ?? []
      return {
        messages: cursor === undefined ? [] : all.slice(Number(cursor)),
        cursor: `${all.length}`,
      }
    },
  }
  const kept = new Map<string, unknown>()
  const records = {
    async getMany(keys: readonly string[]) {
      return keys.map((key) => kept.get(key))
    },
    async get(key: string) {
      return kept.get(key)
    },
    async put(key: string, value: unknown) {
      kept.set(key, value)
    },
  }
  return { announcements, records, kept }
}

it('shows the running calls and events of others, also of a gateway of the release before', async () => {
  const { announcements, records, kept } = sharedState()
  const ids = ['gw_own', 'gw_new', 'gw_before']
  const instances = { list: async () => ids.map((id) => ({ id })) }
  const events = new LiveEvents()
  const usage = { settledElsewhere() {} }
  const options = { announcements, records, instances, gatewayId: 'gw_own', running: new Set() }
  const peers = new Peers({ ...options, events, usage } as never)
  const call = callAt(NOON, { status: undefined, outcome: undefined })
  kept.set('calls:gw_new', { calls: [call] })
  kept.set('running:gw_before', { rows: [{ ...EARLIER_RUNNING, status: null, outcome: null }] })
  const [own, earlier] = (await peers.calls()).map((one) => callView(one, true))
  expect(own).toMatchObject({ id: call.id, status: null, outcome: null, running: true })
  const { limits: _, ...view } = {
    ...EARLIER_VIEW,
    status: null,
    outcome: null,
    end: null,
    running: true,
  }
  expect(JSON.parse(JSON.stringify(earlier))).toEqual(view)

  const heard: LiveEvent[] = []
  const take = (event: LiveEvent) => heard.push(event) > 0
  const leave = events.watch({ wants: () => true, take, idle() {} })
  for (let now = 0; now < 9000; now += 3000) {
    peers.tick(now)
    await peers.close()
  }
  const tell = (topic: Topic, gateway: string, data: object) => {
    const batch = { events: [{ id: `${gateway}-1`, type: 'call.ended', data }], left: 0 }
    return announcements.tell(topic, JSON.stringify({ gateway, body: batch }))
  }
  await tell('live', 'gw_new', callAt(NOON))
  await tell('events', 'gw_before', EARLIER_RUNNING)
  peers.tick(12_000)
  await eventually(() => expect(heard).toHaveLength(2))
  leave()
  expect(heard.map(({ data }) => [data.key_id, data.endpoint])).toEqual([
    ['k1', '/v1/chat/completions'],
    ['k1', '/v1/chat/completions'],
  ])
})
