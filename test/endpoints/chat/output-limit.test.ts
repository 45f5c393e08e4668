/** A vendor that writes past the token ceiling of a policy: the answer is cut, and is a normal answer all the same. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, type Answer } from '../../_setup.ts'
import { guarded, type Guarded } from '../../guard/_setup.ts'
import { events, json } from '../../upstream.ts'

const CEILING = 10
/** Characters that the client may get: 1.5 times the ceiling and 32 tokens, at four characters each. */
const MOST = (CEILING * 1.5 + 32) * 4
const POLICY = { maxOutputTokens: CEILING }
const LONG = 'word '.repeat(200)
const usage = { prompt_tokens: 5, completion_tokens: 250 }

let g: Guarded
beforeAll(async () => {
  g = await guarded([])
})
afterAll(() => g[Symbol.asyncDispose]())

const says = (index: number, content: string) => ({ choices: [{ index, delta: { content } }] })
const ends = (index: number) => ({ choices: [{ index, delta: {}, finish_reason: 'stop' }] })

interface Choice {
  text: string
  roles: number
  reasons: string[]
}

/** The choices of a streamed answer. */
function choicesOf(answer: Answer): Choice[] {
  const choices: Choice[] = []
  for (const event of eventsOf(answer.text)) {
    for (const { index, delta, finish_reason } of event.choices ?? []) {
      const choice = (choices[index] ??= { text: '', roles: 0, reasons: [] })
      choice.text += delta.content ?? ''
      for (const call of delta.tool_calls ?? []) choice.text += call.function?.arguments ?? ''
      if (delta.role) choice.roles++
      if (finish_reason) choice.reasons.push(finish_reason)
    }
  }
  return choices
}

async function rowOf(answer: Answer) {
  const { ledger } = g.t.gateway.runtime
  for await (const row of ledger.usage('acme')) {
    if (row.request === answer.headers['x-request-id']) return row
  }
  throw new Error('the call has no row')
}

/** A stream whose choice 0 runs over. */
async function streamed(n: number, ...chunks: object[]) {
  g.vendor.answer({ ...events(...chunks), ending: 'hang' })
  const answer = await g.ask(POLICY, { stream: true, n })
  expect(answer.status).toBe(200)
  const payloads = eventsOf(answer.text)
  expect(payloads.at(-1)).toBe('[DONE]')
  expect(answer.text).not.toContain('"error"')
  const row = await rowOf(answer)
  expect(row.usage!.outcome).toBe('completed')
  const last = payloads.at(-2)
  expect(row.cost).toBe(BigInt(Math.round(last.usage.cost * 1e12)))
  return { choices: choicesOf(answer), usage: last.usage, row }
}

describe('a stream past the ceiling', () => {
  it('has no chunk without text where what came before fills it', async () => {
    g.vendor.answer(
      events(says(0, 'x'.repeat(MOST)), says(0, LONG), ends(0), { choices: [], usage }),
    )
    const payloads = eventsOf((await g.ask(POLICY, { stream: true })).text)
    const chunks = payloads.filter(({ choices }) => choices?.length > 0)
    const told = chunks.map(({ choices: [{ delta, finish_reason }] }) => [
      delta.content?.length,
      finish_reason,
    ])
    expect(told).toEqual([
      [0, null],
      [MOST, null],
      [undefined, 'length'],
    ])
  })

  it.each([1, 3])('ends every choice with length (n = %i)', async (n) => {
    const { choices, usage } = await streamed(n, says(0, 'Hello. '), says(0, LONG))
    expect(choices).toHaveLength(n)
    for (const { roles, reasons } of choices) {
      expect([roles, reasons]).toEqual([1, ['length']])
    }
    expect(choices[0]!.text).toBe(`Hello. ${LONG}`.slice(0, MOST))
    expect(choices.slice(1).every(({ text }) => text === '')).toBe(true)
    expect(usage.completion_tokens).toBeGreaterThanOrEqual(MOST / 4)
  })

  it('keeps the texts of the other choices', async () => {
    const { choices } = await streamed(3, says(1, 'One.'), says(2, 'Two.'), says(1, LONG))
    expect(choices.map(({ text }) => text.slice(0, 4))).toEqual(['', 'One.', 'Two.'])
    expect(choices.map(({ reasons }) => reasons)).toEqual([['length'], ['length'], ['length']])
  })

  it('is cut in the middle of tool arguments', async () => {
    const call = (text: string) => ({
      choices: [
        {
          index: 0,
          delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: text } }] },
        },
      ],
    })
    const { choices } = await streamed(1, call('{"a":"'), call(LONG))
    expect(choices[0]!.reasons).toEqual(['length'])
    expect(choices[0]!.text).toBe(`{"a":"${LONG}`.slice(0, MOST))
  })

  it('charges what the vendor had reported by then, or else what it produced', async () => {
    const early = await streamed(1, says(0, 'Hi.'), { ...says(0, LONG), usage: { ...usage } })
    expect(early.usage.completion_tokens).toBeGreaterThanOrEqual(MOST / 4)
    expect(early.usage.completion_tokens).toBeLessThanOrEqual(251)
    const later = await streamed(1, says(0, 'Hi.'), says(0, LONG), { choices: [], usage })
    expect(later.usage.completion_tokens).toBeLessThanOrEqual(251)
    expect(later.row.cost).toBeGreaterThan(0n)
  })

  it('never cuts a character in two', async () => {
    const { choices } = await streamed(1, says(0, `.${'\u{1f600}'.repeat(200)}`))
    expect(choices[0]!.text).toBe(`.${'\u{1f600}'.repeat((MOST - 2) / 2)}`)
  })

  it('passes an answer that stays below', async () => {
    g.vendor.answer(events(says(0, LONG.slice(0, MOST)), ends(0), { choices: [], usage }, '[DONE]'))
    const answer = await g.ask(POLICY, { stream: true })
    expect(choicesOf(answer)).toEqual([{ text: LONG.slice(0, MOST), roles: 1, reasons: ['stop'] }])
  })
})

describe('a whole answer past the ceiling', () => {
  const whole = async (
    contents: readonly (string | object)[],
    reported: object | undefined = usage,
  ) => {
    const choices = contents.map((content, index) => {
      const message =
        typeof content === 'string'
          ? { role: 'assistant', content }
          : { role: 'assistant', ...content }
      return { index, message, finish_reason: 'stop' }
    })
    g.vendor.answer(json({ choices, ...(reported && { usage: reported }) }))
    const answer = await g.ask(POLICY, { n: contents.length })
    expect(answer.status, answer.text).toBe(200)
    const row = await rowOf(answer)
    expect(row.usage!.outcome).toBe('completed')
    expect(row.cost).toBe(BigInt(Math.round(answer.json.usage.cost * 1e12)))
    return answer.json
  }

  it.each([1, 3])('is cut in each choice (n = %i)', async (n) => {
    const { choices, usage } = await whole(Array.from({ length: n }, () => LONG))
    expect(choices).toHaveLength(n)
    for (const { message, finish_reason } of choices) {
      expect([message.content, finish_reason]).toEqual([LONG.slice(0, MOST), 'length'])
    }
    expect(usage.completion_tokens).toBe(250)
  })

  it('keeps what fits', async () => {
    const { choices } = await whole(['Short.', LONG, 'Short too.'])
    expect(choices.map((one: any) => [one.message.content, one.finish_reason])).toEqual([
      ['Short.', 'stop'],
      [LONG.slice(0, MOST), 'length'],
      ['Short too.', 'stop'],
    ])
  })

  it('is cut in the arguments of a tool', async () => {
    const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: LONG } }]
    const { choices } = await whole([{ content: null, tool_calls }])
    expect(choices[0].finish_reason).toBe('length')
    expect(choices[0].message.tool_calls[0].function.arguments).toBe(LONG.slice(0, MOST))
  })

  it('is charged by estimate when the vendor reports nothing', async () => {
    const { usage } = await whole([LONG], undefined)
    expect(usage.completion_tokens).toBeGreaterThanOrEqual(MOST / 4)
    expect(usage.completion_tokens).toBeLessThanOrEqual(LONG.length / 4)
  })
})
