import { describe, expect, it, vi } from 'vitest'
import { flowFrom } from '../../src/stream/flow.ts'
import type { OutputScanner, TextProgress } from '../../src/guard/scan-session.ts'
import { ScreenedStream } from '../../src/guard/screened-stream.ts'
import { bitCodec, type Bit } from './_bits.ts'
import { screenOf } from './_screen.ts'

/** A guard that agrees when it is told to. */
function slowGuard() {
  let length = 0
  let answer = Promise.withResolvers<TextProgress>()
  const scanner: OutputScanner = {
    guard: 'slow',
    origin: 'key',
    local: false,
    needsFullText: false,
    reads: () => true,
    check: () => ({
      concurrent: true,
      push(text) {
        length += text.length
        return answer.promise
      },
      end: () => answer.promise,
    }),
  }
  const agree = () => {
    const { resolve } = answer
    resolve({ safeOffset: length })
    answer = Promise.withResolvers()
  }
  return { scanner, agree }
}

function start(scanner: OutputScanner, stallMs = 60_000) {
  const left = vi.fn()
  const read = { count: 0, closed: false }
  const parts = flowFrom<Bit>({
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
      codec: bitCodec,
      scanners: [scanner],
      refuse: ({ choice }) => [{ choice, refused: 'no' }],
    },
    { failed: (_, { kind }) => void faults.push(kind) },
  )
  const closed = ({ stalledMs }: { stalledMs: number }) => void left(stalledMs)
  const stream = new ScreenedStream<Bit>({
    parts,
    screen,
    enforce: true,
    idleMs: 10_000,
    stallMs,
    closed,
  })
  return { flow: flowFrom(stream), stream, read, left, faults }
}

describe('an answer that waits for guards', () => {
  it('is read ahead up to a bound, and not at all before a part is asked for', async () => {
    const { scanner, agree } = slowGuard()
    const { flow, read, stream, left } = start(scanner)
    expect(read.count).toBe(0)
    const first = flow.next()
    await expect.poll(() => read.count).toBe(10)
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve))
    expect(read.count).toBe(10)
    agree()
    const { parts } = await first
    expect(parts.map(({ text }) => text!.length)).toEqual(Array.from({ length: 10 }, () => 100))
    expect(read.count).toBe(10)
    await stream.close()
    expect(read.closed).toBe(true)
    expect(left).toHaveBeenCalledTimes(1)
  })

  it('is refused when they keep it waiting for too long', async () => {
    const { scanner } = slowGuard()
    const { flow, read, faults, left } = start(scanner, 20)
    const { parts, last } = await flow.next()
    expect(parts).toEqual([{ choice: 0, refused: 'no' }])
    expect(last).toBe(true)
    expect(faults).toEqual(['timeout'])
    expect(read.closed).toBe(true)
    expect(left.mock.calls[0]![0]).toBeGreaterThanOrEqual(15)
  })

  it('releases everything when its reader leaves', async () => {
    const { scanner } = slowGuard()
    const { flow, stream, read } = start(scanner)
    const waiting = flow.next()
    await expect.poll(() => read.count).toBeGreaterThan(2)
    await stream.close()
    expect(await waiting).toMatchObject({ parts: [], last: true })
    expect(read.closed).toBe(true)
  })
})
