/** Encodes `multipart/form-data` requests (RFC 7578). */
import { randomUUID } from 'node:crypto'
import type { Form, FormField } from '../plugin.ts'

/** Encodes a form; see {@link Host.form}. The bytes of files are shared, not copied. */
export function encodeForm(fields: readonly FormField[]): Form {
  // A random boundary cannot occur in the files.
  const boundary = `form-${randomUUID()}`
  const segments: Uint8Array[] = []
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
    segments.push(Buffer.from(text), ...(bytes instanceof Uint8Array ? [bytes] : bytes))
    text = '\r\n'
  }
  segments.push(Buffer.from(`${text}--${boundary}--\r\n`))
  return { contentType: `multipart/form-data; boundary=${boundary}`, body: segments }
}

/** Escapes a name as browsers do: https://html.spec.whatwg.org/#multipart-form-data */
function quoted(name: string): string {
  return name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
}
