import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { secondsOf, billableSeconds } from '../../../src/endpoints/audio/length.ts'
import { mediaTypeOf } from '../../../src/endpoints/shared/media.ts'
import { adts, flac, fragmented, m4a, mp3, opus, wav, webm } from './_sounds.ts'

const MIB = 1024 * 1024

function measure(bytes: Uint8Array): number | undefined {
  return secondsOf({ bytes, mediaType: mediaTypeOf(bytes) ?? 'unknown' })
}

describe('the length of sound', () => {
  it.each([
    ['wav', wav(2.5), 2.5],
    ['wav in stereo', wav(2.5, { channels: 2, rate: 44_100 }), 2.5],
    ['a wav that was streamed, with a length that cannot be', wav(3, { said: 0xffffffff }), 3],
    ['a wav that was streamed, without a length', wav(3, { said: 0 }), 3],
    ['mp3', mp3(100), (100 * 1152) / 44_100],
    ['mp3 after a tag', Buffer.concat([id3(300), mp3(100)]), (100 * 1152) / 44_100],
    [
      'mp3 after rubbish',
      Buffer.concat([id3(0), Buffer.alloc(99, 7), mp3(9)]),
      (9 * 1152) / 44_100,
    ],
    ['mp3 with a frame that only counts', infoFrame(50), (50 * 1152) / 44_100],
    ['aac', adts(200), (200 * 1024) / 44_100],
    ['flac', Buffer.concat([flac(44_100 * 61, 44_100), Buffer.alloc(500)]), 61],
    ['ogg opus', opus(48_000 * 7), 7],
    ['m4a', m4a(430, 1024, 44_100), (430 * 1024) / 44_100],
    ['mp4 in fragments', fragmented(5, 20, 1024, 16_000), (5 * 20 * 1024) / 16_000],
    ['webm with a duration', webm([0], { duration: 4321 }), 4.321],
    ['webm as browsers record it', webm([0, 20, 40, 1960]), 1.96],
  ])('is known of %s', (_name, bytes, seconds) => {
    expect(measure(bytes)).toBeCloseTo(seconds, 6)
  })

  it('is not known of what is no sound, or none of ours', () => {
    expect(measure(Buffer.from('just words'))).toBeUndefined()
    expect(measure(flac(0, 44_100))).toBeUndefined()
    expect(measure(wav(0))).toBeUndefined()
  })

  it('is not believed where the bytes cannot hold it', () => {
    expect(measure(webm([0], { duration: 1e12 }))).toBeUndefined()
    expect(measure(flac(2 ** 36 - 1, 1))).toBeUndefined()
    expect(measure(m4a(2 ** 32 - 1, 2 ** 32 - 1, 1))).toBeUndefined()
  })

  it('is counted in whole seconds, upward, without regard to less than a millisecond', () => {
    expect([3.7, 4, 4.0000001, 4.001, 36.709999084472656].map(billableSeconds)).toEqual([
      4, 4, 4, 5, 37,
    ])
  })

  it('comes to an end, whatever the bytes are', () => {
    const beginnings = [wav(1), mp3(3), adts(3), flac(9, 9), opus(99), m4a(3, 3, 3), webm([1])]
    fc.assert(
      fc.property(
        fc.constantFrom(...beginnings, fragmented(2, 2, 2, 2)),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 40 }),
        fc.nat(),
        (beginning, changes, cut) => {
          const bytes = Buffer.from(beginning)
          for (const [place, value] of changes) bytes[place % bytes.length] = value
          const seconds = measure(bytes.subarray(0, 1 + (cut % bytes.length)))
          expect(seconds === undefined || seconds > 0).toBe(true)
        },
      ),
    )
  })

  it.each([
    ['wav chunks', Buffer.from('RIFF\0\0\0\0WAVE', 'latin1'), 0],
    ['mp3 frames', Buffer.from('ID3\x04\0\0\0\0\0\0', 'latin1'), 0xff],
    ['boxes', Buffer.from('\0\0\0\x08ftypM4A ', 'latin1'), 8],
    ['elements', Buffer.from('1a45dfa3838282827765626d', 'hex'), 0x81],
  ])('is given up among 25 MiB of %s', (_name, beginning, filling) => {
    const bytes = Buffer.alloc(25 * MIB, filling)
    beginning.copy(bytes)
    expect(measure(bytes)).toBeUndefined()
  })
})

function id3(bytes: number): Buffer {
  const head = Buffer.from('ID3\x04\0\0', 'latin1')
  return Buffer.concat([head, Buffer.from([0, 0, bytes >> 7, bytes & 127]), Buffer.alloc(bytes)])
}

function infoFrame(frames: number): Buffer {
  const first = mp3(1)
  first.write('Xing', 36, 'latin1')
  return Buffer.concat([first, mp3(frames)])
}
