/** A sound of silence: WAV, 16 bits, one channel, 8 kHz. */
export function toneOf(seconds: number): Buffer<ArrayBuffer> {
  const rate = 8_000
  const bytes = seconds * rate * 2
  const sound = Buffer.alloc(44 + bytes)
  sound.write('RIFF', 0)
  sound.writeUInt32LE(36 + bytes, 4)
  sound.write('WAVEfmt ', 8)
  sound.writeUInt32LE(16, 16)
  sound.writeUInt16LE(1, 20)
  sound.writeUInt16LE(1, 22)
  sound.writeUInt32LE(rate, 24)
  sound.writeUInt32LE(rate * 2, 28)
  sound.writeUInt16LE(2, 32)
  sound.writeUInt16LE(16, 34)
  sound.write('data', 36)
  sound.writeUInt32LE(bytes, 40)
  return sound
}
