/** Images as guards see them: words go in, and may come back beside the images (guard design, 1.3). */
import type { Guarding, Lanes } from '../guard/lanes.ts'
import { toBase64 } from '../media.ts'
import type { Media, MediaFile } from '../plugin.ts'
import type { ImagePart } from './images-parts.ts'
import type { ImageRequest } from './images-request.ts'

/** The guard side of images. There is no way to say "no" but an error. */
export const guarding: Guarding<ImageRequest, ImagePart> = {
  units: ({ prompt, images = [], mask }) => ({
    units: [
      {
        id: 'prompt',
        side: 'input',
        channel: 'prompt',
        role: 'user',
        current: true,
        text: prompt,
        ...(images.length > 0 && { media: [...images, ...(mask ? [mask] : [])].map(toMedia) }),
      },
    ],
    settled: [],
  }),
  choices: () => 1,
  lanes: () => LANES,
}

const LANES: Lanes<ImagePart> = {
  split(part, take) {
    if (part.type === 'partial') return take({ kind: 'mark', choice: 0, part })
    const texts = part.images.flatMap(({ revised_prompt: text }) => (text ? [{ text }] : []))
    const unscanned = 'image'
    take({ kind: 'whole', choice: 0, channel: 'prompt', index: 0, part, texts, unscanned })
  },
  cut: ({ part }) => part,
}

function toMedia(file: MediaFile): Media {
  const { mediaType } = file
  return {
    kind: 'image',
    mediaType,
    // Few guards look at images, and as text they are large.
    get url() {
      return `data:${mediaType};base64,${toBase64(file.bytes)}`
    },
  }
}
