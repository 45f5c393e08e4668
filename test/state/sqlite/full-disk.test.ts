/** Money on a full disk. The disk has a few megabytes, and only root may mount it. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished, type TestContext } from 'vitest'
import { ConfigError } from '../../../src/errors/errors.ts'
import { OutboxFile } from '../../../src/state/redis/outbox.ts'
import { formatPico } from '../../../src/money/money.ts'
import { mountDisk } from '../_disk.ts'
import { hindrance } from '../_tmpfs.ts'
import { definePlugin } from '../../_plugin.ts'
import { createTestGateway, eventsOf, hello, MOCK_CONFIG } from '../../_setup.ts'
import { collect, integrityOf, open, settlement } from './_engine.ts'

const echo = MOCK_CONFIG.models['mock/echo']

const reason = hindrance()
beforeEach((context: TestContext) => {
  if (reason !== undefined) context.skip(reason)
})

describe('a full disk', () => {
  it('admits nothing, finishes running calls when there is space again, and loses nothing', async () => {
    const disk = await mountDisk()
    const state = join(disk.path, 'state')
    const gate = Promise.withResolvers<void>()
    const plugin = definePlugin('slow', {
      async *chat() {
        yield { choices: [{ index: 0, delta: { content: 'one ' }, finish_reason: null }] }
        await gate.promise
        const usage = { prompt_tokens: 10, completion_tokens: 3 }
        yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }
      },
    })
    const t = await createTestGateway({
      state: { driver: 'file', path: state },
      providers: { p: { use: plugin } },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'p', model: 'm' }] } },
    })
    onTestFinished(() => t.close())
    const { ledger } = t.gateway.runtime
    const ended = { count: 0 }
    const running = Array.from({ length: 20 }, async (_, i) => {
      const answer = await t.chat({ ...hello, stream: i % 2 === 0 })
      ended.count++
      return answer
    })
    await expect.poll(() => t.gateway.running.size).toBe(20)
    await expect
      .poll(() => [...t.gateway.running].every(({ answer }) => answer.deployment))
      .toBe(true)

    disk.fill()
    gate.resolve()
    await expect.poll(() => ledger.health().ok).toBe(false)
    // What else is written, such as a record, may wait with the charges.
    expect(ledger.health().outbox).toBeGreaterThanOrEqual(20)
    const refused = await t.chat(hello)
    expect([refused.status, refused.json.error.code]).toEqual([503, 'service_unavailable'])
    expect((await t.ask('GET', '/health')).status).toBe(503)
    expect(ended.count).toBe(0)

    disk.empty()
    const answers = await Promise.all(running)
    const costs = answers.map(({ status, text }, i) => {
      expect(status).toBe(200)
      return i % 2 === 0 ? eventsOf(text).at(-2).usage.cost : JSON.parse(text).usage.cost
    })
    expect(new Set(costs)).toEqual(new Set([0.000016]))
    expect((await t.ask('GET', '/health')).status).toBe(200)
    expect((await t.chat(hello)).status).toBe(200)
    await expect.poll(() => ledger.health()).toEqual({ ok: true, outbox: 0, oldestMs: 0 })
    await t.close()

    const { ledger: reopened } = await open(state, () => Date.now())
    expect(await reopened.verify()).toEqual([])
    expect(formatPico((await reopened.account('acme')).balance)).toBe('99.999664')
    const rows = await collect(reopened.usage('acme'))
    expect(rows.filter(({ kind }) => kind === 'usage')).toHaveLength(21)
    await reopened.close()
    expect(integrityOf(state)).toBe('ok')
  })

  it('leaves running calls a reserve, and admits nothing until there is enough room again', async () => {
    const disk = await mountDisk(96)
    const token = 'admin-token-of-the-test'
    const state = join(disk.path, 'state')
    const gate = Promise.withResolvers<void>()
    const plugin = definePlugin('slow', {
      async *chat() {
        await gate.promise
        const usage = { prompt_tokens: 10, completion_tokens: 3 }
        yield {
          choices: [{ index: 0, delta: { content: 'one' }, finish_reason: 'stop' }],
          usage,
        }
      },
    })
    const t = await createTestGateway({
      admin: { token },
      state: { driver: 'file', path: state },
      providers: { p: { use: plugin } },
      models: { 'mock/echo': { ...echo, deployments: [{ provider: 'p', model: 'm' }] } },
    })
    onTestFinished(() => t.close())
    const { ledger } = t.gateway.runtime
    const reserve = join(state, 'ledger.reserve')
    const reserved = () => statSync(reserve, { throwIfNoEntry: false })?.size
    const create = (id: string) =>
      t.ask('POST', '/admin/accounts', { key: token, body: { id, name: id } })
    await expect.poll(reserved).toBe(8 * 2 ** 20)
    const running = Array.from({ length: 20 }, (_, i) => t.chat({ ...hello, stream: i % 2 === 0 }))
    await expect.poll(() => t.gateway.running.size).toBe(20)
    await expect
      .poll(() => [...t.gateway.running].every(({ answer }) => answer.deployment))
      .toBe(true)

    disk.fill()
    gate.resolve()
    const answers = await Promise.all(running)
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(reserved()).toBeUndefined()
    // Everything is on the disk, and nothing new is begun.
    expect(ledger.health()).toMatchObject({
      ok: false,
      outbox: 0,
      oldestMs: 0,
      why: 'the disk is full, running calls use the reserve',
    })
    const refused = await t.chat(hello)
    expect([refused.status, refused.json.error.code]).toEqual([503, 'service_unavailable'])
    expect((await create('new')).status).toBe(503)
    expect((await t.ask('GET', '/admin/accounts', { key: token })).status).toBe(200)
    expect((await t.ask('GET', '/readyz')).json.reasons).toEqual(['ledger'])

    disk.empty()
    await expect.poll(() => ledger.health().ok).toBe(true)
    expect(reserved()).toBe(8 * 2 ** 20)
    expect((await create('new')).status).toBe(201)
    expect((await t.chat(hello)).status).toBe(200)
    await t.close()
    const { ledger: reopened } = await open(state, () => Date.now())
    expect(await reopened.verify()).toEqual([])
    const rows = await collect(reopened.usage('acme'))
    expect(rows.filter(({ kind }) => kind === 'usage')).toHaveLength(21)
    await reopened.close()
    expect(integrityOf(state)).toBe('ok')
  })

  it('is reported in a sentence at the start', async () => {
    const disk = await mountDisk()
    disk.fill()
    const error = await open(join(disk.path, 'state')).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConfigError)
    expect((error as ConfigError).issues).toEqual([
      { path: 'state.path', message: expect.stringMatching(/cannot be used: .*(full|space)/) },
    ])
  })

  it('loses nothing of an outbox, which accepts no more', async () => {
    const disk = await mountDisk()
    const file = OutboxFile.open(disk.path)
    onTestFinished(() => file.close())
    const append = (name: string) => file.append({ settlement: settlement(name, 3n) }, null)
    await Promise.all(Array.from({ length: 50 }, (_, i) => append(`req_${i}`)))
    disk.fill()
    await expect(append('req_more')).rejects.toThrow('full')
    const batch = file.page('ledger', 0, 100)
    expect(() => file.remove([batch[0]!.seq])).toThrow('full')
    expect(file.page('ledger', 0, 100)).toEqual(batch)
    disk.empty()
    await append('req_more')
    file.remove(batch.map(({ seq }) => seq))
    expect(file.page('ledger', 0, 100).map(({ settlement }) => settlement.request)).toEqual([
      'req_more',
    ])
  })
})
