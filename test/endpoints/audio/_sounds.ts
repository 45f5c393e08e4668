/** Sound files made by hand, of known length. Only what tells the length is right; nothing can be heard. */

/** RIFF/WAVE of 16-bit samples. @param said the number that stands for the true length of the samples */
export function wav(seconds: number, { rate = 16_000, channels = 1, said = -1 } = {}): Buffer {
  const bytes = Math.round(seconds * rate) * channels * 2
  const head = Buffer.alloc(44)
  head.write('RIFF\0\0\0\0WAVEfmt ', 0, 'latin1')
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * channels * 2, 28)
  head.writeUInt16LE(channels * 2, 32)
  head.writeUInt16LE(16, 34)
  head.write('data', 36, 'latin1')
  head.writeUInt32LE(said >= 0 ? said : bytes, 40)
  return Buffer.concat([head, Buffer.alloc(bytes)])
}

/** MPEG 1 layer III at 128 kbit/s and 44.1 kHz: 1152 samples a frame. */
export function mp3(frames: number): Buffer {
  const frame = Buffer.alloc(417)
  frame.set([0xff, 0xfb, 0x90, 0xc4])
  return Buffer.concat(Array.from({ length: frames }, () => frame))
}

/** AAC in ADTS at 44.1 kHz: 1024 samples a frame. */
export function adts(frames: number): Buffer {
  const frame = Buffer.alloc(100)
  frame.set([0xff, 0xf1, 0x50, 0x80, (100 >> 3) & 0xff, ((100 & 7) << 5) | 0x1f, 0xfc])
  return Buffer.concat(Array.from({ length: frames }, () => frame))
}

export function flac(samples: number, rate: number): Buffer {
  const file = Buffer.alloc(64)
  file.write('fLaC\0\0\0\x22', 0, 'latin1')
  file.writeUIntBE((rate << 4) | 0, 18, 3)
  file[21] = 0xf0 | Math.floor(samples / 2 ** 32)
  file.writeUInt32BE(samples % 2 ** 32, 22)
  return file
}

/** Ogg Opus whose last page ends at this sample of 48 kHz. */
export function opus(end: number, skipped = 312): Buffer {
  const head = Buffer.alloc(19)
  head.write('OpusHead\x01\x01', 0, 'latin1')
  head.writeUInt16LE(skipped, 10)
  return Buffer.concat([page(0n, head), page(BigInt(end + skipped), Buffer.alloc(200))])
}

function page(position: bigint, body: Buffer): Buffer {
  const head = Buffer.alloc(28)
  head.write('OggS', 0, 'latin1')
  head.writeBigUInt64LE(position, 6)
  head[26] = 1
  head[27] = body.length
  return Buffer.concat([head, body])
}

function box(type: string, ...contents: readonly Buffer[]): Buffer {
  const body = Buffer.concat(contents)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(body.length + 8)
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, body])
}

function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  values.forEach((value, index) => bytes.writeUInt32BE(value, index * 4))
  return bytes
}

function track(timescale: number, duration: number, ...tables: readonly Buffer[]): Buffer {
  return box(
    'trak',
    box('tkhd', words(0, 0, 0, 1, 0, duration)),
    box(
      'mdia',
      box('mdhd', words(0, 0, 0, timescale, duration, 0)),
      box('minf', box('stbl', ...tables)),
    ),
  )
}

const FTYP = box('ftyp', Buffer.from('M4A \0\0\0\0M4A ', 'latin1'))

/** An M4A file in one piece: `count` samples of `units` units each. */
export function m4a(count: number, units: number, timescale: number): Buffer {
  const times = box('stts', words(0, 1, count, units))
  return Buffer.concat([
    FTYP,
    box('mdat', Buffer.alloc(64)),
    box('moov', track(timescale, 1, times)),
  ])
}

/** An M4A file in fragments, as it is recorded: its header has no duration and no samples. */
export function fragmented(fragments: number, samples: number, units: number, timescale: number) {
  const movie = box(
    'moov',
    track(timescale, 0, box('stts', words(0, 0))),
    box('mvex', box('trex', words(0, 1, 1, units, 0, 0))),
  )
  const parts = Array.from({ length: fragments }, (_, index) => {
    const run = box('trun', words(0, samples))
    const time = box('tfdt', words(0, index * samples * units))
    return Buffer.concat([
      box('moof', box('traf', box('tfhd', words(0, 1)), time, run)),
      box('mdat', Buffer.alloc(16)),
    ])
  })
  return Buffer.concat([FTYP, movie, ...parts])
}

/**
 * A WebM file as browsers record it: without a duration, unless one is given, and without sizes of what is still being
 * written.
 */
export function webm(blocksMs: readonly number[], { duration = 0 } = {}): Buffer {
  const unknown = Buffer.from('01ffffffffffffff', 'hex')
  const info = [element('2ad7b1', Buffer.from('0f4240', 'hex'))]
  if (duration > 0) {
    const value = Buffer.alloc(8)
    value.writeDoubleBE(duration)
    info.push(element('4489', value))
  }
  const blocks = blocksMs.map((ms) => {
    const block = Buffer.alloc(24)
    block[0] = 0x81
    block.writeInt16BE(ms, 1)
    return element('a3', block)
  })
  return Buffer.concat([
    element('1a45dfa3', element('4282', Buffer.from('webm'))),
    Buffer.from('18538067', 'hex'),
    unknown,
    element('1549a966', Buffer.concat(info)),
    Buffer.from('1f43b675', 'hex'),
    unknown,
    element('e7', Buffer.from([0])),
    ...blocks,
  ])
}

function element(id: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(id, 'hex'), Buffer.from([0x80 | body.length]), body])
}
