/** Addresses in messages: of images, and of files. */
import type { ChatInput, ChatMessage } from '../../plugin.ts'
import type { ClientAddress, Endpoint } from '../../pipeline/pipeline.ts'
import { toBase64 } from '../shared/media.ts'

const isAddress = (text: unknown): text is string =>
  typeof text === 'string' && /^https?:/i.test(text.slice(0, 6))

/** See {@link Endpoint.addresses}. */
export const addresses: NonNullable<Endpoint['addresses']> = {
  of(outbound: ChatInput): ClientAddress[] {
    const found: ClientAddress[] = []
    outbound.messages.forEach(({ content }, at) => {
      if (!Array.isArray(content)) return
      content.forEach((part, index) => {
        const note = (url: unknown, member: string) => {
          if (!isAddress(url)) return
          found.push({ url, param: `messages[${at}].content[${index}].${member}` })
        }
        note(part.image_url?.url, 'image_url.url')
        note(part.file?.file_data, 'file.file_data')
      })
    })
    return found
  },

  replace(outbound: ChatInput, files): ChatInput {
    const dataUrl = (url: unknown) => {
      const file = typeof url === 'string' ? files.get(url) : undefined
      return file && `data:${file.contentType};base64,${toBase64(file.bytes)}`
    }
    const replaced = (part: any) => {
      const image = dataUrl(part.image_url?.url)
      if (image !== undefined) return { ...part, image_url: { ...part.image_url, url: image } }
      const file = dataUrl(part.file?.file_data)
      return file === undefined ? part : { ...part, file: { ...part.file, file_data: file } }
    }
    const messages = outbound.messages.map((message): ChatMessage => {
      const { content } = message
      return Array.isArray(content) ? { ...message, content: content.map(replaced) } : message
    })
    return { ...outbound, messages }
  },
}
