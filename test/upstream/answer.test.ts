import { createConsola } from 'consola'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FailureClass, FailureOptions } from '../../src/plugin.ts'
import { json, startUpstream, type FakeResponse, type FakeUpstream } from '../../src/testing.ts'
import { createHost } from '../../src/upstream/host.ts'

const TIMES = { timeoutMs: 60_000, firstPartTimeoutMs: 60_000, idleTimeoutMs: 60_000 }
const log = createConsola({ level: -999 })
const { host, close } = createHost('test', { ...TIMES, connections: 4 }, log)
let vendor: FakeUpstream
beforeAll(async () => {
  vendor = await startUpstream()
})
afterAll(async () => {
  await vendor.close()
  await close()
})

async function answer(given: FakeResponse) {
  vendor.answer(given)
  return host.request({ url: vendor.url, signal: new AbortController().signal })
}
const failed = async (given: FakeResponse, options?: FailureOptions): Promise<any> =>
  host.failure(await answer(given), options)

describe('the failure of a refusal', () => {
  it.each<[number, FailureClass]>([
    [200, 'upstream_error'],
    [302, 'upstream_error'],
    [400, 'bad_request'],
    [401, 'upstream_auth'],
    [402, 'upstream_balance'],
    [403, 'upstream_auth'],
    [404, 'not_found'],
    [408, 'timeout'],
    [413, 'payload_too_large'],
    [418, 'upstream_error'],
    [422, 'bad_request'],
    [429, 'upstream_rate'],
    [500, 'upstream_error'],
    [503, 'overloaded'],
    [504, 'upstream_error'],
    [529, 'overloaded'],
  ])('%i is %s', async (status, failure) => {
    const error = await failed(json({ error: 'the account acme is not paid' }, status))
    expect(error).toMatchObject({ failure, cause: new Error(`HTTP ${status}`) })
    expect(error.message).toMatch(/^The (model provider|request|messages) .*\.$/)
    expect(error.message).not.toContain('acme')
  })

  it('is what the plugin says, by status and by body', async () => {
    const classes = { 404: 'bad_request' } as const
    expect(await failed(json({}, 404), { classes })).toMatchObject({ failure: 'bad_request' })
    const classify = (body: any, status: number) =>
      body?.type === 'full' && status === 404 ? ('overloaded' as const) : undefined
    const full = await failed(json({ type: 'full' }, 404), { classes, classify, message: 'Full.' })
    expect(full).toMatchObject({ failure: 'overloaded', message: 'Full.' })
    const page = { status: 404, pieces: ['<html>'] }
    expect(await failed(page, { classes, classify })).toMatchObject({ failure: 'bad_request' })
  })

  it.each<[Record<string, string>, number, number]>([
    [{ 'retry-after': '7' }, 7000, 7000],
    [{ 'retry-after': '1.5', 'retry-after-ms': '20' }, 20, 20],
    [{ 'retry-after': new Date(Date.now() + 3_600_000).toUTCString() }, 1, 3_600_000],
  ])('has the wait of %j', async (headers, least, most) => {
    const { retryAfterMs } = await failed(json({}, 429, headers))
    expect(retryAfterMs).toBeGreaterThanOrEqual(least)
    expect(retryAfterMs).toBeLessThanOrEqual(most)
  })

  it('has no wait where none is said, or a wrong one', async () => {
    for (const headers of [{}, { 'retry-after': 'soon' }, { 'retry-after': '-3' }])
      expect((await failed(json({}, 503, headers as any))).retryAfterMs).toBeUndefined()
  })

  it('has the wait that the body says, before that of the headers', async () => {
    const headers = { 'retry-after': '7' }
    const classify = ({ wait }: any) => ({ failure: 'upstream_rate', retryAfterMs: wait }) as const
    const waits = async (wait: unknown) =>
      (await failed(json({ wait }, 400, headers), { classify })).retryAfterMs
    expect([await waits(2500), await waits(undefined)]).toEqual([2500, 7000])
    const byStatus = await failed(json({}, 503), { classify: () => ({ retryAfterMs: 2000 }) })
    expect(byStatus).toMatchObject({ failure: 'overloaded', retryAfterMs: 2000 })
  })

  it('tells clients the wait that a plugin sets later', async () => {
    const error = await failed(json({}, 429))
    error.retryAfterMs = 2500
    const forms = [error, error.cleaned((text: string) => `${text} `), error.withOwnWords()]
    for (const form of forms) {
      expect(form.message).toMatch(/ Try again in 3s\.$/)
      expect(form.headers).toEqual({ 'retry-after': '3' })
      expect(form.retryAfterMs).toBe(2500)
    }
  })

  it('has no wait where a plugin gives none that is a time', () => {
    for (const retryAfterMs of [Number.NaN, Infinity, -1, '5' as never]) {
      const error: any = host.fail('upstream_rate', undefined, { retryAfterMs })
      expect(error).toMatchObject({ retryAfterMs: undefined, headers: { 'retry-after': '1' } })
    }
  })

  it('stands without its body too', async () => {
    const cut = { status: 401, headers: { 'content-length': '99' }, pieces: ['{'] }
    expect(await failed({ ...cut, ending: 'cut' })).toMatchObject({ failure: 'upstream_auth' })
  })
})

describe('an answer as JSON', () => {
  it('is its value', async () => {
    expect(await host.readJson(await answer(json([1, { a: null }], 201)))).toEqual([1, { a: null }])
  })

  it.each<[string, FakeResponse, FailureClass]>([
    ['a refusal', json({}, 402), 'upstream_balance'],
    ['no JSON', { pieces: ['<html>'] }, 'upstream_error'],
    ['nothing', { pieces: [] }, 'upstream_error'],
    ['too much', json('x'.repeat(100)), 'upstream_error'],
  ])('fails for %s', async (_what, given, failure) => {
    const reading = host.readJson(await answer(given), { limitBytes: 50 })
    await expect(reading).rejects.toMatchObject({ failure })
  })
})
