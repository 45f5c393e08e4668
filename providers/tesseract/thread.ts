/** Entry point of a worker thread. It takes one task at a time and answers page by page. */
import { parentPort, workerData } from 'node:worker_threads'
import type { OcrPage } from '../../src/plugin.ts'
import { Pdf } from './document.ts'
import { Engine, type Language, type PageOptions } from './engine.ts'
import {
  readImageHeader,
  MAX_SIDE_PIXELS,
  InvalidDocument,
  type InvalidDocumentCode,
} from './image.ts'

/** One document to read. */
export interface Task extends PageOptions {
  readonly kind: 'document' | 'image'
  readonly bytes: Uint8Array
  /** Zero-based, ascending. All pages when absent. */
  readonly pages: readonly number[] | undefined
  /** Most pages that are read. */
  readonly maxPages: number
}

/** Messages of a thread about its task: pages in order, then one of the other two. */
export type ThreadMessage =
  | { readonly page: OcrPage }
  | { readonly invalid: { readonly code: InvalidDocumentCode; readonly message: string } }
  | { readonly done: true }

/** The size of a photograph of the largest cameras, about. Decoded, it takes four bytes per pixel. */
const MAX_IMAGE_PIXELS = 50_000_000

const engine = Engine.open(workerData as readonly Language[])
// The first task reports a failed start.
engine.catch(() => {})

parentPort!.on('message', (task: Task) => void run(task))

/**
 * Only an invalid document leaves the engine usable. Any other error ends the thread, because the engine's state is
 * unknown.
 */
async function run(task: Task): Promise<void> {
  try {
    await (task.kind === 'image' ? readImage(task) : readPdf(task))
    post({ done: true })
  } catch (error) {
    if (!(error instanceof InvalidDocument)) throw error
    post({ invalid: { code: error.code, message: error.message } })
  }
}

async function readImage({ bytes, ...options }: Task): Promise<void> {
  const header = readImageHeader(bytes)
  if (!header) {
    throw new InvalidDocument(
      'invalid_image',
      'The image is none that this model reads: PNG, JPEG or WebP.',
    )
  }
  const { width, height, orientation } = header
  if (width * height > MAX_IMAGE_PIXELS || Math.max(width, height) > MAX_SIDE_PIXELS) {
    const most = `up to ${MAX_IMAGE_PIXELS}, and up to ${MAX_SIDE_PIXELS} on a side`
    const message = `The image has ${width} by ${height} pixels; this model reads ${most}.`
    throw new InvalidDocument('invalid_image', message)
  }
  const page = (await engine).read({ bytes, orientation }, 0, options)
  if (!page) throw new InvalidDocument('invalid_image', 'The image cannot be read: it is broken.')
  post({ page })
}

async function readPdf({ bytes, pages, maxPages, ...options }: Task): Promise<void> {
  const reader = await engine
  const pdf = await Pdf.open(bytes)
  try {
    const { pageCount } = pdf
    const wanted = pages ?? Array.from({ length: pageCount }, (_, index) => index)
    const outside = wanted.find((index) => index >= pageCount)
    if (outside !== undefined) {
      const last = `its ${pageCount} pages count from 0`
      throw new InvalidDocument('invalid_value', `The document has no page ${outside}: ${last}.`)
    }
    if (wanted.length > maxPages) {
      const message =
        `This model reads up to ${maxPages} pages at a time, not ${wanted.length}. ` +
        'Select some with "pages", such as "0-9".'
      throw new InvalidDocument('invalid_value', message)
    }
    for (const index of wanted) {
      const page = reader.read(await pdf.draw(index), index, options)
      if (!page)
        throw new InvalidDocument('invalid_document', `Page ${index} of the PDF cannot be read.`)
      post({ page })
    }
  } finally {
    pdf.close()
  }
}

function post(message: ThreadMessage): void {
  parentPort!.postMessage(message)
}
