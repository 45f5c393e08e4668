/** Holds that grow with the answer, where little money is left. */
import { describe, expect, it } from 'vitest'
import type { ChatChunk } from '../../../src/plugin.ts'
import { parsePico, type Pico } from '../../../src/money/money.ts'
import type { Raise } from '../../../src/state/ledger/ledger.ts'
import { definePlugin } from '../../_plugin.ts'
import { createTestGateway, type TestGateway } from '../../_setup.ts'
import { eventually } from '../../_wait.ts'

/** A vendor that writes when it is told to. */
class Vendor {
  #next = Promise.withResolvers<string | undefined>()

  readonly plugin = definePlugin('told', { chat: () => this.#answer() })

  /** @param tokens their number by the gateway's estimate */
  write(tokens: number): void {
    this.#give('abcd'.repeat(tokens))
  }

  end(): void {
    this.#give(undefined)
  }

  #give(text: string | undefined): void {
    const { resolve } = this.#next
    this.#next = Promise.withResolvers()
    this.#waiting.push(text)
    resolve(text)
  }

  readonly #waiting: (string | undefined)[] = []

  async *#answer(): AsyncGenerator<ChatChunk> {
    for (;;) {
      while (this.#waiting.length === 0) await this.#next.promise
      const text = this.#waiting.shift()
      if (text === undefined) break
      yield { choices: [{ index: 0, delta: { content: text } }] }
    }
    yield { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    yield { choices: [], usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 } }
  }
}

const LIMIT = 30_000

interface Observed extends TestGateway {
  readonly raises: Raise[]
  /** The ceilings of the calls that held money. */
  readonly ceilings: Pico[]
}

async function open(vendor: Vendor, usd: string): Promise<Observed> {
  const t = await createTestGateway({
    providers: { p: { use: vendor.plugin } },
    models: {
      'acme/model': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        capabilities: ['STREAMING'],
        max_output_tokens: LIMIT,
        deployments: [{ provider: 'p', model: 'm' }],
      },
    },
  })
  const { ledger } = t.gateway.runtime
  await t.newAccount('near', usd)
  const raises: Raise[] = []
  const ceilings: Pico[] = []
  const { raise, hold } = ledger
  ledger.hold = (request) => {
    ceilings.push(request.ceiling)
    return hold.call(ledger, request)
  }
  ledger.raise = (one) => {
    raises.push(one)
    return raise.call(ledger, one)
  }
  return Object.assign(t, { raises, ceilings })
}

const ASK = { model: 'acme/model', messages: [{ role: 'user', content: 'Go on' }] }

describe('the hold of a call near the end of the money', () => {
  it('doubles with the tokens of a stream up to the ceiling, and is released at the end', async () => {
    const vendor = new Vendor()
    await using t = await open(vendor, '0.5')
    const { ledger } = t.gateway.runtime
    const { secret: key } = await t.newKey({ account: 'near' })
    const heldNow = async () => {
      const { balance, available } = await ledger.account('near')
      return balance - available
    }
    const answer = t.chat({ ...ASK, stream: true }, { key })
    await eventually(async () => expect(await heldNow()).toBeGreaterThan(0n))
    const first = await heldNow()
    // 2,048 tokens are expected.
    const output = 2n * 2048n * 1_000_000n
    vendor.write(2047)
    vendor.write(1)
    await eventually(async () => expect(await heldNow()).toBe(first + output))
    expect(t.raises).toHaveLength(1)
    vendor.write(2048)
    await eventually(async () => expect(await heldNow()).toBe(first + 3n * output))
    // Two steps at once.
    vendor.write(13_000)
    await eventually(async () => expect(t.raises).toHaveLength(3))
    expect(await heldNow()).toBe(t.ceilings[0]!)
    vendor.write(13_000)
    vendor.end()
    expect((await answer).status).toBe(200)
    expect(await heldNow()).toBe(0n)
    expect(t.raises).toHaveLength(3)
    expect(await ledger.verify('near')).toEqual([])
    const metrics = t.gateway.runtime.metrics.text()
    expect(metrics).toContain('sluicegate_hold_raises_total 3')
  })

  it('grows with the time of an answer that comes whole', async () => {
    const vendor = new Vendor()
    await using t = await open(vendor, '0.5')
    const { secret: key } = await t.newKey({ account: 'near' })
    const subject = { account: 'near', model: 'acme/model', prices: {} }
    const estimate = { least: {}, expected: {}, most: {}, output: { limit: 1, choices: 1 } }
    const line = { source: 'model' as const, usage: { completionTokens: 20 }, prices: {} }
    // Short answers of a fast model: the hold is too small within a moment.
    t.gateway.runtime.holds.learn(subject, { estimate, line })
    const [deployment] = t.gateway.runtime.catalog.get('acme/model')!.deployments
    const fast = { model: 'acme/model', deployment: deployment!.id, hidden: undefined }
    for (let i = 0; i < 10; i++) {
      t.gateway.runtime.holds.learnAnswer({ ...fast, tokens: 20, reasoning: 0, seconds: 0.001 })
    }
    const answer = t.chat(ASK, { key })
    await eventually(() => expect(t.raises.length).toBeGreaterThan(0))
    vendor.write(10)
    vendor.end()
    expect((await answer).status).toBe(200)
    const { balance, available } = await t.gateway.runtime.ledger.account('near')
    expect(available).toBe(balance)
  })

  it('does not grow where there is enough', async () => {
    const vendor = new Vendor()
    await using t = await open(vendor, '1000')
    const { secret: key } = await t.newKey({ account: 'near' })
    const answer = t.chat({ ...ASK, stream: true }, { key })
    for (let i = 0; i < 5; i++) vendor.write(5000)
    vendor.end()
    expect((await answer).status).toBe(200)
    expect(t.raises).toEqual([])
  })

  it('ends with the call although raises fail', async () => {
    const vendor = new Vendor()
    await using t = await open(vendor, '0.5')
    const { ledger } = t.gateway.runtime
    let asked = 0
    ledger.raise = async () => {
      asked++
      throw new Error('the store is away')
    }
    const { secret: key } = await t.newKey({ account: 'near' })
    const answer = t.chat({ ...ASK, stream: true }, { key })
    for (let i = 0; i < 4; i++) vendor.write(4000)
    vendor.end()
    const { status, text } = await answer
    expect(status).toBe(200)
    expect(text).toContain('[DONE]')
    expect(asked).toBeGreaterThan(0)
    expect(t.logged.join('\n')).not.toContain('the store is away')
    const { balance, available } = await ledger.account('near')
    expect(balance).toBe(parsePico('0.5') - parsePico('0.00003'))
    expect(available).toBe(balance)
  })
})
