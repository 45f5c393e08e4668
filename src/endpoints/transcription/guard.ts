/** Transcripts as guards see them: sound goes in unread, beside words; words come out (guard design, 1.3). */
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
const SILENT = new Set([
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

/** The guard side of transcription. There is no way to say "no" but an error. */
export const guarding: GuardAdapter<TranscriptionRequest, TranscriptPart> = {
  inputTexts(input) {
    const units: TextItem[] = [unit('file', '', [toMedia(input.file)])]
    for (const name in input) {
      if (SILENT.has(name)) continue
      stringsIn(input[name]).forEach((text, index) => {
        units.push(unit(typeof input[name] === 'string' ? name : `${name}[${index}]`, text))
      })
    }
    return { items: units, refusedTurns: [] }
  },
  choices: () => 1,
  outputCodec: () => new TranscriptLanes(),
}

function unit(id: string, text: string, media?: readonly Media[]): TextItem {
  const base = { id, side: 'input', channel: 'prompt', role: 'user', current: true, text } as const
  return media ? { ...base, media } : base
}

function toMedia(file: MediaFile): Media {
  const { mediaType } = file
  return {
    kind: 'audio',
    mediaType,
    // Few guards listen, and as text it is large.
    get url() {
      return `data:${mediaType};base64,${toBase64(file.bytes)}`
    },
  }
}

type Take = (piece: OutputPiece<TranscriptPart>) => void

const CHANNEL = 'transcript'

class TranscriptLanes implements OutputCodec<TranscriptPart> {
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

  /** Segments and words say the text again, and so does all of it after its pieces. */
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

/** What speakers are called, each once. A letter is a label, and ours. */
function speakersOf(said: readonly { readonly speaker?: string | number }[]): readonly string[] {
  const names = said.flatMap(({ speaker }) => (typeof speaker === 'string' ? speaker : []))
  return [...new Set(names)].filter((name) => !/^([A-Z])\1*$/.test(name))
}

/** Alternatives to what was said spell out what was not. */
function withoutLogprobs(part: TranscriptPart, removed: (field: string) => void): TranscriptPart {
  if (part.type === 'segment' || part.logprobs === undefined) return part
  removed('logprobs')
  const { logprobs: _removed, ...rest } = part
  return rest
}
