/** Addresses of images. */
import type { ClientAddress, Endpoint } from '../../pipeline/pipeline.ts'
import type { ModerationInput } from '../../plugin.ts'
import { toBase64 } from '../shared/media.ts'
import { isParts } from './read.ts'

/** See {@link Endpoint.addresses}. */
export const addresses: NonNullable<Endpoint<unknown, ModerationInput>['addresses']> = {
  of({ input }: ModerationInput): ClientAddress[] {
    if (!isParts(input)) return []
    return input.flatMap((one, index) =>
      one.type === 'image_url' && !/^data:/i.test(one.image_url.url.slice(0, 5))
        ? [{ url: one.image_url.url, param: `input[${index}].image_url.url` }]
        : [],
    )
  },

  replace(outbound: ModerationInput, files): ModerationInput {
    if (!isParts(outbound.input)) return outbound
    const input = outbound.input.map((one) => {
      const file = one.type === 'image_url' ? files.get(one.image_url.url) : undefined
      if (one.type !== 'image_url' || !file) return one
      const url = `data:${file.contentType};base64,${toBase64(file.bytes)}`
      return { ...one, image_url: { ...one.image_url, url } }
    })
    return { ...outbound, input }
  },
}
