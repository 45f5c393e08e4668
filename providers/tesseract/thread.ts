/** A reading thread: takes one task at a time and answers page by page. */
import { parentPort, workerData } from 'node:worker_threads'
import type { OcrPage } from '../../src/plugin.ts'
import { Pdf } from './document.ts'
import { Engine, type Language } from './engine.ts'
import { headOf, MAX_SIDE_PIXELS } from './image.ts'
import type { Wishes } from './layout.ts'
import { Refusal, type RefusalCode } from './refusal.ts'

/** One document to be read. */
export interface Task extends Wishes {
  readonly kind: 'document' | 'image'
  readonly bytes: Uint8Array
  /** Zero-based, ascending; all when absent. */
  readonly pages: readonly number[] | undefined
  /** How many are read at most. */
  readonly maxPages: number
}

/** What a thread says of its task: pages, in their order, and one of the others at the end. */
export type Said =
  | { readonly page: OcrPage }
  | { readonly refused: { readonly code: RefusalCode; readonly message: string } }
  | { readonly done: true }

/** A photograph of the largest cameras; unpacked it takes four times as many bytes. */
const MAX_IMAGE_PIXELS = 50_000_000

const engine = Engine.open(workerData as readonly Language[])
// Whoever gives a task hears of it.
engine.catch(() => {})

parentPort!.on('message', (task: Task) => void answer(task))

/** What is no refusal ends the thread: after a fault nobody knows what state the engines are in. */
async function answer(task: Task): Promise<void> {
  try {
    await (task.kind === 'image' ? readImage(task) : readPdf(task))
    say({ done: true })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    say({ refused: { code: error.code, message: error.message } })
  }
}

async function readImage({ bytes, ...wishes }: Task): Promise<void> {
  const head = headOf(bytes)
  if (!head) {
    throw new Refusal(
      'invalid_image',
      'The image is none that this model reads: PNG, JPEG or WebP.',
    )
  }
  const { width, height, orientation } = head
  if (width * height > MAX_IMAGE_PIXELS || Math.max(width, height) > MAX_SIDE_PIXELS) {
    const most = `up to ${MAX_IMAGE_PIXELS}, and up to ${MAX_SIDE_PIXELS} on a side`
    const message = `The image has ${width} by ${height} pixels; this model reads ${most}.`
    throw new Refusal('invalid_image', message)
  }
  const page = (await engine).read({ bytes, orientation }, 0, wishes)
  if (!page) throw new Refusal('invalid_image', 'The image cannot be read: it is broken.')
  say({ page })
}

async function readPdf({ bytes, pages, maxPages, ...wishes }: Task): Promise<void> {
  const reader = await engine
  const pdf = await Pdf.open(bytes)
  try {
    const { pageCount } = pdf
    const wanted = pages ?? Array.from({ length: pageCount }, (_, index) => index)
    const outside = wanted.find((index) => index >= pageCount)
    if (outside !== undefined) {
      const last = `its ${pageCount} pages count from 0`
      throw new Refusal('invalid_value', `The document has no page ${outside}: ${last}.`)
    }
    if (wanted.length > maxPages) {
      const message =
        `This model reads up to ${maxPages} pages at a time, not ${wanted.length}. ` +
        'Select some with "pages", such as "0-9".'
      throw new Refusal('invalid_value', message)
    }
    for (const index of wanted) {
      const page = reader.read(await pdf.draw(index), index, wishes)
      if (!page) throw new Refusal('invalid_document', `Page ${index} of the PDF cannot be read.`)
      say({ page })
    }
  } finally {
    pdf.close()
  }
}

function say(said: Said): void {
  parentPort!.postMessage(said)
}
