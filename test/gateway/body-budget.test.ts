import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BodyBudget, type BodyOwner } from '../../src/gateway/body-budget.ts'
import { bodyWeight } from '../../src/server/node-http.ts'
import { SEED } from '../_seed.ts'

const MIB = 1024 * 1024
const CAPACITY = 64 * MIB

const owner = (key: string, freeTier = false): BodyOwner => ({
  key,
  account: `account of ${key}`,
  freeTier,
})

let heap: { used_heap_size: number; heap_size_limit: number }
let refused: string[]
let budget: BodyBudget

beforeEach(() => {
  heap = { used_heap_size: 0, heap_size_limit: 100 }
  refused = []
  budget = new BodyBudget(
    () => CAPACITY,
    (why) => refused.push(why),
    () => heap,
  )
})

afterEach(() => {
  vi.useRealTimers()
})

/** A body that holds so many MiB. */
function held(name: string, mib: number) {
  const share = budget.share(owner(name))
  expect(share.grow(mib * MIB)).toBeUndefined()
  return share
}

const codeOf = (grow: () => unknown) => {
  try {
    grow()
  } catch (error) {
    return (error as { code: string }).code
  }
  return undefined
}

describe('the budget', () => {
  it('counts three times the bytes and 256 for each value, in steps of a MiB', () => {
    expect(bodyWeight(10, 2)).toBe(542)
    const share = budget.share(owner('a'))
    void share.grow(1)
    expect(budget.heldBytes).toBe(MIB)
    void share.grow(MIB + 1)
    expect(budget.heldBytes).toBe(2 * MIB)
    void share.grow(5)
    expect(budget.heldBytes).toBe(2 * MIB)
    share.release()
    share.release()
    void share.grow(MIB)
    expect(budget.heldBytes).toBe(0)
  })

  it('lets bodies that hold nothing wait, first come, first served', async () => {
    const big = held('a', 60)
    const order: string[] = []
    const waits = ['b', 'c', 'd'].map((name) => {
      const share = budget.share(owner(name))
      const wait = share.grow(3 * MIB) as Promise<void> | undefined
      return { share, wait: wait?.then(() => order.push(name)) }
    })
    // The first fits beside the big one.
    expect(waits[0]!.wait).toBeUndefined()
    expect(waits[1]!.wait).toBeInstanceOf(Promise)
    // It would fit, and has to wait its turn.
    const small = budget.share(owner('e'))
    const smallWait = (small.grow(MIB) as Promise<void>).then(() => order.push('e'))
    big.release()
    await Promise.all([waits[1]!.wait, waits[2]!.wait, smallWait])
    expect(order).toEqual(['c', 'd', 'e'])
    for (const { share } of waits) share.release()
    small.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('refuses at once a body that was read in part', () => {
    const part = held('a', 2)
    held('b', 60)
    expect(codeOf(() => part.grow(20 * MIB))).toBe('service_unavailable')
    expect(refused).toEqual(['memory'])
  })

  it('refuses a body that waited for 5 s, and serves the next', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    held('a', 60)
    const second = budget.share(owner('b')).grow(30 * MIB) as Promise<void>
    const third = budget.share(owner('c')).grow(2 * MIB) as Promise<void>
    const refusal = expect(second).rejects.toMatchObject({
      code: 'service_unavailable',
      headers: { 'retry-after': '2' },
    })
    vi.advanceTimersByTime(5_000)
    await refusal
    await third
    expect(budget.heldBytes).toBe(62 * MIB)
  })

  it('forgets who leaves the queue', async () => {
    const big = held('a', 64)
    const gone = budget.share(owner('b'))
    const wait = gone.grow(60 * MIB)
    const next = budget.share(owner('c')).grow(60 * MIB)
    gone.release()
    big.release()
    await Promise.all([wait, next])
    expect(budget.heldBytes).toBe(60 * MIB)
  })

  it('gives a key half of it, and always one body', () => {
    const first = held('a', 20)
    const second = budget.share(owner('a'))
    expect(codeOf(() => second.grow(13 * MIB))).toBe('too_many_concurrent')
    expect(second.grow(12 * MIB)).toBeUndefined()
    expect(codeOf(() => first.grow(21 * MIB))).toBe('too_many_concurrent')
    expect(refused).toEqual(['key', 'key'])
    first.release()
    second.release()
    held('a', 60)
  })

  it('gives an account on the free tier an eighth, over all its keys', () => {
    const [one, two] = ['x', 'y'].map((key) =>
      budget.share({ key, account: 'free', freeTier: true }),
    )
    expect(one!.grow(6 * MIB)).toBeUndefined()
    expect(codeOf(() => two!.grow(3 * MIB))).toBe('too_many_concurrent')
    expect(two!.grow(2 * MIB)).toBeUndefined()
    expect(refused).toEqual(['free_tier'])
  })

  it('takes a body that is heavier than all of it, alone', async () => {
    const small = held('a', 1)
    const huge = budget.share(owner('b'))
    const wait = huge.grow(10 * CAPACITY)
    expect(wait).toBeInstanceOf(Promise)
    small.release()
    await wait
    expect(budget.heldBytes).toBe(CAPACITY)
    huge.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('refuses while the heap is nearly full, until it is well again', () => {
    const grown = () => codeOf(() => budget.share(owner('a')).grow(MIB))
    for (const [used, code] of [
      [85, undefined],
      [86, 'service_unavailable'],
      [76, 'service_unavailable'],
      [75, undefined],
      [80, undefined],
    ] as const) {
      heap.used_heap_size = used
      budget.tick()
      expect(grown(), `${used} %`).toBe(code)
    }
    expect(refused).toEqual(['heap', 'heap'])
  })

  it('is empty after any order of events', async () => {
    let state = SEED
    const random = (n: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * n)
    }
    const open: ReturnType<BodyBudget['share']>[] = []
    const waiting = new Set<unknown>()
    for (let step = 0; step < 20_000; step++) {
      if (open.length < 20 && random(2)) {
        open.push(budget.share({ ...owner(`k${random(3)}`), freeTier: random(3) === 0 }))
      }
      const share = open[random(open.length)]
      if (!share) continue
      if (random(3)) {
        try {
          if (waiting.has(share)) continue
          const wait = share.grow(random(20) * MIB)
          if (!wait) continue
          waiting.add(share)
          const over = () => waiting.delete(share)
          void wait.then(over, over)
        } catch {
          share.release()
        }
      } else share.release()
      await Promise.resolve()
      expect(budget.heldBytes, `seed ${SEED}, step ${step}`).toBeLessThanOrEqual(CAPACITY)
      if (open.length === 20) open.splice(0, 10).forEach((one) => one.release())
    }
    for (const share of open) share.release()
    expect(budget.heldBytes, `seed ${SEED}`).toBe(0)
  })
})
