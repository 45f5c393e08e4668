/** The kit for sinks: sinks that ship pass it. */
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { testSink, type SinkCase } from '../../src/testing.ts'
import type { SinkPlugin } from '../../src/plugin.ts'
import { folder } from '../_folder.ts'
import file from '../../plugins/sinks/file.ts'
import langfuse from '../../plugins/sinks/langfuse.ts'
import otlp from '../../plugins/sinks/otlp.ts'
import webhook from '../../plugins/sinks/webhook.ts'
import mySink from '../../docs/examples/sink-alerts/my-sink.ts'

const keys = { publicKey: 'pk-0123456789', secretKey: 'sk-0123456789ab' }

const CALL: SinkCase = { name: 'one', events: [{ event: 'call.ended' }], expect: { requests: 1 } }
const ALERT: SinkCase = { ...CALL, events: [{ event: 'alert', id: 'evt_1', at: '2026-01-02' }] }
const POSTED = { id: 'evt_1', event: 'alert', at: '2026-01-02', data: { state: 'raised' } }

it.each<[plugin: SinkPlugin, options: object, one: SinkCase, addressOption?: string]>([
  [webhook, { secret: 'a-secret-of-the-receiver' }, { ...ALERT, expect: { sent: POSTED } }, 'url'],
  [otlp, {}, CALL],
  [langfuse, keys, CALL, 'host'],
  [mySink, {}, ALERT],
])('passes: $name', async (plugin, options, one, addressOption) => {
  const given = Object.keys(options).length > 0 ? { options: { ...options } } : {}
  const address = addressOption === undefined ? {} : { addressOption }
  const report = await testSink(plugin, { ...given, ...address, cases: [one] })
  expect(report.failed).toEqual([])
  expect(report.checks.filter(({ result }) => result === 'skipped')).toEqual([])
})

it('leaves out what a sink without a receiver cannot have', async () => {
  const path = join(await folder({}), 'events.jsonl')
  const cases = [{ ...CALL, expect: { requests: 0 } }]
  const { failed, checks } = await testSink(file, { options: { path }, cases })
  expect(failed).toEqual([])
  const skipped = checks.filter(({ result }) => result === 'skipped').map(({ name }) => name)
  expect(skipped).toEqual(['errors', 'repeat', 'cancel'])
})

it('names the case where what was sent is not what a case expects', async () => {
  const text = `raised: ${'The disk is full. '.repeat(20)}`
  const events = [{ event: 'alert' as const, data: { state: 'raised', message: text.slice(8) } }]
  const sent = { text: `${text.slice(0, -1)}!` }
  const { failed } = await testSink(mySink, {
    cases: [{ name: 'long', events, expect: { sent } }],
    only: 'events',
  })
  expect(failed).toMatchObject([{ name: 'events', on: 'long' }])
  expect(failed[0]!.hint).toMatch(/^Send what the case expects, or correct the case/)
  expect(failed[0]!.notes).toEqual([
    expect.stringMatching(/expected ….*full\.!", found ….*full\. "$/),
  ])
})
