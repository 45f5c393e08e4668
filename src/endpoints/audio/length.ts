/**
 * The length of sound, read from its container without decoding: for vendors that bill by time and do not report it.
 * Cheap checks compare the stated length with the bytes.
 */
import type { MediaFile } from '../../plugin.ts'
import { secondsOfMatroska } from './matroska.ts'
import { secondsOfMp4 } from './mp4.ts'

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
