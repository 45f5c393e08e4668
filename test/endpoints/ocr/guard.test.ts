import { describe, expect, it } from 'vitest'
import { ocr, type OcrPart } from '../../../src/endpoints/ocr/endpoint.ts'
import type { OutputPiece } from '../../../src/guard/adapter.ts'

const input = {
  model: 'acme/ocr',
  document: { kind: 'document', url: 'https://example.com/a.pdf' },
} as const

function split(part: OcrPart) {
  const pieces: OutputPiece<OcrPart>[] = []
  const removed: string[] = []
  ocr.endpoint.guard!.outputCodec(input).split(
    part,
    (piece) => pieces.push(piece),
    (field) => removed.push(field),
  )
  return { pieces, removed }
}

describe('an annotation as guards see it', () => {
  it('is read decoded, names included that are words of JSON Schema', () => {
    const { pieces } = split({
      type: 'annotation',
      text: '{"t\\u0069tle":"x","type":"t\\u0065xt"}',
    })
    const texts = (pieces as any[])[0].texts.map(({ text }: any) => text)
    expect(texts).toEqual(expect.arrayContaining(['title', 'text']))
  })
})

describe('pages as guards see them', () => {
  it('are read across the break between them, once', () => {
    const codec = ocr.endpoint.guard!.outputCodec(input)
    const textsOf = (index: number, markdown: string) => {
      const pieces: any[] = []
      const page = { index, markdown, images: [], dimensions: null }
      codec.split(
        { type: 'page', page },
        (piece) => pieces.push(piece),
        () => {},
      )
      return pieces[0].texts
    }
    expect(textsOf(0, 'The blue\n')).toEqual([{ text: 'The blue\n' }])
    expect(textsOf(1, '\nheron stands.')).toEqual([
      { text: '\nheron stands.' },
      { text: 'The blue\nheron stands.', duplicate: true },
    ])
    expect(textsOf(2, 'It flies.')[1].text).toBe('heron stands.\nIt flies.')
  })
})

describe('the base64 of an image', () => {
  it('is read where it is none', () => {
    const textsOf = (image_base64: string) => {
      const images = [{ id: 'a', image_base64 }]
      const page: any = { index: 0, markdown: 'one', images, dimensions: null }
      const { texts } = split({ type: 'page', page }).pieces[0] as any
      return texts.map(({ text }: any) => text)
    }
    expect(textsOf('a plain sentence')).toContain('a plain sentence')
    expect(textsOf('data:image/png;base64,a plain sentence')).toHaveLength(3)
    expect(textsOf('data:image/png;base64,iVBORw0KGgo=')).toEqual(['one', 'a'])
  })
})

describe('a page as guards see it', () => {
  const page = {
    index: 4,
    markdown: 'one two',
    header: 'top',
    footer: null,
    dimensions: null,
    tables: [{ id: 'tbl-0', content: '| a |', format: 'markdown' }],
    hyperlinks: ['https://example.com/x'],
    images: [
      {
        id: 'img-0',
        image_base64: 'data:image/png;base64,AAAA',
        image_annotation: '{"x":"\\u0061b"}',
      },
    ],
    blocks: [{ type: 'text', content: 'one two' }],
    confidence_scores: {
      word_confidence_scores: [{ text: 'on' }, { text: 'e' }],
    },
    secret_field: 'hidden',
  }

  it('says everything that is written on it, in the page or about it, and nothing else', () => {
    const { pieces, removed } = split({ type: 'page', page })
    expect(removed).toEqual(['secret_field'])
    const [piece] = pieces as any[]
    const words = (again: boolean) =>
      piece.texts
        .filter((one: any) => (one.duplicate ?? false) === again)
        .map(({ text }: any) => text)
    // What a judge reads too.
    expect(words(false)).toEqual(['one two', 'top', '| a |', '{"x":"\\u0061b"}'])
    const again = words(true)
    expect(again).toEqual(expect.arrayContaining(['https://example.com/x', 'on e', 'ab']))
    expect(again.join()).not.toContain('base64')
    expect(piece.unscanned).toBe('image')
    const { secret_field: _left, ...kept } = page
    expect(piece.part).toEqual({ type: 'page', page: kept })
  })

  it('ends with the end', () => {
    const end: OcrPart = { type: 'end', bytes: null }
    expect(split(end).pieces).toEqual([{ kind: 'finish', choice: 0, part: end }])
  })
})

describe('an annotation', () => {
  it('is read as it is written, and decoded', () => {
    const { pieces } = split({ type: 'annotation', text: '{"a":"\\u0062"}' })
    const texts = (pieces[0] as any).texts.map(({ text }: any) => text)
    expect(texts).toEqual(expect.arrayContaining(['{"a":"\\u0062"}', 'b']))
  })

  it('need not be JSON', () => {
    const { pieces } = split({ type: 'annotation', text: 'not JSON' })
    expect((pieces[0] as any).texts).toEqual([{ text: 'not JSON' }])
  })
})
