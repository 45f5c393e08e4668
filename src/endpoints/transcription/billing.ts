/** What a transcript costs: by the second, or by tokens. */
import type { Model } from '../../models/catalog.ts'
import { costJson } from '../../money/money.ts'
import type { Billing, Call, Receipt } from '../../pipeline/pipeline.ts'
import {
  bounds,
  MEDIA_TOKENS,
  readCount,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
} from '../../money/plausible.ts'
import type { MediaFile } from '../../plugin.ts'
import { billableSeconds, secondsOf } from '../audio/length.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { isDone, type DonePart, type TranscriptPart } from './parts.ts'
import type { TranscriptionRequest } from './read.ts'

const CHARACTERS_PER_TOKEN = 4
/** At vendors that count sound in tokens. */
const TOKENS_PER_SECOND = 10
/** Tokens that a second of sound explains. */
const SOUND_TOKENS = 64
/** For sound of unknown length: 32 kbit/s, the smallest rate of speech. */
const BYTES_PER_SECOND = 4000
/** What is held for it before: 128 kbit/s, and 8 kbit/s at most. */
const [HELD_BYTES_PER_SECOND, LEAST_BYTES_PER_SECOND] = [16_000, 1000]
/** People say fewer words a second. */
const SPOKEN_TOKENS_PER_SECOND = 4
const TOKEN_PRICES = ['prompt', 'audio', 'completion'] as const

/** Seconds or tokens: estimated by the length of the file, charged when the transcript is complete. */
export const billing: Billing<TranscriptionRequest, TranscriptPart> = {
  estimate({ input: { file, prompt } }) {
    const heardIn = (seconds: number) => {
      const { completionTokens: _, ...heard } = tokensFor(seconds, tokensIn(prompt ?? ''), '')
      return { seconds, ...heard }
    }
    // The file is heard whole, whatever is said in it.
    const least = heardIn(secondsFor(file))
    const measured = secondsOf(file) !== undefined
    const expected = measured ? least : heardIn(secondsBy(file, HELD_BYTES_PER_SECOND))
    const most = measured ? least : heardIn(secondsBy(file, LEAST_BYTES_PER_SECOND))
    return {
      least,
      expected,
      most: {
        seconds: most.seconds,
        promptTokens: 2 * most.promptTokens,
        audioInputTokens: 2 * most.audioInputTokens,
      },
      output: { limit: most.seconds * SPOKEN_TOKENS_PER_SECOND, choices: 1 },
    }
  },

  attach: (call) => new ReceiptAtEnd(call, isDone),
}

/** What the usage of an answer is compared with: figures of its request, whose sound need not be there any more. */
export interface Hearing {
  /** Seconds of the file; undefined where it does not tell. */
  readonly measured: number | undefined
  /** The same, or by its size. */
  readonly length: number
  readonly promptTokens: number
  readonly promptBytes: number
}

/** The figures of a request. */
export function hearingOf({ file, prompt }: TranscriptionRequest): Hearing {
  const measured = secondsOf(file)
  return {
    measured,
    length: measured ?? file.bytes.length / HELD_BYTES_PER_SECOND,
    promptTokens: tokensIn(prompt ?? ''),
    promptBytes: Buffer.byteLength(prompt ?? ''),
  }
}

/**
 * What an answer has consumed. Tokens are needed where they have a price, seconds always.
 * @param text of the deltas so far
 */
export function usageOf(
  { measured, length, promptTokens, promptBytes }: Hearing,
  { prices, maxOutputTokens, contextLength }: Model,
  done: DonePart | undefined,
  text: string,
): UsageReport {
  const reported = done?.usage
  const told = reported?.seconds ?? done?.duration
  const known = told ?? measured
  const seconds = billableSeconds(readCount(known) === undefined ? length : known!)
  const needed = TOKEN_PRICES.some((name) => name in prices)
  const said = done?.text ?? text
  const tokens = tokensFor(seconds, promptTokens, said)
  const sound = Math.max(MEDIA_TOKENS, SOUND_TOKENS * Math.ceil(length))
  const most = Math.max(Buffer.byteLength(said), SOUND_TOKENS * Math.ceil(length)) + 1024
  return {
    parts: { audioInputTokens: tokens.audioInputTokens },
    reported: {
      ...reported,
      // A length that was measured is as good as one that the vendor has billed.
      seconds: readCount(known) === undefined && !needed ? known : seconds,
    },
    expected: {
      seconds: {
        estimate: billableSeconds(length),
        soft: 1.2 * length + 60,
        hard: 3600 + 8 * length,
      },
      promptTokens: {
        ...bounds(
          tokens.promptTokens,
          promptBytes + 4096 + sound,
          contextLength ?? UNKNOWN_CONTEXT,
        ),
        needed,
      },
      completionTokens: {
        ...bounds(tokens.completionTokens, most, maxOutputTokens ?? UNKNOWN_OUTPUT),
        needed,
      },
    },
  }
}

/** `usage` of an answer: time, or tokens for models that are paid by them. */
export function usageJson({ bill, meter }: Receipt, { target: { model } }: Call): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const { promptTokens = 0, audioInputTokens = 0, completionTokens = 0, seconds = 0 } = consumed
  const cost = costJson(bill)
  if (!TOKEN_PRICES.some((name) => name in model.prices)) {
    return { type: 'duration', seconds, ...cost }
  }
  return {
    type: 'tokens',
    input_tokens: promptTokens,
    input_token_details: {
      text_tokens: Math.max(0, promptTokens - audioInputTokens),
      audio_tokens: audioInputTokens,
    },
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...('second' in model.prices && { seconds }),
    ...cost,
  }
}

/** Seconds of a file, by its size where the length cannot be read. */
function secondsFor(file: MediaFile): number {
  return billableSeconds(secondsOf(file) ?? file.bytes.length / BYTES_PER_SECOND)
}

function secondsBy(file: MediaFile, bytesPerSecond: number): number {
  return billableSeconds(file.bytes.length / bytesPerSecond)
}

function tokensFor(seconds: number, promptTokens: number, said: string) {
  const audioInputTokens = seconds * TOKENS_PER_SECOND
  return {
    promptTokens: audioInputTokens + promptTokens,
    audioInputTokens,
    completionTokens: tokensIn(said),
  }
}

function tokensIn(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN)
}
