/** The address of a document. */
import type { ClientAddress, Endpoint } from '../../pipeline/pipeline.ts'
import type { OcrInput } from '../../plugin.ts'
import { mediaTypeOf } from '../shared/media.ts'

/** See {@link Endpoint.addresses}. */
export const addresses: NonNullable<Endpoint<unknown, OcrInput>['addresses']> = {
  of({ document }: OcrInput): ClientAddress[] {
    if (!('url' in document)) return []
    const param = document.kind === 'image' ? 'document.image_url' : 'document.document_url'
    return [{ url: document.url, param }]
  },

  replace(outbound: OcrInput, files): OcrInput {
    const { document } = outbound
    if (!('url' in document)) return outbound
    const { url, ...others } = document
    const { bytes, contentType } = files.get(url)!
    const file = { bytes, mediaType: mediaTypeOf(bytes) ?? contentType }
    return { ...outbound, document: { ...others, file } }
  },
}
