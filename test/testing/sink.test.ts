/** The kit for sinks: sinks that ship pass it. */
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { testSink, type SinkCase } from '../../src/testing.ts'
import { folder } from '../_folder.ts'
import file from '../../plugins/sinks/file.ts'
import mySink from '../../docs/examples/sink-alerts/my-sink.ts'

const CALL: SinkCase = { name: 'one', events: [{ event: 'call.ended' }], expect: { requests: 1 } }

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
