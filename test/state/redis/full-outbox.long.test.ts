/** Redis is away and the disk of the outbox is full: nothing can be written down, and nothing is lost. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it, onTestFinished, type TestContext } from 'vitest'
import { everyEndpointConfig, type Script } from '../../_every-endpoint.ts'
import { createTestGateway, eventsOf } from '../../_setup.ts'
import { mountDisk } from '../_disk.ts'
import { hindrance } from '../_tmpfs.ts'
import { needRedis, serverForTest } from './_engine.ts'

const STREAMS = 20
const WHOLE = 5

needRedis()
const reason = hindrance()
beforeEach((context: TestContext) => {
  if (reason !== undefined) context.skip(reason)
})

it('admits nothing while the outbox cannot be written, although Redis can', async () => {
  const server = await serverForTest()
  const disk = await mountDisk()
  const t = await createTestGateway({
    ...everyEndpointConfig({ ending: 'normal', usage: undefined, gate: Promise.resolve() }),
    state: { driver: 'redis', url: server.url, outbox: disk.path },
  })
  onTestFinished(() => t.close())
  const chat = () => t.chat({ model: 'acme/chat', messages: [{ role: 'user', content: 'Hello.' }] })
  const reasons = async () => (await t.ask('GET', '/readyz')).json.reasons
  const { ledger } = t.gateway.runtime
  for (let round = 0; round < 2; round++) {
    await expect.poll(reasons).toEqual([])
    expect((await chat()).status).toBe(200)
    // Filled again and again: the gateway may just have a file on it with which it tries the disk, and deletes it then.
    await expect
      .poll(() => {
        disk.fill()
        return reasons()
      })
      .toEqual(['outbox'])
    expect(ledger.health()).toMatchObject({ ok: false, outbox: 0 })
    const refused = await chat()
    expect([refused.status, refused.json.error.code]).toEqual([503, 'service_unavailable'])
    disk.empty()
  }
  await expect.poll(reasons).toEqual([])
  expect(await ledger.verify()).toEqual([])
})

it('books running calls in the reserve of a full disk while Redis is away', async () => {
  const server = await serverForTest()
  const disk = await mountDisk(96)
  const gate = Promise.withResolvers<void>()
  const t = await createTestGateway({
    ...everyEndpointConfig({ ending: 'normal', usage: undefined, gate: gate.promise }),
    state: { driver: 'redis', url: server.url, outbox: disk.path },
  })
  onTestFinished(() => t.close())
  const { ledger } = t.gateway.runtime
  const messages = [{ role: 'user', content: 'Say hello.' }]
  const running = Array.from({ length: STREAMS }, () =>
    t.chat({ model: 'acme/chat', messages, stream: true }),
  )
  await expect.poll(() => t.gateway.running.size).toBe(STREAMS)
  await expect
    .poll(() => [...t.gateway.running].every(({ answer }) => answer.deployment))
    .toBe(true)
  const reserve = join(disk.path, 'outbox-1.db-reserve')
  const reserved = () => statSync(reserve, { throwIfNoEntry: false })?.size
  await expect.poll(reserved).toBe(8 * 2 ** 20)

  await server.kill()
  disk.fill()
  gate.resolve()
  for (const { text } of await Promise.all(running)) {
    expect(eventsOf(text).at(-2).usage.cost).toBeGreaterThan(0)
  }
  expect(reserved()).toBeUndefined()
  await server.start()
  await expect.poll(() => ledger.health().outbox).toBe(0)
  // Redis has all of it. Without room for another outage nothing is admitted.
  await expect
    .poll(() => ledger.health())
    .toMatchObject({ ok: false, outbox: 0, oldestMs: 0, outboxFault: true })
  expect((await t.chat({ model: 'acme/chat', messages })).status).toBe(503)
  expect((await t.ask('GET', '/readyz')).json.reasons).toEqual(['outbox'])

  disk.empty()
  await expect.poll(() => ledger.health().ok).toBe(true)
  expect(reserved()).toBe(8 * 2 ** 20)
  expect((await t.chat({ model: 'acme/chat', messages })).status).toBe(200)
  expect(await ledger.verify()).toEqual([])
})

it('defers what runs, admits nothing, and books every stream once after the repair', async () => {
  const rejections: unknown[] = []
  const note = (error: unknown) => void rejections.push(error)
  process.on('unhandledRejection', note)
  onTestFinished(() => void process.off('unhandledRejection', note))
  const server = await serverForTest()
  const disk = await mountDisk()
  const gate = Promise.withResolvers<void>()
  const script: Script = { ending: 'normal', usage: undefined, gate: gate.promise }
  const config = everyEndpointConfig(script)
  const t = await createTestGateway({
    ...config,
    state: { driver: 'redis', url: server.url, outbox: disk.path },
  })
  onTestFinished(() => t.close())
  const { ledger } = t.gateway.runtime
  const messages = [{ role: 'user', content: 'Say hello.' }]
  const streams = Array.from({ length: STREAMS }, () =>
    t.chat({ model: 'acme/chat', messages, stream: true }),
  )
  const whole = Array.from({ length: WHOLE }, () =>
    t.ask('POST', '/v1/ocr', {
      body: {
        model: 'acme/ocr',
        document: {
          type: 'document_url',
          document_url: 'data:application/pdf;base64,JVBERi0xLjQK',
        },
      },
    }),
  )
  await expect.poll(() => t.gateway.running.size).toBe(STREAMS + WHOLE)
  await expect
    .poll(() => [...t.gateway.running].every(({ answer }) => answer.deployment))
    .toBe(true)

  await server.kill()
  disk.fill()
  // Every other answer breaks off, once it is asked to go on.
  let turn = 0
  const alternates = () => (turn++ % 2 === 0 ? 'broken' : 'normal')
  Object.defineProperty(script, 'ending', { get: alternates, configurable: true })
  gate.resolve()
  const answered = await Promise.all(streams)
  for (const answer of answered) {
    const payloads = eventsOf(answer.text)
    expect(payloads.at(-1), answer.text).toBe('[DONE]')
    const { error } = payloads.at(-2)
    expect(error.code, answer.text).toBe('service_unavailable')
    // A cost that a client has seen is durable, so it sees none.
    expect(error).not.toHaveProperty('usage')
  }
  for (const answer of await Promise.all(whole)) expect([502, 503]).toContain(answer.status)
  expect(ledger.health()).toMatchObject({ ok: false, outbox: STREAMS + WHOLE })
  const refused = await t.chat({ model: 'acme/chat', messages })
  expect([refused.status, refused.json.error.code]).toEqual([503, 'service_unavailable'])
  expect((await t.ask('GET', '/readyz')).status).toBe(503)

  disk.empty()
  await server.start()
  await expect.poll(() => ledger.health()).toMatchObject({ ok: true, outbox: 0, oldestMs: 0 })
  const rows = []
  for await (const row of ledger.usage('acme')) if (row.kind === 'usage') rows.push(row)
  const ids = (answers: readonly { headers: any }[]) =>
    answers.map(({ headers }) => headers['x-request-id']).toSorted()
  const charged = rows.filter(({ cost }) => cost > 0n)
  expect(charged.map(({ request }) => request).toSorted()).toEqual(ids(answered))
  const free = rows.filter(({ cost }) => cost === 0n)
  expect(free.map(({ request }) => request).toSorted()).toEqual(ids(await Promise.all(whole)))
  expect(ledger.conflicts).toBe(0)
  expect(await ledger.verify()).toEqual([])
  Object.defineProperty(script, 'ending', { value: 'normal' })
  expect((await t.chat({ model: 'acme/chat', messages })).status).toBe(200)
  expect(rejections).toEqual([])
})
