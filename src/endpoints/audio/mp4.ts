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
export function secondsOfMp4(bytes: Buffer): number | undefined {
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
