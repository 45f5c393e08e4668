/** One sink and its queue, with a clock of the test: what waits, what is sent again, and what is given up. */
import { expect, it } from 'vitest'
import { UpstreamFailure } from '../../../src/errors/errors.ts'
import { MOST_QUEUED, SinkRunner } from '../../../src/observe/sinks/work.ts'
import type { GatewayEvent, Sink } from '../../../src/plugin.ts'
import { eventually } from '../../_wait.ts'

const HOUR_MS = 3_600_000

/** A sink that answers as the test says, and a clock whose pauses end at once, after `most` of them never. */
function start(
  answer: (events: readonly GatewayEvent[]) => ReturnType<Sink['send']> | void,
  most = 1000,
) {
  const pauses: number[] = []
  const lines: string[] = []
  let now = 0
  const sink: Sink = { takes: ['alert'], batch: 3, send: async (events) => answer(events) }
  const runner = new SinkRunner({
    name: 'test',
    sink,
    log: { error: (line) => void lines.push(line), warn: (line) => void lines.push(line) },
    changed() {},
    clock: {
      now: () => now,
      async wait(ms, signal) {
        pauses.push(ms)
        now += ms
        if (pauses.length <= most || signal.aborted) return
        await new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(new Error('closed')), { once: true })
        })
      },
    },
  })
  const counts = { results: {} as Record<string, number>, lost: {} as Record<string, number> }
  const add = (sums: Record<string, number>, more: object) => {
    for (const [name, count] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + count
  }
  const look = () => {
    const { results, lost, queued, disabled } = runner.takeCounts()
    add(counts.results, results)
    add(counts.lost, lost)
    return { ...counts, queued, disabled }
  }
  return { runner, pauses, lines, look }
}

function events(count: number, from = 0): GatewayEvent[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `evt_${from + i}`,
    event: 'alert',
    at: '2026-11-23T10:00:00.000Z',
    gateway: 'gw_1',
    data: { id: 'al_1', kind: 'ledger.down', object: '', state: 'raised', message: '' },
  }))
}

it('sends what the sink takes, in order and in batches', async () => {
  const sent: string[][] = []
  const { runner, look } = start((batch) => void sent.push(batch.map(({ id }) => id)))
  const call = { ...events(1, 99)[0]!, event: 'call.ended' } as unknown as GatewayEvent
  runner.offer([...events(4), call])
  await eventually(() => expect(look().queued).toBe(0))
  expect(sent).toEqual([['evt_0', 'evt_1', 'evt_2'], ['evt_3']])
  expect(look()).toMatchObject({ results: { delivered: 4 }, lost: {} })
})

it.each([-1, 4, 1.5, 'many', null, Number.NaN])(
  'counts nothing as refused where a sink says %s of three',
  async (refused) => {
    const { runner, look, lines } = start(async () => ({ refused }) as never)
    runner.offer(events(3))
    await eventually(() => expect(look().queued).toBe(0))
    expect(look().results).toEqual({ delivered: 3 })
    const told = `"refused" of a sink is a whole number from 0 to 3, not ${refused}`
    expect(lines).toEqual(refused === null ? [] : [expect.stringContaining(told)])
  },
)

it('counts events of a batch that the receiver refuses', async () => {
  const { runner, look, lines } = start(async () => ({ refused: 2 }))
  runner.offer(events(3))
  await eventually(() => expect(look().queued).toBe(0))
  expect(look()).toMatchObject({ results: { delivered: 1, refused: 2 }, lost: {} })
  expect(lines).toEqual(['2 events are refused, and dropped'])
})

it('sends a batch again, the same events later and later, and says so once', async () => {
  const batches: (readonly GatewayEvent[])[] = []
  const { runner, pauses, lines, look } = start((batch) => {
    batches.push([...batch])
    if (batches.length < 12) throw new Error('away')
  })
  runner.offer(events(3))
  await eventually(() => expect(look().results.delivered).toBe(3))
  expect(batches).toHaveLength(12)
  for (const batch of batches)
    for (const [i, one] of batch.entries()) expect(one).toBe(batches[0]![i])
  const seconds = pauses.map((ms) => ms / 1000)
  expect(seconds).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
  expect(look().results.failed).toBe(33)
  expect(lines).toEqual(['events cannot be sent, and wait: away', 'events are sent again'])
})

it('heeds a receiver that says when to ask again, and drops what it will never take', async () => {
  const failures = [
    new UpstreamFailure('upstream_rate', '', { retryAfterMs: 90_000 }),
    new UpstreamFailure('bad_request', '', { cause: new Error('HTTP 400') }),
  ]
  const { runner, pauses, lines, look } = start(() => {
    throw failures.shift()!
  })
  runner.offer(events(3))
  await eventually(() => expect(look().queued).toBe(0))
  expect(pauses).toEqual([90_000])
  expect(look()).toMatchObject({ results: { failed: 3, refused: 3 }, lost: {} })
  expect(lines.at(-1)).toBe('3 events are refused, and dropped: bad_request: HTTP 400')
})

it('drops the oldest events where too many wait', async () => {
  const hanging = Promise.withResolvers<void>()
  const sent: string[] = []
  const { runner, look } = start((batch) => {
    sent.push(batch[0]!.id)
    return hanging.promise
  })
  runner.offer(events(3))
  await eventually(() => expect(sent).toHaveLength(1))
  runner.offer(events(MOST_QUEUED + 5, 3))
  expect(look()).toMatchObject({ queued: MOST_QUEUED + 3, lost: { queue: 5 } })
  hanging.resolve()
  await eventually(() => expect(sent[1]).toBe('evt_8'))
})

it('is asked no more after a day without success', async () => {
  const { runner, pauses, lines, look } = start(() => {
    throw new Error('away')
  })
  runner.offer(events(5))
  await eventually(() => expect(look().disabled).toBe(true))
  const waited = pauses.reduce((sum, ms) => sum + ms, 0)
  expect(waited).toBeGreaterThanOrEqual(24 * HOUR_MS)
  expect(waited).toBeLessThan(25 * HOUR_MS)
  runner.offer(events(2))
  expect(look()).toMatchObject({ queued: 0, lost: { disabled: 7 } })
  expect(lines.at(-1)).toContain('sink.disabled')
})

it('sends what waits at the end, each batch once, and closes the sink', async () => {
  let isAway = true
  const { runner, look } = start(() => {
    if (isAway) throw new Error('away')
  }, 0)
  runner.offer(events(4))
  await eventually(() => expect(look().results.failed).toBe(3))
  const closed = runner.close()
  isAway = false
  await closed
  expect(look()).toMatchObject({ queued: 0, results: { failed: 3, delivered: 4 } })
})

it('leaves contents out before events, where many wait', async () => {
  const large = 'x'.repeat(1024 * 1024)
  const content = { input: large, output: [], cut: false }
  const calls = Array.from({ length: 40 }, (_, i) => ({
    ...events(1, i)[0]!,
    event: 'call.ended',
    data: { id: `req_${i}`, content: { ...content } },
  })) as unknown as GatewayEvent[]
  const seen: boolean[] = []
  const sink: Sink = {
    takes: ['call.ended'],
    async send(batch) {
      for (const { data } of batch) seen.push((data as { content?: object }).content !== null)
    },
  }
  const silent = { error() {}, warn() {} }
  const wait = async () => {}
  const clock = { now: () => 0, wait }
  const runner = new SinkRunner({ name: 'test', sink, log: silent, changed() {}, clock })
  runner.offer(calls)
  await eventually(() => expect(seen).toHaveLength(40))
  expect(seen.slice(0, 30)).not.toContain(false)
  expect(seen.slice(-5)).not.toContain(true)
  // There is room again.
  runner.offer(calls.slice(-1))
  await eventually(() => expect(seen).toHaveLength(41))
  expect(seen.at(-1)).toBe(true)
  await runner.close()
})
