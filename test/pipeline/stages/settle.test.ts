/** What a client, the process and the ledger see when a charge cannot be booked. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Ledger } from '../../../src/state/ledger/ledger.ts'
import { everyEndpointConfig, REQUESTS, type Asked, type Ending } from '../../_every-endpoint.ts'
import { createTestGateway, eventsOf, type TestGateway } from '../../_setup.ts'

const rejections: unknown[] = []
const note = (reason: unknown) => void rejections.push(reason)
beforeEach(() => {
  rejections.length = 0
  process.on('unhandledRejection', note)
})
afterEach(async () => {
  await new Promise((resolve) => setImmediate(resolve))
  process.off('unhandledRejection', note)
  expect(rejections).toEqual([])
})

/** Faults of a ledger. */
const DOUBLES: Readonly<Record<string, (settle: Ledger['settle']) => Ledger['settle']>> = {
  throws: () => () => {
    throw new Error('the engine has a fault')
  },
  rejects: () => () => Promise.reject(new Error('the engine has a fault')),
  'never answers': () => () => new Promise(() => {}),
  'answers twice': (settle) => async (settlement) => {
    await settle(settlement)
    return settle(settlement)
  },
}

async function open() {
  const script = { ending: 'normal' as Ending, usage: undefined, gate: Promise.resolve() }
  const t = await createTestGateway(everyEndpointConfig(script))
  onTestFinished(() => t.close())
  return { t, script }
}

async function leaseIsFree(t: TestGateway): Promise<void> {
  const { ledger } = t.gateway.runtime
  await expect.poll(() => t.gateway.running.size).toBe(0)
  await expect.poll(async () => (await ledger.key('acme', t.key.id)).inFlight).toBe(0)
}

const usageIn = (text: string) => /"cost":/.test(text)

describe.each(Object.keys(DOUBLES))('a ledger that %s', (fault) => {
  it('ends the call alone, whatever the endpoint, and however the answer ends', async () => {
    const endings = ['normal', 'before', 'broken'] as const
    const withEnding = async (ending: Ending) => {
      const { t, script } = await open()
      script.ending = ending
      const { ledger } = t.gateway.runtime
      const settle = ledger.settle.bind(ledger)
      vi.spyOn(ledger, 'settle').mockImplementation(DOUBLES[fault]!(settle))
      const answers = await Promise.all(
        REQUESTS.map(async (one) => ({ one, answer: await outcomeOf(one, t) })),
      )
      await leaseIsFree(t)
      for (const { one, answer } of answers) {
        const shown = `${one.name}: ${answer.status} ${answer.text.slice(0, 300)}`
        if (ending === 'normal' && fault === 'answers twice') {
          expect(answer.status, shown).toBe(200)
        } else if (ending === 'before') {
          expect(answer.status, shown).toBe(502)
        } else if (fault !== 'answers twice' && ending === 'normal') {
          // A cost that a client sees is durable, so it sees none.
          expect(usageIn(answer.text), shown).toBe(false)
          expect(answer.text, shown).toContain('service_unavailable')
          if (!one.stream || one.name.startsWith('speech')) expect(answer.status, shown).toBe(503)
        }
        if (answer.status === 200 && one.name === 'chat, streamed') {
          expect(eventsOf(answer.text).at(-1), shown).toBe('[DONE]')
        }
      }
      expect(await ledger.verify()).toEqual([])
    }
    // All at once: the deadline of the ledger is ten seconds.
    await Promise.all(endings.map(withEnding))
  })
})

it('a stream that breaks tells its error, however long its slot takes to come back', async () => {
  const { t, script } = await open()
  script.ending = 'broken'
  const { ledger } = t.gateway.runtime
  const leave = ledger.leave.bind(ledger)
  vi.spyOn(ledger, 'settle').mockRejectedValue(new Error('the engine has a fault'))
  vi.spyOn(ledger, 'leave').mockImplementation(async (lease) => {
    await nextTurn()
    return leave(lease)
  })
  const ask = REQUESTS.find(({ name }) => name === 'chat, streamed')!
  const payloads = eventsOf((await ask.ask(t)).text)
  expect(payloads.at(-1)).toBe('[DONE]')
  expect(payloads.at(-2).error.code).toBe('service_unavailable')
  await leaseIsFree(t)
})

/** A raw sound that breaks off closes the connection. */
async function outcomeOf({ ask }: Asked, t: TestGateway) {
  return ask(t).catch((error: Error) => ({ status: 0, text: String(error) }))
}
