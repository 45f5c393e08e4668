/** Generated sound and transcripts. */
import type {
  Speech,
  SpeechInput,
  Transcription,
  TranscriptionEvent,
  TranscriptionInput,
} from '../../src/plugin.ts'

const SAMPLE_RATE = 24_000
/** Samples for one character. */
const SAMPLES_PER_CHARACTER = SAMPLE_RATE / 20
const PITCH = 440
const LOUDNESS = 8000

/** 417 bytes of silence: one empty frame of MPEG 1 layer III at 128 kbit/s and 44.1 kHz. */
const SILENT_FRAME = Buffer.alloc(417)
SILENT_FRAME.set([0xff, 0xfb, 0x90, 0xc4])
const FRAME_SECONDS = 1152 / 44_100

/**
 * Sound of a twentieth of a second per character: a tone for letters, silence for white space, silence only as MP3.
 * Undefined for formats that need an encoder.
 * @param pace is awaited before each word
 */
export function synthesize(
  { input, response_format: format, speed = 1 }: SpeechInput,
  pace: (sent: number) => Promise<void>,
): Speech | undefined {
  if (format === 'mp3') return { bytes: eachWord(input, pace, (word) => silence(word, speed)) }
  if (format !== 'wav' && format !== 'pcm') return undefined
  return { bytes: eachWord(input, pace, (word) => tone(word, speed)), pcmSampleRate: SAMPLE_RATE }
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
  const perCharacter = Math.round(SAMPLES_PER_CHARACTER / speed)
  const characters = [...word]
  const samples = new Int16Array(characters.length * perCharacter)
  characters.forEach((character, index) => {
    if (/\s/.test(character)) return
    for (let i = index * perCharacter; i < (index + 1) * perCharacter; i++) {
      samples[i] = Math.round(LOUDNESS * Math.sin((2 * Math.PI * PITCH * i) / SAMPLE_RATE))
    }
  })
  return new Uint8Array(samples.buffer)
}

function silence(word: string, speed: number): Uint8Array {
  const seconds = ([...word].length * SAMPLES_PER_CHARACTER) / SAMPLE_RATE / speed
  const frames = Math.max(1, Math.round(seconds / FRAME_SECONDS))
  return Buffer.concat(Array.from({ length: frames }, () => SILENT_FRAME))
}

/** Length of one word. */
const WORD_SECONDS = 0.25

/** The scripted text, or a text with the size of the file. Each word is a quarter of a second long. */
export function transcribe(input: TranscriptionInput, reply: string | undefined): Transcription {
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

/** The same transcript, one word per event. @param pace is awaited before each event */
export async function* transcriptionEvents(
  input: TranscriptionInput,
  reply: string | undefined,
  pace: (sent: number) => Promise<void>,
): AsyncGenerator<TranscriptionEvent, void, undefined> {
  const whole = transcribe(input, reply)
  const words = whole.text.match(/\s*\S+/g) ?? []
  for (const [sent, text] of words.entries()) {
    await pace(sent)
    yield { type: 'delta', text }
  }
  await pace(words.length)
  yield { type: 'done', ...whole }
}
