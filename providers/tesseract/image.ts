/** Reads the size of an image from its first bytes, so that the size is checked before the image is decoded. */

/** Longest side of an image: Tesseract stores coordinates in 16 bits. */
export const MAX_SIDE_PIXELS = 32_767

/** Size and orientation of an image. */
interface ImageHeader {
  readonly width: number
  readonly height: number
  /** EXIF orientation, 1 to 8 (EXIF 2.32, tag 274); 1 is upright. */
  readonly orientation: number
}

/** Size and orientation of a PNG, JPEG or WebP; undefined for other formats and for truncated headers. */
export function readImageHeader(bytes: Uint8Array): ImageHeader | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    const start = view.toString('latin1', 0, 16)
    if (start.startsWith('\x89PNG\r\n\x1a\n')) {
      return upright(view.readUInt32BE(16), view.readUInt32BE(20))
    }
    if (start.startsWith('\xff\xd8\xff')) return jpegHeader(view)
    if (start.startsWith('RIFF') && start.startsWith('WEBP', 8)) {
      return webpHeader(view, start.slice(12, 16))
    }
  } catch (error) {
    // The file ends inside its header.
    if (!(error instanceof RangeError)) throw error
  }
  return undefined
}

/** Segments that contain the size: all that start a frame (ITU T.81, table B.1). */
const FRAMES: ReadonlySet<number> = new Set([
  0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf,
])
const APP1 = 0xe1

function jpegHeader(view: Buffer): ImageHeader | undefined {
  let orientation = 1
  for (let at = 2; view[at] === 0xff;) {
    const marker = view[at + 1]!
    if (marker === 0xff) {
      // Fill bytes may stand before a marker.
      at++
      continue
    }
    const length = view.readUInt16BE(at + 2)
    if (FRAMES.has(marker)) {
      return { ...upright(view.readUInt16BE(at + 7), view.readUInt16BE(at + 5)), orientation }
    }
    if (marker === APP1) orientation = orientationIn(view.subarray(at + 4, at + 2 + length))
    at += 2 + length
  }
  return undefined
}

const ORIENTATION = 274

/** Reads the orientation from an EXIF segment, which is a small TIFF file. */
function orientationIn(segment: Buffer): number {
  if (segment.toString('latin1', 0, 6) !== 'Exif\0\0') return 1
  const tiff = segment.subarray(6)
  const little = tiff.toString('latin1', 0, 2) === 'II'
  const short = (at: number) => (little ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at))
  try {
    const directory = little ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
    for (let i = 0; i < short(directory); i++) {
      const entry = directory + 2 + i * 12
      if (short(entry) !== ORIENTATION) continue
      const value = short(entry + 8)
      return value >= 1 && value <= 8 ? value : 1
    }
  } catch (error) {
    // A malformed EXIF segment is ignored; the image itself may be fine.
    if (!(error instanceof RangeError)) throw error
  }
  return 1
}

/** The size of the three kinds of WebP (RFC 9649, sections 2.5 to 2.7). */
function webpHeader(view: Buffer, kind: string): ImageHeader | undefined {
  if (kind === 'VP8X') return upright(view.readUIntLE(24, 3) + 1, view.readUIntLE(27, 3) + 1)
  if (kind === 'VP8 ')
    return upright(view.readUInt16LE(26) & 0x3fff, view.readUInt16LE(28) & 0x3fff)
  if (kind !== 'VP8L') return undefined
  const sizes = view.readUInt32LE(21)
  return upright((sizes & 0x3fff) + 1, ((sizes >>> 14) & 0x3fff) + 1)
}

function upright(width: number, height: number): ImageHeader {
  return { width, height, orientation: 1 }
}

/** The client sent a document that cannot be read. The message is written for the client. */
export class InvalidDocument extends Error {
  readonly code: InvalidDocumentCode

  constructor(code: InvalidDocumentCode, message: string) {
    super(message)
    this.name = 'InvalidDocument'
    this.code = code
  }
}

/** Error code for the client. `invalid_value` is about the selection of pages. */
export type InvalidDocumentCode = 'invalid_document' | 'invalid_image' | 'invalid_value'
