/** `multipart/form-data` on its way to a vendor (RFC 7578). Files are not copied into it. */
import { randomUUID } from 'node:crypto'
import type { Form, FormField } from '../plugin.ts'

/** Puts a form together; see {@link Host.form}. */
export function encodeForm(fields: readonly FormField[]): Form {
  // No file of somebody else's can hold a boundary that was thought of now.
  const boundary = `form-${randomUUID()}`
  const pieces: Uint8Array[] = []
  let text = ''
  for (const { name, value } of fields) {
    text += `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(name)}"`
    if (typeof value === 'string') {
      text += `\r\n\r\n${value}\r\n`
      continue
    }
    const { bytes, mediaType, filename } = value
    const type = mediaType.replace(/[^\x21-\x7e]/g, '')
    text += `; filename="${quoted(filename)}"\r\ncontent-type: ${type}\r\n\r\n`
    pieces.push(Buffer.from(text), ...(bytes instanceof Uint8Array ? [bytes] : bytes))
    text = '\r\n'
  }
  pieces.push(Buffer.from(`${text}--${boundary}--\r\n`))
  return { contentType: `multipart/form-data; boundary=${boundary}`, body: pieces }
}

/** As browsers do it. */
function quoted(name: string): string {
  return name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
}
