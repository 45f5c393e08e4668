import { describe, expect, it, vi } from 'vitest'
import { flowFrom } from '../../src/stream/flow.ts'
import type { Scout } from '../../src/guard/scan-session.ts'
import { Patient } from '../../src/guard/patient.ts'
import { bitLanes, type Bit } from './_lanes.ts'
import { screenOf } from './_screen.ts'

/** A guard that agrees when it is told to. */
function slowGuard() {
  const followers: { safe: number; waiting: boolean; length: number }[] = []
  let tell = () => {}
  const scout: Scout = {
    name: 'slow',
    origin: 'key',
    local: false,
    whole: false,
    reads: () => true,
    follow(_, changed) {
      tell = changed!
      const follower = {
        name: 'slow',
        origin: 'key' as const,
        safe: 0,
        length: 0,
        stop: undefined,
        waiting: false,
        push(text: string) {
          follower.length += text.length
          follower.waiting = true
        },
        end() {},
        leave() {},
      }
      followers.push(follower)
      return follower
    },
  }
  const agree = () => {
    for (const follower of followers) {
      follower.safe = follower.length
      follower.waiting = false
    }
    tell()
  }
  return { scout, agree }
}

function start(scout: Scout, stallMs = 60_000) {
  const left = vi.fn()
  const read = { count: 0, closed: false }
  const answer = flowFrom<Bit>({
    async next() {
      read.count++
      await new Promise((resolve) => setImmediate(resolve))
      return { parts: [{ text: 'x'.repeat(100) }], last: false }
    },
    close() {
      read.closed = true
    },
  })
  const faults: string[] = []
  const screen = screenOf<Bit>(
    {
      lanes: bitLanes,
      scouts: [scout],
      refuse: ({ choice }) => [{ choice, refused: 'no' }],
    },
    { failed: (_, { kind }) => void faults.push(kind) },
  )
  const patient = new Patient<Bit>({ screen, answer, idleMs: 10_000, stallMs, buffer: false, left })
  return { flow: flowFrom(patient), patient, read, left, faults }
}

describe('an answer that waits for guards', () => {
  it('is read on only so far, and not at all while nobody asks for it', async () => {
    const { scout, agree } = slowGuard()
    const { flow, read, patient, left } = start(scout)
    expect(read.count).toBe(0)
    const first = flow.next()
    await expect.poll(() => read.count).toBe(10)
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve))
    expect(read.count).toBe(10)
    agree()
    const { parts } = await first
    expect(parts.map(({ text }) => text!.length)).toEqual(Array.from({ length: 10 }, () => 100))
    expect(read.count).toBe(10)
    await patient.close()
    expect(read.closed).toBe(true)
    expect(left).toHaveBeenCalledTimes(1)
  })

  it('is refused when they keep it waiting for too long', async () => {
    const { scout } = slowGuard()
    const { flow, read, faults, left } = start(scout, 20)
    const { parts, last } = await flow.next()
    expect(parts).toEqual([{ choice: 0, refused: 'no' }])
    expect(last).toBe(true)
    expect(faults).toEqual(['timeout'])
    expect(read.closed).toBe(true)
    expect(left.mock.calls[0]![0]).toBeGreaterThanOrEqual(15)
  })

  it('lets go of everything when its reader leaves', async () => {
    const { scout } = slowGuard()
    const { flow, patient, read } = start(scout)
    const waiting = flow.next()
    await expect.poll(() => read.count).toBeGreaterThan(2)
    await patient.close()
    expect(await waiting).toMatchObject({ parts: [], last: true })
    expect(read.closed).toBe(true)
  })
})
