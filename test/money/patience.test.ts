/** Calls of an account whose money is held by others, and answers that cannot be written. */
import { expect, it, vi } from 'vitest'
import { chatCompletions } from '../../src/endpoints/chat/dialects/chat/write.ts'
import { definePlugin } from '../_plugin.ts'
import { createTestGateway, MOCK_CONFIG } from '../_setup.ts'

const ECHO = MOCK_CONFIG.models['mock/echo']
const ASK = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 100_000 }

async function open(patience: number) {
  const gates: (() => void)[] = []
  const plugin = definePlugin('gated', {
    async *chat() {
      await new Promise<void>((resolve) => gates.push(resolve))
      yield { choices: [{ index: 0, delta: { content: 'Done.' }, finish_reason: 'stop' }] }
    },
  })
  const t = await createTestGateway({
    billing: { patience, hold: 'ceiling' },
    providers: { p: { use: plugin } },
    models: { 'mock/echo': { ...ECHO, deployments: [{ provider: 'p', model: 'm' }] } },
  })
  await t.newAccount('small', '0.25')
  const { secret: key } = await t.newKey({ account: 'small' })
  return { t, gates, ask: () => t.chat(ASK, { key }) }
}

it('a call waits until a settlement frees what it needs', async () => {
  const { t, gates, ask } = await open(30)
  await using _ = t
  const first = ask()
  await expect.poll(() => gates.length).toBe(1)
  const second = ask()
  await expect.poll(() => t.gateway.running.size).toBe(2)
  gates[0]!()
  expect((await first).status).toBe(200)
  await expect.poll(() => gates.length).toBe(2)
  gates[1]!()
  expect((await second).status).toBe(200)
  expect(await t.gateway.runtime.ledger.verify('small')).toEqual([])
})

it('a call without patience is refused at once', async () => {
  const { t, gates, ask } = await open(0)
  await using _ = t
  const first = ask()
  await expect.poll(() => gates.length).toBe(1)
  const refused = await ask()
  expect([refused.status, refused.json.error.code]).toEqual([429, 'too_many_concurrent'])
  gates[0]!()
  expect((await first).status).toBe(200)
})

it('an answer that cannot be written is no charged error, whole or before its first byte', async () => {
  await using t = await createTestGateway()
  const broken = () => {
    throw new TypeError('no such member')
  }
  const before = await t.balance()
  const { write } = chatCompletions
  for (const stream of [false, true]) {
    vi.spyOn(chatCompletions, 'write').mockImplementation((call, out, done) => {
      const writer = write(call, out, done) as any
      if (stream) writer.push = broken
      else vi.spyOn(JSON, 'stringify').mockImplementationOnce(broken)
      return writer
    })
    const answer = await t.chat({ model: 'mock/echo', messages: ASK.messages, stream })
    expect(answer.status).toBeGreaterThanOrEqual(500)
    expect(answer.json.error.usage).toBeUndefined()
    expect(await t.balance()).toBe(before)
    vi.restoreAllMocks()
  }
})
