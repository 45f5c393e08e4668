/** Requests that a client repeats with one `Idempotency-Key` after the gateway that had the first of them was killed. */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { UserConfig } from '../../src/config/config.ts'
import { folder } from '../_folder.ts'
import { forkGateway } from '../_forked.ts'
import { askAndLeave, at, body, CONFIG, scripted, WORD } from '../pipeline/stages/_claims.ts'
import { createGatewayBeside } from '../_setup.ts'
import { needRedis, sharedServer } from '../state/redis/_engine.ts'

/** The configuration of the gateway that is killed: its answer takes longer than the kill does. */
const PACED: UserConfig = {
  ...CONFIG,
  models: {
    ...(CONFIG.models as object),
    'mock/slow': scripted({ reply: 'One two three', paceMs: 5000 }),
  },
}

it('is asked for anew where its gateway was killed, on the same folder', async () => {
  const path = await folder({})
  const state = { driver: 'file', path } as const
  await using killed = await forkGateway({ ...PACED, state })
  const asked = { ...body, model: 'mock/slow', stream: true }
  await askAndLeave(killed.url, killed.key, 'a', asked)
  await killed.kill()
  const next = await createGatewayBeside({ ...CONFIG, state })
  onTestFinished(() => next.close())
  const answer = await at(next.url, killed.key, 'a', asked)
  expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([200, undefined])
  expect((await at(next.url, killed.key, 'a', asked)).text).toBe(answer.text)
})

/** A call of a gateway that is killed between booking its cost and sending the last of its answer, and then its repetitions. */
async function killBeforeSending(state: UserConfig['state'], stream: boolean): Promise<void> {
  const config: UserConfig = { ...CONFIG, ...(state && { state }) }
  await using killed = await forkGateway(config)
  const { key } = killed
  await killed.dieWhenBooked()
  const asked = { ...body, stream }
  await expect(at(killed.url, key, 'a', asked)).rejects.toThrow()
  await killed[Symbol.asyncDispose]()
  const next = await createGatewayBeside(config)
  onTestFinished(() => next.close())
  const { ledger } = next.gateway.runtime
  const costs = async () => {
    const found: bigint[] = []
    for await (const { kind, cost } of ledger.usage('acme')) if (kind === 'usage') found.push(cost)
    return found
  }
  const [cost, ...others] = await costs()
  expect([cost! > 0n, others]).toEqual([true, []])
  for (let i = 0; i < 3; i++) {
    const again = await at(next.url, key, 'a', asked)
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
    expect(again.text).toContain(WORD)
    const [, told] = /"cost":([\d.e-]+)/.exec(again.text) ?? []
    if (!stream) expect(BigInt(Math.round(Number(told) * 1e12))).toBe(cost)
  }
  expect(await costs()).toEqual([cost])
  expect(await ledger.verify()).toEqual([])
}

it.each([false, true])(
  'finds the answer that was booked and not sent, on the folder of a killed gateway (streamed: %s)',
  async (stream) => killBeforeSending({ driver: 'file', path: await folder({}) }, stream),
)

describe('on one Redis', () => {
  needRedis()

  it('finds the answer that was booked and not sent, by the heir of a killed gateway', async () => {
    const { url } = await sharedServer()
    await killBeforeSending({ driver: 'redis', url, outbox: await folder({}) }, true)
  })

  it('is charged once over two gateways and a kill, and no word of it is in a dump', async () => {
    const server = await sharedServer()
    const [own, others] = [await folder({}), await folder({})]
    const config = (outbox: string): UserConfig => ({
      ...CONFIG,
      state: { driver: 'redis', url: server.url, outbox },
    })
    await using killed = await forkGateway({ ...PACED, state: config(own).state })
    const { key } = killed
    const asked = { ...body, model: 'mock/slow', stream: true }
    await askAndLeave(killed.url, key, 'a', asked)
    await killed.kill()
    const other = await createGatewayBeside(config(others))
    onTestFinished(() => other.close())
    const { ledger } = other.gateway.runtime
    const before = (await ledger.account('acme')).balance
    // No gateway knows yet what the killed one had to book.
    const early = await at(other.url, key, 'a', asked)
    expect([early.status, early.json.error.code]).toEqual([409, 'idempotency_in_progress'])
    const heir = await createGatewayBeside(config(own))
    onTestFinished(() => heir.close())
    const ask = (url: string) => at(url, key, 'a', asked)
    await expect.poll(async () => (await ask(other.url)).status).toBe(200)
    const cost = before - (await ledger.account('acme')).balance
    const answers = [await ask(heir.url), await ask(other.url), await ask(heir.url)]
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
    expect(answers.map(({ headers }) => headers['idempotent-replayed'])).toEqual([
      'true',
      'true',
      'true',
    ])
    expect(before - (await ledger.account('acme')).balance).toBe(cost)
    expect(cost).toBeGreaterThan(0n)
    const stored = await server.ask(async (client) => {
      const names = (await client.keys('*')) as string[]
      return Promise.all(names.map((name) => client.dumpBuffer(name)))
    })
    expect(stored.some((dump) => dump!.includes(WORD))).toBe(false)
  })
})
