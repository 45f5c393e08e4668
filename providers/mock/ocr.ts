/** OCR results without reading: a document has three pages, an image has one. */
import type { OcrInput, OcrPage, OcrResult } from '../../src/plugin.ts'
import { exampleOf } from './schema-example.ts'

/** What the deployment's options script. */
interface OcrScript {
  /** The text of every page. */
  readonly reply?: string | undefined
  /** No usage is reported. */
  readonly uncounted: boolean
}

const PAGES = 3
/** US letter at 200 dots per inch. */
const DIMENSIONS = { dpi: 200, height: 2200, width: 1700 }

/** The requested pages that exist, and a small annotation that fits the requested schema. */
export function readDocument(input: OcrInput, { reply, uncounted }: OcrScript): OcrResult {
  const { document, pages: requested, document_annotation_format: format } = input
  const all = Array.from({ length: document.kind === 'image' ? 1 : PAGES }, (_, index) => index)
  const pages = all
    .filter((index) => requested?.includes(index) ?? true)
    .map((index): OcrPage => {
      const markdown = reply ?? `# Page ${index + 1}\n\n${document.name ?? 'A document'}`
      return { index, markdown, images: [], dimensions: DIMENSIONS }
    })
  return {
    pages,
    ...(format && { document_annotation: JSON.stringify(exampleOf(schemaIn(format))) }),
    ...(!uncounted && { usage: { pages: pages.length } }),
  }
}

function schemaIn(format: { readonly json_schema?: { readonly schema?: unknown } }): unknown {
  return format.json_schema?.schema
}
