/** Documents for tests, made here: PDFs written object by object, and pictures of their pages. */
import { crc32, deflateSync } from 'node:zlib'
import { Pdf } from '../providers/tesseract/document.ts'

/** One line of text: where it begins, from the lower left corner, in points, and how large it is. */
export interface Line {
  readonly text: string
  readonly x?: number
  readonly y: number
  readonly size?: number
}

/** A PDF with a page of US letter size for each list of lines, set in Helvetica. */
export function pdfOf(...pages: readonly (readonly Line[])[]): Buffer {
  const objects = [
    '<</Type/Catalog/Pages 2 0 R>>',
    '',
    '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>',
  ]
  const kids: string[] = []
  for (const lines of pages) {
    const content = lines
      .map(({ text, x = 72, y, size = 14 }) => `BT /F1 ${size} Tf ${x} ${y} Td (${text}) Tj ET`)
      .join('\n')
    objects.push(`<</Length ${content.length}>>stream\n${content}\nendstream`)
    const font = '/Resources<</Font<</F1 3 0 R>>>>'
    objects.push(
      `<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents ${objects.length} 0 R${font}>>`,
    )
    kids.push(`${objects.length} 0 R`)
  }
  objects[1] = `<</Type/Pages/Kids[${kids.join(' ')}]/Count ${kids.length}>>`
  let text = '%PDF-1.4\n'
  const offsets = objects.map((object, index) => {
    const offset = text.length
    text += `${index + 1} 0 obj${object}endobj\n`
    return `${String(offset).padStart(10, '0')} 00000 n \n`
  })
  const table = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${offsets.join('')}`
  const trailer = `trailer<</Size ${objects.length + 1}/Root 1 0 R>>`
  return Buffer.from(`${text}${table}${trailer}\nstartxref\n${text.length}\n%%EOF`, 'latin1')
}

/** A PNG of the first page of a PDF, grey. */
export async function pngOf(pdf: Uint8Array): Promise<Buffer> {
  const open = await Pdf.open(pdf)
  try {
    const { bytes } = await open.draw(0)
    const [, width, height] = /^P5\n(\d+) (\d+)\n255\n/.exec(
      Buffer.from(bytes.subarray(0, 32)).toString('latin1'),
    )!
    const size = { width: Number(width), height: Number(height) }
    return pngOfPixels(size, bytes.subarray(bytes.length - size.width * size.height))
  } finally {
    open.close()
  }
}

/** A PNG (https://www.w3.org/TR/png-3/) of pixels of eight bits, grey, row by row. */
export function pngOfPixels(
  { width, height }: { readonly width: number; readonly height: number },
  pixels: Uint8Array,
): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 0, 0, 0, 0], 8)
  const rows = Buffer.alloc(Math.ceil(pixels.length / width) * (width + 1))
  for (let y = 0; y * width < pixels.length; y++) {
    rows.set(pixels.subarray(y * width, (y + 1) * width), y * (width + 1) + 1)
  }
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

export function dataUrl(mediaType: string, bytes: Uint8Array): string {
  return `data:${mediaType};base64,${Buffer.from(bytes).toString('base64')}`
}

function chunk(type: string, content: Buffer): Buffer {
  const bytes = Buffer.alloc(content.length + 12)
  bytes.writeUInt32BE(content.length, 0)
  bytes.write(type, 4, 'latin1')
  content.copy(bytes, 8)
  bytes.writeUInt32BE(crc32(bytes.subarray(4, -4)), bytes.length - 4)
  return bytes
}
