/**
 * What guards read of OCR: the annotation prompt, and everything in the answer. They cannot read the document itself.
 */
import type {
  AtomicPiece,
  AtomicText,
  OutputCodec,
  OutputPiece,
  TextPiece,
} from '../../guard/adapter.ts'
import type { OcrPage } from '../../plugin.ts'
import { itemOf, oneTurnGuard, otherItems } from '../shared/guard.ts'
import { stringsInJson } from '../shared/texts.ts'
import type { OcrPart } from './parts.ts'
import type { OcrRequest } from './read.ts'

/** Members that are read separately, or hold no words. */
const READ_SEPARATELY = new Set([
  'document',
  'pages',
  'table_format',
  'confidence_scores_granularity',
  'document_annotation_prompt',
])

/** The guard adapter of OCR. */
export const guardAdapter = oneTurnGuard<OcrRequest, OcrPart>(
  (input) => {
    const { document, document_annotation_prompt: prompt } = input
    const kind = document.kind === 'image' ? 'image' : 'file'
    const type = 'file' in document ? { mediaType: document.file.mediaType } : {}
    const items = [itemOf('document', 'document', '', [{ kind, ...type }])]
    if ('url' in document) items.push(itemOf('document.url', 'annotation', document.url))
    if (document.name) items.push(itemOf('document.document_name', 'annotation', document.name))
    if (prompt) items.push(itemOf('document_annotation_prompt', 'prompt', prompt))
    return [...items, ...otherItems(input, READ_SEPARATELY, 'tool_schema')]
  },
  () => new PageCodec(),
)

const KNOWN = new Set([
  'index',
  'markdown',
  'images',
  'dimensions',
  'tables',
  'hyperlinks',
  'header',
  'footer',
  'confidence_scores',
  'blocks',
])

/** Characters on either side of a page break that are also read as one text. */
const SEAM = 1000

/** Pages are read one by one, and what stands around the break between two of them once more. */
class PageCodec implements OutputCodec<OcrPart> {
  /** The end of the page before. */
  #before = ''

  split(
    part: OcrPart,
    take: (piece: OutputPiece<OcrPart>) => void,
    removed: (field: string) => void,
  ): void {
    switch (part.type) {
      case 'page':
        return take(pagePiece(part.page, this.#seamBefore(part.page), removed))
      case 'annotation':
        return take(whole(part, 0, [{ text: part.text }, ...stringsInJson(part.text)]))
      case 'end':
        return take({ kind: 'finish', choice: 0, part })
    }
  }

  cut({ part }: TextPiece<OcrPart>): OcrPart {
    return part
  }

  #seamBefore({ markdown }: OcrPage): readonly AtomicText[] {
    const text = typeof markdown === 'string' ? markdown.trim() : ''
    const seam = `${this.#before}\n${text.slice(0, SEAM)}`
    const isSeam = this.#before !== '' && text !== ''
    if (text !== '') this.#before = text.slice(-SEAM)
    return isSeam ? [{ text: seam, duplicate: true }] : []
  }
}

function pagePiece(
  page: OcrPage,
  seam: readonly AtomicText[],
  removed: (field: string) => void,
): AtomicPiece<OcrPart> {
  const known: Record<string, unknown> = {}
  for (const name in page) {
    if (KNOWN.has(name)) known[name] = page[name]
    else removed(name)
  }
  const part: OcrPart = { type: 'page', page: known as OcrPage }
  const shown = (page.images ?? []).some((image) => image?.image_base64)
  return {
    ...whole(part, page.index + 1, [...textsOf(known), ...seam]),
    ...(shown && { unscanned: 'image' }),
  }
}

function whole(part: OcrPart, index: number, texts: readonly AtomicText[]): AtomicPiece<OcrPart> {
  return { kind: 'whole', choice: 0, channel: 'document', index, part, texts }
}

/** The text of a page and, for local guards, every other string in it. */
function textsOf({ markdown, header, footer, tables, images, ...rest }: any): AtomicText[] {
  const annotations = listed(images).map((image) => image?.image_annotation)
  const said = [markdown, header, footer, ...listed(tables).map((table) => table?.content)]
  const texts = [...said, ...annotations].filter((text) => typeof text === 'string' && text !== '')
  const written = formattedIn({ tables, images, ...rest }).filter((text) => !texts.includes(text))
  return [
    ...texts.map((text) => ({ text })),
    ...written.map((text) => ({ text, duplicate: true })),
    ...annotations.flatMap((text) => (typeof text === 'string' ? stringsInJson(text) : [])),
  ]
}

function listed(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

/** Every string in a value. Lists of words are one text; bytes of images are left out. */
function formattedIn(value: unknown): readonly string[] {
  const strings = new Set<string>()
  JSON.stringify(value, (name, inner) => {
    if (name === 'image_base64') return undefined
    if (name === 'word_confidence_scores') {
      const words = listed(inner).map((word) => word?.text)
      strings.add(words.join(' '))
      return undefined
    }
    if (typeof inner === 'string') strings.add(inner)
    return inner
  })
  strings.delete('')
  return [...strings]
}
