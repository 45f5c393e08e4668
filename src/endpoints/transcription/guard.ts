/**
 * What guards read of transcriptions: words of the request, and the transcript. They cannot read the sound itself.
 */
import type { OutputCodec, OutputPiece, TextPiece, AtomicText } from '../../guard/adapter.ts'
import { itemOf, mediaOf, oneTurnGuard, otherItems } from '../shared/guard.ts'
import type { DonePart, TranscriptPart } from './parts.ts'
import type { TranscriptionRequest } from './read.ts'

/** Members whose strings no model reads. */
const NO_TEXT = new Set([
  'file',
  'language',
  'languages',
  'response_format',
  'include',
  'timestamp_granularities',
  'chunking_strategy',
  'known_speaker_references',
])

/** The guard adapter of transcriptions. */
export const guardAdapter = oneTurnGuard<TranscriptionRequest, TranscriptPart>(
  (input) => [
    itemOf('file', 'prompt', '', [mediaOf('audio', input.file)]),
    ...otherItems(input, NO_TEXT, 'prompt'),
  ],
  () => new TranscriptCodec(),
)

type Take = (piece: OutputPiece<TranscriptPart>) => void

const CHANNEL = 'transcript'

class TranscriptCodec implements OutputCodec<TranscriptPart> {
  #said = ''
  #segments = 0

  split(part: TranscriptPart, take: Take, removed: (field: string) => void): void {
    const shown = withoutLogprobs(part, removed)
    const base = { choice: 0, channel: CHANNEL, part: shown } as const
    switch (shown.type) {
      case 'delta':
        this.#said += shown.text
        return take({ ...base, kind: 'text', text: shown.text })
      case 'segment':
        return take({
          ...base,
          kind: 'whole',
          index: ++this.#segments,
          texts: [shown.segment.text, ...speakersOf([shown.segment])].map((text) => ({
            text,
            duplicate: true,
          })),
        })
      case 'done':
        return take({ ...base, kind: 'whole', index: 0, texts: this.#textsOf(shown) })
    }
  }

  cut(piece: TextPiece<TranscriptPart>, start: number, end: number): TranscriptPart {
    return { ...piece.part, text: piece.text.slice(start, end) } as TranscriptPart
  }

  /** Segments, words and the whole text repeat the deltas. */
  #textsOf({ text, segments = [], words = [] }: DonePart): readonly AtomicText[] {
    const again = [
      segments.map((one) => one.text).join(' '),
      words.map(({ word }) => word).join(' '),
      ...speakersOf([...segments, ...words]),
    ]
    return [
      { text, duplicate: text === this.#said },
      ...again.filter((one) => one !== '').map((one) => ({ text: one, duplicate: true })),
    ]
  }
}

/** Names of speakers, once each. Single letters are labels of the gateway. */
function speakersOf(said: readonly { readonly speaker?: string | number }[]): readonly string[] {
  const names = said.flatMap(({ speaker }) => (typeof speaker === 'string' ? speaker : []))
  return [...new Set(names)].filter((name) => !/^([A-Z])\1*$/.test(name))
}

/** Log probabilities spell out words that were not said. */
function withoutLogprobs(part: TranscriptPart, removed: (field: string) => void): TranscriptPart {
  if (part.type === 'segment' || part.logprobs === undefined) return part
  removed('logprobs')
  const { logprobs: _removed, ...rest } = part
  return rest
}
