/** A guard that keeps failing is not asked for a while; what one account sends closes it for that account alone. */
import { afterEach, describe, expect, it } from 'vitest'
import { CircuitBreaker } from '../../src/guard/runner.ts'
import { honest, vendorOf } from '../plugins/judge/_judge.ts'
import { guarded, type Guarded } from './_setup.ts'

const opened: Guarded[] = []
afterEach(async () => {
  for (const one of opened.splice(0)) await one[Symbol.asyncDispose]()
})

describe('the circuit of a guard', () => {
  it('opens when half of ten calls failed, lets one try, and closes when that went well', () => {
    const circuit = new CircuitBreaker()
    for (let i = 0; i < 10; i++) {
      expect(circuit.admit('a', i)).toBe(true)
      circuit.ended('a', i % 2 === 0 ? 'ok' : 'down', i)
    }
    expect(circuit.state).toBe('open')
    expect(circuit.admit('a', 9_000)).toBe(false)
    expect(circuit.admit('a', 10_010)).toBe(true)
    expect(circuit.admit('a', 10_010)).toBe(false)
    circuit.ended('a', 'down', 10_020)
    expect(circuit.admit('a', 20_000)).toBe(false)
    expect(circuit.admit('a', 20_021)).toBe(true)
    circuit.ended('a', 'ok', 20_022)
    expect(circuit.state).toBe('closed')
    expect(circuit.admit('a', 20_023)).toBe(true)
  })

  it('forgets failures after half a minute, and stays closed for few of them', () => {
    const circuit = new CircuitBreaker()
    for (let i = 0; i < 9; i++) circuit.ended('a', 'down', i)
    circuit.ended('a', 'ok', 40_000)
    expect(circuit.state).toBe('closed')
    for (let i = 0; i < 30; i++) circuit.ended('a', i % 3 > 0 ? 'ok' : 'down', 40_001 + i)
    expect(circuit.state).toBe('closed')
  })

  it('lets another try when the first was given up', () => {
    const circuit = new CircuitBreaker()
    for (let i = 0; i < 10; i++) circuit.ended('a', 'down', i)
    expect(circuit.admit('a', 11_000)).toBe(true)
    circuit.abandoned()
    expect(circuit.admit('a', 11_001)).toBe(true)
  })

  it('opens for all once three accounts see the guard fail, or all of fewer that ask', () => {
    const many = new CircuitBreaker()
    many.ended('c', 'ok', 0)
    many.ended('d', 'ok', 0)
    for (let i = 0; i < 100; i++) many.ended('a', 'down', i)
    for (let i = 0; i < 100; i++) many.ended('b', 'down', i)
    expect(many.state).toBe('closed')
    many.ended('c', 'down', 101)
    expect(many.state).toBe('open')
    const two = new CircuitBreaker()
    for (let i = 0; i < 10; i++) two.ended(i % 2 ? 'a' : 'b', 'down', i)
    expect(two.state).toBe('open')
  })

  it('ten thousand invalid answers to one account close it for that account, ten seconds at a time', () => {
    const circuit = new CircuitBreaker()
    let asked = 0
    for (let at = 0; at < 10_000; at++) {
      if (circuit.admit('a', at)) {
        circuit.ended('a', 'invalid', at)
        asked++
      }
      expect(circuit.admit('b', at)).toBe(true)
      circuit.ended('b', 'ok', at)
    }
    expect(asked).toBe(5)
    expect(circuit.state).toBe('closed')
    expect(circuit.admit('a', 10_005)).toBe(true)
  })

  it('invalid answers that are far apart close nothing', () => {
    const circuit = new CircuitBreaker()
    for (let at = 0; at < 1_000_000; at += 10_000) circuit.ended('a', 'invalid', at)
    expect(circuit.admit('a', 1_000_001)).toBe(true)
  })
})

describe('a judge that one account talks out of its form', () => {
  it('is asked for other accounts as before, and their answers go out', async () => {
    const g = await guarded([{ use: 'judge', options: { model: 'acme/judge' } }])
    opened.push(g)
    let judged = 0
    // A judge with a weakness: it says nothing useful about this word, and is right about all else.
    g.vendor.answer(
      vendorOf((asked) => {
        judged++
        return asked.text.includes('abracadabra') ? 'As you wish.' : honest(asked, () => ({}))
      }),
    )
    const policy = { version: 1, deny: ['legal'], guard: { output: false } } as const
    await g.t.newAccount('other', '1')
    const [bad, good] = [
      await g.t.newKey({ policy }),
      await g.t.newKey({ account: 'other', policy }),
    ]
    const ask = async ({ secret }: { secret: string }, content: string) => {
      const messages = [{ role: 'user', content }]
      const { json } = await g.t.chat({ model: 'acme/swift', messages }, { key: secret })
      return json.guard.outcome
    }
    const attempts = Array.from({ length: 40 }, (_, i) => `abracadabra ${i}`)
    for (const text of attempts) expect(await ask(bad, text)).toBe('error')
    // Each question is asked twice before its answer counts as invalid.
    expect(judged).toBe(10)
    expect(await ask(bad, 'Good morning.')).toBe('error')
    expect(await ask(good, 'Good morning.')).toBe('passed')
    expect(judged).toBe(11)
  })
})
