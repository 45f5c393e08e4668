/** Draws the pages of a PDF with PDFium. Runs in a worker thread because drawing keeps a processor busy. */
import { PDFiumLibrary, type PDFiumDocument } from '@hyzyla/pdfium'
import { MAX_SIDE_PIXELS, InvalidDocument } from './image.ts'

/** The resolution that Tesseract was trained with. */
const DPI = 300
/** Larger pages are drawn at a lower resolution. A3 at 300 dpi has 17.4 million pixels. */
const MAX_PIXELS = 25_000_000
const POINTS_PER_INCH = 72

/** A page as an uncompressed image (PGM). */
interface Picture {
  readonly bytes: Uint8Array
  readonly dpi: number
}

let library: Promise<PDFiumLibrary> | undefined

/** An open PDF. The caller has to close it. */
export class Pdf {
  readonly pageCount: number
  readonly #document: PDFiumDocument

  /** Opens a PDF. @throws InvalidDocument when it is not a PDF or needs a password */
  static async open(bytes: Uint8Array): Promise<Pdf> {
    const pdfium = await (library ??= PDFiumLibrary.init())
    try {
      return new Pdf(await pdfium.loadDocument(bytes))
    } catch (error) {
      const locked = error instanceof Error && /password|security/i.test(error.message)
      throw new InvalidDocument(
        'invalid_document',
        locked
          ? 'The PDF is protected by a password. Send it without one.'
          : 'The document cannot be read: it is not a PDF, or a broken one.',
      )
    }
  }

  private constructor(document: PDFiumDocument) {
    this.#document = document
    this.pageCount = document.getPageCount()
  }

  /** Draws a page. @throws InvalidDocument when the page is broken */
  async draw(index: number): Promise<Picture> {
    const page = this.#document.getPage(index)
    const { originalWidth, originalHeight } = page.getOriginalSize()
    if (!(originalWidth > 0 && originalHeight > 0)) {
      throw new InvalidDocument('invalid_document', `Page ${index} of the PDF cannot be read.`)
    }
    const square = (originalWidth * originalHeight) / POINTS_PER_INCH ** 2
    const longer = Math.max(originalWidth, originalHeight) / POINTS_PER_INCH
    const most = Math.min(DPI, Math.sqrt(MAX_PIXELS / square), MAX_SIDE_PIXELS / longer)
    const dpi = Math.max(1, Math.floor(most))
    const pixels = (points: number) => Math.max(1, Math.round((points * dpi) / POINTS_PER_INCH))
    const size = { width: pixels(originalWidth), height: pixels(originalHeight) }
    const { data: gray } = await page.render({
      ...size,
      scale: 1,
      render: 'bitmap',
      colorSpace: 'Gray',
    })
    const head = Buffer.from(`P5\n${size.width} ${size.height}\n255\n`)
    return { bytes: Buffer.concat([head, gray]), dpi }
  }

  /** Frees the memory of the PDF. */
  close(): void {
    this.#document.destroy()
  }
}
