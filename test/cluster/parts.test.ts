import { EventEmitter } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it, vi } from 'vitest'
import { Channel, Disconnected, RemoteError } from '../../src/threads/channel.ts'
import { Link } from '../../src/cli/worker.ts'
import { SILENT_SECONDS, watchLiveness, Restarts, Totals } from '../../src/cluster/workers.ts'
import { CommandError } from '../../src/cli/command.ts'
import { ConfigError } from '../../src/errors/errors.ts'
import { familiesText, type MetricFamily } from '../../src/observe/prometheus.ts'

/** Both ends of a channel, whose messages are copied as between processes. */
function ends(): [Channel, Channel] {
  const [one, other] = [new EventEmitter(), new EventEmitter()]
  const port = (from: EventEmitter, to: EventEmitter) => ({
    send: (message: object) =>
      void setImmediate(() => to.emit('message', structuredClone(message))),
    on: (event: 'message', listener: (message: unknown) => void) => from.on(event, listener),
  })
  return [new Channel(port(one, other)), new Channel(port(other, one))]
}

it('a channel carries answers, errors with what they say, and the end of the other process', async () => {
  const [near, far] = ends()
  far.on('double', (value: number) => 2 * value)
  far.on('fail', () => {
    throw new CommandError('no', 74)
  })
  far.on('invalid', () => {
    throw new ConfigError('a file', [{ path: 'server.port', message: 'expected a port' }])
  })
  far.on('never', () => new Promise(() => {}))
  expect(await Promise.all([near.ask('double', 2), near.ask('double', 3)])).toEqual([4, 6])
  const failure = async (name: string) => {
    const error = await near.ask(name).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RemoteError)
    return (error as RemoteError).failure
  }
  expect(await failure('fail')).toMatchObject({ message: 'no', exitCode: 74 })
  expect(await failure('invalid')).toMatchObject({ exitCode: 1, issues: [{ path: 'server.port' }] })
  await expect(near.ask('never', undefined, 1)).rejects.toThrow('no answer within 0.001 s')
  const waiting = near.ask('never')
  await turn()
  near.close()
  await expect(waiting).rejects.toBeInstanceOf(Disconnected)
  await expect(near.ask('double', 1)).rejects.toBeInstanceOf(Disconnected)
})

it('a worker that has lived is started again at once; early ends wait longer, and the fifth in a row is the last', () => {
  const restarts = new Restarts()
  expect(restarts.ended(60_000)).toBe(0)
  const early = () => restarts.ended(100)
  expect([early(), early(), early(), early()]).toEqual([250, 500, 1000, 2000])
  expect(restarts.ended(60_000)).toBe(0)
  expect([early(), early(), early(), early(), early()]).toEqual([250, 500, 1000, 2000, undefined])
})

it('a worker that says why it cannot start is tried again for ever, each half a minute in the end', () => {
  const restarts = new Restarts()
  const waits = Array.from({ length: 9 }, () => restarts.refused())
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
  restarts.started()
  expect(restarts.refused()).toBe(500)
})

it('a worker that answers late is left alone, and one that does not answer any more is told of once', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const [near, far] = ends()
    let isStuck = true
    const stuck: PromiseWithResolvers<void>[] = []
    far.on('alive', async () => {
      if (!isStuck) return
      stuck.push(Promise.withResolvers<void>())
      await stuck.at(-1)!.promise
    })
    const silent = vi.fn()
    watchLiveness(near, silent)
    const pass = async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        vi.advanceTimersByTime(1000)
        for (let i = 0; i < 4; i++) await turn()
      }
    }
    await pass(SILENT_SECONDS)
    isStuck = false
    stuck.forEach(({ resolve }) => resolve())
    await pass(2 * SILENT_SECONDS)
    expect(silent).not.toHaveBeenCalled()
    isStuck = true
    await pass(3 * SILENT_SECONDS)
    expect(silent).toHaveBeenCalledOnce()
  } finally {
    vi.useRealTimers()
  }
})

it('counters of a worker that has ended stay in the sums, and its gauges go', async () => {
  const metrics = (count: number): MetricFamily[] => [
    { name: 'calls_total', help: '', type: 'counter', over: 'sum', samples: [['', count]] },
    { name: 'calls', help: '', type: 'gauge', over: 'sum', samples: [['', count]] },
  ]
  const totals = new Totals(() => [{ name: 'workers', help: '', over: 'sum', value: 7 }])
  const [[one, farOne], [other, farOther]] = [ends(), ends()]
  let counted = 5
  farOne.on('metrics', () => metrics(1))
  farOther.on('metrics', () => metrics(counted))
  for (const channel of [one, other]) totals.joined(channel)
  one.on('total', (own: MetricFamily[]) => totals.of(one, own))
  const asked = async () => {
    const text = familiesText(await new Link(farOne).metrics(metrics(1)))
    return text.split('\n').filter((line) => line && !line.startsWith('#'))
  }
  expect(await asked()).toEqual(['calls_total 6', 'calls 6', 'workers 7'])
  counted = 8
  // It ends in order, and has told its last.
  totals.tell(other, metrics(9))
  other.close()
  totals.left(other)
  expect(await asked()).toEqual(['calls_total 10', 'calls 1', 'workers 7'])
  const [another, farAnother] = ends()
  farAnother.on('metrics', () => metrics(2))
  totals.joined(another)
  expect(await asked()).toEqual(['calls_total 12', 'calls 3', 'workers 7'])
  // Killed: what it has told last is what is known.
  another.close()
  expect(await asked()).toEqual(['calls_total 12', 'calls 3', 'workers 7'])
  totals.left(another)
  expect(await asked()).toEqual(['calls_total 12', 'calls 1', 'workers 7'])
})
