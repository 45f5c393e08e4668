/** Sound as samples (16 bits, signed, little-endian, mono), converted to WAV or to another rate. */
import type { Step } from '../../plugin.ts'

/** Samples per second of the format `pcm`. */
export const PCM_RATE = 24_000

const HEADER_BYTES = 44
/** Bytes retained for a correct WAV header: 11 minutes at 24 kHz, 4 at the highest rates. */
const MAX_HELD_BYTES = 32 * 1024 * 1024
/** The length that streaming programs write where it is unknown. */
const UNKNOWN_LENGTH = 0xffffffff

/**
 * Makes a WAV file of samples. Its header holds the length, so samples are retained until the end; longer sound
 * follows a header without a length.
 */
export class ToWav implements Step<Uint8Array, Uint8Array> {
  readonly #rate: number
  #held: Uint8Array[] | undefined = []
  #bytes = 0

  constructor(rate: number) {
    this.#rate = rate
  }

  push(bytes: Uint8Array, emit: (bytes: Uint8Array) => void): void {
    if (!this.#held) return emit(bytes)
    this.#held.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > MAX_HELD_BYTES) this.#letGo(UNKNOWN_LENGTH, emit)
  }

  end(emit: (bytes: Uint8Array) => void): void {
    if (this.#bytes > 0) this.#letGo(this.#bytes, emit)
  }

  #letGo(bytes: number, emit: (bytes: Uint8Array) => void): void {
    if (!this.#held) return
    emit(wavHeader(this.#rate, bytes))
    for (const held of this.#held) emit(held)
    this.#held = undefined
  }
}

function wavHeader(rate: number, bytes: number): Uint8Array {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(Math.min(bytes + HEADER_BYTES - 8, UNKNOWN_LENGTH), 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(rate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(bytes, 40)
  return header
}

/** Zero crossings of the filter on either side of a sample; more are steeper. */
const CROSSINGS = 16
/** Shape of Kaiser's window: unwanted frequencies are attenuated by about 80 dB. */
const WINDOW_BETA = 8
/** Share of the common band that passes; the rest is the slope of the filter. */
const PASSED = 0.95

/**
 * Converts sound to another rate with a windowed-sinc filter for each phase between two samples. The length stays the
 * same, however the sound is cut into pieces.
 */
export class Resample implements Step<Uint8Array, Uint8Array> {
  /** Output samples for each group of input samples, in lowest terms. */
  readonly #up: number
  readonly #down: number
  /** Samples around a position that count. */
  readonly #width: number
  readonly #weights: Float64Array
  /** Input samples from number `#from` on that are still needed. */
  #held: Float64Array
  #from: number
  #count = 0
  /** Number of the next output sample. */
  #next = 0
  /** The first byte of a sample that was cut. */
  #odd: number | undefined

  constructor(from: number, to: number) {
    const divisor = greatestCommonDivisor(from, to)
    this.#up = to / divisor
    this.#down = from / divisor
    const band = Math.min(1, to / from)
    this.#width = 2 * Math.ceil(CROSSINGS / band)
    this.#weights = filterOf(this.#up, this.#width, band * PASSED)
    this.#held = new Float64Array(4096)
    // Silence before the first sample.
    this.#from = 1 - this.#width / 2
    this.#count = this.#width / 2 - 1
  }

  push(bytes: Uint8Array, emit: (bytes: Uint8Array) => void): void {
    this.#take(bytes)
    this.#make(this.#from + this.#count - this.#width / 2, emit)
  }

  end(emit: (bytes: Uint8Array) => void): void {
    const end = this.#from + this.#count
    this.#grow(this.#width)
    this.#held.fill(0, this.#count, this.#count + this.#width)
    this.#count += this.#width
    this.#make(end, emit)
  }

  #take(bytes: Uint8Array): void {
    this.#grow(bytes.length)
    let i = 0
    if (this.#odd !== undefined && bytes.length > 0) {
      this.#add(this.#odd, bytes[i++]!)
      this.#odd = undefined
    }
    for (; i + 1 < bytes.length; i += 2) this.#add(bytes[i]!, bytes[i + 1]!)
    if (i < bytes.length) this.#odd = bytes[i]
  }

  #add(low: number, high: number): void {
    this.#held[this.#count++] = ((low | (high << 8)) << 16) >> 16
  }

  #grow(by: number): void {
    if (this.#count + by <= this.#held.length) return
    const held = new Float64Array(2 * (this.#count + by))
    held.set(this.#held.subarray(0, this.#count))
    this.#held = held
  }

  #make(end: number, emit: (bytes: Uint8Array) => void): void {
    const total = Math.ceil((end * this.#up) / this.#down)
    if (total <= this.#next) return
    const out = new Int16Array(total - this.#next)
    const width = this.#width
    for (let i = 0; i < out.length; i++) {
      const place = (this.#next + i) * this.#down
      const whole = Math.floor(place / this.#up)
      const first = whole + 1 - width / 2 - this.#from
      const phase = (place - whole * this.#up) * width
      let sum = 0
      for (let j = 0; j < width; j++) sum += this.#weights[phase + j]! * this.#held[first + j]!
      out[i] = Math.max(-32_768, Math.min(32_767, Math.round(sum)))
    }
    this.#next = total
    this.#forget()
    emit(new Uint8Array(out.buffer))
  }

  #forget(): void {
    const needed = Math.floor((this.#next * this.#down) / this.#up) + 1 - this.#width / 2
    const done = Math.min(needed - this.#from, this.#count)
    if (done <= 0) return
    this.#held.copyWithin(0, done, this.#count)
    this.#count -= done
    this.#from += done
  }
}

/** Weights by [phase][neighbour]; those of a phase add up to one. */
function filterOf(places: number, width: number, band: number): Float64Array {
  const weights = new Float64Array(places * width)
  for (let place = 0; place < places; place++) {
    let sum = 0
    for (let j = 0; j < width; j++) {
      const distance = j + 1 - width / 2 - place / places
      const weight = sinc(band * distance) * kaiser(distance / (width / 2))
      weights[place * width + j] = weight
      sum += weight
    }
    for (let j = 0; j < width; j++) weights[place * width + j]! /= sum
  }
  return weights
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
}

function kaiser(x: number): number {
  return bessel(WINDOW_BETA * Math.sqrt(Math.max(0, 1 - x * x))) / bessel(WINDOW_BETA)
}

/** The modified Bessel function of the first kind, of order zero, by its series. */
function bessel(x: number): number {
  let sum = 1
  let term = 1
  for (let n = 1; term > sum * 1e-12; n++) {
    term *= (x / 2 / n) ** 2
    sum += term
  }
  return sum
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}
