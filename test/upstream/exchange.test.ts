/** The exchange alone, with a controller that delivers inside `resume()`, as undici does. */
import type { Dispatcher } from 'undici'
import { describe, expect, it } from 'vitest'
import type { UpstreamResponse } from '../../src/plugin.ts'
import type { Sink } from '../../src/stream/chain.ts'
import { HttpExchange } from '../../src/upstream/host.ts'

const KIB_64 = 64 * 1024

class FakeController {
  paused = false
  aborted = false
  onResume: (() => void) | undefined

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
    const deliver = this.onResume
    this.onResume = undefined
    deliver?.()
  }

  abort(): void {
    this.aborted = true
  }
}

interface Fixture {
  readonly exchange: HttpExchange
  readonly controller: FakeController
  readonly abort: AbortController
  data(text: string): void
  end(): void
  error(message: string): void
}

const BOUNDS = { answer: 1024 * 1024, stream: 4 * 1024 * 1024 }

function started(bounds = BOUNDS): Fixture {
  const fake = new FakeController()
  const controller = fake as unknown as Dispatcher.DispatchController
  const abort = new AbortController()
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamResponse>()
  void promise.catch(() => {})
  const exchange = new HttpExchange(
    { url: 'http://vendor/', signal: abort.signal },
    resolve,
    reject,
    bounds,
  )
  exchange.onRequestStart(controller)
  exchange.onResponseStart(controller, 200, {})
  return {
    exchange,
    controller: fake,
    abort,
    data: (text) => exchange.onResponseData(controller, Buffer.from(text)),
    end: () => exchange.onResponseEnd(),
    error: (message) => exchange.onResponseError(controller, new Error(message)),
  }
}

/** What an exchange gives, and how it ends. */
class Reader implements Sink<Uint8Array> {
  text = ''
  /** Text of each batch. */
  readonly batches: string[] = []
  /** How often it was told of an end. */
  ends = 0
  error: Error | undefined
  readonly over = Promise.withResolvers<void>()
  #batch = ''

  push(chunk: Uint8Array): void {
    this.#batch += Buffer.from(chunk).toString()
  }

  batchEnd(): boolean {
    this.batches.push(this.#batch)
    this.text += this.#batch
    this.#batch = ''
    return true
  }

  end(): void {
    this.ends++
    this.over.resolve()
  }

  fail(error: unknown): void {
    this.error = error as Error
    this.end()
  }
}

/** All that an exchange gives, and the message of the error that ended it. */
async function read(exchange: HttpExchange): Promise<{ text: string; error?: string }> {
  const reader = new Reader()
  exchange.start(reader)
  await reader.over.promise
  expect(reader.ends).toBe(1)
  const { text, error } = reader
  return error ? { text, error: error.message } : { text }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

const LARGE = 'x'.repeat(KIB_64 + 1)

describe('a body whose rest arrives while it is resumed', () => {
  const closed = 'The model provider closed the connection early.'
  it.each<[string, (f: Fixture) => void, { text: string; error?: string }]>([
    ['nothing', (f) => setImmediate(f.end), { text: LARGE }],
    ['the end', (f) => f.end(), { text: LARGE }],
    ['data and the end', (f) => (f.data('tail'), f.end()), { text: `${LARGE}tail` }],
    [
      'data, and the end later',
      (f) => (f.data('tail'), setImmediate(f.end)),
      { text: `${LARGE}tail` },
    ],
    ['an error', (f) => f.error('gone'), { text: LARGE, error: closed }],
    [
      'data and an error',
      (f) => (f.data('tail'), f.error('gone')),
      { text: `${LARGE}tail`, error: closed },
    ],
  ])('is complete and in order: %s', async (_what, deliver, expected) => {
    const fixture = started()
    fixture.controller.onResume = () => deliver(fixture)
    fixture.data(LARGE)
    expect(fixture.controller.paused).toBe(true)
    expect(await read(fixture.exchange)).toEqual(expected)
  })

  it('is complete for every size of chunks, read slowly', async () => {
    for (let kib = 1; kib <= 70; kib++) {
      const fixture = started()
      let left = Math.ceil(200 / kib)
      // undici does the same: after a pause, what the parser still has arrives while it is resumed.
      const deliver = (): void => {
        while (left > 0 && !fixture.controller.paused) {
          left--
          fixture.data(String.fromCharCode(97 + (left % 26)).repeat(kib * 1024))
        }
        if (left > 0) fixture.controller.onResume = deliver
        else fixture.end()
      }
      let expected = ''
      for (let i = left - 1; i >= 0; i--)
        expected += String.fromCharCode(97 + (i % 26)).repeat(kib * 1024)
      deliver()
      const { text, error } = await read(fixture.exchange)
      expect([kib, text === expected, error]).toEqual([kib, true, undefined])
    }
  })

  it('is complete as a text', async () => {
    const fixture = started()
    fixture.controller.onResume = () => {
      fixture.data('tail')
      fixture.end()
    }
    fixture.data(LARGE)
    expect(await fixture.exchange.text()).toBe(`${LARGE}tail`)
  })
})

it('chunks of one read of the socket are one batch, given after they came', async () => {
  const { exchange, data, end } = started()
  const reader = new Reader()
  exchange.start(reader)
  data('a')
  data('b')
  expect(reader.batches).toEqual([])
  await turn()
  expect(reader.batches).toEqual(['ab'])
  data('c')
  end()
  await reader.over.promise
  expect(reader.batches).toEqual(['ab', 'c'])
})

describe('a reader without room', () => {
  it('gets nothing, pauses the socket at 64 KiB, and gets everything once it has room', async () => {
    const { exchange, controller, data, end } = started()
    const reader = new Reader()
    const producer = exchange.start(reader)
    data('a')
    await turn()
    producer.pause()
    data('b'.repeat(KIB_64))
    expect(controller.paused).toBe(false)
    data('c')
    expect(controller.paused).toBe(true)
    controller.onResume = end
    await turn()
    expect(reader.text).toBe('a')
    producer.resume()
    await reader.over.promise
    expect(reader.text).toBe(`a${'b'.repeat(KIB_64)}c`)
    expect([reader.ends, controller.paused]).toEqual([1, false])
  })

  it('that pauses while it is given something gets the rest, and the end, after it has resumed', async () => {
    const { exchange, data, end } = started()
    const reader = new Reader()
    const producer = exchange.start(reader)
    const push = reader.push.bind(reader)
    reader.push = (chunk) => {
      push(chunk)
      producer.pause()
    }
    data('a')
    end()
    await turn()
    expect([reader.text, reader.ends]).toEqual(['a', 0])
    producer.resume()
    await reader.over.promise
    expect(reader.text).toBe('a')
  })

  it('learns of an abort once it has room, after what came before', async () => {
    const { exchange, abort, controller, data } = started()
    const reader = new Reader()
    const producer = exchange.start(reader)
    producer.pause()
    data('a')
    abort.abort(new Error('enough'))
    await turn()
    expect([controller.aborted, reader.ends]).toEqual([true, 0])
    producer.resume()
    await reader.over.promise
    expect([reader.text, reader.error?.message]).toEqual(['a', 'enough'])
  })
})

describe('an exchange that is closed', () => {
  it('gives nothing more, and no end', async () => {
    const { exchange, controller, data } = started()
    const reader = new Reader()
    exchange.start(reader)
    data('a')
    exchange.close(false)
    data('b')
    await turn()
    expect([reader.text, reader.ends]).toEqual(['', 0])
    expect(controller.aborted).toBe(true)
  })

  it('may be closed by its reader, between two chunks of a batch', async () => {
    const { exchange, controller, data } = started()
    const given: string[] = []
    const reader = new Reader()
    reader.push = (chunk) => {
      given.push(Buffer.from(chunk).toString())
      exchange.close(false)
    }
    exchange.start(reader)
    data('a')
    data('b')
    await turn()
    expect([given, reader.batches, reader.ends]).toEqual([['a'], [], 0])
    expect(controller.aborted).toBe(true)
  })

  it('waits for the end of the body when its reader is satisfied, but not for much of it', () => {
    const { exchange, controller, data } = started()
    exchange.close(true)
    data('x'.repeat(10_000))
    expect(controller.aborted).toBe(false)
    data('x'.repeat(10_000))
    expect(controller.aborted).toBe(true)
  })
})

it('an exchange that is aborted fails with the reason', async () => {
  const { exchange, abort, controller } = started()
  const reader = new Reader()
  exchange.start(reader)
  abort.abort(new Error('enough'))
  await reader.over.promise
  expect([reader.error?.message, reader.ends]).toEqual(['enough', 1])
  expect(controller.aborted).toBe(true)
})

describe('a vendor that does not keep to the protocol', () => {
  const response = (fixture: Fixture, status: number, headers: Record<string, string> = {}) =>
    fixture.exchange.onResponseStart(
      fixture.controller as unknown as Dispatcher.DispatchController,
      status,
      headers,
    )

  it('may send data after the end, which nothing reads', async () => {
    const fixture = started()
    fixture.data('all')
    fixture.end()
    fixture.data('more')
    expect(await read(fixture.exchange)).toEqual({ text: 'all' })
  })

  it('has failed when it sends a second head', async () => {
    const fixture = started()
    fixture.data('some')
    response(fixture, 200)
    const error = 'The model provider sent more than one head of its answer.'
    expect(await read(fixture.exchange)).toEqual({ text: 'some', error })
    expect(fixture.controller.aborted).toBe(true)
  })

  it('has failed when it sends more than twenty interim heads', async () => {
    const abort = new AbortController()
    const head = Promise.withResolvers<UpstreamResponse>()
    const exchange = new HttpExchange(
      { url: 'http://vendor/', signal: abort.signal },
      head.resolve,
      head.reject,
      BOUNDS,
    )
    const controller = new FakeController()
    const given = controller as unknown as Dispatcher.DispatchController
    exchange.onRequestStart(given)
    for (let i = 0; i < 21; i++) exchange.onResponseStart(given, 103, {})
    await expect(head.promise).rejects.toThrow('more than one head')
    expect(controller.aborted).toBe(true)
  })

  it('has failed when its stream is larger than it may be, after what came before', async () => {
    const fixture = started({ answer: 10, stream: 100 })
    fixture.data('x'.repeat(60))
    fixture.data('x'.repeat(60))
    expect(await read(fixture.exchange)).toEqual({
      text: 'x'.repeat(60),
      error: 'The model provider sent an answer that is too large.',
    })
    expect(fixture.controller.aborted).toBe(true)
  })

  it('has failed when its answer is larger than it may be, four times that with files', async () => {
    const answer = (bytes: number) => {
      const fixture = started({ answer: 10, stream: 100 })
      fixture.data('x'.repeat(bytes))
      fixture.end()
      return fixture.exchange
    }
    expect(await answer(10).text()).toHaveLength(10)
    await expect(answer(11).text()).rejects.toThrow('too large')
    expect(await answer(40).text(1000)).toHaveLength(40)
    await expect(answer(41).text(1000)).rejects.toThrow('too large')
  })

  it('has failed when it compresses what was not asked to be compressed', async () => {
    const { exchange, controller } = started()
    exchange.status = 0
    const given = controller as unknown as Dispatcher.DispatchController
    exchange.onResponseStart(given, 200, { 'content-encoding': 'gzip' })
    exchange.onResponseData(given, Buffer.from('packed'))
    await expect(exchange.text()).rejects.toThrow('encoding that it was not asked for')
    expect(controller.aborted).toBe(true)
  })
})
