import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Segmenter } from '../../src/guard/text-check.ts'
import { FairSemaphore } from '../../src/guard/host.ts'

function segmentsOf(text: string, cuts: readonly number[] = []): ReturnType<Segmenter['push']> {
  const segmenter = new Segmenter()
  const places = [0, ...[...new Set(cuts)].filter((at) => at < text.length).sort((a, b) => a - b)]
  const found = places.flatMap((from, i) => segmenter.push(text.slice(from, places[i + 1])))
  const rest = segmenter.flush()
  return rest ? [...found, rest] : found
}

describe('segments', () => {
  it('grow, and end with sentences', () => {
    const text = 'A sentence of forty characters, so it is. '.repeat(60)
    const segments = segmentsOf(text)
    expect(segments.map(({ text }) => text).join('')).toBe(text)
    expect(segments.slice(0, 4).map(({ text }) => text.length)).toEqual([125, 252, 504, 840])
    for (const { text: one } of segments.slice(0, -1)) expect(one.endsWith('.')).toBe(true)
  })

  it('end at white space, and at last anywhere', () => {
    expect(segmentsOf(`${'word '.repeat(50)}`)[0]!.text).toHaveLength(180)
    expect(segmentsOf('x'.repeat(500))[0]!.text).toHaveLength(180)
    expect(segmentsOf('😀'.repeat(300))[0]!.text).toHaveLength(180)
    expect(segmentsOf(`x${'😀'.repeat(300)}`)[0]!.text).toHaveLength(179)
  })

  it('keep a block of code together', () => {
    const block = `\`\`\`js\n${'let a = 1.\n'.repeat(40)}\`\`\`\n`
    const segments = segmentsOf(`Look:\n${block}${'That was it. '.repeat(20)}`)
    expect(segments[0]!.text).toBe(`Look:\n${block}`)
    const endless = segmentsOf(`\`\`\`\n${'let a = 1.\n'.repeat(300)}`)
    expect(endless[0]!.text).toHaveLength(1200)
  })

  it('are the same however the text is cut', () => {
    const word = fc.constantFrom('word ', 'sentence. ', '\n', '```\n', 'ünï ', '😀', 'x'.repeat(90))
    const text = fc.array(word, { maxLength: 120 }).map((words) => words.join(''))
    fc.assert(
      fc.property(text, fc.array(fc.nat(3000), { maxLength: 40 }), (given, cuts) => {
        const segments = segmentsOf(given, cuts)
        expect(segments).toEqual(segmentsOf(given))
        expect(segments.map((one) => one.text).join('')).toBe(given)
      }),
      { numRuns: 300 },
    )
  })
})

describe('a turnstile', () => {
  it('lets so many in, and owners in turn', async () => {
    const turnstile = new FairSemaphore(2)
    const { signal } = new AbortController()
    const order: string[] = []
    const first = await turnstile.enter('a', signal)
    const second = await turnstile.enter('a', signal)
    const waiting = ['a', 'a', 'a', 'b'].map((owner, i) =>
      turnstile.enter(owner, signal).then((leave) => {
        order.push(`${owner}${i}`)
        return leave
      }),
    )
    first()
    first()
    const third = await waiting[0]!
    expect(order).toEqual(['a0'])
    third()
    await waiting[3]
    expect(order).toEqual(['a0', 'b3'])
    second()
    await waiting[1]
    expect(order).toEqual(['a0', 'b3', 'a1'])
  })

  it('gives up waiting', async () => {
    const turnstile = new FairSemaphore(1)
    const leave = await turnstile.enter('a', new AbortController().signal)
    const controller = new AbortController()
    const waiting = turnstile.enter('b', controller.signal)
    controller.abort(new Error('too late'))
    await expect(waiting).rejects.toThrow('too late')
    leave()
    await turnstile.enter('c', new AbortController().signal)
  })
})
