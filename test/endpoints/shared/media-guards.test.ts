/** Images and transcripts as guards see them. */
import { describe, expect, it } from 'vitest'
import { generations } from '../../../src/endpoints/images/endpoint.ts'
import {
  transcription,
  type TranscriptPart,
} from '../../../src/endpoints/transcription/endpoint.ts'
import type { OutputPiece } from '../../../src/guard/adapter.ts'

describe('a request for images', () => {
  it('is read in every member that goes upstream, known or not', () => {
    const request = {
      model: 'acme/painter',
      prompt: 'A pond.',
      size: '1024x1024',
      quality: 'low',
      style: 'vivid',
      user: 'u-1',
      negative_prompt: 'A heron.',
      layers: [{ words: 'A kestrel.' }],
    }
    const { items } = generations.endpoint.guard!.inputTexts(request as never, [])
    expect(items.map(({ id, channel, text }) => [id, channel, text])).toEqual([
      ['prompt', 'prompt', 'A pond.'],
      ['user#0', 'annotation', 'u-1'],
      ['negative_prompt#0', 'tool_schema', 'A heron.'],
      ['layers#0', 'tool_schema', 'words'],
      ['layers#1', 'tool_schema', 'A kestrel.'],
    ])
  })
})

describe('a transcript', () => {
  const file = { bytes: new Uint8Array(), mediaType: 'audio/wav' }
  const textsOf = (part: TranscriptPart) => {
    const pieces: OutputPiece<TranscriptPart>[] = []
    const request = { model: 'acme/ear', file } as never
    transcription.endpoint.guard!.outputCodec(request).split(
      part,
      (piece) => pieces.push(piece),
      () => {},
    )
    return (pieces as any[])[0].texts.map(({ text }: any) => text)
  }

  it('is read with the names of its speakers', () => {
    const segment = { start: 0, end: 1, text: 'Hello.', speaker: 'Heron' }
    expect(textsOf({ type: 'segment', id: 'seg_001', segment })).toEqual(['Hello.', 'Heron'])
    const other = { ...segment, speaker: 1 }
    const whole = { type: 'done', text: 'Hello.', segments: [segment, segment, other] } as const
    expect(textsOf(whole).filter((text: string) => text === 'Heron')).toHaveLength(1)
  })
})
