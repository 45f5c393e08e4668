/**
 * The length of sound, read from its container without decoding: for vendors that bill by time and do not report it.
 * Cheap checks compare the stated length with the bytes.
 */
import type { MediaFile } from '../../plugin.ts'

/** The upper bound on boxes read; a file of the largest size has less than half as many. */
const MAX_BOXES = 500_000

interface Box {
  readonly type: string
  readonly start: number
  readonly end: number
  /** Boxes of the file that may still be read. */
  readonly budget: { boxes: number }
}
type Parent = Omit<Box, 'type'>

/** Seconds of the longest track: the sum of its samples, whole or in fragments, else the duration in its header. */
function secondsOfMp4(bytes: Buffer): number | undefined {
  const top = { start: 0, end: bytes.length, budget: { boxes: MAX_BOXES } }
  const movie = childOf(bytes, top, 'moov')
  if (!movie) return undefined
  const tracks = new Map<number, Track>()
  let longest = 0
  for (const box of boxesIn(bytes, movie)) {
    if (box.type !== 'trak') continue
    const track = trackOf(bytes, box)
    if (!track) continue
    tracks.set(track.id, track)
    longest = Math.max(longest, track.seconds)
  }
  const defaults = childOf(bytes, movie, 'mvex')
  if (defaults) {
    for (const box of boxesIn(bytes, defaults)) {
      // Version and flags, track, description, duration of a sample.
      if (box.type !== 'trex') continue
      const track = tracks.get(bytes.readUInt32BE(box.start + 4))
      if (track) track.sampleDuration = bytes.readUInt32BE(box.start + 12)
    }
    for (const box of boxesIn(bytes, top)) {
      if (box.type === 'moof') longest = Math.max(longest, endOfFragment(bytes, box, tracks))
    }
  }
  return longest
}

interface Track {
  readonly id: number
  /** Units per second. */
  readonly timescale: number
  readonly seconds: number
  sampleDuration: number
  position: number
}

function trackOf(bytes: Buffer, trak: Box): Track | undefined {
  const head = childOf(bytes, trak, 'tkhd')
  const media = childOf(bytes, trak, 'mdia')
  const mediaHead = media && childOf(bytes, media, 'mdhd')
  if (!head || !mediaHead) return undefined
  const long = bytes[mediaHead.start] === 1
  const timescale = bytes.readUInt32BE(mediaHead.start + (long ? 20 : 12))
  const durationAt = mediaHead.start + (long ? 24 : 16)
  const duration = long ? Number(bytes.readBigUInt64BE(durationAt)) : bytes.readUInt32BE(durationAt)
  const id = bytes.readUInt32BE(head.start + (bytes[head.start] === 1 ? 20 : 12))
  if (timescale === 0) return undefined
  const seconds = (unitsIn(bytes, media) ?? duration) / timescale
  return { id, timescale, seconds, sampleDuration: 0, position: 0 }
}

function unitsIn(bytes: Buffer, media: Box): number | undefined {
  let box: Box | undefined = media
  for (const type of ['minf', 'stbl', 'stts']) box = box && childOf(bytes, box, type)
  if (!box) return undefined
  const count = Math.min(bytes.readUInt32BE(box.start + 4), (box.end - box.start - 8) / 8)
  let units = 0
  for (let i = 0; i < count; i++) {
    const at = box.start + 8 + 8 * i
    units += bytes.readUInt32BE(at) * bytes.readUInt32BE(at + 4)
  }
  return units > 0 ? units : undefined
}

/** Seconds at which the fragment ends. */
function endOfFragment(bytes: Buffer, moof: Box, tracks: ReadonlyMap<number, Track>): number {
  let end = 0
  for (const traf of boxesIn(bytes, moof)) {
    const head = traf.type === 'traf' ? childOf(bytes, traf, 'tfhd') : undefined
    const track = head && tracks.get(bytes.readUInt32BE(head.start + 4))
    if (!head || !track) continue
    const flags = bytes.readUIntBE(head.start + 1, 3)
    // Base offset and description come before the duration, if present.
    const at = head.start + 8 + ((flags & 1) === 0 ? 0 : 8) + ((flags & 2) === 0 ? 0 : 4)
    const usual = (flags & 8) === 0 ? track.sampleDuration : bytes.readUInt32BE(at)
    const time = childOf(bytes, traf, 'tfdt')
    if (time) {
      const long = bytes[time.start] === 1
      track.position = long
        ? Number(bytes.readBigUInt64BE(time.start + 4))
        : bytes.readUInt32BE(time.start + 4)
    }
    for (const run of boxesIn(bytes, traf)) {
      if (run.type === 'trun') track.position += unitsOfRun(bytes, run, usual)
    }
    end = Math.max(end, track.position / track.timescale)
  }
  return end
}

function unitsOfRun(bytes: Buffer, run: Box, usual: number): number {
  const flags = bytes.readUIntBE(run.start + 1, 3)
  const count = bytes.readUInt32BE(run.start + 4)
  if ((flags & 0x100) === 0) return count * usual
  // Each sample has a duration and up to three further numbers.
  const width = 4 * [0x100, 0x200, 0x400, 0x800].filter((flag) => (flags & flag) !== 0).length
  let at = run.start + 8 + ((flags & 1) === 0 ? 0 : 4) + ((flags & 4) === 0 ? 0 : 4)
  let units = 0
  for (let i = 0; i < count && at + width <= run.end; i++, at += width) {
    units += bytes.readUInt32BE(at)
  }
  return units
}

function childOf(bytes: Buffer, parent: Parent, type: string): Box | undefined {
  for (const box of boxesIn(bytes, parent)) if (box.type === type) return box
  return undefined
}

function* boxesIn(bytes: Buffer, { start, end, budget }: Parent): Generator<Box> {
  for (let at = start; at + 8 <= end;) {
    if (budget.boxes-- <= 0) return
    const type = bytes.toString('latin1', at + 4, at + 8)
    let size = bytes.readUInt32BE(at)
    let head = 8
    if (size === 1 && at + 16 <= end) {
      size = Number(bytes.readBigUInt64BE(at + 8))
      head = 16
    } else if (size === 0) size = end - at
    if (size < head) return
    yield { type, start: at + head, end: Math.min(at + size, end), budget }
    at += size
  }
}

// The length of sound in WebM and Matroska (RFC 9559).

const SEGMENT = 0x18538067
const INFO = 0x1549a966
const CLUSTER = 0x1f43b675
const BLOCK_GROUP = 0xa0
const TIMESTAMP_SCALE = 0x2ad7b1
const DURATION = 0x4489
const CLUSTER_TIME = 0xe7
const SIMPLE_BLOCK = 0xa3
const BLOCK = 0xa1
/** The upper bound on elements read; a file of the largest size has less than half as many. */
const MAX_ELEMENTS = 1_000_000
const OPEN: ReadonlySet<number> = new Set([SEGMENT, INFO, CLUSTER, BLOCK_GROUP])

/**
 * Seconds: the duration in the header, or the time of the last block if that is later. Browsers record without a
 * duration, and without sizes of elements that they are still writing.
 */
function secondsOfMatroska(bytes: Buffer): number | undefined {
  let scale = 1_000_000
  let duration = 0
  let clusterTime = 0
  let last = 0
  for (let at = 0, elements = 0; at + 2 <= bytes.length && elements < MAX_ELEMENTS; elements++) {
    const id = idAt(bytes, at)
    if (!id) break
    const size = sizeAt(bytes, at + id.length)
    if (!size) break
    const start = at + id.length + size.length
    if (OPEN.has(id.value)) {
      at = start
      continue
    }
    // Only these elements may have an unknown size.
    if (size.value === undefined) break
    switch (id.value) {
      case TIMESTAMP_SCALE:
        scale = unsigned(bytes, start, size.value)
        break
      case DURATION:
        duration = size.value === 4 ? bytes.readFloatBE(start) : bytes.readDoubleBE(start)
        break
      case CLUSTER_TIME:
        clusterTime = unsigned(bytes, start, size.value)
        break
      case SIMPLE_BLOCK:
      case BLOCK: {
        const track = sizeAt(bytes, start)
        if (track) last = Math.max(last, clusterTime + bytes.readInt16BE(start + track.length))
      }
    }
    at = start + size.value
  }
  return (Math.max(duration, last) * scale) / 1e9
}

/** The id of an element, its marker bit included. */
function idAt(
  bytes: Buffer,
  at: number,
): { readonly value: number; readonly length: number } | undefined {
  const length = Math.clz32(bytes[at]!) - 23
  if (length > 4 || at + length > bytes.length) return undefined
  return { value: bytes.readUIntBE(at, length), length }
}

/** The size of an element; without a value if it is unknown. */
function sizeAt(
  bytes: Buffer,
  at: number,
): { readonly value: number | undefined; readonly length: number } | undefined {
  if (at >= bytes.length) return undefined
  const length = Math.clz32(bytes[at]!) - 23
  if (length > 8 || at + length > bytes.length) return undefined
  let value = bytes[at]! & (0xff >> length)
  let unknown = value === 0xff >> length
  for (let i = 1; i < length; i++) {
    const next = bytes[at + i]!
    unknown &&= next === 0xff
    value = value * 256 + next
  }
  return { value: unknown ? undefined : value, length }
}

function unsigned(bytes: Buffer, at: number, length: number): number {
  if (length < 1 || length > 8) return 0
  return length > 6
    ? bytes.readUIntBE(at, length - 6) * 2 ** 48 + bytes.readUIntBE(at + length - 6, 6)
    : bytes.readUIntBE(at, length)
}

/**
 * A file cannot be longer than its bytes at this rate: the stated length is what the client pays. The slowest speech
 * codecs have 56 bytes a second; only long silence takes less, least of all in FLAC.
 */
const LEAST_BYTES_PER_SECOND = 8

const lengths = new WeakMap<MediaFile, number | undefined>()

/** Seconds, read once per file; undefined for formats without a reader here, and for files that do not state them. */
export function secondsOf(file: MediaFile): number | undefined {
  if (!lengths.has(file)) lengths.set(file, measure(file))
  return lengths.get(file)
}

function measure({ bytes, mediaType }: MediaFile): number | undefined {
  const read = READERS[mediaType]
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let seconds: number | undefined
  try {
    seconds = read?.(view)
  } catch (error) {
    // The file states more than it holds.
    if (!(error instanceof RangeError)) throw error
  }
  const longest = bytes.byteLength / LEAST_BYTES_PER_SECOND
  return seconds !== undefined && seconds > 0 && seconds <= longest ? seconds : undefined
}

/** Whole seconds, rounded up; an inexactness of a millisecond does not add one. */
export function billableSeconds(seconds: number): number {
  return Math.ceil(Math.round(seconds * 1000) / 1000)
}

const READERS: Readonly<Record<string, (bytes: Buffer) => number | undefined>> = {
  'audio/wav': secondsOfWav,
  'audio/mpeg': secondsOfMp3,
  'audio/aac': secondsOfAdts,
  'audio/flac': secondsOfFlac,
  'audio/ogg': secondsOfOgg,
  'audio/mp4': secondsOfMp4,
  'video/mp4': secondsOfMp4,
  'audio/webm': secondsOfMatroska,
  'video/webm': secondsOfMatroska,
  'audio/x-matroska': secondsOfMatroska,
}

/** Upper bound on chunks scanned; protects against crafted files. */
const MAX_TRIES = 10_000
const PCM = 1
const FLOAT = 3
const EXTENSIBLE = 0xfffe

/** The length of RIFF/WAVE: the bytes present where the header has an arbitrary length, as from a stream. */
function secondsOfWav(bytes: Buffer): number | undefined {
  let bytesPerSecond = 0
  let tries = 0
  for (let at = 12; at + 8 <= bytes.length && tries < MAX_TRIES; tries++) {
    const size = bytes.readUInt32LE(at + 4)
    const name = bytes.toString('latin1', at, at + 4)
    if (name === 'fmt ') {
      const format = bytes.readUInt16LE(at + 8)
      const frame = bytes.readUInt16LE(at + 10) * (bytes.readUInt16LE(at + 22) / 8)
      const plain = format === PCM || format === FLOAT || format === EXTENSIBLE
      bytesPerSecond = plain ? bytes.readUInt32LE(at + 12) * frame : bytes.readUInt32LE(at + 16)
    } else if (name === 'data') {
      const left = bytes.length - at - 8
      return (size === 0 || size > left ? left : size) / bytesPerSecond
    }
    at += 8 + size + (size % 2)
  }
  return undefined
}

/** Samples per second of MPEG 1; MPEG 2 has half, MPEG 2.5 a quarter. */
const MP3_RATES = [44_100, 48_000, 32_000]
/** kbit/s by [MPEG 1, or 2 and 2.5][layer III, II, I][index]. */
const MP3_BITRATES = [
  [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  ],
  [
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  ],
]

interface Frame {
  readonly bytes: number
  readonly seconds: number
}

/** The length of MPEG audio, frame by frame: bit rates vary, and the counts of encoders may be missing. */
function secondsOfMp3(bytes: Buffer): number {
  return secondsOfFrames(bytes, afterId3(bytes), mp3Frame, (at) => isInfoFrame(bytes, at))
}

/** The length of AAC in ADTS (ISO 13818-7). */
function secondsOfAdts(bytes: Buffer): number {
  return secondsOfFrames(bytes, afterId3(bytes), adtsFrame)
}

/** Adds up frames. Bytes between them are skipped; the first frame counts when another one, or the end, follows. */
function secondsOfFrames(
  bytes: Buffer,
  start: number,
  frameAt: (bytes: Buffer, at: number) => Frame | undefined,
  silent: (at: number) => boolean = () => false,
): number {
  let seconds = 0
  let inStep = false
  let tries = 0
  for (let at = start; at + 4 <= bytes.length;) {
    const frame = frameAt(bytes, at)
    const next = frame && at + frame.bytes
    const good = next !== undefined && (inStep || next + 4 > bytes.length || frameAt(bytes, next))
    if (!good) {
      inStep = false
      at = bytes.indexOf(0xff, at + 1)
      if (at < 0 || ++tries > MAX_TRIES) break
      continue
    }
    if (inStep || !silent(at)) seconds += frame!.seconds
    inStep = true
    at = next
  }
  return seconds
}

function mp3Frame(bytes: Buffer, at: number): Frame | undefined {
  if (at + 4 > bytes.length || bytes[at] !== 0xff || (bytes[at + 1]! & 0xe0) !== 0xe0) return
  const version = (bytes[at + 1]! >> 3) & 3
  const layer = (bytes[at + 1]! >> 1) & 3
  const third = bytes[at + 2]!
  const rate = MP3_RATES[(third >> 2) & 3]
  if (version === 1 || layer === 0 || rate === undefined) return undefined
  const first = version === 3
  const kbps = MP3_BITRATES[first ? 0 : 1]![layer - 1]![third >> 4]
  if (!kbps) return undefined
  const samplesPerSecond = first ? rate : version === 2 ? rate / 2 : rate / 4
  const padding = (third >> 1) & 1
  const samples = layer === 3 ? 384 : layer === 1 && !first ? 576 : 1152
  const slot = layer === 3 ? 4 : 1
  const length = Math.floor(((samples / 8 / slot) * kbps * 1000) / samplesPerSecond) + padding
  return { bytes: length * slot, seconds: samples / samplesPerSecond }
}

function isInfoFrame(bytes: Buffer, at: number): boolean {
  const head = bytes.toString('latin1', at, at + 64)
  return head.includes('Xing') || head.includes('Info') || head.includes('VBRI')
}

const ADTS_RATES = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000,
  7350,
]

function adtsFrame(bytes: Buffer, at: number): Frame | undefined {
  if (at + 7 > bytes.length || bytes[at] !== 0xff || (bytes[at + 1]! & 0xf6) !== 0xf0) return
  const rate = ADTS_RATES[(bytes[at + 2]! >> 2) & 15]
  const length = ((bytes[at + 3]! & 3) << 11) | (bytes[at + 4]! << 3) | (bytes[at + 5]! >> 5)
  if (rate === undefined || length < 7) return undefined
  return { bytes: length, seconds: (1024 * ((bytes[at + 6]! & 3) + 1)) / rate }
}

function afterId3(bytes: Buffer): number {
  if (bytes.toString('latin1', 0, 3) !== 'ID3' || bytes.length < 10) return 0
  const size = (bytes[6]! << 21) | (bytes[7]! << 14) | (bytes[8]! << 7) | bytes[9]!
  return 10 + size + ((bytes[5]! & 0x10) === 0 ? 0 : 10)
}

/** The length of FLAC: the first block holds the count of samples (RFC 9639, 8.2), 0 if the encoder did not know it. */
function secondsOfFlac(bytes: Buffer): number | undefined {
  const rate = bytes.readUIntBE(18, 3) >> 4
  const samples = (bytes[21]! & 15) * 2 ** 32 + bytes.readUInt32BE(22)
  return samples / rate
}

const OGG_PAGE = Buffer.from('OggS')
const NOTHING_ENDS = 0xffffffffffffffffn

/** The length of Ogg (RFC 3533): the last page holds the number of samples up to it. */
function secondsOfOgg(bytes: Buffer): number | undefined {
  const first = 27 + bytes[26]!
  let rate: number | undefined
  let skipped = 0
  if (bytes.toString('latin1', first, first + 8) === 'OpusHead') {
    // Counted at 48 kHz for any input rate (RFC 7845, 4).
    rate = 48_000
    skipped = bytes.readUInt16LE(first + 10)
  } else if (bytes.toString('latin1', first + 1, first + 7) === 'vorbis') {
    rate = bytes.readUInt32LE(first + 12)
  } else if (bytes.toString('latin1', first, first + 5) === '\x7fFLAC') {
    rate = bytes.readUIntBE(first + 27, 3) >> 4
  } else if (bytes.toString('latin1', first, first + 8) === 'Speex   ') {
    rate = bytes.readUInt32LE(first + 36)
  }
  if (!rate) return undefined
  let at = bytes.length
  for (let tries = 0; at > 0 && tries < MAX_TRIES; tries++) {
    at = bytes.lastIndexOf(OGG_PAGE, at - 1)
    const position = at + 14 <= bytes.length ? bytes.readBigUInt64LE(at + 6) : NOTHING_ENDS
    if (position !== NOTHING_ENDS) return (Number(position) - skipped) / rate
  }
  return undefined
}
