import { afterEach, describe, expect, it } from 'vitest'
import { flowFrom, toFlow } from '../src/flow.ts'
import type { Step } from '../src/plugin.ts'

const unhandled: unknown[] = []
const listen = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', listen)
afterEach(() => void unhandled.splice(0))

/** After it, Node has told of every rejection that nobody had taken. */
async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}

const refuses: Step<number, number> = {
  push(part, emit) {
    if (part > 1) throw new Error('refused')
    emit(part)
  },
}

describe('a flow whose source cannot be closed', () => {
  const source = (close: () => Promise<void>) => ({
    next: async () => ({ parts: [1, 2], last: false }),
    close,
  })

  it('tells what a step threw, after what came before it', async () => {
    const flow = flowFrom<number>(source(() => Promise.reject(new Error('stuck')))).through(refuses)
    expect(await flow.next()).toEqual({ parts: [1], last: false })
    await expect(flow.next()).rejects.toThrow('refused')
    expect(await flow.next()).toEqual({ parts: [], last: true })
    await settled()
    expect(unhandled).toEqual([])
  })

  it('ends when a step wants no more', async () => {
    const one: Step<number, number> & { done: boolean } = {
      done: false,
      push(part, emit) {
        emit(part)
        one.done = true
      },
    }
    const flow = flowFrom<number>(source(() => Promise.reject(new Error('stuck')))).through(one)
    expect(await flow.next()).toEqual({ parts: [1], last: true })
    await settled()
    expect(unhandled).toEqual([])
  })
})

it('a sequence that throws when it is left is left', async () => {
  const sequence: AsyncIterable<number> = {
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ value: 1, done: false }),
      return() {
        throw new Error('stuck')
      },
    }),
  }
  const flow = toFlow(sequence)
  expect(await flow.next()).toEqual({ parts: [1], last: false })
  await flow.close()
  expect(await flow.next()).toEqual({ parts: [], last: true })
  await settled()
  expect(unhandled).toEqual([])
})
