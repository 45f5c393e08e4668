/**
 * What guards read of transcriptions: words of the request, and the transcript. They cannot read the sound itself.
 */
import type {
  GuardAdapter,
  OutputCodec,
  OutputPiece,
  TextPiece,
  AtomicText,
} from '../../guard/adapter.ts'
import { toBase64 } from '../shared/media.ts'
import type { Media, MediaFile, TextItem } from '../../plugin.ts'
import { stringsIn } from '../shared/texts.ts'
import type { DonePart, TranscriptPart } from './parts.ts'
import type { TranscriptionRequest } from './read.ts'

/** Members whose strings no model reads. */
const NO_TEXT = new Set([
  'model',
  'policy',
  'file',
  'language',
  'languages',
  'response_format',
  'include',
  'timestamp_granularities',
  'chunking_strategy',
  'known_speaker_references',
  'provider',
])

/** The guard adapter of transcriptions. A refusal is always an error: there is no text to put it in. */
export const guardAdapter: GuardAdapter<TranscriptionRequest, TranscriptPart> = {
  inputTexts(input) {
    const items: TextItem[] = [itemOf('file', '', [toMedia(input.file)])]
    for (const name in input) {
      if (NO_TEXT.has(name)) continue
      stringsIn(input[name]).forEach((text, index) => {
        items.push(itemOf(typeof input[name] === 'string' ? name : `${name}[${index}]`, text))
      })
    }
    return { items, refusedTurns: [] }
  },
  choices: () => 1,
  outputCodec: () => new TranscriptCodec(),
}

function itemOf(id: string, text: string, media?: readonly Media[]): TextItem {
  const base = { id, side: 'input', channel: 'prompt', role: 'user', current: true, text } as const
  return media ? { ...base, media } : base
}

function toMedia(file: MediaFile): Media {
  const { mediaType } = file
  return {
    kind: 'audio',
    mediaType,
    // Few guards check sound, and its base64 is large: it is made on demand.
    get url() {
      return `data:${mediaType};base64,${toBase64(file.bytes)}`
    },
  }
}

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
