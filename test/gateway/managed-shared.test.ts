/** Gateways on one Redis: each serves what was set up at one of them. */
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { folder } from '../_folder.ts'
import { needRedis, sharedServer } from '../state/redis/_engine.ts'
import { configuration, kept, model, PLANTED, provider, vendor, type Managing } from './_managed.ts'

const SECRET = 's'.repeat(40)
const CHAT = { model: 'acme/one', messages: [{ role: 'user', content: 'hi' }] }

needRedis()

async function together(
  count: number,
  env: Record<string, string> = { SLUICEGATE_SECRET: SECRET },
): Promise<readonly Managing[]> {
  const { url } = await sharedServer()
  const started: Managing[] = []
  while (started.length < count) {
    const cwd = await folder({
      'gateway.config.json': JSON.stringify(
        configuration({ state: { driver: 'redis', url, outbox: './outbox' } }),
      ),
    })
    started.push(await kept({ directory: cwd, env }))
  }
  return started
}

describe('three gateways on one Redis', () => {
  it('serve a vendor that was added at one of them within five seconds, and no dump has its key', async () => {
    const upstream = await vendor()
    const gateways = await together(3)
    const { url } = gateways[0]!.gateway.runtime.config.state as { url: string }
    const [first] = gateways as [Managing]
    await first.newAccount('acme', '100')
    const key = await first.newKey()
    const added = await first.change(provider(upstream.url), model())
    expect(added.status).toBe(200)
    const beganAt = performance.now()
    // The calls that were refused show the bound, however slow this machine is.
    let refusedAt = beganAt
    for (const gateway of gateways) {
      const status = async () => {
        const askedAt = performance.now()
        const answer = await gateway.chat(CHAT, { key: key.secret })
        if (answer.status !== 200) refusedAt = askedAt
        return answer.status
      }
      await expect.poll(status, { interval: 50 }).toBe(200)
    }
    expect(refusedAt - beganAt).toBeLessThan(5000)
    await expect
      .poll(async () => (await first.admin('GET', '/gateways')).data.map((one: any) => one.managed))
      .toEqual(
        Array.from({ length: 3 }, () => ({
          kid: expect.stringMatching(/^[0-9a-f]{8}$/),
          revision: 1,
          error: null,
        })),
      )
    const client = new Redis(url)
    const keys = await client.keys('*')
    const values = await Promise.all(keys.map((one) => client.dumpBuffer(one)))
    client.disconnect()
    expect(values.length).toBeGreaterThan(3)
    for (const value of values) expect(value?.includes(PLANTED)).toBe(false)
  })

  it('need one secret for keys, and none for what has no keys', async () => {
    const upstream = await vendor()
    const [gateway] = (await together(1, {})) as [Managing]
    expect(await gateway.change(provider(upstream.url), model())).toMatchObject({
      status: 409,
      error: {
        code: 'secret_missing',
        message: expect.stringContaining('set SLUICEGATE_SECRET, the same 32 or more characters'),
      },
    })
    expect((await gateway.change(provider(upstream.url, {}), model())).status).toBe(200)
  })

  it('take 20 changes of two at once, all of them, in revisions without gaps', async () => {
    const upstream = await vendor()
    const [one, other] = (await together(2)) as [Managing, Managing]
    await one.change(provider(upstream.url))
    const names = Array.from({ length: 20 }, (_, i) => `acme/m${i}`)
    let open = [...names]
    // A writer that is overtaken three times is told to try again.
    while (open.length > 0) {
      const answers = await Promise.all(
        open.map((name, i) => [one, other][i % 2]!.change(model(name))),
      )
      for (const { status, error } of answers) {
        expect(status === 200 || error.code === 'conflict', JSON.stringify(error)).toBe(true)
      }
      open = open.filter((_, i) => answers[i].status !== 200)
    }
    await expect
      .poll(async () => (await one.admin('GET', '/managed')).data.revision)
      .toBe(names.length + 1)
    const { data } = await one.admin('GET', '/managed')
    const present = data.entries.filter((entry: any) => entry.section === 'models')
    expect(present.map(({ name }: any) => name).toSorted()).toEqual(names.toSorted())
    const { data: history } = await one.admin('GET', '/managed/history')
    expect(history.map(({ revision }: any) => revision)).toEqual(
      Array.from({ length: 20 }, (_, i) => names.length + 1 - i),
    )
  })
})
