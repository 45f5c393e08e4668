/** The exchange alone, with a controller that delivers inside `resume()`, as undici does. */
import type { Dispatcher } from 'undici'
import { describe, expect, it } from 'vitest'
import type { UpstreamResponse } from '../../src/plugin.ts'
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

function started(): Fixture {
  const fake = new FakeController()
  const controller = fake as unknown as Dispatcher.DispatchController
  const abort = new AbortController()
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamResponse>()
  void promise.catch(() => {})
  const exchange = new HttpExchange(abort.signal, resolve, reject)
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

/** All that can be pulled, and the message of the error that ended it. */
async function pulled(exchange: HttpExchange): Promise<{ text: string; error?: string }> {
  let text = ''
  try {
    for (let last = false; !last;) {
      const batch = await exchange.next()
      for (const chunk of batch.parts) text += Buffer.from(chunk).toString()
      last = batch.last
    }
    return { text }
  } catch (error) {
    return { text, error: (error as Error).message }
  }
}

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
    expect(await pulled(fixture.exchange)).toEqual(expected)
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

it('chunks of one read of the socket are one batch', async () => {
  const { exchange, data, end } = started()
  const first = exchange.next()
  data('a')
  data('b')
  end()
  expect((await first).parts).toHaveLength(2)
  expect((await first).last).toBe(true)
})

describe('an exchange that is closed', () => {
  it('ends the pull that waits', async () => {
    const { exchange, controller } = started()
    const waiting = exchange.next()
    exchange.close(false)
    expect(await waiting).toEqual({ parts: [], last: true })
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

it('an exchange that is aborted rejects the pull that waits, with the reason', async () => {
  const { exchange, abort, controller } = started()
  const waiting = exchange.next()
  abort.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  expect(controller.aborted).toBe(true)
})
