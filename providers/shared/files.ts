/** Files in messages: data URLs, plain base64, and addresses, which are fetched for vendors that take none. */
import type { ChatMessage, Host } from '../../src/plugin.ts'
import { toDataUrl } from './http.ts'

/** Whether this is an address, not the file itself. */
export function isAddress(source: string): boolean {
  return /^https?:/i.test(source)
}

/** Whether this is a data URL, not an address and not plain base64. */
export function isDataUrl(source: string): boolean {
  return /^data:/i.test(source)
}

/** Beginnings of files. */
const BEGINNINGS: readonly (readonly [beginning: RegExp, type: string])[] = [
  [/^%PDF/, 'application/pdf'],
  [/^\x89PNG/, 'image/png'],
  [/^\xff\xd8\xff/, 'image/jpeg'],
  [/^GIF8/, 'image/gif'],
  [/^RIFF.{4}WEBP/s, 'image/webp'],
]

const TYPES: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  gif: 'image/gif',
  html: 'text/html',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  json: 'application/json',
  md: 'text/markdown',
  pdf: 'application/pdf',
  png: 'image/png',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  txt: 'text/plain',
  webp: 'image/webp',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  xml: 'application/xml',
}

/** A name for the file of a data URL that has none. */
export function fileNameOf(dataUrl: string): string {
  const type = dataUrl.slice('data:'.length, dataUrl.search(/[;,]/)).toLowerCase()
  return `file.${Object.keys(TYPES).find((extension) => TYPES[extension] === type) ?? 'pdf'}`
}

/** What a server declares that does not know the type. */
const UNKNOWN = 'application/octet-stream'

/** The type by the first bytes, as declared, or by the extension of the name. */
function typeOf(head: Buffer, name: string, declared: string): string | undefined {
  const bytes = head.toString('latin1')
  const detected = BEGINNINGS.find(([beginning]) => beginning.test(bytes))?.[1]
  return detected ?? (declared || TYPES[name.slice(name.lastIndexOf('.') + 1).toLowerCase()])
}

/** Most bytes of all files that one request makes the gateway fetch. */
const FETCHED_BYTES = 50 * 1024 * 1024

/** What to fetch, and with what. */
interface Fetching {
  readonly host: Pick<Host, 'download'>
  readonly signal: AbortSignal
  /** Types of the parts whose addresses this vendor does not take. */
  readonly parts: readonly ('image_url' | 'file')[]
  /** Addresses that the vendor takes all the same. */
  readonly except?: (address: string) => boolean
}

/**
 * The messages with data URLs in place of the addresses that the vendor does not take; the same list when there are none.
 * Files are fetched one after the other, so that their sum is bounded, and each address once.
 * @throws what {@link Host.download} throws, with the path of the part
 */
export function withFetchedFiles(
  messages: readonly ChatMessage[],
  fetching: Fetching,
): readonly ChatMessage[] | Promise<readonly ChatMessage[]> {
  const isWanted = (part: unknown) => wants(part, fetching)
  const hasWanted = ({ content }: ChatMessage) => Array.isArray(content) && content.some(isWanted)
  return messages.some(hasWanted) ? fetched() : messages

  async function fetched(): Promise<readonly ChatMessage[]> {
    const fetcher = new Fetcher(fetching)
    const next = [...messages]
    for (const [i, message] of messages.entries()) {
      if (!hasWanted(message)) continue
      const parts: unknown[] = []
      for (const [j, part] of (message.content as readonly unknown[]).entries()) {
        const path = `messages[${i}].content[${j}]`
        parts.push(isWanted(part) ? await fetcher.fetched(part, path) : part)
      }
      next[i] = { ...message, content: parts }
    }
    return next
  }
}

/** Whether a part has an address that the vendor does not take. */
function wants({ type, image_url, file }: any, { parts, except }: Fetching): boolean {
  if (!parts.includes(type)) return false
  const source = String(type === 'file' ? file.file_data : image_url.url)
  return isAddress(source) && !except?.(source)
}

class Fetcher {
  readonly #fetching: Fetching
  readonly #urls = new Map<string, string>()
  #bytesLeft = FETCHED_BYTES

  constructor(fetching: Fetching) {
    this.#fetching = fetching
  }

  /** The part with its file. @param path the path of the part, for the error */
  async fetched(part: any, path: string): Promise<unknown> {
    const { type, image_url, file } = part
    if (type === 'file') {
      const file_data = await this.#url(file.file_data, `${path}.file.file_data`)
      return { ...part, file: { ...file, file_data } }
    }
    const url = await this.#url(image_url.url, `${path}.image_url.url`, ['image/', UNKNOWN])
    return { ...part, image_url: { ...image_url, url } }
  }

  async #url(address: string, param: string, types?: readonly string[]): Promise<string> {
    const cached = this.#urls.get(address)
    if (cached !== undefined) return cached
    const { host, signal } = this.#fetching
    const options = { limitBytes: this.#bytesLeft, param, ...(types && { types }) }
    const { bytes, contentType } = await host.download(address, signal, options)
    this.#bytesLeft -= bytes.byteLength
    const declared = contentType === UNKNOWN ? '' : contentType
    const mediaType = typeOf(
      Buffer.from(bytes.subarray(0, 16)),
      URL.parse(address)?.pathname ?? '',
      declared,
    )
    const url = toDataUrl({ bytes, mediaType: mediaType ?? UNKNOWN })
    this.#urls.set(address, url)
    return url
  }
}
