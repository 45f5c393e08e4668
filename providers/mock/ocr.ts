/** Documents that need not be read: each has three pages, and an image has one. */
import type { OcrInput, OcrPage, OcrResult } from '../../src/plugin.ts'
import { instanceOf } from './instance.ts'

/** What is scripted. */
export interface OcrScript {
  /** Stands on every page. */
  readonly reply?: string | undefined
  /** Nothing is counted. */
  readonly uncounted: boolean
}

const PAGES = 3
/** US letter at 200 dots an inch. */
const DIMENSIONS = { dpi: 200, height: 2200, width: 1700 }

/** The pages that were asked for, as far as there are any, and the smallest annotation that fits. */
export function readDocument(input: OcrInput, { reply, uncounted }: OcrScript): OcrResult {
  const { document, pages: wanted, document_annotation_format: format } = input
  const all = Array.from({ length: document.kind === 'image' ? 1 : PAGES }, (_, index) => index)
  const pages = all
    .filter((index) => wanted?.includes(index) ?? true)
    .map((index): OcrPage => {
      const markdown = reply ?? `# Page ${index + 1}\n\n${document.name ?? 'A document'}`
      return { index, markdown, images: [], dimensions: DIMENSIONS }
    })
  return {
    pages,
    ...(format && { document_annotation: JSON.stringify(instanceOf(schemaIn(format))) }),
    ...(!uncounted && { usage: { pages: pages.length } }),
  }
}

function schemaIn(format: { readonly json_schema?: { readonly schema?: unknown } }): unknown {
  return format.json_schema?.schema
}
