/** Sound that costs nothing to make, and transcripts that cost nothing to write. */
import type {
  Speech,
  SpeechInput,
  Transcription,
  TranscriptionEvent,
  TranscriptionInput,
} from '../../src/plugin.ts'

const RATE = 24_000
/** Of one character. */
const SAMPLES = RATE / 20
const PITCH = 440
const LOUDNESS = 8000

/** 417 bytes of silence: MPEG 1 layer III at 128 kbit/s and 44.1 kHz, with nothing in it. */
const SILENT_FRAME = Buffer.alloc(417)
SILENT_FRAME.set([0xff, 0xfb, 0x90, 0xc4])
const FRAME_SECONDS = 1152 / 44_100

/**
 * A twentieth of a second for each character: a tone for letters and silence for blanks, or all silent as MP3.
 * Undefined for formats that take an encoder.
 * @param pace before each word
 */
export function speak(
  { input, response_format: format, speed = 1 }: SpeechInput,
  pace: (sent: number) => Promise<void>,
): Speech | undefined {
  if (format === 'mp3') return { bytes: eachWord(input, pace, (word) => silence(word, speed)) }
  if (format !== 'wav' && format !== 'pcm') return undefined
  return { bytes: eachWord(input, pace, (word) => tone(word, speed)), pcmSampleRate: RATE }
}

async function* eachWord(
  text: string,
  pace: (sent: number) => Promise<void>,
  soundOf: (word: string) => Uint8Array,
): AsyncGenerator<Uint8Array, void, undefined> {
  const words = text.match(/\s*\S+\s?|\s+$/g) ?? []
  for (const [sent, word] of words.entries()) {
    await pace(sent)
    yield soundOf(word)
  }
  await pace(words.length)
}

function tone(word: string, speed: number): Uint8Array {
  const perCharacter = Math.round(SAMPLES / speed)
  const characters = [...word]
  const samples = new Int16Array(characters.length * perCharacter)
  characters.forEach((character, index) => {
    if (/\s/.test(character)) return
    for (let i = index * perCharacter; i < (index + 1) * perCharacter; i++) {
      samples[i] = Math.round(LOUDNESS * Math.sin((2 * Math.PI * PITCH * i) / RATE))
    }
  })
  return new Uint8Array(samples.buffer)
}

function silence(word: string, speed: number): Uint8Array {
  const seconds = ([...word].length * SAMPLES) / RATE / speed
  const frames = Math.max(1, Math.round(seconds / FRAME_SECONDS))
  return Buffer.concat(Array.from({ length: frames }, () => SILENT_FRAME))
}

/** Of one word. */
const WORD_SECONDS = 0.25

/** What is scripted, or how large the file was; a quarter of a second for each word. */
export function hear(input: TranscriptionInput, reply: string | undefined): Transcription {
  const text = reply ?? `A file of ${input.file.bytes.length} bytes.`
  const words = text.split(/\s+/).filter(Boolean)
  return {
    text,
    language: input.language ?? 'en',
    words: words.map((word, index) => ({
      word,
      start: index * WORD_SECONDS,
      end: (index + 1) * WORD_SECONDS,
      speaker: 'A',
    })),
  }
}

/** The same a word at a time. @param pace before each event */
export async function* hearSlowly(
  input: TranscriptionInput,
  reply: string | undefined,
  pace: (sent: number) => Promise<void>,
): AsyncGenerator<TranscriptionEvent, void, undefined> {
  const whole = hear(input, reply)
  const words = whole.text.match(/\s*\S+/g) ?? []
  for (const [sent, text] of words.entries()) {
    await pace(sent)
    yield { type: 'delta', text }
  }
  await pace(words.length)
  yield { type: 'done', ...whole }
}
