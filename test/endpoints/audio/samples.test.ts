import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { secondsOf } from '../../../src/endpoints/audio/length.ts'
import { SpeechAnswer, Resample, ToWav } from '../../../src/endpoints/speech/endpoint.ts'
import { flowOf } from '../../../src/stream/flow.ts'
import { segmentsFromWords } from '../../../src/endpoints/transcription/endpoint.ts'
import type { SpeechInput, Step } from '../../../src/plugin.ts'
import { partsOf } from '../../_parts.ts'

function through(step: Step<Uint8Array, Uint8Array>, pieces: readonly Uint8Array[]): Buffer {
  const out: Uint8Array[] = []
  for (const piece of pieces) step.push!(piece, (bytes) => out.push(bytes))
  step.end!((bytes) => out.push(bytes))
  return Buffer.concat(out)
}

function sine(hertz: number, rate: number, count: number): Buffer {
  const samples = Buffer.alloc(count * 2)
  for (let i = 0; i < count; i++) {
    samples.writeInt16LE(Math.round(20_000 * Math.sin((2 * Math.PI * hertz * i) / rate)), i * 2)
  }
  return samples
}

/** How far a sample is from what it should be, at most; the first 200 settle. */
function farthest(out: Buffer, wanted: (i: number) => number, end: number): number {
  let most = 0
  for (let i = 200; i < end; i++) {
    most = Math.max(most, Math.abs(out.readInt16LE(i * 2) - wanted(i)))
  }
  return most
}

describe('samples at another rate', () => {
  it.each([
    [22_050, 24_000],
    [16_000, 24_000],
    [48_000, 24_000],
    [44_100, 24_000],
  ])('from %i to %i are the same sound, and as long', (from, to) => {
    const out = through(new Resample(from, to), [sine(440, from, from)])
    expect(out.length / 2).toBe(to)
    const wanted = (i: number) => 20_000 * Math.sin((2 * Math.PI * 440 * i) / to)
    expect(farthest(out, wanted, to - 200)).toBeLessThan(20)
  })

  it('lose what the lower rate cannot hold', () => {
    const out = through(new Resample(48_000, 24_000), [sine(18_000, 48_000, 48_000)])
    expect(farthest(out, () => 0, 23_800)).toBeLessThan(20)
  })

  it('do not depend on how they came', () => {
    const samples = sine(300, 22_050, 2205)
    const whole = through(new Resample(22_050, 24_000), [samples])
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1 }), (sizes) => {
        const pieces: Buffer[] = []
        for (let at = 0, i = 0; at < samples.length; i++) {
          const size = sizes[i % sizes.length]!
          pieces.push(samples.subarray(at, at + size))
          at += size
        }
        expect(through(new Resample(22_050, 24_000), pieces).equals(whole)).toBe(true)
      }),
      { numRuns: 50 },
    )
  })
})

describe('a wav file of samples', () => {
  it('says how long it is', () => {
    const file = through(new ToWav(24_000), [sine(440, 24_000, 10_000), sine(440, 24_000, 2000)])
    expect(file.readUInt32LE(4)).toBe(file.length - 8)
    expect(file.readUInt32LE(40)).toBe(24_000)
    expect(secondsOf({ bytes: file, mediaType: 'audio/wav' })).toBe(0.5)
  })

  it('is nothing of nothing', () => {
    expect(through(new ToWav(24_000), []).length).toBe(0)
  })

  it('goes out without a length rather than being held without an end', () => {
    const piece = Buffer.alloc(1024 * 1024)
    const wav = new ToWav(24_000)
    let out = 0
    for (let i = 0; i < 33; i++) wav.push(piece, (bytes) => (out += bytes.length))
    expect(out).toBe(33 * piece.length + 44)
  })
})

describe('samples for a client', () => {
  const soundOf = (response_format: SpeechInput['response_format']) => {
    const answer = new SpeechAnswer({ input: 'Hi.', voice: 'alloy', response_format })
    const bytes = flowOf<Uint8Array>(sine(440, 16_000, 1600))
    return partsOf(answer, { bytes, pcmSampleRate: 16_000 })
  }

  it('become pcm at the rate that pcm has', async () => {
    const parts = await soundOf('pcm')
    expect(Buffer.concat(parts.map(({ bytes }) => bytes))).toHaveLength(2400 * 2)
  })

  it('become nothing that takes an encoder', async () => {
    for (const format of ['mp3', 'opus', 'aac', 'flac'] as const) {
      await expect(soundOf(format)).rejects.toThrow(format)
    }
  })
})

describe('segments of words', () => {
  const word = (word: string, start: number, end: number, speaker?: number) => ({
    word,
    start,
    end,
    ...(speaker !== undefined && { speaker }),
  })

  it('end with sentences, and keep what the text has between words', () => {
    const words = [
      word('Turn', 0, 0.5),
      word('left.', 0.5, 1),
      word('Then', 1.1, 1.5),
      word('stop', 1.5, 2),
    ]
    expect(segmentsFromWords('Turn  left. Then stop', words)).toEqual([
      { start: 0, end: 1, text: 'Turn  left.' },
      { start: 1.1, end: 2, text: 'Then stop' },
    ])
  })

  it('end with pauses, speakers, and when they get long', () => {
    const words = [
      word('yes', 0, 1, 0),
      word('no', 1, 2, 1),
      word('maybe', 9, 10, 1),
      ...Array.from({ length: 30 }, (_, i) => word('and', 10 + i, 11 + i, 1)),
    ]
    const segments = segmentsFromWords('', words)
    expect(segments.map(({ start, end }) => [start, end])).toEqual([
      [0, 1],
      [1, 2],
      [9, 21],
      [21, 33],
      [33, 40],
    ])
    expect(segments[0]).toEqual({ start: 0, end: 1, text: 'yes', speaker: 0 })
  })

  it('need no blanks between words', () => {
    const words = [word('你好', 0, 1), word('世界。', 1, 2), word('再见', 2, 3)]
    expect(segmentsFromWords('你好世界。再见', words).map(({ text }) => text)).toEqual([
      '你好世界。',
      '再见',
    ])
  })
})
